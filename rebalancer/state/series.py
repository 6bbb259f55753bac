"""One producer's samples of one pod, or of a model as a whole: the newest, and what its counters say."""

from array import array
from math import nan

from rebalancer.domain.events import MetricSample
from rebalancer.state.latest import Latest

REMEMBERED = 4  # samples kept to put a late one between its neighbours; a producer's own order is rarely off by more
MAX_GAP_SECONDS = 300.0  # counters further apart than this say nothing about when the requests came

Arrivals = tuple[float, float, float]  # from, to (epoch seconds), requests; negative takes back an earlier figure
_Mark = tuple[float, float, float]  # at, requests finished or in flight (NaN: no counters), counting since

_NONE: list[Arrivals] = []


class Series:
    """The newest sample wins by (time, partition, offset); the last few instants are remembered for late ones.

    `place`: its row in `Latest`. `at`: event time of the newest.
    """

    __slots__ = ("_marks", "_offset", "_partition", "at", "place")

    def __init__(self, first: MetricSample, latest: Latest) -> None:
        self.place = latest.open()
        self._marks = array("d", _mark(first))
        self._becomes(first, latest)

    def _becomes(self, sample: MetricSample, latest: Latest) -> None:
        self.at = sample.at
        position = sample.position
        if position is None:
            self._partition = self._offset = -1
        else:
            self._partition, self._offset = position.partition, position.offset
        latest.put(self.place, sample)

    def take(self, sample: MetricSample, latest: Latest) -> list[Arrivals] | None:
        """What arrived, by the counters of a new instant; None for an instant seen before.

        Arrivals = finished + change of (running + waiting), never below 0.
        """
        at = sample.at
        if at > self.at:
            self._becomes(sample, latest)
            marks, mark = self._marks, _mark(sample)
            since, earlier, start = marks[-3:]
            marks.extend(mark)
            if len(marks) > 3 * REMEMBERED:
                del marks[:3]
            return _between((since, earlier, start), mark, 1.0)
        if at < self.at:
            return self._late(sample)
        position = sample.position
        if position is not None and (position.partition, position.offset) > (self._partition, self._offset):
            self._becomes(sample, latest)
        return None

    def _late(self, sample: MetricSample) -> list[Arrivals] | None:
        numbers, mark = self._marks, _mark(sample)
        marks = list(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))
        place = sum(known[0] < mark[0] for known in marks)
        before, after = marks[place - 1] if place else None, marks[place]  # the newest is younger
        if after[0] == mark[0]:
            return None
        if before is None and len(marks) == REMEMBERED:
            return _NONE  # older than all we remember: its neighbours are unknown
        marks.insert(place, mark)
        self._marks = array("d", [number for known in marks[-REMEMBERED:] for number in known])
        if before is None:
            return _between(mark, after, 1.0)
        return [*_between(before, after, -1.0), *_between(before, mark, 1.0), *_between(mark, after, 1.0)]


def _mark(sample: MetricSample) -> _Mark:
    counters, running = sample.counters, sample.gauges.running
    if counters is None or counters.requests_finished is None or running is None:
        return sample.at, nan, nan
    return sample.at, counters.requests_finished + running + (sample.gauges.waiting or 0.0), counters.start_time


def _between(before: _Mark, after: _Mark, sign: float) -> list[Arrivals]:
    """Nothing where a sample had no counters, or a restarted producer began to count from zero: NaN equals nothing."""
    since, earlier, start = before
    until, later, same_start = after
    if start != same_start or until - since > MAX_GAP_SECONDS:
        return _NONE
    return [(since, until, sign * max(0.0, later - earlier))]
