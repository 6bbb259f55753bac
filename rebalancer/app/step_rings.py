"""Figures by key in rings of equal steps of time; each step is made of all that was noted in it."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from rebalancer.api.ports.day import Figures

MEAN, MOST, LAST = "mean", "most", "last"

Key = TypeVar("Key", bound=Hashable)
Counts = NDArray[np.uint16]


class StepRings(Generic[Key]):
    """A ring of `steps` steps for each key; step `n` since the epoch stands at place `n % steps`, NaN is unknown.

    `made`: for each figure what stands of the values that are noted in one step. MEAN: their mean, of those that are
    known; MOST: the largest; LAST: the last, known or not. Something of every note has to be known.
    """

    def __init__(self, steps: int, made: Sequence[str]) -> None:
        self.at = np.full(steps, -1, dtype=np.int64)  # by place, the step that stands there
        self.rings: dict[Key, Figures] = {}
        self._mean = np.array([each == MEAN for each in made])
        self._most = np.array([each == MOST for each in made])
        self._counts: dict[Key, Counts] = {}  # of values that are in each mean

    def note(self, step: int, values: Mapping[Key, Sequence[float]]) -> None:
        """Add a row of figures for each key to `step`; a key without one that is known in no step goes."""
        place = step % len(self.at)
        if self.at[place] != step:
            self._begin(step, values.keys())
        if not values:
            return
        for key in values.keys() - self.rings.keys():
            self.rings[key], self._counts[key] = self._unknown()
        before = np.array([self.rings[key][place] for key in values])
        counts = np.array([self._counts[key][place] for key in values])
        after = np.array([*values.values()], dtype=np.float32)
        rows, counts = self._made(before, counts, after, (~np.isnan(after[:, self._mean])).astype(np.uint16))
        for key, row, count in zip(values, rows, counts, strict=True):
            self.rings[key][place], self._counts[key][place] = row, count

    def _begin(self, step: int, current: Collection[Key]) -> None:
        place = step % len(self.at)
        self.at[place] = step
        for ring in self.rings.values():
            ring[place] = np.nan
        for counts in self._counts.values():
            counts[place] = 0
        for key in [each for each in self.rings if each not in current]:
            if np.isnan(self.rings[key]).all():
                del self.rings[key], self._counts[key]

    def put_before(self, older: "StepRings[Key]") -> None:
        """Take what `older` was told before our first note; a step that both have is made of the notes of both."""
        mine = self.at >= 0
        shared = np.flatnonzero(mine & (self.at == older.at))
        self.at = np.where(mine, self.at, older.at)
        for key in older.rings.keys() | self.rings.keys():
            ring, counts = self._of(key)
            before, counts_before = older._of(key)  # noqa: SLF001  # of one class
            self.rings[key] = np.where(mine[:, None], ring, before)
            self._counts[key] = np.where(mine[:, None], counts, counts_before)
            rows, sums = self._made(before[shared], counts_before[shared], ring[shared], counts[shared])
            self.rings[key][shared], self._counts[key][shared] = rows, sums

    def _of(self, key: Key) -> tuple[Figures, Counts]:
        return (self.rings[key], self._counts[key]) if key in self.rings else self._unknown()

    def _unknown(self) -> tuple[Figures, Counts]:
        steps = len(self.at)
        return (
            np.full((steps, len(self._mean)), np.nan, dtype=np.float32),
            np.zeros((steps, int(self._mean.sum())), dtype=np.uint16),
        )

    def _made(self, before: Figures, counts_before: Counts, after: Figures, counts: Counts) -> tuple[Figures, Counts]:
        """Rows of one step and the counts of their means: of what was noted `before` and `after`; NaN rows: nothing."""
        noted = ~np.isnan(after).all(axis=1, keepdims=True)
        rows = np.where(self._most, np.fmax(before, after), np.where(noted, after, before))
        total = counts_before + counts
        share = np.divide(counts, total, out=np.zeros(total.shape, np.float32), where=total > 0)
        first, second = (np.where(np.isnan(each), 0, each) for each in (before[:, self._mean], after[:, self._mean]))
        rows[:, self._mean] = np.where(total > 0, first + (second - first) * share, np.nan)
        return rows.astype(np.float32), total
