"""Node grants, their failures and shifts, as far as what the cluster shows leaves them open."""

from collections import Counter

from msgspec.structs import replace

from rebalancer.domain.arithmetic import converging
from rebalancer.domain.memory import GrantFailure, Memory, NodeGrant, Shift
from rebalancer.domain.policy import Policy
from rebalancer.domain.pool_view import NodeView
from rebalancer.domain.snapshot import Snapshot, TargetView

SHIFT_LASTS_SECONDS = 900.0  # a shift whose recipient never became Ready stops holding consolidation after this
SHOWS_SECONDS = 10.0  # a write whose reply was lost is seen by then, or was none


def refresh(memory: Memory, snapshot: Snapshot, policy: Policy) -> Memory:
    """Grants less what has found a node, failures since which none has come, shifts still under way.

    Run before the budget is summed.
    """
    if not (memory.node_grants or memory.shifts or memory.grant_failures):
        return memory
    gpus = {model.id: model.gpus_per_replica for model in policy.models}
    targets = {(view.id, target.pool): target for view in snapshot.models for target in view.targets}
    waited = policy.nodes.node_timeout_seconds
    failures = _failures(memory.grant_failures, snapshot, waited) if memory.grant_failures else ()
    grants = _open_grants(memory.node_grants, targets, gpus, snapshot.at) if memory.node_grants else ()
    shifts = tuple(shift for shift in memory.shifts if not _over(shift, targets, snapshot.at))
    return replace(memory, node_grants=grants, grant_failures=failures, shifts=shifts)


def _failures(
    failures: tuple[GrantFailure, ...], snapshot: Snapshot, waited_seconds: float
) -> tuple[GrantFailure, ...]:
    """A NodePool that has brought a node since it failed has capacity again."""
    nodes = [node for view in snapshot.pools for node in view.nodes if node.ready]
    return tuple(one for one in failures if not any(_came(node, one, waited_seconds) for node in nodes))


def _came(node: NodeView, failure: GrantFailure, waited_seconds: float) -> bool:
    """Whether the node came to its NodePool since the failure, and is none of before that was not Ready for a while.

    One that was made while the grant waited for it, `waited_seconds` at most, has come late.
    """
    failed_at = failure.until - failure.rest_seconds
    if node.node_pool != failure.node_pool or (node.ready_changed_at or 0.0) <= failed_at:
        return False
    return node.created_at is None or node.created_at > failed_at - waited_seconds


def _open_grants(
    grants: tuple[NodeGrant, ...], targets: dict[tuple[str, str], TargetView], gpus: dict[str, int], now: float
) -> tuple[NodeGrant, ...]:
    """A grant is open for the GPUs that its replicas, or others in its pool, still wait for.

    Nodes come in the order in which they were asked for: of several grants of a model, what waits waits for the last.
    The scheduler may bind a granted replica to GPUs that were free for another one: then that one waits for the node.
    """
    waiting = Counter({key: _unplaced(target) * gpus.get(key[0], 0) for key, target in targets.items()})
    own = {}
    for grant in reversed(grants):
        key = grant.model, grant.pool
        own[grant.id] = min(grant.replicas * gpus.get(grant.model, 0), waiting[key])
        waiting[key] -= own[grant.id]
    others: Counter[str] = Counter()
    for (_, pool), count in waiting.items():
        others[pool] += count
    still_open = []
    for grant in grants:
        spare = grant.replicas * gpus.get(grant.model, 0) - own[grant.id] if now < grant.until else 0
        more = min(spare, others[grant.pool])
        others[grant.pool] -= more
        if own[grant.id] + more > 0 or now - grant.asked_at < SHOWS_SECONDS:
            still_open.append(replace(grant, gpus=own[grant.id] + more))
    return tuple(still_open)


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
