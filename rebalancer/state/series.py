"""One producer's samples of one pod, or of a model as a whole: the newest, and what its counters say.

Of each instant eight numbers are kept: when, requests finished or in flight (NaN: not counted), counting since when,
requests waiting, requests finished, requests gone unserved, tokens generated, tokens of prompts (of the last three NaN:
not counted).
"""

import struct
from math import inf, isnan, nan

from msgspec import Struct

from rebalancer.domain.events import MetricSample, Position
from rebalancer.state.habit import Habit
from rebalancer.state.latest import Latest
from rebalancer.state.pace import PROMPT_SHARE

REMEMBERED = 4  # samples kept to put a late one between its neighbours; a producer's own order is rarely off by more
MAX_GAP_SECONDS = 300.0  # counters further apart than this say nothing about when the requests came

# From, to (epoch seconds), requests that came; requests that joined the queue (or left it), that finished, that went
# unserved, tokens in generated ones' worth, tokens of prompts. Negative takes back an earlier figure.
Arrivals = tuple[float, float, float, float, float, float, float, float]
_Mark = tuple[float, float, float, float, float, float, float, float]


class Loaded(Struct, frozen=True, gc=False):
    """The state in which a sample found its replicas.

    at: when it was measured.
    replicas: how many there were.
    full: whether all of them ran all they can.
    queued_at: when a request last waited.
    running: requests running on all of them.
    """

    at: float
    replicas: int
    full: bool
    queued_at: float
    running: float = 0.0


UNSEEN = Loaded(-inf, 0, full=False, queued_at=-inf)
_NONE: list[Arrivals] = []
_PACKED = struct.Struct("<8d")  # marks are kept as bytes: as objects, those of 10,000 pods would not fit in a cache
_OLDER = (REMEMBERED - 1) * _PACKED.size


class Series:
    """The newest sample wins by (time, order, partition, offset); the last few instants are remembered for late ones.

    `place`: its row in `Latest`. `at`: event time of the newest. `habit`: how far behind it usually is. `loaded`: how
    its replicas stood then.
    """

    __slots__ = ("_marks", "_order", "_position", "at", "habit", "loaded", "place")

    def __init__(self, first: MetricSample, latest: Latest, habit: Habit) -> None:
        self.place = latest.open()
        self.loaded = UNSEEN
        self._marks = _PACKED.pack(*_mark(first))
        self.habit = habit
        self._becomes(first, latest)

    def _becomes(self, sample: MetricSample, latest: Latest) -> None:
        self.at, self._order, self._position = sample.at, sample.order, sample.position
        latest.put(self.place, sample, self.habit.lag_seconds)

    @property
    def counts(self) -> bool:
        """Whether its newest sample told how many requests are finished."""
        inside: float = _PACKED.unpack_from(self._marks, len(self._marks) - _PACKED.size)[1]
        return not isnan(inside)

    def take(self, sample: MetricSample, latest: Latest, now: float) -> list[Arrivals] | None:
        """The arrivals that the counters of a new instant show; None for an instant seen before.

        Arrivals = finished + gone unserved + change of (running + waiting), never below 0.
        """
        at = sample.at
        if at > self.at:
            self.habit.came(now, self.at, sample.interval_seconds)
            self._becomes(sample, latest)
            marks, mark = self._marks, _mark(sample)
            self._marks = marks[-_OLDER:] + _PACKED.pack(*mark)
            return _between(_PACKED.unpack_from(marks, len(marks) - _PACKED.size), mark, 1.0)
        if at < self.at:
            return self._late(sample)
        if _rank(sample.order, sample.position) > _rank(self._order, self._position):
            self._becomes(sample, latest)
        return None

    def _late(self, sample: MetricSample) -> list[Arrivals] | None:
        mark, marks = _mark(sample), list(_PACKED.iter_unpack(self._marks))
        place = sum(known[0] < mark[0] for known in marks)
        before, after = marks[place - 1] if place else None, marks[place]  # the newest is younger
        if after[0] == mark[0]:
            return None
        if before is None and len(marks) == REMEMBERED:
            return _NONE  # older than all we remember: its neighbours are unknown
        marks.insert(place, mark)
        self._marks = b"".join(_PACKED.pack(*known) for known in marks[-REMEMBERED:])
        if before is None:
            return _between(mark, after, 1.0)
        return [*_between(before, after, -1.0), *_between(before, mark, 1.0), *_between(mark, after, 1.0)]


def _rank(order: int, position: Position | None) -> tuple[int, int, int]:
    return (0, -1, -1) if position is None else (order, position.partition, position.offset)


def _mark(sample: MetricSample) -> _Mark:
    counters, running = sample.counters, sample.gauges.running
    if counters is None or counters.requests_finished is None or running is None:
        return sample.at, nan, nan, nan, nan, nan, nan, nan
    waiting, finished, gone = sample.gauges.waiting or 0.0, counters.requests_finished, counters.requests_left
    prompt, generated = counters.prompt_tokens, counters.generated_tokens
    inside = finished + running + waiting
    left = nan if gone is None else gone
    wrote, read = nan if generated is None else generated, nan if prompt is None else prompt
    return sample.at, inside, counters.start_time, waiting, finished, left, wrote, read


def _between(before: _Mark, after: _Mark, sign: float) -> list[Arrivals]:
    """Nothing where a sample had no counters, or a restarted producer began to count from zero: NaN equals nothing.

    One that says that it counts since when it did before began anew all the same where a counter fell.
    Nobody left where one of the two does not tell who did: all who ever left, told for the first time, came long ago.
    Nor are tokens known then, of prompts or generated: some of the work is no figure for all of it.
    """
    since, inside, start, waiting, finished, gone, wrote, read = before
    until, later_inside, same_start, later_waiting, later_finished, later_gone, later_wrote, later_read = after
    if start != same_start or until - since > MAX_GAP_SECONDS:
        return _NONE
    if later_finished < finished or later_gone < gone or later_wrote < wrote or later_read < read:
        return _NONE
    left = 0.0 if isnan(later_gone - gone) else later_gone - gone
    came = later_inside - inside + left
    came = sign * came if came > 0.0 else 0.0
    joined, done = later_waiting - waiting, later_finished - finished
    written, prompts = later_wrote - wrote, later_read - read
    if isnan(read) and isnan(later_read):  # who never counts them has none
        tokens = written
    elif isnan(wrote) and isnan(later_wrote):
        tokens = PROMPT_SHARE * prompts
    else:
        tokens = PROMPT_SHARE * prompts + written
    return [(since, until, came, joined, done, left, tokens, prompts)]
