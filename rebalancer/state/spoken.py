"""What each producer said last of the seconds just past: a second one may begin to speak of them at any time.

Written in one piece when a batch goes to the rings, where it costs a hundredth of what one by one would.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rebalancer.state.ring_level import Ints
from rebalancer.state.rings import Floats

REMEMBERED = 64  # looks of each producer, by their time: five minutes of one every 5 s, a minute of one every second

NOBODY = -1  # the place of what no producer said, but what it adds to others' words


class Looks(NamedTuple):
    """Of one producer: their last seconds, how many seconds, and what was told of each, on which share of the model."""

    ends: Ints
    lengths: Ints
    figures: Floats
    shares: Floats


LENGTHS = 1
_KEPT_AS = (np.uint32, np.uint16, np.float32, np.float32)  # as `Looks`; ten pods of a model: 9 KB


class Spoken:
    """The last looks of every producer, by its place in `Latest`."""

    def __init__(self) -> None:
        self._columns: list[NDArray[Any]] = [np.zeros((1, REMEMBERED), kind) for kind in _KEPT_AS]

    def note(self, places: Ints, looks: Looks) -> None:
        """Looks of these producers."""
        rows = places + 1  # the first row is nobody's
        self._reach(int(np.maximum.reduce(rows)))
        slots = looks.ends // looks.lengths % REMEMBERED
        for column, told in zip(self._columns, looks, strict=True):
            column[rows, slots] = told

    def forget(self, place: int) -> None:
        """Another producer begins to speak at this place."""
        self._columns[LENGTHS][place + 1 : place + 2] = 0

    def of(self, place: int) -> Looks:
        """What the producer at `place` said."""
        ends, lengths, figures, shares = (column[place + 1 : place + 2].ravel() for column in self._columns)
        told = lengths > 0
        return Looks(
            ends[told].astype(np.int64),
            lengths[told].astype(np.int64),
            figures[told].astype(np.float64),
            shares[told].astype(np.float64),
        )

    def _reach(self, row: int) -> None:
        """Room up to `row`, and for a quarter more."""
        rows = len(self._columns[LENGTHS])
        if row >= rows:
            more = row + 1 - rows + rows // 4
            self._columns = [np.concatenate([one, np.zeros((more, REMEMBERED), one.dtype)]) for one in self._columns]


def joined(one: Looks, other: Looks) -> Looks:
    """Both."""
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
