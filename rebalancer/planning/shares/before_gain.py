"""What comes before anybody's gain: what a model owns and wants, and what it is seen to use.

What a replica is worth is foreseen, and forecasts are late where loads rise together or come back after a pause: the
first that is seen to rise takes from others that rise too, and each move idles a GPU for a start. So what is used,
with some room for bursts, does not go to somebody else's forecast, as long as all that is used fits. What was used in
the last hours comes again, and stays as well where all of it fits at once and nobody is short of what it uses now: it
yields to work that is there, and not to a forecast. Where not even what is used now fits, worth alone decides: whoever
can still be kept in time is kept.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from rebalancer.planning.demand.deferral import BATCH
from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.demand.votes import ROUNDING
from rebalancer.planning.facts.scene import PoolFacts

# Roots of its work that each model keeps as room for bursts: the first of these with which what all use fits. Where use
# counts for nothing surges on 24 GPUs are 1.81 % late, without room 1.76 %, with half a root 1.69 %, with 1.5 1.88 %
# (three draws); five worlds of joint rises 4.4, 2.6, 1.7 and 1.6 %, three language models on 28 GPUs 3.16, 3.16, 3.15.
ROOM_ROOTS = (0.5, 0.375, 0.25, 0.125, 0.0)
LIKELY = 0.5  # of a shift of the level: from there on it counts as needed


def in_use(pools: Iterable[PoolFacts], models: Sequence[ModelNeed], kept_gpus: int) -> tuple[int, ...]:
    """The replicas that each model uses, held or not, in order; 0 for all where that does not fit.

    It uses the work of its busiest five minutes of three hours, of the last 15 or 60 s, or of a level that has likely
    risen, whichever is most. Where that of all does not fit beside what they own and `kept_gpus`, and while one of them
    has fewer replicas than it uses now, it uses the work of the last 15 or 60 s. In either case it has as much room for
    bursts as fits for all. Batch work uses nothing: it gives way at once. Where a GPU has a price nothing counts as
    used: there that decides.
    """
    pools, nothing = list(pools), (0,) * len(models)
    if not models or any(pool.priced for pool in pools):
        return nothing
    owned, gpus = np.array([(model.own, model.gpus) for model in models]).T
    budget = sum(pool.budget or 0 for pool in pools) - kept_gpus
    needed, now = np.array([_work_of(model) for model in models]).T
    for work, roots in product((now,) if _short(now, models) else (needed, now), ROOM_ROOTS):
        used = np.ceil(work + roots * np.sqrt(work) - ROUNDING).astype(np.int64)
        if int((np.maximum(used, owned) * gpus).sum()) <= budget:
            return tuple(used.tolist())
    return nothing


def _short(now: NDArray[np.float64], models: Sequence[ModelNeed]) -> bool:
    """Whether one of the models uses more replicas now than it has."""
    return any(math.ceil(work - ROUNDING) > model.staying_replicas for work, model in zip(now, models, strict=True))


def _work_of(model: ModelNeed) -> tuple[float, float]:
    """Replicas that work keeps busy, 0 where unknown: all that was or likely is, and the last 15 or 60 s.

    A level that has likely risen counts whole, or a first surge would wait for what another model needed an hour ago.
    """
    work, outlook = model.load.work, model.load.outlook
    if model.entry.workload_class == BATCH:
        return 0.0, 0.0
    now = max(0.0, work.short or 0.0, work.last_60s or 0.0)
    if outlook is None:
        return now, now
    risen = outlook.shifted if outlook.shift > LIKELY else 0.0
    return max(now, outlook.busiest, risen), now
