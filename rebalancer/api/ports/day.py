"""The last day in steps of a minute, as the service keeps it: each model's figures, and who held each pool's GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STEP_SECONDS = 60
STEPS = 1440
FIGURES = ("work", "demand", "allocation", "ready", "latency_seconds", "late_per_minute")

Figures = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Day:
    """Rings: minute `n` since the epoch stands at place `n % STEPS` of each, if `minutes` has it there; NaN is unknown.

    minutes: by place, the minute that stands there. One without a cycle, as while the service was down, is nowhere.
    models: by model, a row of `FIGURES` per place.
    gpus: by (pool, model), GPUs that its pods hold on the pool's nodes; with model "" those that the nodes have.

    The service writes on in the rings: a page made of them in a thread may see the newest minute half noted.
    """

    minutes: NDArray[np.int64]
    models: Mapping[str, Figures]
    gpus: Mapping[tuple[str, str], Figures]

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
