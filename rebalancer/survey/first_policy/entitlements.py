"""Entitlements that fit their pools: a first policy must load, and what is promised must be there."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from rebalancer.survey.first_policy.draft import GUESS, ModelDraft, PoolDraft, Reasoned


def fitted(
    pools: Sequence[PoolDraft], models: Sequence[ModelDraft]
) -> tuple[tuple[PoolDraft, ...], tuple[ModelDraft, ...]]:
    """The pools with room for all floors, and the models with entitlements that fit them together.

    Where they do not fit, who owns most GPUs above its floor gives up a replica first.
    """
    primary = {pool.name.value for pool in pools if pool.kind.value == "primary"}
    homes: defaultdict[str, list[ModelDraft]] = defaultdict(list)
    for model in models:
        home = next(target.value["pool"] for target in model.targets if target.value["pool"] in primary)
        homes[home].append(model)
    roomy = tuple(_with_floors(pool, homes[pool.name.value]) for pool in pools)
    own = {}
    for pool in roomy:
        own.update(_own(homes[pool.name.value], pool.gpu_limit.value))
    return roomy, tuple(_entitled(model, own[model.id.value]) for model in models)


def _with_floors(pool: PoolDraft, models: Sequence[ModelDraft]) -> PoolDraft:
    floors = sum(model.min_replicas.value * model.gpus_per_replica.value for model in models)
    limit = pool.gpu_limit
    if floors <= limit.value:
        return pool
    why = f"today's minimums together; {limit.value} is what was found ({limit.why})"
    return replace(pool, gpu_limit=Reasoned(floors, why))


def _own(models: Sequence[ModelDraft], limit: int) -> dict[str, int]:
    """Replicas by model; their GPUs are within `limit`, which has room for the floors."""
    own = {model.id.value: model.entitlement.value for model in models}
    beyond = sum(own[model.id.value] * model.gpus_per_replica.value for model in models) - limit
    while beyond > 0:
        model = max(
            models, key=lambda each: (own[each.id.value] - each.min_replicas.value) * each.gpus_per_replica.value
        )
        own[model.id.value] -= 1
        beyond -= model.gpus_per_replica.value
    return own


def _entitled(model: ModelDraft, replicas: int) -> ModelDraft:
    if replicas == model.entitlement.value:
        return model
    why = f"{GUESS}{model.entitlement.value} do not fit its pool beside the others' ({model.entitlement.why})"
    return replace(model, entitlement=Reasoned(replicas, why))
