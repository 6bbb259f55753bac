"""Which series is which reading of which pod: by the policy's rows, what is counted by the engines' maps.

Nothing is remembered from one record to the next but UIDs of pods. No input raises.
"""

from collections.abc import Mapping
from math import isfinite, isnan, nan
from typing import NamedTuple

from rebalancer.domain.events import MAX_AHEAD_SECONDS, Position, Rejection
from rebalancer.domain.producers import GaugeRule, MetricProducer
from rebalancer.ingest.gauges import impossible
from rebalancer.ingest.producers.counted import BUCKET, PARTS, UPPER, CountReading, counts, plain, rows_of
from rebalancer.ingest.producers.formats import DECODERS
from rebalancer.ingest.producers.series import MetricSeries
from rebalancer.ingest.rejected import Reason, RejectedError

# What an exporter writes of it for an instance of a GPU that is cut up (MIG) is 0 or the whole GPU's, and no reading;
# DCGM_FI_PROF_GR_ENGINE_ACTIVE is the instance's own.
OF_WHOLE_GPUS, INSTANCE = "DCGM_FI_DEV_GPU_UTIL", "GPU_I_ID"
MAX_PODS = 20_000  # of one producer; more are a mistake, and would cost memory
TOLD_INTERVALS = 3.0  # a name is a UID's for so long: a StatefulSet's next pod has the name, and another UID
# A pod: its namespace and name, or "" and its UID.
Pod = tuple[str, str]


class GaugeReading(NamedTuple):
    """One gauge of one pod, or of a part of it.

    pod: namespace and name, or "" and the UID.
    rank: place of the row that made it; of several rows for one gauge the first that tells counts.
    rule: that row: which gauge it is, and how parts become one.
    part: which engine or GPU of the pod it is of.
    value: in the gauge's unit.
    at: when it was measured, UTC epoch seconds.
    """

    pod: Pod
    rank: int
    rule: GaugeRule
    part: tuple[str, ...]
    value: float
    at: float

    @property
    def name(self) -> str:
        """The gauge, as samples have it on the wire."""
        return self.rule.gauge


AnyReading = GaugeReading | CountReading


class Readings(NamedTuple):
    """What one record says.

    readings: in the record's order.
    dropped: why values that the policy maps are none, each with its reason.
    unmapped: series whose name no row has; nobody asked for them.
    """

    readings: tuple[AnyReading, ...]
    dropped: tuple[Rejection, ...]
    unmapped: int


class ToldUids:
    """UIDs that a producer told beside a pod's name: elsewhere it may tell of the same pod by the name alone.

    As vLLM's series do beside DCGM's. `seconds`: how long a name is a UID's after nobody has told both.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._uids: dict[Pod, tuple[str, float]] = {}  # by namespace and name, and when it came; the oldest first

    def tell(self, named: Pod, uid: str, now: float) -> None:
        """Take one."""
        self._uids.pop(named, None)
        self._uids[named] = uid, now
        if len(self._uids) > MAX_PODS:
            del self._uids[next(iter(self._uids))]

    def whose(self, named: Pod, now: float) -> Pod:
        """The pod of this namespace and name by its UID, as it is where that is not known."""
        uid, at = self._uids.get(named, ("", now))
        return ("", uid) if uid and now - at <= self._seconds else named


class ProducerMapping:
    """A producer's records to readings. `producer`: the entry of the policy."""

    def __init__(self, producer: MetricProducer) -> None:
        self.producer = producer
        self._decode = DECODERS[producer.decoder]
        self._uids = ToldUids(TOLD_INTERVALS * producer.interval_seconds)
        self._rules: dict[str, tuple[int, GaugeRule]] = {}
        for rank, rule in enumerate(producer.rules):
            self._rules.setdefault(plain(rule.metric), (rank, rule))

    def read(self, value: bytes, position: Position, kafka_timestamp: float, now: float) -> Readings | Rejection:
        """The readings in one record; a Rejection where nothing of it can be read. Times in UTC epoch seconds."""
        readings: list[AnyReading] = []
        dropped: list[Rejection] = []
        unmapped = 0
        try:
            for series in self._decode(value):
                try:
                    if isinstance(series, RejectedError):
                        raise series
                    name = plain(series.name)
                    ranked = self._rules.get(name)
                    if ranked is not None and not (name == OF_WHOLE_GPUS and series.labels.get(INSTANCE)):
                        readings.append(self._reading(series, *ranked, kafka_timestamp, now))
                    elif counts(series.name):
                        readings += self._counts(series, kafka_timestamp, now)
                    else:
                        unmapped += 1
                except RejectedError as rejected:
                    dropped.append(rejected.at(position, now))
        except RejectedError as rejected:
            return rejected.at(position, now)
        if dropped and not readings and not unmapped and len(dropped) == 1:
            return dropped[0]
        return Readings(tuple(readings), tuple(dropped), unmapped)

    def _reading(
        self, series: MetricSeries, rank: int, rule: GaugeRule, kafka_timestamp: float, now: float
    ) -> GaugeReading:
        """Raises RejectedError."""
        if not isfinite(series.value):
            raise RejectedError(Reason.NOT_FINITE, f"{series.name} is {series.value}: leave out what is unknown")
        value = series.value * rule.factor
        if impossible({rule.gauge: value}):
            raise RejectedError(Reason.IMPOSSIBLE_GAUGE, f"{series.name} {series.value:g} cannot be {rule.gauge}")
        labels = self.producer.labels
        part = tuple(series.labels.get(label, "") for label in labels.parts)
        return GaugeReading(self._pod(series, now), rank, rule, part, value, _instant(series, kafka_timestamp, now))

    def _counts(self, series: MetricSeries, kafka_timestamp: float, now: float) -> list[CountReading]:
        """What a counter or a bucket counts, by each row that reads it. Raises RejectedError."""
        if not isfinite(series.value) or series.value < 0.0:
            raise RejectedError(Reason.NOT_FINITE, f"{series.name} is {series.value}: nothing is counted so")
        pod, at = self._pod(series, now), _instant(series, kafka_timestamp, now)
        part = tuple(series.labels.get(label, "") for label in (*self.producer.labels.parts, *PARTS))
        upper = _upper(series) if plain(series.name).endswith(BUCKET) else None
        return [
            CountReading(pod, rank, source, part, upper, series.value, at)
            for rank, source in rows_of(series.name, series.labels)
        ]

    def _pod(self, series: MetricSeries, now: float) -> Pod:
        """Raises RejectedError where no label says whose the value is."""
        # What an exporter tells of others (DCGM's) was collected from its own pod, and says itself whose it is.
        pod = self._named(series.own or {}, now) or self._named(series.labels, now)
        if pod is not None:
            return pod
        missing = "no namespace" if _first(series.labels, self.producer.labels.pod) else "no pod"
        known = ", ".join(sorted(series.labels)[:12]) or "none"
        detail = f"{series.name} names {missing}; its labels: {known}. Add them, or name them in producers.labels"
        raise RejectedError(Reason.NO_POD, detail)

    def _named(self, labels: Mapping[str, str], now: float) -> Pod | None:
        names = self.producer.labels
        uid, namespace, name = (_first(labels, each) for each in (names.uid, names.namespace, names.pod))
        named = (namespace, name) if namespace and name else None
        if uid:
            # Beside two pods' names, an exporter's own and that of whom it tells, nobody knows whose the UID is.
            if named is not None and _agree(labels, names.namespace) and _agree(labels, names.pod):
                self._uids.tell(named, uid, now)
            return "", uid
        return None if named is None else self._uids.whose(named, now)


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((text for name in names if (text := labels.get(name))), "")


def _agree(labels: Mapping[str, str], names: tuple[str, ...]) -> bool:
    """Whether those of the labels `names` that are present have the same value."""
    return len({text for name in names if (text := labels.get(name))}) <= 1


def _instant(series: MetricSeries, kafka_timestamp: float, now: float) -> float:
    """Raises RejectedError."""
    at = kafka_timestamp if series.at is None else series.at
    if at - now > MAX_AHEAD_SECONDS:
        detail = f"{series.name} is {at - now:.0f} s ahead: set the producer's clock"
        raise RejectedError(Reason.TIME_AHEAD, detail)
    if not at > 0:
        raise RejectedError(Reason.NO_TIME, f"{series.name} has no time since 1970, nor has its record")
    return at


def _upper(series: MetricSeries) -> float:
    """Raises RejectedError."""
    text = series.labels.get(UPPER, "")
    try:
        upper = float(text)
    except ValueError:
        upper = nan
    if isnan(upper):
        detail = f"{series.name} is a bucket whose label `{UPPER}` is {text!r}: keep that label"
        raise RejectedError(Reason.INVALID_DATA, detail)
    return upper
