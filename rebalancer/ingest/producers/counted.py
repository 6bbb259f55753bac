"""Counters and histograms of stock producers: what our engines' maps say they are, and what they come to for one pod.

A counter says how much there was since its process began; what is made of it is the change between two samples, so
that the sums only have to be right about when counting began anew. Pure.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import inf, isfinite, nextafter
from typing import NamedTuple

from rebalancer.domain.metric_maps import ABOVE, MetricSource
from rebalancer.ingest.engines import ENGINES
from rebalancer.ingest.promql import COUNTERS, LEAST_WINDOW_SECONDS, MOST_WINDOW_SECONDS, SCRAPES

QUANTILE = 0.95
SCRAPE_SECONDS = 1.0  # buckets of one scrape have one instant, or Kafka's instants at most this far apart
BOUNDS = 2  # buckets, the one up to infinity included; a histogram with fewer has no percentile
FORGOTTEN_INTERVALS = 20.0  # without a sample, after which a pod, or an engine in it, counts as gone
BUCKET, TOTAL, UPPER = "_bucket", "_total", "le"
# Labels that tell the series of one counter apart, beside those of engines: they are summed, or the highest counts.
# TGI's failures have `err`, Triton's `reason`.
PARTS = ("finished_reason", "err", "reason", "model", "version")
GONE: tuple[str, ...] = ()  # the part under which the counts of all gone parts go on, as of Ray's replicas
_SEPARATORS = re.compile(r"[:./]")
_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"(.*)"')


# Which engine or reason, and of a bucket its upper bound.
CountedPart = tuple[tuple[str, ...], float | None]


class CountReading(NamedTuple):
    """Where one counter of one pod stands, or one bucket of a histogram.

    pod: namespace and name, or "" and the UID.
    rank: place of the map's row that it is; of several rows for one reading the first that tells counts.
    source: that row.
    part: which engine or reason it counts.
    upper: upper bound of the bucket, None for a counter.
    value: count since the process began.
    at: when it was read, UTC epoch seconds.
    """

    pod: tuple[str, str]
    rank: int
    source: MetricSource
    part: tuple[str, ...]
    upper: float | None
    value: float
    at: float

    @property
    def name(self) -> str:
        """The reading that it is part of, as samples have it on the wire."""
        return self.source.reading


def plain(name: str) -> str:
    """A metric's name as all producers would spell it."""
    return _SEPARATORS.sub("_", name)


@cache
def _rows() -> Mapping[str, list[tuple[int, MetricSource]]]:
    """The rows of counters and histograms by plain name; OpenTelemetry may leave `_total` out."""
    rows: dict[str, list[tuple[int, MetricSource]]] = {}
    every = (source for each in ENGINES for source in each.readings)
    for rank, source in enumerate(every):
        if source.reading in COUNTERS or source.series.endswith(BUCKET):
            name = plain(source.series)
            for spelt in {name, name.removesuffix(TOTAL)}:
                rows.setdefault(spelt, []).append((rank, source))
    return rows


def rows_of(name: str, labels: Mapping[str, str]) -> list[tuple[int, MetricSource]]:
    """The rows that a series is read by, with their ranks; mostly one, or none."""
    return [(rank, row) for rank, row in _rows().get(plain(name), ()) if all(_fits(one, labels) for one in row.where)]


def counts(name: str) -> bool:
    """Whether a metric is one of those."""
    return plain(name) in _rows()


def _fits(matcher: str, labels: Mapping[str, str]) -> bool:
    """Whether a series is one that a matcher of PromQL picks; who lacks the label has "" there."""
    ((label, operator, value),) = _MATCHER.findall(matcher)
    has = labels.get(label, "")
    same = re.fullmatch(value, has) is not None if "~" in operator else has == value
    return bool(same != operator.startswith("!"))


class Percentile(NamedTuple):
    """Where a percentile lies, in the histogram's unit: at `value`, or somewhere `above` it, the last bound."""

    value: float
    above: bool = False


class PodCounts:
    """Counters and histograms of one pod, as they were last told. `began`: since when they count, as far as we know."""

    __slots__ = ("_before", "_forgotten_seconds", "_scrape_seconds", "_values", "_window_seconds", "began")

    def __init__(self, interval_seconds: float) -> None:
        self.began = inf
        self._forgotten_seconds = FORGOTTEN_INTERVALS * interval_seconds
        self._scrape_seconds = min(SCRAPE_SECONDS, interval_seconds / 2)
        self._window_seconds = min(max(LEAST_WINDOW_SECONDS, SCRAPES * interval_seconds), MOST_WINDOW_SECONDS)
        self._values: dict[tuple[str, int], dict[CountedPart, CountReading]] = {}
        self._before: dict[tuple[str, int], deque[tuple[float, dict[float, float]]]] = {}

    def put(self, reading: CountReading) -> None:
        """Take one. Where it is lower than before the process began anew, and what the old one counted is forgotten.

        Where other parts were known before it, it was only not seen: what it counted until then is no change. Of one
        instant the highest counts: copies of it, or two looks within a second by producers that cut instants to it.
        """
        series = self._values.setdefault((reading.name, reading.rank), {})
        known = series.get((reading.part, reading.upper))
        if known is not None and (known.at, known.value) > (reading.at, reading.value):
            return
        if known is None:
            _fold(series, reading.at - self._forgotten_seconds)
        if known is None and series and reading.value > 0.0:
            self._widens(reading, max(one.at for one in series.values()))
        elif known is not None and reading.value < known.value:
            self._begins(reading.at)
        if self.began == inf:
            self.began = reading.at
        self._values.setdefault((reading.name, reading.rank), {})[reading.part, reading.upper] = reading

    def _widens(self, reading: CountReading, newest: float) -> None:
        """Counts with this part and without it are not compared; a sample of the newest instant may be out already."""
        if reading.name in COUNTERS:
            self.began = nextafter(max(self.began, newest, reading.at), inf)
        else:
            self._before.pop((reading.name, 0), None)

    def _begins(self, at: float) -> None:
        self.began = at
        self._before.clear()
        for key, series in self._values.items():
            self._values[key] = {part: one for part, one in series.items() if one.at >= at}

    def counters(self, since: float, oldest: float) -> dict[str, float]:
        """Each counter as it was last told, where that was since `oldest`; none where none was told since `since`.

        One that comes in a record of its own may be late for a sample; without it the next would seem to have it all.
        """
        if not any(name in COUNTERS for name, *_ in self._first(since)):
            return {}
        return {
            name: _together(source, (each.value for each in series.values())) / source.per
            for name, source, series in self._first(oldest)
            if name in COUNTERS
        }

    def percentiles(self, since: float) -> dict[str, float]:
        """The 95th percentile of each histogram of which something was told since then, over the last four scrapes.

        Under the name of `ABOVE` the last bound, where it lies above that. None while buckets of a scrape are missing.
        """
        figures = {}
        for name, source, series in self._first(since):
            if name not in COUNTERS and self._whole(series):
                buckets: dict[float, float] = {}
                for each in series.values():
                    if each.upper is not None:
                        buckets[each.upper] = buckets.get(each.upper, 0.0) + each.value
                percentile = self._percentile(name, max(each.at for each in series.values()), buckets)
                if percentile is not None:
                    figures[ABOVE[name] if percentile.above else name] = percentile.value / source.per
        return figures

    def _whole(self, series: Mapping[CountedPart, CountReading]) -> bool:
        """Whether all buckets of each part are of one scrape: counts of two, or of two replicas', are no histogram.

        A part of which nothing came within the window changed nothing in it, however its last look came.
        """
        instants: dict[tuple[str, ...], list[float]] = {}
        for (part, _), each in series.items():
            instants.setdefault(part, []).append(each.at)
        oldest = max(map(max, instants.values())) - self._window_seconds
        recent = (every for every in instants.values() if max(every) >= oldest)
        return all(max(every) - min(every) < self._scrape_seconds for every in recent)

    def _first(self, since: float) -> Iterator[tuple[str, MetricSource, Mapping[CountedPart, CountReading]]]:
        """For each reading the first row of the map with a series since `since`."""
        done: set[str] = set()
        for (name, _), series in sorted(self._values.items(), key=lambda item: item[0][1]):
            if name not in done and any(each.at >= since for each in series.values()):
                done.add(name)
                yield name, next(iter(series.values())).source, series

    def _percentile(self, name: str, at: float, buckets: dict[float, float]) -> Percentile | None:
        before = self._before.setdefault((name, 0), deque())
        while before and before[0][0] < at - self._window_seconds:
            before.popleft()
        if before and before[-1][0] == at:  # what came late for a scrape makes its mark again
            before.pop()
        oldest = before[0][1] if before else None
        before.append((at, buckets))
        if oldest is None or oldest.keys() != buckets.keys():
            return None
        return quantile({upper: count - oldest[upper] for upper, count in buckets.items()})


def _together(source: MetricSource, values: Iterable[float]) -> float:
    """What the parts of one counter come to."""
    return (max if source.by == "max" else sum)(values)


def _fold(series: dict[CountedPart, CountReading], oldest: float) -> None:
    """Makes one part of those that nobody told since `oldest`."""
    for key in [key for key, one in series.items() if one.at < oldest and key[0] != GONE]:
        one = series.pop(key)
        before = series.get((GONE, one.upper))
        if before is not None:
            value = _together(one.source, (before.value, one.value))
            one = one._replace(value=value, at=max(before.at, one.at))
        series[GONE, one.upper] = one._replace(part=GONE)


def quantile(buckets: Mapping[float, float]) -> Percentile | None:
    """The 95th percentile of cumulative counts by upper bound, interpolated as Prometheus does it.

    None where nothing was counted, or no bucket is without a bound.
    """
    bounds = sorted(buckets)
    if len(bounds) < BOUNDS or isfinite(bounds[-1]) or not buckets[inf] > 0.0:
        return None
    wanted, below, floor = QUANTILE * buckets[inf], 0.0, 0.0
    for upper in bounds[:-1]:
        if buckets[upper] >= wanted:
            inside = buckets[upper] - below
            return Percentile(floor + (upper - floor) * ((wanted - below) / inside) if inside > 0.0 else upper)
        below, floor = buckets[upper], upper
    return Percentile(floor, above=True)
