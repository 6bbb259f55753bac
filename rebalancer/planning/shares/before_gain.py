"""What comes before anybody's gain: what a model owns and wants, and what it is seen to use.

What a replica is worth is foreseen, and forecasts are late where loads rise together or come back after a pause: the
first that is seen to rise takes from others that rise too, and each move idles a GPU for a start. So what is used,
with some room for bursts, does not go to somebody else's forecast, as long as all that is used fits. Where it does
not, worth alone decides: whoever can still be kept in time is kept.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from rebalancer.planning.demand.deferral import BATCH
from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.demand.votes import ROUNDING
from rebalancer.planning.facts.scene import PoolFacts

# Roots of its work that each model keeps as room for bursts: the first of these with which what all use fits. Where use
# counts for nothing surges on 24 GPUs are 1.81 % late, without room 1.76 %, with half a root 1.69 %, with 1.5 1.88 %
# (three draws); five worlds of joint rises 4.4, 2.6, 1.7 and 1.6 %, three language models on 28 GPUs 3.16, 3.16, 3.15.
ROOM_ROOTS = (0.5, 0.375, 0.25, 0.125, 0.0)


def own(model: ModelNeed) -> int:
    """Replicas that come before any gain: floor, wanted entitlement, a person's least, a batch model's turn."""
    if model.ruling.pin is not None:
        return model.most_replicas
    wanted = min(model.demand.owed, model.entry.entitlement)
    return min(model.most_replicas, max(model.floor, wanted, model.deferral.due, model.ruling.raised_floor))


def in_use(pools: Iterable[PoolFacts], models: Sequence[ModelNeed], kept_gpus: int) -> tuple[int, ...]:
    """The replicas that each model uses, held or not, in order; 0 for all where that does not fit.

    It uses its offered work of the last 15 or 60 s, whichever is more, with as much room for bursts as fits beside what
    others use or own, and beside `kept_gpus`. Batch work uses nothing: it gives way at once. Where nodes can come or go
    nothing counts as used: there the price of a node decides.
    """
    pools, nothing = list(pools), (0,) * len(models)
    if not models or any(pool.grows for pool in pools):
        return nothing
    work = np.array([_work_of(model) for model in models])
    owned, gpus = np.array([(own(model), model.gpus) for model in models]).T
    budget = sum(pool.budget or 0 for pool in pools) - kept_gpus
    for roots in ROOM_ROOTS:
        used = np.ceil(work + roots * np.sqrt(work) - ROUNDING).astype(np.int64)
        if int((np.maximum(used, owned) * gpus).sum()) <= budget:
            return tuple(used.tolist())
    return nothing


def _work_of(model: ModelNeed) -> float:
    """Replicas that the policy's short window or the last minute keeps busy, whichever is more; 0 where unknown."""
    if model.entry.workload_class == BATCH:
        return 0.0
    work = model.load.work
    return max(0.0, work.short or 0.0, work.last_60s or 0.0)
