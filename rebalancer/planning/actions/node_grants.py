"""Stage 7: what no shift can meet becomes a node grant; grants that ended, limits that return, holds on consolidation.

Karpenter launches only for pending pods: a grant raises the NodePool's limit first (never under use, within the
policy's bound), then replicas past the free GPUs by exactly the replicas that stay short.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from rebalancer.domain.arithmetic import converging
from rebalancer.domain.memory import GrantFailure, Memory, NodeGrant, Shift
from rebalancer.domain.plan import NodePoolChange, Refusal
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import NodePoolView, Snapshot, TargetView
from rebalancer.domain.words import counted, gpus
from rebalancer.planning.actions.node_pools import holds, raised_limit, restored_limits, whole_nodes
from rebalancer.planning.allocation.allocate import Allocation
from rebalancer.planning.allocation.ledger import Unit
from rebalancer.planning.facts.scene import ModelFacts, PoolFacts, Scene, TargetFacts
from rebalancer.planning.shares.caps import Caps

SHIFT_LASTS_SECONDS = 900.0  # a shift whose recipient never became Ready stops holding consolidation after this
SHOWS_SECONDS = 10.0  # a write whose reply was lost is seen by then, or was none


@dataclass(slots=True)
class NodePlan:
    """changes to NodePools in order, units of node grants with their grant ids, grants to withdraw, refusals.

    caps: with all units of the allocation. nodes: how many nodes are asked for per NodePool. ended: ids of grants that
    nothing is left of.
    """

    caps: Caps
    changes: list[NodePoolChange] = field(default_factory=list)
    nodes: Counter[str] = field(default_factory=Counter)
    units: list[tuple[Unit, str, str]] = field(default_factory=list)
    withdrawn: list[tuple[NodeGrant, TargetFacts, int, str]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)


def refresh(memory: Memory, snapshot: Snapshot, policy: Policy) -> Memory:
    """Grants less what has found a node, failures since which none has come, shifts still under way.

    Run before the budget is summed.
    """
    if not (memory.node_grants or memory.shifts or memory.grant_failures):
        return memory
    gpus = {model.id: model.gpus_per_pod for model in policy.models}
    targets = {(view.id, target.pool): target for view in snapshot.models for target in view.targets}
    grants = _open_grants(memory.node_grants, targets, gpus, snapshot.at) if memory.node_grants else ()
    shifts = tuple(shift for shift in memory.shifts if not _over(shift, targets, snapshot.at))
    failures = _failures(memory.grant_failures, snapshot) if memory.grant_failures else ()
    return replace(memory, node_grants=grants, grant_failures=failures, shifts=shifts)


def _failures(failures: tuple[GrantFailure, ...], snapshot: Snapshot) -> tuple[GrantFailure, ...]:
    """A NodePool that has brought a node since it failed has capacity again."""
    came_at: dict[str | None, float] = {}
    for node in (node for view in snapshot.pools for node in view.nodes if node.ready):
        came_at[node.node_pool] = max(came_at.get(node.node_pool, 0.0), node.ready_changed_at or 0.0)
    return tuple(one for one in failures if came_at.get(one.node_pool, 0.0) <= one.until - one.rest_seconds)


def _open_grants(
    grants: tuple[NodeGrant, ...], targets: dict[tuple[str, str], TargetView], gpus: dict[str, int], now: float
) -> tuple[NodeGrant, ...]:
    """A grant is open for the GPUs that its replicas, or others in its pool, still wait for.

    The scheduler may bind a granted replica to GPUs that were free for another one: then that one waits for the node.
    """
    waiting = {key: _unplaced(target) * gpus.get(key[0], 0) for key, target in targets.items()}
    own = {
        grant.id: min(grant.replicas * gpus.get(grant.model, 0), waiting.get((grant.model, grant.pool), 0))
        for grant in grants
    }
    others: Counter[str] = Counter()
    for (_, pool), count in waiting.items():
        others[pool] += count
    for grant in grants:
        others[grant.pool] -= own[grant.id]
    found = []
    for grant in grants:
        spare = grant.replicas * gpus.get(grant.model, 0) - own[grant.id] if now < grant.until else 0
        more = min(spare, others[grant.pool])
        others[grant.pool] -= more
        if own[grant.id] + more > 0 or now - grant.asked_at < SHOWS_SECONDS:
            found.append(replace(grant, gpus=own[grant.id] + more))
    return tuple(found)


def _unplaced(target: TargetView) -> int:
    """Replicas that wait for a node: pending pods, and raises that are no pods yet."""
    alive = [pod for pod in target.pods if pod.phase != "terminating"]
    return sum(1 for pod in alive if pod.phase == "pending") + max(0, converging(target) - len(alive))


def _over(shift: Shift, targets: dict[tuple[str, str], TargetView], now: float) -> bool:
    """Whether donors' pods are gone and the last granted replica is Ready (or nobody will ever see it be)."""
    if now - shift.opened_at > SHIFT_LASTS_SECONDS or (shift.recipient, shift.pool) not in targets:
        return True
    donors = [targets[name, shift.pool] for name in shift.donors if (name, shift.pool) in targets]
    if shift.granted_at is None or any(len(donor.pods) > converging(donor) for donor in donors):
        return False
    target = targets[shift.recipient, shift.pool]
    alive = [pod for pod in target.pods if pod.phase != "terminating"]
    return len(alive) >= converging(target) and all(pod.phase == "ready" for pod in alive)


def plan_nodes(scene: Scene, found: Allocation) -> NodePlan:
    """Withdraw what brought nothing, grant what is short, let limits return."""
    plan = NodePlan(Caps(scene))
    for unit in found.units:
        plan.caps.take(unit.target)
    _withdraw(scene, plan)
    giving = found.giving
    for model in scene.models_by_priority():
        short = found.short.get(model.entry.id)
        if short is not None and model.demand.replicas > 0:
            targets = [target for target in model.targets if target.key not in giving]
            _grant(scene, model, targets, short[0], plan)
    needed = {grant.node_pool for grant in scene.memory.node_grants if grant.id not in plan.ended}
    plan.changes += restored_limits(scene, needed | {name for _, _, name in plan.units})
    return plan


def _withdraw(scene: Scene, plan: NodePlan) -> None:
    """Replicas that no node came for. Those of the floor go on asking: nothing of ours takes a model below it."""
    for grant in scene.memory.node_grants:
        model = scene.models.get(grant.model)
        target = next((each for each in model.targets if each.pool == grant.pool), None) if model else None
        if model is None or target is None or target.stuck is not None:
            continue
        failed = _failed_claim(scene, grant)
        if failed is None and scene.now < grant.until:
            continue
        waiting = sum(1 for pod in target.staying_pods if pod.node is None)
        count = min(waiting, grant.replicas, model.staying_replicas - model.floor)
        if count == min(waiting, grant.replicas):
            plan.ended.add(grant.id)
        if count > 0:
            why = failed or f"no node came within {scene.now - grant.asked_at:.0f} s"
            plan.withdrawn.append((grant, target, count, why))


def _failed_claim(scene: Scene, grant: NodeGrant) -> str | None:
    for view in scene.pools[grant.pool].view.node_pools:
        for claim in view.claims:
            if view.name == grant.node_pool and claim.failed is not None and claim.created_at >= grant.asked_at:
                return f"NodeClaim {claim.name} failed ({claim.failed})"
    return None


def _grant(scene: Scene, model: ModelFacts, targets: list[TargetFacts], short: int, plan: NodePlan) -> None:
    """Ask for nodes for `short` replicas in the first of the model's `parts` whose pool can grow."""
    wanted = short - _replaced_by_karpenter(scene, model)
    for target in targets:
        state = scene.pools.get(target.pool)
        most = plan.caps.room(target) if target.stuck is None else min(plan.caps.room(target), target.replaceable)
        if min(wanted, most) <= 0 or state is None or not _may_grow(model, target, state):
            continue
        if any(grant.model == model.entry.id and grant.pool == target.pool for grant in scene.memory.node_grants):
            return  # one grant at a time; the next is asked when it has ended
        node_pool = _willing(scene, state)
        per_node = state.pool.gpus_per_node // target.gpus
        replicas = min(wanted, most, _growth(scene, state, plan) // state.pool.gpus_per_node * per_node)
        if node_pool is None or replicas <= 0:
            plan.refusals.append(_no_growth(scene, model, target, state, node_pool, wanted))
            continue
        grant_id = f"g{scene.snapshot.cycle}-{model.entry.id}"
        plan.nodes[node_pool.name] += -(-replicas // per_node)
        _raise(scene, state, node_pool, f"{model.entry.id} is short of {counted(replicas, 'replica')}", grant_id, plan)
        plan.units += [(Unit(target, "demand", "node"), grant_id, node_pool.name)] * replicas
        for _ in range(replicas):
            plan.caps.take(target)
        wanted -= replicas


def _may_grow(model: ModelFacts, target: TargetFacts, state: PoolFacts) -> bool:
    """Whether nodes may be asked for at all: not in a pool that is over its budget, nor for who may not land there."""
    return (
        bool(state.view.node_pools)
        and state.budget is not None
        and state.promised <= state.budget
        and target.pool not in model.ruling.excluded_pools
    )


def _replaced_by_karpenter(scene: Scene, model: ModelFacts) -> int:
    """Doomed replicas under voluntary disruption: Karpenter brings their node itself."""
    voluntary = {notice.node for notice in scene.snapshot.notices if notice.voluntary}
    return sum(1 for target in model.targets for pod in target.doomed if pod.node in voluntary)


def _willing(scene: Scene, state: PoolFacts) -> NodePoolView | None:
    """The first NodePool of the pool that exists and has not just failed."""
    failing = {failure.node_pool for failure in _resting(scene)}
    views = {view.name: view for view in state.view.node_pools}
    return next((views[name] for name in state.pool.node_pools if name in views and name not in failing), None)


def _resting(scene: Scene) -> list[GrantFailure]:
    return [failure for failure in scene.memory.grant_failures if failure.until > scene.now]


def _growth(scene: Scene, state: PoolFacts, plan: NodePlan) -> int:
    """GPUs that may still be added when all nodes asked for have come."""
    per_node = state.pool.gpus_per_node
    open_grants = [grant for grant in scene.memory.node_grants if grant.pool == state.pool.name]
    coming = sum(whole_nodes(grant.gpus, per_node) for grant in open_grants)
    asked = sum(plan.nodes[view.name] for view in state.view.node_pools) * per_node
    return max(0, state.growth - coming - asked)


def _no_growth(  # noqa: PLR0913  # the numbers that the refusal prints
    scene: Scene, model: ModelFacts, target: TargetFacts, state: PoolFacts, node_pool: NodePoolView | None, wanted: int
) -> Refusal:
    """Why no node is asked for."""
    pool, guard, until = state.pool, "budget", None
    if "/mig-" in pool.resource:
        guard, why = "fit", f"no provider launches nodes that offer {pool.resource}"
    elif target.gpus > pool.gpus_per_node:
        guard, why = (
            "fit",
            f"a replica needs {gpus(target.gpus)} on one node, and nodes of pool {pool.name} have {pool.gpus_per_node}",
        )
    elif node_pool is None:
        failures = [failure for failure in _resting(scene) if failure.node_pool in pool.node_pools]
        until = min(failure.until for failure in failures)
        why = f"no NodePool of pool {pool.name} brings nodes now (the last grant there: {failures[-1].why})"
    else:
        why = f"pool {pool.name} has all the GPUs that its gpuLimit of {pool.gpu_limit} allows, so no node is asked for"
    return Refusal(
        guard=guard,
        subject=model.entry.id,
        replicas_from=model.staying_replicas,
        replicas_to=model.staying_replicas + wanted,
        why=why,
        numbers={"gpuLimit": pool.gpu_limit, "gpusPerNode": pool.gpus_per_node, "wanted": wanted},
        until=until,
    )


def _raise(  # noqa: PLR0913  # the change's own fields
    scene: Scene, state: PoolFacts, view: NodePoolView, short: str, grant_id: str, plan: NodePlan
) -> None:
    """One change of the limit per NodePool, for all that this plan grants there."""
    change = raised_limit(
        scene,
        state,
        view,
        plan.nodes[view.name],
        f"{short} that no shift can free, and Karpenter brings nodes up to it",
    )
    if change is None:
        return
    change = replace(change, grant=grant_id)
    earlier = [each for each in plan.changes if each.id == change.id]
    if earlier:
        change = replace(change, grant=earlier[0].grant, reason=f"{short}; {earlier[0].reason}")
    plan.changes = [*(each for each in plan.changes if each.id != change.id), change]


def hold(scene: Scene, plan: NodePlan, releasing: Iterable[str]) -> None:
    """Add to the plan what holds, or no longer, where GPUs are between owners."""
    plan.changes += holds(scene, releasing)
