"""What deferred work is worth to share by: urgent requests more, and what is due before what others gain."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from msgspec import structs

from rebalancer.domain.outlook import Outlook
from rebalancer.planning.demand.deferral import NO_DEFERRAL, Deferral
from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.memo import Memo


def bound_due(scene: Scene[ModelNeed], pools: Iterable[str], models: Sequence[ModelNeed]) -> list[ModelNeed]:
    """The models with what is due by deadlines bound to what the others' need leaves of the pools.

    It comes before what others gain.
    What does not fit beside that is worth what its requests count: late ones of either are as bad.
    """
    deferred = [model for model in models if model.deferral.due and model.deferral.deadline is not None]
    if not deferred:
        return list(models)
    room = sum(scene.pools[pool].budget or 0 for pool in pools)
    for model in models:
        mine = model.deferral.deadline is not None
        room -= max(model.floor, 0 if mine else model.demand.replicas) * model.gpus
    bound = {}
    for model in deferred:
        more = max(0, min(model.deferral.due - model.floor, room // model.gpus))
        room -= more * model.gpus
        bound[model.entry.id] = structs.replace(model, deferral=replace(model.deferral, due=model.floor + more))
    return [bound.get(model.entry.id, model) for model in models]


def values_of(model: ModelNeed, outlook: Outlook, memo: Memo) -> tuple[float, ...]:
    """The cost of each count of replicas, with deferred requests at their present weight."""
    if model.deferral is NO_DEFERRAL:
        return outlook.values
    return memo.of(model.entry.id, _deferred, outlook, model.deferral, model.entry.priority / 100)


def _deferred(outlook: Outlook, deferral: Deferral, priority: float) -> tuple[float, ...]:
    """The same costs with deferred weights: by turns one for all, by a deadline of the youngest left undone."""
    if not deferral.counts:
        return tuple([value * deferral.weight for value in outlook.values])
    each = priority * outlook.weight
    return tuple(
        [
            (value - late * outlook.weight) * deferral.weight + deferral.undone(late / priority) * each
            for value, late in zip(outlook.values, outlook.late, strict=True)
        ]
    )
