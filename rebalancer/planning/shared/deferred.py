"""What deferred work is worth to share by: urgent requests more, and what is due before what others gain."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rebalancer.domain.outlook import Outlook
from rebalancer.planning.asked.deferral import NO_DEFERRAL, Deferral
from rebalancer.planning.seen.kept import Kept
from rebalancer.planning.seen.scene import Holder, Scene


def bound_due(scene: Scene, pools: Iterable[str], holders: Sequence[Holder]) -> None:
    """What is due by deadlines comes before what others gain, but not before what they need.

    What does not fit beside that is worth what its requests count: late ones of either are as bad.
    """
    deferred = [holder for holder in holders if holder.deferral.due and holder.deferral.deadline is not None]
    if not deferred:
        return
    room = sum(scene.pools[pool].budget or 0 for pool in pools)
    for holder in holders:
        mine = holder.deferral.deadline is not None
        room -= max(holder.floor, 0 if mine else holder.demand.replicas) * holder.gpus
    for holder in deferred:
        more = max(0, min(holder.deferral.due - holder.floor, room // holder.gpus))
        room -= more * holder.gpus
        holder.deferral = replace(holder.deferral, due=holder.floor + more)


def values_of(holder: Holder, outlook: Outlook, kept: Kept) -> tuple[float, ...]:
    """What each count of replicas costs, with requests that are deferred as what they count by now."""
    if holder.deferral is NO_DEFERRAL:
        return outlook.values
    return kept.of(holder.model.id, _deferred, outlook, holder.deferral, holder.model.priority / 100)


def _deferred(outlook: Outlook, deferral: Deferral, priority: float) -> tuple[float, ...]:
    """By turns all requests count alike; by a deadline what a count leaves undone are the youngest."""
    if not deferral.counts:
        return tuple([value * deferral.weight for value in outlook.values])
    each = priority * outlook.weight
    return tuple(
        [
            (value - late * outlook.weight) * deferral.weight + deferral.undone(late / priority) * each
            for value, late in zip(outlook.values, outlook.late, strict=True)
        ]
    )
