"""One producer's samples of one pod, or of a model as a whole: the newest look, and what its counters say arrived."""

from rebalancer.domain.events import MetricSample, Position

REMEMBERED = 4  # samples kept to put a late one between its neighbours; a producer's own order is rarely off by more
MAX_GAP_SECONDS = 300.0  # counters further apart than this say nothing about when the requests came

Arrivals = tuple[float, float, float]  # from, to (epoch seconds), requests; negative takes back an earlier figure
_Mark = tuple[float, float | None, float]  # at, requests finished or in flight (None: no counters), counting since

_NOWHERE = Position(topic="", partition=-1, offset=-1)


class Series:
    """The newest sample wins by (time, partition, offset); the last few instants are remembered for late ones."""

    __slots__ = ("_marks", "newest")

    def __init__(self, first: MetricSample) -> None:
        self.newest = first
        self._marks = [_mark(first)]

    def take(self, sample: MetricSample) -> list[Arrivals] | None:
        """What arrived, by the counters of a new instant; None for an instant seen before.

        Arrivals = finished + change of (running + waiting), never below 0.
        """
        newest = self.newest
        if sample.at == newest.at:
            if (sample.position or _NOWHERE) > (newest.position or _NOWHERE):
                self.newest = sample
            return None
        if sample.at < newest.at:
            return self._late(sample)
        self.newest = sample
        marks, mark = self._marks, _mark(sample)
        marks.append(mark)
        if len(marks) > REMEMBERED:
            del marks[0]
        return _between(marks[-2], mark, 1.0)

    def _late(self, sample: MetricSample) -> list[Arrivals] | None:
        marks, mark = self._marks, _mark(sample)
        place = len(marks) - 1  # the newest is younger
        while place and marks[place - 1][0] > mark[0]:
            place -= 1
        if place and marks[place - 1][0] == mark[0]:
            return None
        if not place:
            if len(marks) == REMEMBERED:
                return []  # older than all we remember: its neighbours are unknown
            marks.insert(0, mark)
            return _between(mark, marks[1], 1.0)
        before, after = marks[place - 1], marks[place]
        marks.insert(place, mark)
        del marks[:-REMEMBERED]
        return [*_between(before, after, -1.0), *_between(before, mark, 1.0), *_between(mark, after, 1.0)]


def _mark(sample: MetricSample) -> _Mark:
    counters, gauges = sample.counters, sample.gauges
    if counters is None or counters.requests_finished is None or gauges.running is None:
        return sample.at, None, 0.0
    return sample.at, counters.requests_finished + gauges.running + (gauges.waiting or 0.0), counters.start_time


def _between(before: _Mark, after: _Mark, sign: float) -> list[Arrivals]:
    since, earlier, start = before
    until, later, same_start = after
    if earlier is None or later is None or start != same_start:
        return []  # a restarted producer counts from zero again: nothing can be said about the gap
    if until - since > MAX_GAP_SECONDS:
        return []
    return [(since, until, sign * max(0.0, later - earlier))]
