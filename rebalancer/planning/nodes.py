"""Stage 7: what no shift can meet becomes a node grant; grants that ended, limits that return, holds on consolidation.

Karpenter launches only for pending pods: a grant raises the NodePool's limit first (never under use, within the
policy's bound), then replicas past the free GPUs by exactly the replicas that stay short.
"""

from dataclasses import dataclass, field

from msgspec.structs import replace

from rebalancer.domain.memory import Memory, NodeGrant, Shift
from rebalancer.domain.plan import NodePoolChange, Refusal
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import ModelView, NodePoolView, Snapshot, TargetView
from rebalancer.planning.allocation import Allocation
from rebalancer.planning.ledger import Unit
from rebalancer.planning.scene import Holder, Part, PoolState, Scene

SHIFT_LASTS_SECONDS = 900.0  # a shift whose recipient never became Ready stops holding consolidation after this


@dataclass(slots=True)
class NodePlan:
    """changes to NodePools in order, units of node grants with their grant ids, grants to withdraw, refusals."""

    changes: list[NodePoolChange] = field(default_factory=list)
    units: list[tuple[Unit, str, str]] = field(default_factory=list)
    withdrawn: list[tuple[NodeGrant, Part, int, str]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)


def refresh(memory: Memory, snapshot: Snapshot, policy: Policy) -> Memory:
    """Grants less what has arrived, without the ended ones; shifts still under way. Run before the budget is summed."""
    gpus = {model.id: model.gpus_per_replica for model in policy.models}
    targets = {(view.id, target.pool): target for view in snapshot.models for target in view.targets}
    arrived = _arrived(memory, snapshot)
    grants = []
    for grant in memory.node_grants:
        target = targets.get((grant.model, grant.pool))
        waiting = _unplaced(target) if target is not None else 0
        wanted = grant.replicas * gpus.get(grant.model, 0)
        came = min(wanted, arrived.get(grant.node_pool, 0))
        arrived[grant.node_pool] = arrived.get(grant.node_pool, 0) - came
        seen = target is not None and len(target.pods) >= (target.asked or target.replicas)
        expired = snapshot.at > grant.until + policy.nodes.node_timeout_seconds
        if came >= wanted or (waiting == 0 and (seen or expired)):
            continue
        grants.append(grant if grant.gpus == wanted - came else replace(grant, gpus=wanted - came))
    views = {view.id: view for view in snapshot.models}
    shifts = tuple(shift for shift in memory.shifts if not _over(shift, views, snapshot.at))
    return replace(memory, node_grants=tuple(grants), shifts=shifts)


def _arrived(memory: Memory, snapshot: Snapshot) -> dict[str, int]:
    """GPUs per NodePool on nodes that became Ready since the oldest open grant there was asked for."""
    since: dict[str, float] = {}
    for grant in memory.node_grants:
        since[grant.node_pool] = min(grant.asked_at, since.get(grant.node_pool, grant.asked_at))
    came: dict[str, int] = {}
    for pool in snapshot.pools:
        for node in pool.nodes:
            asked_at = since.get(node.node_pool or "")
            if asked_at is not None and node.ready and (node.ready_changed_at or 0.0) >= asked_at:
                came[node.node_pool or ""] = came.get(node.node_pool or "", 0) + node.gpus
    return came


def _unplaced(target: TargetView) -> int:
    """Replicas that wait for a node: pending pods, and raises that are no pods yet."""
    alive = [pod for pod in target.pods if pod.phase != "terminating"]
    wanted = target.asked if target.asked is not None else target.replicas
    return sum(1 for pod in alive if pod.phase == "pending") + max(0, wanted - len(alive))


def _over(shift: Shift, views: dict[str, ModelView], now: float) -> bool:
    """Whether the shift's last granted replica is Ready (or nobody will ever see it be)."""
    if now - shift.opened_at > SHIFT_LASTS_SECONDS or shift.recipient not in views:
        return True
    if shift.granted_at is None:
        return False
    target = next((each for each in views[shift.recipient].targets if each.pool == shift.pool), None)
    if target is None or target.missing:
        return True
    alive = [pod for pod in target.pods if pod.phase != "terminating"]
    wanted = target.asked if target.asked is not None else target.replicas
    return len(alive) >= wanted and all(pod.phase == "ready" for pod in alive)


def plan_nodes(scene: Scene, found: Allocation) -> NodePlan:
    """Withdraw what brought nothing, grant what is short, let limits return, hold consolidation during shifts."""
    plan = NodePlan()
    _withdraw(scene, plan)
    for holder in scene.holders_by_priority():
        short = found.short.get(holder.model.id)
        if short is not None and holder.demand.replicas > 0:
            _grant(scene, holder, short[0], plan)
    _restore(scene, plan)
    _hold(scene, plan)
    return plan


def _withdraw(scene: Scene, plan: NodePlan) -> None:
    for grant in scene.memory.node_grants:
        holder = scene.holders.get(grant.model)
        part = next((each for each in holder.parts if each.pool == grant.pool), None) if holder else None
        if part is None or part.stuck is not None:
            continue
        failed = _failed_claim(scene, grant)
        if failed is None and scene.now < grant.until:
            continue
        waiting = sum(1 for pod in part.kept if pod.node is None)
        why = failed or f"no node after {scene.now - grant.asked_at:.0f} s"
        plan.withdrawn.append((grant, part, min(waiting, grant.replicas), why))


def _failed_claim(scene: Scene, grant: NodeGrant) -> str | None:
    for view in scene.pools[grant.pool].view.node_pools:
        for claim in view.claims:
            if view.name == grant.node_pool and claim.failed is not None and claim.created_at >= grant.asked_at:
                return f"nodeclaim {claim.name}: {claim.failed}"
    return None


def _grant(scene: Scene, holder: Holder, short: int, plan: NodePlan) -> None:
    """Ask for nodes for `short` replicas in the first of the model's pools that can grow."""
    by_themselves = _replaced_by_karpenter(scene, holder)
    wanted = short - by_themselves
    for part in holder.parts:
        state = scene.pools.get(part.pool)
        if wanted <= 0 or state is None or not state.grows or part.stuck is not None or state.budget is None:
            continue
        if part.pool in holder.ruling.excluded_pools or part.gpus > state.pool.gpus_per_node:
            continue
        if any(grant.model == holder.model.id and grant.pool == part.pool for grant in scene.memory.node_grants):
            return  # one grant at a time; the next is asked when it has ended
        node_pool = _willing(scene, state)
        if node_pool is None:
            continue
        replicas = min(
            wanted, _growth(scene, state) // state.pool.gpus_per_node * (state.pool.gpus_per_node // part.gpus)
        )
        if replicas <= 0:
            plan.refusals.append(_at_bound(holder, state, node_pool, wanted))
            continue
        grant_id = f"g{scene.snapshot.cycle}-{holder.model.id}"
        change = _raise_limit(scene, state, node_pool, holder, part, replicas, grant_id)
        if change is not None:
            plan.changes.append(change)
        plan.units += [(Unit(part, "demand", "node"), grant_id, node_pool.name)] * replicas
        wanted -= replicas


def _replaced_by_karpenter(scene: Scene, holder: Holder) -> int:
    """Doomed replicas under voluntary disruption: Karpenter brings their node itself."""
    voluntary = {notice.node for notice in scene.snapshot.notices if notice.voluntary}
    return sum(1 for part in holder.parts for pod in part.doomed if pod.node in voluntary)


def _willing(scene: Scene, state: PoolState) -> NodePoolView | None:
    """The first NodePool of the pool that exists and has not just failed."""
    failing = {failure.node_pool for failure in scene.memory.grant_failures if failure.until > scene.now}
    views = {view.name: view for view in state.view.node_pools}
    return next((views[name] for name in state.pool.node_pools if name in views and name not in failing), None)


def _growth(scene: Scene, state: PoolState) -> int:
    """GPUs that may still be added: the policy's bound less nodes that are there or asked for."""
    there = sum(node.gpus for node in state.view.nodes)
    coming = sum(
        -(-grant.gpus // state.pool.gpus_per_node) * state.pool.gpus_per_node
        for grant in scene.memory.node_grants
        if grant.pool == state.pool.name
    )
    return max(0, state.pool.gpu_limit - there - coming)


def _at_bound(holder: Holder, state: PoolState, node_pool: NodePoolView, wanted: int) -> Refusal:
    return Refusal(
        guard="budget",
        subject=holder.model.id,
        replicas_from=holder.held,
        replicas_to=holder.held + wanted,
        why=f"pool {state.pool.name} is at its gpuLimit {state.pool.gpu_limit}; nodepool {node_pool.name} stays",
        numbers={"gpuLimit": state.pool.gpu_limit, "wanted": wanted, "nodePool": node_pool.name},
    )


def _raise_limit(  # noqa: PLR0913  # the change's own fields
    scene: Scene, state: PoolState, view: NodePoolView, holder: Holder, part: Part, replicas: int, grant_id: str
) -> NodePoolChange | None:
    """The limit that lets the nodes come, None when it is there already (or there is no limit)."""
    per_node = state.pool.gpus_per_node
    nodes = -(-replicas * part.gpus // per_node)
    claimed = sum(claim.gpus for claim in view.claims)
    wanted = max(view.gpus_used, claimed) + nodes * per_node
    if view.gpu_limit is None or view.gpu_limit >= wanted:
        return None
    return NodePoolChange(
        id=f"{scene.snapshot.cycle}-{view.name}-limit",
        kind="limit",
        name=view.name,
        uid=view.uid,
        pool=state.pool.name,
        resource=state.pool.resource,
        reason=f"{holder.model.id} is {replicas} short and no shift can meet it",
        limit_from=view.gpu_limit,
        limit_to=wanted,
        grant=grant_id,
    )


def _restore(scene: Scene, plan: NodePlan) -> None:
    """A limit that no grant needs any more returns to its saved value, never under use."""
    withdrawn = {grant.id for grant, *_ in plan.withdrawn}
    needed = {grant.node_pool for grant in scene.memory.node_grants if grant.id not in withdrawn}
    needed |= {name for _, _, name in plan.units}
    for state in scene.pools.values():
        for view in state.view.node_pools:
            saved = _saved_limit(view, state.pool.resource)
            if view.name in needed or saved is None or view.gpu_limit is None or view.gpu_limit <= saved:
                continue
            back = max(saved, view.gpus_used, 0)
            if back < view.gpu_limit:
                plan.changes.append(
                    NodePoolChange(
                        id=f"{scene.snapshot.cycle}-{view.name}-restore",
                        kind="restore-limit",
                        name=view.name,
                        uid=view.uid,
                        pool=state.pool.name,
                        resource=state.pool.resource,
                        reason=f"no node grant needs it; saved value {saved}, in use {view.gpus_used}",
                        limit_from=view.gpu_limit,
                        limit_to=back,
                    )
                )


def _saved_limit(view: NodePoolView, resource: str) -> int | None:
    if view.saved is None or view.saved.limits is None:
        return None
    raw = view.saved.limits.get(resource)
    return int(raw) if raw is not None and raw.isdigit() else None


def _hold(scene: Scene, plan: NodePlan) -> None:
    """While a shift is under way, Karpenter must not consolidate the nodes whose GPUs are between owners."""
    moving = {shift.pool for shift in scene.memory.shifts}
    for state in scene.pools.values():
        for view in state.view.node_pools:
            wanted = state.pool.name in moving
            if wanted == view.held:
                continue
            plan.changes.append(
                NodePoolChange(
                    id=f"{scene.snapshot.cycle}-{view.name}-{'hold' if wanted else 'end-hold'}",
                    kind="hold" if wanted else "end-hold",
                    name=view.name,
                    uid=view.uid,
                    pool=state.pool.name,
                    resource=state.pool.resource,
                    reason="a shift is under way" if wanted else "no shift is under way",
                )
            )
