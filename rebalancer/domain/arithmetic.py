"""The sums that planning and the gate must agree on: asked, doomed, promised, budget (design's section 1).

All in whole replicas and GPUs, over one snapshot's views. Nothing here decides.
"""

from collections.abc import Collection, Iterable

from rebalancer.domain.memory import NodeGrant
from rebalancer.domain.policy import NodeRules, Pool
from rebalancer.domain.snapshot import NodeView, NoticeView, PodView, PoolView, Snapshot, TargetView


def converging(target: TargetView) -> int:
    """Replicas the target will come to without another write: what we last asked for, shown by the HPA or not."""
    autoscaler = target.autoscaler
    if target.asked is not None:
        return target.asked
    if autoscaler is not None and autoscaler.originals is not None and not autoscaler.paused:
        return autoscaler.maximum
    return target.replicas


def asked(target: TargetView) -> int:
    """The most replicas the target may have on its way to what it converges to: what a budget must count.

    A write under way counts at once. While the HPA still shows the maximum from before, what it runs counts up to
    that: an autoscaler we have not taken over is held to what it runs as well.
    """
    autoscaler = target.autoscaler
    if autoscaler is None or autoscaler.originals is None or autoscaler.paused:
        return converging(target)
    return max(converging(target), min(autoscaler.effective_maximum, target.replicas))


def assured(target: TargetView) -> int:
    """Replicas below which nobody but us takes the target.

    Where an autoscaler chooses: its minimum, as far as it has come. A raise of ours is there once KEDA has passed it to
    the HPA and the HPA, which acts every 15 s, has asked for as many.
    """
    autoscaler = target.autoscaler
    if autoscaler is None or autoscaler.paused:
        return converging(target)
    return min(autoscaler.minimum, autoscaler.effective_minimum, target.replicas, converging(target))


def noticed_nodes(notices: Iterable[NoticeView]) -> frozenset[str]:
    """Nodes under notice: nothing new is granted there from the notice on."""
    return frozenset(notice.node for notice in notices)


def doomed_nodes(
    notices: Iterable[NoticeView], pools: Iterable[PoolView], rules: NodeRules, at: float
) -> frozenset[str]:
    """Nodes whose pods do not count at `at`: their notice has come to its time, or they are out of the budget.

    A notice counts from its `doomed_at` on. A node that has been NotReady for longer than the grace period is out of
    the budget, so what hangs on it, terminating pods included, is out of what is promised as well.
    """
    noticed = (notice.node for notice in notices if notice.counts(at))
    dead = (node.name for view in pools for node in view.nodes if not node_counts(node, at, rules))
    return frozenset((*noticed, *dead))


def doomed_pods(target: TargetView, doomed: Collection[str]) -> tuple[PodView, ...]:
    """Pods on doomed nodes that nobody has deleted yet; a ReplicaSet replaces the deleted ones by itself."""
    if not doomed:
        return ()
    return tuple(pod for pod in target.pods if pod.node in doomed and pod.phase != "terminating")


def promised_replicas(target: TargetView, doomed: Collection[str]) -> int:
    """max(asked - doomed, undoomed non-terminal pods): surge pods and raises not yet seen as pods are both in it."""
    on_doomed = len(doomed_pods(target, doomed))
    undoomed = sum(1 for pod in target.pods if pod.node not in doomed) if doomed else len(target.pods)
    return max(asked(target) - on_doomed, undoomed)


def promised_gpus(snapshot: Snapshot, gpus_per_pod: dict[str, int], doomed: Collection[str]) -> dict[str, int]:
    """GPUs per pool that our targets already ask for. `gpus_per_pod`: model id -> GPUs of one of its pods."""
    totals = {pool.name: 0 for pool in snapshot.pools}
    for model in snapshot.models:
        for target in model.targets:
            if not target.missing and target.pool in totals:
                totals[target.pool] += promised_replicas(target, doomed) * gpus_per_pod[model.id]
    return totals


def node_counts(node: NodeView, at: float, rules: NodeRules) -> bool:
    """Whether a node's GPUs are in the budget: Ready, or NotReady for less than the grace period."""
    if node.ready:
        return True
    return node.ready_changed_at is not None and at - node.ready_changed_at < rules.not_ready_grace_seconds


def node_receives(node: NodeView, noticed: Collection[str]) -> bool:
    """Whether new pods may land on the node at all (taints are the target's business)."""
    return node.ready and node.schedulable and node.name not in noticed


def pool_budget(  # noqa: PLR0913  # each argument is one term of the formula in the design
    pool: Pool,
    view: PoolView,
    grants: Iterable[NodeGrant],
    doomed: Collection[str],
    rules: NodeRules,
    at: float,
) -> int:
    """min(policy limit, allocatable on counted, undoomed nodes + grants still without a node) - foreign requests."""
    nodes = [node for node in view.nodes if node.name not in doomed and node_counts(node, at, rules)]
    allocatable = sum(node.gpus for node in nodes)
    coming = sum(grant.gpus for grant in grants if grant.pool == pool.name)
    foreign = sum(node.foreign_gpus for node in nodes)
    return min(pool.gpu_limit, allocatable + coming) - foreign


def figure(value: float) -> str:
    """A reading in three figures, for people: 112, 97.1, 0.71."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004  three figures, no exponent
