"""Readings of one pod and instant become one sample.

Producers send them apart, and alone each would say that the rest is unknown. A pod's sample is made when its next
scrape begins, or half a second after its first reading came. What comes later for the same instant makes it again,
fuller. vLLM and DCGM are scraped apart: a reading counts beside newer ones of its pod for two intervals, and where the
engine tells, its next sample brings the GPU's along.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import inf

import msgspec

from rebalancer.domain.events import Counters, Gauges, MetricSample, Position
from rebalancer.domain.producers import Combine, MetricProducer
from rebalancer.ingest.gauges import impossible
from rebalancer.ingest.producers.counted import FORGOTTEN_INTERVALS, CountReading, PodCounts
from rebalancer.ingest.producers.mapping import MAX_PODS, GaugeReading, Pod

SETTLE_SECONDS = 0.5  # remote write hands out one scrape within some 0.1 s
KEPT_INTERVALS = 2.0
OF_THE_GPU = frozenset({"gpuUtilisation", "fbUsedMib", "fbFreeMib"})

Told = tuple[float, float]  # when it was measured, and the value: the newest counts, of one instant the highest


class _Gathered:
    """Readings of one pod: by gauge, row and part the newest.

    at: when the newest that makes a sample was measured.
    engine_at: when the newest that is not of a GPU was measured.
    begun: when the first was measured that no sample has yet.
    since: when that one came, by our clock.
    position: where the record with it stands in Kafka; the same when it is read again, whatever comes beside it then.
    values: the newest readings of gauges, by gauge, rank of their rule and part.
    counts: its counters and histograms.
    """

    __slots__ = ("at", "begun", "counts", "engine_at", "position", "since", "values")

    def __init__(self, interval_seconds: float) -> None:
        self.counts = PodCounts(interval_seconds)
        self.at = 0.0
        self.engine_at = -inf
        self.begun = 0.0
        self.since = 0.0
        self.position: Position | None = None
        self.values: dict[str, dict[int, dict[tuple[str, ...], Told]]] = {}

    def comes_along(self, reading: GaugeReading | CountReading, seconds: float) -> bool:
        """Whether the engine's next sample brings it: alone a GPU's would say that nothing is counted any more."""
        return reading.name in OF_THE_GPU and 0.0 < reading.at - self.engine_at <= seconds

    def put(self, reading: GaugeReading | CountReading) -> None:
        if reading.name not in OF_THE_GPU:
            self.engine_at = max(self.engine_at, reading.at)
        if isinstance(reading, CountReading):
            self.counts.put(reading)
            return
        parts = self.values.setdefault(reading.rule.gauge, {}).setdefault(reading.rank, {})
        newest = (reading.at, reading.value)
        parts[reading.part] = max(parts.get(reading.part, newest), newest)

    def since_then(self, oldest: float) -> Iterator[tuple[str, int, list[float]]]:
        """Each gauge that was told since `oldest`, with the first row that tells it and the values of its parts."""
        for gauge, ranks in self.values.items():
            for rank in ranks:
                ranks[rank] = {part: reading for part, reading in ranks[rank].items() if reading[0] >= oldest}
            first = min((rank for rank, parts in ranks.items() if parts), default=None)
            if first is not None:
                yield gauge, first, [value for _, value in ranks[first].values()]


class PodGathering:
    """Readings of one producer in, samples out. `impossible`: figures made of parts that cannot be, by gauge."""

    def __init__(self, producer: MetricProducer) -> None:
        self.impossible: Counter[str] = Counter()
        self._topic = producer.topic
        self._interval_seconds = producer.interval_seconds
        self._rules = producer.rules
        self._pods: dict[Pod, _Gathered] = {}
        self._pending: dict[Pod, _Gathered] = {}  # those with readings that no sample has, the longest first
        self._made = 0
        self._looked_at = 0.0  # when pods that are gone were looked for

    def put(
        self, readings: Iterable[GaugeReading | CountReading], position: Position, now: float
    ) -> list[MetricSample]:
        """Take the readings of one record; the samples of pods whose next scrape began with them."""
        samples: list[MetricSample] = []
        for reading in readings:
            pod = reading.pod
            gathered = self._pods.get(pod) or self._first(pod, now)
            if gathered is None:
                continue
            if gathered.comes_along(reading, KEPT_INTERVALS * self._interval_seconds):
                gathered.put(reading)
                continue
            if pod in self._pending and reading.at - gathered.begun >= self._interval_seconds / 2:
                samples += self._sample(pod)
            if pod not in self._pending:
                self._pending[pod] = gathered
                gathered.since, gathered.begun, gathered.position = now, reading.at, position
            gathered.at = max(gathered.at, reading.at)
            gathered.put(reading)
        return samples

    def settled(self, now: float) -> list[MetricSample]:
        """The samples of pods of which nothing more is to come for this instant."""
        ready = []
        for pod, gathered in self._pending.items():
            if 0 <= now - gathered.since < SETTLE_SECONDS:
                break
            ready.append(pod)
        samples = [sample for pod in ready for sample in self._sample(pod)]
        if abs(now - self._looked_at) >= FORGOTTEN_INTERVALS * self._interval_seconds:
            self._forget(now)
        return samples

    def _sample(self, pod: Pod) -> Iterator[MetricSample]:
        gathered = self._pending.pop(pod)
        oldest = gathered.at - KEPT_INTERVALS * self._interval_seconds
        current = gathered.since_then(oldest)
        figures = {gauge: _combined(self._rules[rank].combine, values) for gauge, rank, values in current}
        figures = gathered.counts.percentiles(gathered.begun) | figures
        cannot_be = impossible(figures)
        self.impossible.update(cannot_be.keys())
        gauges = {gauge: figure for gauge, figure in figures.items() if gauge not in cannot_be}
        counters = gathered.counts.counters(gathered.begun, oldest)
        if gauges or counters:
            self._made += 1
            namespace, name = pod
            yield MetricSample(
                source=f"kafka/{self._topic}",
                id=f"{namespace}/{name}/{gathered.at}",
                at=gathered.at,
                model="",
                interval_seconds=self._interval_seconds,
                gauges=msgspec.convert(gauges, Gauges),
                pod=name,
                counters=_counters(gathered.counts.began, counters),
                position=gathered.position,
                namespace=namespace or None,
                # Records of one instant come in any order of partitions: what was gathered last is the fullest.
                order=self._made,
            )

    def _first(self, pod: Pod, now: float) -> _Gathered | None:
        """Room for a pod that is new; None where there are too many."""
        if len(self._pods) >= MAX_PODS:
            self._forget(now)
            if len(self._pods) >= MAX_PODS:
                return None
        return self._pods.setdefault(pod, _Gathered(self._interval_seconds))

    def _forget(self, now: float) -> None:
        """Without the pods of which nothing came for so long; a topic that is far behind tells of the past."""
        self._looked_at, oldest = now, now - FORGOTTEN_INTERVALS * self._interval_seconds
        self._pods = {pod: one for pod, one in self._pods.items() if one.since >= oldest or pod in self._pending}


def _counters(began: float, counters: Mapping[str, float]) -> Counters | None:
    """None where one of them cannot be: what the others count would not fit to it."""
    try:
        return msgspec.convert({"startTime": began, **counters}, Counters) if counters else None
    except msgspec.ValidationError:
        return None


def _combined(how: Combine, values: list[float]) -> float:
    if how == "max":
        return max(values)
    return sum(values) / (len(values) if how == "mean" else 1)
