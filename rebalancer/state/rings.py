"""Rings of falling resolution: each second of a model's past has one home, finer the younger it is.

1 s x 5 min, then 2 s x 75 min, then 10 s x 5.1 h, float32: 4,386 cells x 3 channels = 52,632 bytes per model. What
falls out of one level is added to the next. All models share the arrays (one column each), so that a batch of samples
or the windows of all models are a few numpy calls: 0.1 us per sample of 5 s, 3 ms for four windows of 1,000 models.

A cell sums what was added, so the order in which samples come does not matter. Of samples that each saw a part of the
model the coverages are summed too: work / coverage is what the whole model does, also while some pods still have to
report, and a second look at the same second only weighs double. A cell without coverage was not observed.
"""

import struct
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rebalancer.state.ring_level import COVERAGE, OBSERVED, REQUESTS, UNOBSERVED, WORK, Cells, Ints, RingLevel

LEVELS = ((1, 300), (2, 2_250), (10, 1_836))  # seconds per cell, cells
SPAN_SECONDS = sum(step * cells for step, cells in LEVELS)
BYTES_PER_MODEL = sum(cells for _, cells in LEVELS) * 3 * 4
MAX_INTERVAL_SECONDS = 300  # a sample that claims to stand for longer stands for this long

_FORMAT = struct.Struct("<4sqI")  # magic, head second, crc32 of the rest
_MAGIC = b"RNG1"

Floats = NDArray[np.float64]


class Rings:
    """The rings of `columns` models. `head` is the newest second with room; None before the first sample."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.head: int | None = None
        self._levels: tuple[RingLevel, ...] = ()

    def advance(self, second: int) -> None:
        """Make room up to `second`; older content moves down to coarser cells, the oldest is forgotten."""
        if self.head is None or second - self.head > SPAN_SECONDS:
            self._levels = _levels_at(second, self.columns)
            self.head = second
        if second > self.head:
            self._shift(0, second)
            self.head = second

    def _shift(self, number: int, newest: int) -> None:
        """Make `newest` the newest cell of a level; what leaves goes to the next one."""
        level = self._levels[number]
        oldest, count = level.newest - level.cells + 1, min(newest - level.newest, level.cells)
        if number + 1 < len(self._levels):
            coarse = self._levels[number + 1]
            last_to_leave = (newest - level.cells + 1) * level.step - 1
            if last_to_leave // coarse.step > coarse.newest:
                self._shift(number + 1, last_to_leave // coarse.step)
        leaving = level.take_out(count)
        level.newest = newest
        for coarse in self._levels[number + 1 :]:
            older = min(count, max(0, -(-coarse.oldest_second // level.step) - oldest))
            if older < count:
                coarse.take_over(oldest + older, level.step, leaving[older:count])
            count = older

    def add(self, columns: Ints, ends: Ints, lengths: Ints, values: Mapping[int, Floats]) -> int:
        """Spread each value evenly over its seconds (end - length, end]; `values` per second, by channel.

        Returns how many samples were older than the rings and found no home.
        """
        if not len(columns):
            return 0
        self.advance(int(np.maximum.reduce(ends)))
        counted, begins = lengths.cumsum(), ends - lengths
        seconds = (counted + begins).repeat(lengths) - np.arange(counted[-1], dtype=np.int64)
        where = columns.repeat(lengths)
        each = {channel: numbers.astype(np.float32).repeat(lengths) for channel, numbers in values.items()}
        if np.minimum.reduce(begins) + 1 >= self._levels[0].oldest_second:  # nearly always
            self._levels[0].deposit(seconds, where, each)
            return 0
        below = np.inf
        for level in self._levels:
            mine = np.flatnonzero((seconds >= level.oldest_second) & (seconds < below))
            below = level.oldest_second
            level.deposit(seconds[mine], where[mine], {channel: numbers[mine] for channel, numbers in each.items()})
        return int((ends < below).sum())

    def work(self, columns: Ints, ends: Sequence[int], windows: Sequence[float]) -> Floats:
        """Mean offered work over each window (end - window, end], windows x columns.

        NaN where fewer than half of the window's seconds were observed. `columns` are distinct and ascending.
        """
        sums = np.zeros((len(windows), len(UNOBSERVED), len(columns)))
        lengths = np.array(windows)[:, np.newaxis]
        oldest_end, together = min(ends), min(ends) == max(ends)  # nearly always: sampled alike
        for level in self._levels:
            first = level.since(int(oldest_end - max(windows)))
            if first > level.newest:
                continue
            looks = level.looks(first, columns)
            if together:
                firsts = [int((oldest_end - window) // level.step) + 1 - first for window in windows]
                _add_from(sums, looks, firsts, level.step)
                continue
            begins = np.arange(first, level.newest + 1, dtype=np.int64) * level.step
            for n, starts in enumerate(np.array(ends) - lengths):
                for m in range(len(UNOBSERVED)):
                    sums[n, m] += _sum_after(looks[:, m], begins, starts) * (level.step if m == OBSERVED else 1)
        work, observed, coverage = sums[:, WORK], sums[:, OBSERVED], sums[:, COVERAGE]
        known = (observed * 2 >= lengths) & (coverage > 0)
        means = np.empty(work.shape)
        means.fill(np.nan)
        return np.divide(work, coverage, out=means, where=known)

    def series(self, column: int, channel: int) -> tuple[Ints, Cells]:
        """One model's observed cells, oldest first: first second of each, and the sum it holds."""
        seconds, sums = [], []
        for level in reversed(self._levels):
            indices = level.all()
            cells = level.sums[indices % level.cells, :, column].T
            seen = ~np.isnan(cells[REQUESTS]) if channel == REQUESTS else cells[COVERAGE] > 0
            seconds.append(indices[seen] * level.step)
            sums.append(cells[channel, seen])
        if not seconds:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        return np.concatenate(seconds), np.concatenate(sums)

    def cells(self, columns: Ints, seconds: int, *channels: int) -> tuple[Ints, list[Cells]]:
        """The cells of the last `seconds`: their edges (cells + 1,), then those channels' sums, (cells, models) each.

        An edge is an instant: second s is what happened in (s - 1, s]. `columns` are distinct and ascending.
        """
        if self.head is None:
            return np.zeros(1, dtype=np.int64), [np.empty((0, len(columns)), dtype=np.float32) for _ in channels]
        spans = [(level, level.since(self.head - seconds)) for level in reversed(self._levels)]
        begins = [np.arange(first, level.newest + 1, dtype=np.int64) * level.step - 1 for level, first in spans]
        pieces = [piece for level, first in spans for piece in level.pieces(first)]
        if len(columns) == self.columns:
            sums = [np.concatenate([piece[:, channel] for piece in pieces]) for channel in channels]
        else:
            sums = [np.concatenate([piece[:, channel][:, columns] for piece in pieces]) for channel in channels]
        return np.concatenate([*begins, [self.head]]), sums

    def scale_work(self, column: int, times: float) -> None:
        """What one model was offered was so many times as much: a replica carries something else than was believed."""
        for level in self._levels:
            level.sums[:, WORK, column] *= np.float32(times)

    def clear(self, column: int) -> None:
        """Forget one model."""
        for level in self._levels:
            level.sums[:, :, column] = UNOBSERVED

    def widened(self, columns: int) -> "Rings":
        """The same rings with room for more models."""
        wider = Rings(columns)
        wider.head = self.head
        wider._levels = tuple(RingLevel(level.step, level.cells, columns, level.newest) for level in self._levels)
        for old, new in zip(self._levels, wider._levels, strict=True):
            new.sums[:, :, : self.columns] = old.sums
        return wider

    def to_bytes(self, column: int) -> bytes:
        """One model's rings for the checkpoint."""
        if self.head is None:
            return _FORMAT.pack(_MAGIC, 0, 0)
        body = b"".join(
            level.sums[level.all() % level.cells, :, column].T.astype("<f4").tobytes() for level in self._levels
        )
        return _FORMAT.pack(_MAGIC, self.head, zlib.crc32(body)) + body

    def restore(self, column: int, data: bytes) -> None:
        """Replace one model's rings by what `to_bytes` wrote. Raises ValueError when `data` is not that."""
        head, body = checked(data)
        self.clear(column)
        if not body:
            return
        self.advance(max(head, self.head or head))
        start = 0
        for level in _levels_at(head, 0):
            size = 3 * level.cells * 4
            sums = np.frombuffer(body[start : start + size], dtype="<f4").reshape(3, level.cells)
            start += size
            self._restore_level(column, level.all() * level.step, sums)

    def _restore_level(self, column: int, seconds: Ints, sums: Cells) -> None:
        for channel in range(3):
            seen = np.flatnonzero(~np.isnan(sums[channel]) & (sums[channel] != 0 if channel != REQUESTS else True))
            ones = np.ones(len(seen), dtype=np.int64)
            values = {channel: sums[channel][seen].astype(np.float64)}
            self.add(ones * column, seconds[seen], ones, values)


def _levels_at(head: int, columns: int) -> tuple[RingLevel, ...]:
    """Empty levels whose newest second is `head`, each beginning where the finer one ends."""
    levels: list[RingLevel] = []
    newest_second = head
    for step, cells in LEVELS:
        levels.append(RingLevel(step, cells, columns, newest_second // step))
        newest_second = levels[-1].oldest_second - 1
    return tuple(levels)


def _add_from(sums: Floats, looks: Cells, firsts: Sequence[int], step: int) -> None:
    """Add to each window (x channels x columns) the sums from its cell of `firsts` on, in a numpy call each.

    `step`: seconds of a cell; of those observed there were so many.

    Each column's cells are added in the same order as one channel alone would have them. Windows that begin before the
    first cell have all of them: their sum is made once.
    """
    cells, _, columns = looks.shape
    side_by_side, rows = looks.reshape(cells, -1), sums.reshape(len(firsts), -1)
    if columns == 1:
        side_by_side = side_by_side.T.copy().T  # one after the other in memory, as one channel alone is
    begins = [max(first, 0) for first in firsts]
    totals = {begin: np.add.reduce(side_by_side[begin:]) for begin in begins if begin < cells}
    if step > 1:
        for total in totals.values():
            total[OBSERVED * columns : (OBSERVED + 1) * columns] *= step
    for n, begin in enumerate(begins):
        if begin in totals:
            rows[n] += totals[begin]


def _sum_after(block: Cells, begins: Ints, starts: Floats) -> Cells:
    """Per column the sum of the cells that begin after its start: most cells count for every column."""
    some, every = np.searchsorted(begins, (starts.min(), starts.max()), side="right")
    border = np.where(begins[some:every, np.newaxis] > starts, block[some:every], 0)
    total: Cells = block[every:].sum(axis=0) + border.sum(axis=0)
    return total


def checked(data: bytes) -> tuple[int, bytes]:
    """Head second and cells of what `Rings.to_bytes` wrote. Raises ValueError when `data` is not that."""
    if len(data) < _FORMAT.size:
        raise ValueError(f"rings of {len(data)} bytes are cut short; they are rebuilt from the metrics topic")
    magic, head, crc = _FORMAT.unpack_from(data)
    body = data[_FORMAT.size :]
    if magic != _MAGIC or len(body) not in {0, BYTES_PER_MODEL} or zlib.crc32(body) != crc:
        raise ValueError("rings are damaged or of another version; they are rebuilt from the metrics topic")
    return head, body


def head_sum(data: bytes) -> int:
    """Checksum of the head, which the cells' does not cover: `checked` of an older version would refuse another one.

    All models share one head second: a turned bit of it would put every sample to come before the rings' beginning.
    """
    return zlib.crc32(data[: _FORMAT.size])
