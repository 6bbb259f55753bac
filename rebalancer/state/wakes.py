"""Which changes of the cluster make a plan at once instead of at the next planning period."""

from collections.abc import Callable, Collection, Iterator

from msgspec.structs import replace

from rebalancer.domain.cluster import Node, NodeClaim, Pod
from rebalancer.domain.people import Override, WriteStop
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state.objects import Change

NOTICE, OVERRIDE, WRITE_STOP, SURGE = "notice", "override", "write-stop", "surge"
FREED_GPU, READY, LEAVING, NODE, POLICY = "freed-gpu", "ready", "leaving", "node", "policy"

GATHER_SECONDS = 0.1  # five pods of one shift went within 20 ms: a grant for the first left four GPUs idle for 20 s


def patience_seconds(wakes: Collection[str]) -> float:
    """How long a turn that is wanted for `wakes` may wait for more of them: GPUs of one shift are freed together."""
    return GATHER_SECONDS if set(wakes) == {FREED_GPU} else 0.0


def reasons(
    change: Change, model_of: Callable[[WorkloadRef | None], str | None], pool_of: Callable[[str], str | None]
) -> Iterator[str]:
    """What to wake for. `pool_of` a node is asked while the node is there: before a removal, after an addition."""
    old, new = change
    match new or old:
        case Pod():
            yield from _of_pod(old, new, model_of, pool_of)  # type: ignore[arg-type]  # a change is of one kind
        case Node(name=name) if pool_of(name) is not None:
            if _became_ready(old, new) or old is None or new is None:
                yield NODE
        case NodeClaim():
            if _failed(new) and not _failed(old):
                yield NODE
        case Override():
            if not _same_but_for_status(old, new):
                yield OVERRIDE
        case WriteStop():
            yield WRITE_STOP


def _of_pod(
    old: Pod | None,
    new: Pod | None,
    model_of: Callable[[WorkloadRef | None], str | None],
    pool_of: Callable[[str], str | None],
) -> Iterator[str]:
    if old is not None and _holds_gpus(old, pool_of) and (new is None or not new.holds_gpus):
        yield FREED_GPU
    if new is None or model_of(new.workload) is None:
        return
    if _became_ready(old, new):
        yield READY
    if new.deleting_at is not None and old is not None and old.deleting_at is None:
        # Doomed, it is replaced by its ReplicaSet too: Karpenter launches a node for that pod within a second.
        yield LEAVING


def _holds_gpus(pod: Pod, pool_of: Callable[[str], str | None]) -> bool:
    return bool(pod.gpus) and pod.holds_gpus and pod.node is not None and pool_of(pod.node) is not None


def _became_ready(old: object, new: object) -> bool:
    return bool(getattr(new, "ready", False)) and not getattr(old, "ready", False)


def _failed(claim: object) -> bool:
    return isinstance(claim, NodeClaim) and claim.failed is not None


def _same_but_for_status(old: object, new: object) -> bool:
    """Our own answer in an override's status is no news."""
    if not (isinstance(old, Override) and isinstance(new, Override)):
        return False
    return replace(old, resource_version=new.resource_version, phase=new.phase, message=new.message) == new
