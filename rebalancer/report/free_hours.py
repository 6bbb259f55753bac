"""GPUs that are free when: for the team that waits, by pool and hour of the day, from the recorded days. Pure.

An hour counts with the fewest GPUs that were free at once in it. A forecast is the number that was free in nine of ten
such hours: who asks for so many gets them nine times out of ten, if the days to come are like those before.
"""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

LIKELY = 0.1  # quantile: in nine of ten hours there were at least as many
HOURS = 24


class FreeHour(Struct, frozen=True):
    """One hour of the day of one pool.

    pool: name of the pool.
    hour: hour of the day, UTC.
    likely: GPUs that were free in nine of ten of these hours.
    usual: GPUs that were free in half of them.
    days: how many of these hours were recorded.
    """

    pool: str
    hour: int
    likely: int
    usual: int
    days: int


def free_hours(least_free: Mapping[tuple[int, str], int]) -> tuple[FreeHour, ...]:
    """The forecast; hours of the day of which nothing is recorded are missing. `least_free`: by (hour, pool)."""
    by_hour: dict[tuple[str, int], list[int]] = {}
    for (hour, pool), gpus in least_free.items():
        by_hour.setdefault((pool, hour % HOURS), []).append(gpus)
    return tuple(
        FreeHour(pool, hour, _quantile(gpus, LIKELY), _quantile(gpus, 0.5), len(gpus))
        for (pool, hour), gpus in sorted(by_hour.items())
    )


def _quantile(gpus: list[int], share: float) -> int:
    return int(np.quantile(gpus, share, method="lower"))
