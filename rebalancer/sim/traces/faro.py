"""Faro's ten inference jobs: eleven days of six hours, requests per minute."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.traces.columns import columns
from rebalancer.sim.traces.folder import MissingTrace, trace_file

JOBS = tuple(f"job{number}" for number in range(10))  # nine Azure functions and Twitter
EVALUATION_DAY = 11  # days 1-10 are what its authors trained their predictor on


@dataclass(frozen=True, slots=True)
class FaroDay:
    """One day. `counts`: (jobs, minutes), requests of each minute."""

    day: int
    jobs: tuple[str, ...]
    counts: NDArray[np.int64]


def faro(folder: Path, day: int) -> FaroDay:
    """The ten jobs on one of the days 1-11. Raises MissingTrace."""
    path = trace_file(folder, "faro_10jobs_1min.parquet")
    days, minutes, *jobs = columns(path, "day", "minute", *JOBS)
    rows = np.flatnonzero(days == day)
    if not len(rows):
        raise MissingTrace(f"{str(path)!r} has no rows of day {day}; it holds days 1-{EVALUATION_DAY}")
    rows = rows[np.argsort(minutes[rows])]
    return FaroDay(day, JOBS, np.stack([job[rows].astype(np.int64) for job in jobs]))
