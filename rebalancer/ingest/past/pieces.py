"""A window of the past in pieces, each a range query of its own: fine where it is young, coarse where it is old. Pure.

A piece has 240 steps, of Prometheus' 11,000 a series at most: an answer about 100 pods is some 9 MB then, and one that
is too long for somebody is halved. At 15 s between scrapes a week is 21 pieces, a day 12.
"""

from collections.abc import Iterator
from itertools import pairwise
from math import ceil
from typing import Final, NamedTuple

from rebalancer.state.rings import SPAN_SECONDS

STEPS: Final = 240
DAY_SECONDS: Final = 86_400.0
# (seconds back, least step): the rings remember seconds for 6.4 h; of older hours they keep what was learnt, which
# counters further apart than 300 s (`state.series.MAX_GAP_SECONDS`) do not tell.
FINENESS: Final = ((float(SPAN_SECONDS), 1.0), (DAY_SECONDS, 60.0), (float("inf"), 240.0))


class PastPiece(NamedTuple):
    """From `begin` to `end`, both whole epoch seconds and both asked for, a value each `step_seconds`."""

    begin: int
    end: int
    step_seconds: int

    def halves(self) -> tuple["PastPiece", ...]:
        """The same instants in two pieces; none where there is one instant."""
        steps = (self.end - self.begin) // self.step_seconds
        middle = self.begin + steps // 2 * self.step_seconds
        if not steps:
            return ()
        return self._replace(end=middle), self._replace(begin=middle + self.step_seconds)


def pieces(begin: float, end: float, interval_seconds: float) -> tuple[PastPiece, ...]:
    """The window in pieces, oldest first; `interval_seconds`: between two scrapes, which no step is finer than."""
    # Whole seconds once: what one fineness ends before, the next begins at.
    edges = sorted({*(ceil(max(begin, end - back)) for back, _ in FINENESS), int(end)})
    made: list[PastPiece] = []
    for since, until in pairwise(edges):
        least = next(step for back, step in FINENESS if end - since <= back)
        made += _cut(since, until, ceil(max(least, interval_seconds)))
    return tuple(made)


def _cut(since: int, until: int, step: int) -> Iterator[PastPiece]:
    while since < until:
        last = since + min(STEPS - 1, (until - 1 - since) // step) * step
        yield PastPiece(since, last, step)
        since = last + step
