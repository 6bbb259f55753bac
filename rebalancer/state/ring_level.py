"""Cells of one resolution: a ring that forgets its oldest, or hands them to a coarser one."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

WORK, REQUESTS, COVERAGE = range(3)  # replicas kept busy; requests arriving per second; share of the model seen
OBSERVED = REQUESTS  # of a look at the work: 1 where a cell was observed
UNOBSERVED = (0.0, np.nan, 0.0)  # work counts where there is coverage; requests come from counters, on their own

_NOTHING = np.array(UNOBSERVED, dtype=np.float32)[:, np.newaxis]
_ZERO = np.float32(0)
_CHANNELS = np.arange(len(UNOBSERVED))[:, np.newaxis]

Cells = NDArray[np.float32]
Ints = NDArray[np.int64]


class RingLevel:
    """Cells of `step` seconds; cell index = second // step, the newest `cells` indices are kept.

    `sums`: cells x channels x columns, so that one look at a cell takes everything that is in it.
    """

    def __init__(self, step: int, cells: int, columns: int, newest: int) -> None:
        self.step, self.cells, self.newest = step, cells, newest
        self.sums: Cells = np.empty((cells, len(UNOBSERVED), columns), dtype=np.float32)
        self.sums[:] = _NOTHING

    @property
    def oldest_second(self) -> int:
        """The oldest second that still has a cell."""
        return (self.newest - self.cells + 1) * self.step

    def deposit(self, seconds: Ints, columns: Ints, values: Mapping[int, Cells]) -> None:
        """Add values, by channel, to their cells; several may meet in one."""
        _, channels, width = self.sums.shape
        flat, first = self.sums.reshape(-1), (seconds // self.step) % self.cells * (channels * width) + columns
        for channel, numbers in values.items():
            places = first + channel * width
            if channel == REQUESTS:
                flat[places[np.isnan(flat[places])]] = 0.0
            np.add.at(flat, places, numbers)

    def take_out(self, cells: int) -> Cells:
        """The sums of the oldest `cells` cells, which are empty then."""
        rows = self._rows(self.newest - self.cells + 1, cells)
        sums = np.array(self.sums[rows])
        self.sums[rows] = _NOTHING
        return sums

    def take_over(self, first: int, step: int, finer: Cells) -> None:
        """Add finer cells, of `step` seconds; `first`: the index of the oldest of them."""
        ratio = self.step // step
        starts = np.arange(-(first % ratio), len(finer), ratio)
        starts[0] = 0
        rows, unknown = self._rows(first // ratio, len(starts)), np.isnan(finer)
        if not unknown.any():  # nearly always
            mine = self.sums[rows]
            self.sums[rows] = np.where(np.isnan(mine), _ZERO, mine) + np.add.reduceat(finer, starts)
            return
        seen = ~np.logical_and.reduceat(unknown, starts)
        more = np.add.reduceat(np.where(unknown, _ZERO, finer), starts)
        mine = self.sums[rows]
        self.sums[rows] = np.where(seen, np.where(np.isnan(mine), _ZERO, mine) + more, mine)

    def _rows(self, first: int, count: int) -> slice | Ints:
        """Where the `count` cells from index `first` on are: side by side, but for where the ring closes."""
        begin = first % self.cells
        if begin + count <= self.cells:
            return slice(begin, begin + count)
        return np.arange(begin, begin + count, dtype=np.int64) % self.cells

    def all(self) -> Ints:
        """Indices of all cells, oldest first."""
        return np.arange(self.newest - self.cells + 1, self.newest + 1, dtype=np.int64)

    def since(self, second: int) -> int:
        """Index of the oldest cell that begins after `second`."""
        return max(self.newest - self.cells, second // self.step) + 1

    def looks(self, first: int, columns: Ints) -> Cells:
        """Cells x channels x models from cell `first` on; for the requests, whether each cell was observed."""
        begin, end = first % self.cells, self.newest % self.cells + 1
        looks: Cells
        if len(columns) < self.sums.shape[2]:
            rows = np.arange(first, self.newest + 1, dtype=np.int64) % self.cells
            looks = self.sums[rows[:, np.newaxis, np.newaxis], _CHANNELS, columns]
        elif begin < end:
            looks = self.sums[begin:end].copy()
        else:
            looks = np.concatenate((self.sums[begin:], self.sums[:end]))
        looks[:, OBSERVED] = looks[:, COVERAGE] > 0
        return looks

    def pieces(self, first: int) -> tuple[Cells, ...]:
        """The cells from index `first` on: views of at most two pieces of the ring, 4 times faster than row by row."""
        begin, end = first % self.cells, self.newest % self.cells + 1
        if first > self.newest:
            return (self.sums[:0],)
        return (self.sums[begin:end],) if begin < end else (self.sums[begin:], self.sums[:end])
