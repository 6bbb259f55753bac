"""Eighteen functions of Azure Functions 2019 at their own scale, requests per minute."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rebalancer.sim.demand import F64
from rebalancer.sim.traces.columns import columns
from rebalancer.sim.traces.folder import MissingTrace, trace_file

DAY_MINUTES = 1440


@dataclass(frozen=True, slots=True)
class FunctionsDay:
    """`counts`: (functions, minutes), requests of each minute; `names` in the same order."""

    names: tuple[str, ...]
    counts: F64


def azure_functions(folder: Path, day: int) -> FunctionsDay:
    """Every function that has that day (all eighteen have days 8-11, ten the others). Raises MissingTrace."""
    path = trace_file(folder, "azurefn2019_1min.parquet")
    functions, days, minutes, requests = columns(path, "function", "day", "minute", "requests")
    rows = days == day
    names = tuple(sorted(set(functions[rows].tolist())))
    if not names:
        raise MissingTrace(f"{str(path)!r} has no rows of day {day}")
    counts = np.zeros((len(names), DAY_MINUTES))
    place = np.searchsorted(np.array(names, dtype=object), functions[rows])
    np.add.at(counts, (place, minutes[rows].astype(np.int64)), requests[rows].astype(np.float64))
    return FunctionsDay(names, counts)
