"""Seconds that several sources tell of: of each the highest figure counts, once.

The rings add up what they are given. That is right for pods, which are parts of a model. It is wrong for two producers
of one pod, and for a model told of as a whole beside its pods: a sum would count the same requests twice, and a mean
would make half of the work where one of them sees nothing. Of these the rings are given only what a new word adds.
"""

from array import array
from collections.abc import Iterable, Iterator
from math import isnan, nan

import numpy as np

from rebalancer.state.rings import MAX_INTERVAL_SECONDS
from rebalancer.state.spoken import NOTHING, Looks, second_by_second

SPAN = MAX_INTERVAL_SECONDS + 20  # seconds that are remembered: of the longest interval, and of who is a little late
LEAST = 1e-4  # replicas, or requests per second: less is the rounding of what is remembered

More = tuple[int, float, float]  # a second, what is added to its figure, and to the share of the model that was seen


class Highest:
    """The seconds of one subject; `looks`: those of its first producer."""

    __slots__ = ("_figures", "_newest", "_shares")

    def __init__(self, looks: Looks = NOTHING) -> None:
        seconds, figures, shares = second_by_second(looks)
        self._newest = int(seconds.max()) if len(seconds) else 0
        known, seen = np.full(SPAN, nan, np.float32), np.zeros(SPAN, np.float32)
        recent = seconds > self._newest - SPAN
        np.fmax.at(known, seconds[recent] % SPAN, figures[recent])
        np.fmax.at(seen, seconds[recent] % SPAN, shares[recent])
        self._figures, self._shares = array("f", known.tobytes()), array("f", seen.tobytes())

    def more(self, seconds: Iterable[int], figure: float, share: float) -> Iterator[More]:
        """The part of `figure` in each of these seconds, seen on `share` of the model, beyond the figures before."""
        figures, shares = self._figures, self._shares
        for second in seconds:
            if second > self._newest:
                self._forget(second)
            elif second <= self._newest - SPAN:
                continue
            place = second % SPAN
            known, seen = figures[place], shares[place]
            if isnan(known):
                figures[place], shares[place] = figure, share
                yield second, figure, share
            elif figure - known > LEAST or share - seen > LEAST:
                figures[place], shares[place] = max(figure, known), max(share, seen)
                yield second, max(0.0, figure - known), max(0.0, share - seen)

    def remembered(self) -> Iterator[More]:
        """The figures of all remembered seconds, second by second."""
        for second in range(self._newest - SPAN + 1, self._newest + 1):
            place = second % SPAN
            if not isnan(self._figures[place]):
                yield second, self._figures[place], self._shares[place]

    def _forget(self, newest: int) -> None:
        for second in range(max(self._newest, newest - SPAN) + 1, newest + 1):
            self._figures[second % SPAN], self._shares[second % SPAN] = nan, 0.0
        self._newest = newest


class Sides:
    """A model's seconds, once it is told of as a whole and pod by pod.

    `least`: share of the model that pods must cover to be heard against the whole, fewer would be stretched to all of
    it; None: what pods tell is a sum that nobody stretches.
    """

    __slots__ = ("_cells", "_least", "_newest")

    def __init__(self, least: float | None) -> None:
        self._newest = 0
        self._least = least
        self._cells: dict[int, _Cell] = {}

    def more(self, second: int, figure: float, share: float, *, whole: bool) -> More | None:
        """What is added to the rings when one side's second has so much more; None: it is too old to say."""
        if second > self._newest:
            self._forget(second)
        elif second <= self._newest - SPAN:
            return None
        cell = self._cells.setdefault(second, _Cell())
        if whole:
            cell.whole = figure if isnan(cell.whole) else cell.whole + figure
        else:
            cell.pods += figure
        cell.pods_share += 0.0 if whole else share
        cell.whole_share += share if whole else 0.0
        before, cell.given = cell.given, self._total(cell)
        return second, cell.given - before, share

    def _total(self, cell: "_Cell") -> float:
        """The higher of both; what is stretched by its coverage counts for as much coverage as both have together."""
        if isnan(cell.whole):
            return cell.pods
        if self._least is None:
            return max(cell.whole, cell.pods)
        share, whole = cell.pods_share, cell.whole / cell.whole_share
        return (share + cell.whole_share) * (max(whole, cell.pods / share) if 0.0 < share >= self._least else whole)

    def _forget(self, newest: int) -> None:
        self._newest = newest
        for old in [second for second in self._cells if second <= newest - SPAN]:
            del self._cells[old]


class _Cell:
    """A second: what was told of the pods and of the whole, on which shares of the model, and what the rings have."""

    __slots__ = ("given", "pods", "pods_share", "whole", "whole_share")

    def __init__(self) -> None:
        self.pods = self.pods_share = self.whole_share = self.given = 0.0
        self.whole = nan


def once(  # noqa: PLR0913  # what is told, and by whom else
    highest: Highest | None, sides: Sides | None, seconds: range, figure: float, share: float, *, whole: bool
) -> Iterator[More]:
    """The additions to the rings for `figure` in each of these seconds."""
    for more in highest.more(seconds, figure, share) if highest else ():
        added = more if sides is None else sides.more(*more, whole=whole)
        if added is not None:
            yield added


def seconds_of(since: float, until: float) -> range:
    """The seconds in (since, until] as the rings count them: whole ones, at least one."""
    end = int(until)
    return range(end - min(max(end - int(since), 1), MAX_INTERVAL_SECONDS) + 1, end + 1)
