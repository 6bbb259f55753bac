"""Columns of a Parquet file as arrays."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rebalancer.sim.demand import F64
from rebalancer.sim.traces.folder import MissingTrace


def columns(path: Path, *names: str) -> list[NDArray[np.generic]]:
    """The named columns in the file's order of rows; text comes as objects. Raises MissingTrace."""
    try:
        table = pq.read_table(path, columns=list(names))
    except ValueError as error:  # pyarrow's own errors are ValueErrors
        raise MissingTrace(f"{str(path)!r} is not a Parquet file that can be read: {error}") from error
    absent = [name for name in names if name not in table.column_names]
    if absent:
        raise MissingTrace(f"{str(path)!r} has no column {', '.join(absent)}")
    return [table.column(name).to_numpy() for name in names]


def per_slot(slot: NDArray[np.generic], values: NDArray[np.generic], slots: int) -> F64:
    """Values added up by their slot; shape (slots,), 0 where nothing is recorded."""
    sums = np.zeros(slots)
    np.add.at(sums, slot.astype(np.int64), values.astype(np.float64))
    return sums
