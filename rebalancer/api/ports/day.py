"""The last day in minutes and the last hour in tens of seconds, as the service keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

STEP_SECONDS = 60
STEPS = 1440
FIGURES = ("work", "demand", "allocation", "ready", "latency_seconds", "late_per_minute")
FINE_SECONDS = 10
FINE_STEPS = 366  # an hour of whole minutes, and the minute under way
FINE_FIGURES = ("work", "ready", "late_share")

Figures = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Day:
    """Rings: minute `n` since the epoch stands at place `n % STEPS` of each, if `minutes` has it there; NaN is unknown.

    A minute is made of all its cycles. Work and late requests are their mean; latency is the highest p95; demand,
    allocation, Ready replicas and GPUs are those of its last cycle.

    minutes: by place, the minute that stands there. One without a cycle, as while the service was down, is nowhere.
    models: by model, a row of `FIGURES` per place.
    gpus: by (pool, model), GPUs that its pods hold on the pool's nodes; with model "" those that the nodes have.
    tens: as `minutes`, the last `FINE_STEPS` stretches of `FINE_SECONDS`.
    fine: by model, a row of `FINE_FIGURES` for each of these, all of them means; `late_share` is the share of cycles in
        which the p95 was over the SLO, unknown where nobody told it.

    The service writes on in the rings: a page made of them in a thread may see the newest minute half noted.
    """

    minutes: NDArray[np.int64]
    models: Mapping[str, Figures]
    gpus: Mapping[tuple[str, str], Figures]
    tens: NDArray[np.int64] = field(default_factory=lambda: np.full(FINE_STEPS, -1, dtype=np.int64))
    fine: Mapping[str, Figures] = field(default_factory=dict)

    def fine_window(self, model: str, first: int, steps: int) -> Figures:
        """`steps` rows of `FINE_FIGURES` of `model` from stretch `first` since the epoch on; NaN is unknown."""
        wanted = np.arange(first, first + steps)
        places = wanted % FINE_STEPS
        ring = self.fine.get(model)
        if ring is None:
            return np.full((steps, len(FINE_FIGURES)), np.nan, dtype=np.float32)
        return np.where((self.tens[places] == wanted)[:, None], ring[places], np.float32(np.nan))

    def window(self, ring: Figures, first: int, steps: int, *, stride: int = 1, most: bool = False) -> Figures:
        """`steps` values of a ring from minute `first` on, `stride` minutes in each; NaN where nothing is known.

        Of several minutes the last known one counts, with `most` the largest: a peak must not vanish in a long picture.
        """
        wanted = np.arange(first, first + steps * stride)
        places = wanted % STEPS
        values = np.where(self.minutes[places] == wanted, ring[places], np.float32(np.nan)).reshape(steps, stride)
        if most:
            largest: Figures = np.fmax.reduce(values, axis=1)
            return largest
        latest = values[:, 0]
        for column in values.T[1:]:
            latest = np.where(np.isnan(column), latest, column)
        return latest


NO_DAY = Day(np.full(STEPS, -1, dtype=np.int64), {}, {})
