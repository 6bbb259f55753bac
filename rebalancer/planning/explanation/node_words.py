"""What is known of who brings and removes a pool's nodes, of GPUs kept warm and of jobs there, as sentences."""

from collections.abc import Iterator

from rebalancer.domain.cluster import DisruptionBudget
from rebalancer.domain.pool_view import NodePoolView, NodeView
from rebalancer.domain.quota_view import holding
from rebalancer.domain.words import figure, gpus, listed
from rebalancer.planning.actions.bringers import fixed_words, refused
from rebalancer.planning.facts.scene import PoolFacts

CANDIDATE = "DeletionCandidateOfClusterAutoscaler"  # taint: it would remove the node, if that stays unneeded
HOURS_A_MONTH = 730.0


def node_words(state: PoolFacts, at: float) -> tuple[str, ...]:
    """One sentence for each thing that is not as usual: warm GPUs, budgets of people, fixed and exhausted sources."""
    sentences = [*_warm(state), *_preemption(state), *(group.words(at) for group in state.view.node_groups)]
    for view in state.view.node_pools:
        sentences += _node_pool(view, at)
    leaving = [node.name for node in state.view.nodes if any(taint.key == CANDIDATE for taint in node.taints)]
    if leaving:
        sentences.append(f"Cluster Autoscaler would remove {listed(leaving)}, if nothing comes to need it")
    return tuple(sentences)


def _warm(state: PoolFacts) -> Iterator[str]:
    """How many are warm of how many, and what they cost; nothing where none are wanted, or there."""
    warm, wanted = sum(map(_of, state.view.nodes)), state.pool.warm_gpus
    if warm or wanted:
        cost = warm * state.pool.price_per_gpu_hour
        price = f": {figure(cost)} USD an hour, {figure(cost * HOURS_A_MONTH)} USD a month" if cost else ""
        unknown = "" if state.pool.price_per_gpu_hour or not warm else ": pricePerGpuHour of the pool says no price"
        yield f"{warm} of {gpus(wanted)} are kept warm by placeholders{price}{unknown}"


def _preemption(state: PoolFacts) -> Iterator[str]:
    """Who holds what a replica would get by preemption, and why others are not preempted."""
    if state.view.preemptible:
        yield f"{holding(state.view.preemptible)} on idle GPUs: the scheduler preempts them for a replica"
    if state.view.not_preemptible:
        yield state.view.not_preemptible


def _of(node: NodeView) -> int:
    return node.warm_gpus


def _node_pool(view: NodePoolView, at: float) -> Iterator[str]:
    if view.fixed is not None:
        yield fixed_words(view)
    if refused(view, at):
        yield f"NodePool {view.name} was refused capacity {at - (view.refused_at or at):.0f} s ago, so it comes last"
    budgets = view.saved.budgets if view.held and view.saved is not None else view.budgets
    if budgets:
        yield f"NodePool {view.name}: Karpenter may disrupt {listed([_budget(one) for one in budgets])} at once"


def _budget(one: DisruptionBudget) -> str:
    """`10% of its nodes, or 0 from "0 9 * * mon-fri" (UTC) for 8h, for Drifted`."""
    share = f"{one.nodes} of its nodes"
    when = f' from "{one.schedule}" (UTC) for {one.duration}' if one.schedule else ""
    return f"{share}{when}{f' that are {listed(one.reasons)}' if one.reasons else ''}"
