"""The latest figures of each producer by second, for when a second producer begins to report the same seconds.

They are written in one piece when a batch goes to the rings, at a hundredth of the price of one by one.
"""

from typing import NamedTuple

import numpy as np

from rebalancer.state.ring_level import Ints
from rebalancer.state.rings import Floats

REMEMBERED = 64  # looks of each producer, by their time: five minutes of one every 5 s, a minute of one every second

NOBODY = -1  # the place of what no producer said, but what it adds to others' words


class Looks(NamedTuple):
    """Some producers' figures, one row per interval that a sample stands for.

    ends: last second of the interval.
    lengths: seconds of the interval.
    figures: the figure of each of these seconds.
    shares: the share of the model that it is about, 0-1.
    """

    ends: Ints
    lengths: Ints
    figures: Floats
    shares: Floats


NOTHING = Looks(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))
_LOOK = np.dtype([("ends", "u4"), ("lengths", "u4"), ("figures", "f4"), ("shares", "f4")])  # 1 KB for each producer


class Spoken:
    """The last looks of every producer, by its place in `Latest`."""

    def __init__(self) -> None:
        self._looks = np.zeros((1, REMEMBERED), _LOOK)

    def note(self, places: Ints, looks: Looks) -> None:
        """Looks of these producers."""
        rows = places + 1  # the first row is nobody's
        self._reach(int(np.maximum.reduce(rows)))
        rows_of_looks = np.empty(len(rows), _LOOK)
        for name, column in zip(Looks._fields, looks, strict=True):
            rows_of_looks[name] = column
        self._looks[rows, looks.ends // looks.lengths % REMEMBERED] = rows_of_looks

    def forget(self, place: int) -> None:
        """Another producer begins to speak at this place."""
        self._looks["lengths"][place + 1 : place + 2] = 0

    def of(self, place: int) -> Looks:
        """The remembered figures of the producer at `place`."""
        row = self._looks[place + 1 : place + 2].ravel()
        known = row[row["lengths"] > 0]
        return Looks(
            known["ends"].astype(np.int64),
            known["lengths"].astype(np.int64),
            known["figures"].astype(np.float64),
            known["shares"].astype(np.float64),
        )

    def _reach(self, row: int) -> None:
        """Room up to `row`, and for a quarter more."""
        rows = len(self._looks)
        if row >= rows:
            more = row + 1 - rows + rows // 4
            self._looks = np.concatenate([self._looks, np.zeros((more, REMEMBERED), _LOOK)])


def joined(one: Looks, other: Looks) -> Looks:
    """The rows of both."""
    return Looks(
        np.concatenate([one.ends, other.ends]),
        np.concatenate([one.lengths, other.lengths]),
        np.concatenate([one.figures, other.figures]),
        np.concatenate([one.shares, other.shares]),
    )


def second_by_second(looks: Looks) -> tuple[Ints, Floats, Floats]:
    """Each look's seconds, with what was told of each."""
    lengths = looks.lengths
    counted = lengths.cumsum()
    back = np.arange(int(np.add.reduce(lengths)), dtype=np.int64)
    seconds: Ints = (counted + looks.ends - lengths).repeat(lengths) - back
    return seconds, looks.figures.repeat(lengths), looks.shares.repeat(lengths)
