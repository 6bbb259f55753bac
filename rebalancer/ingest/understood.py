"""What the service would understand of a record, told before it is asked to decide by it. Pure; no input raises."""

from collections.abc import Sequence

from msgspec import Struct, to_builtins

from rebalancer.domain.events import CapacityNotice, MetricSample, Position, Rejection
from rebalancer.domain.policy import Policy
from rebalancer.domain.producers import MetricProducer
from rebalancer.domain.readings import FRESH_INTERVALS, LEAST_FRESH_SECONDS, MOST_LAG_SECONDS
from rebalancer.ingest.decode import Mended, Several, decode_metric
from rebalancer.ingest.envelope import Headers
from rebalancer.ingest.notices import Partly, decode_notice
from rebalancer.ingest.producers.mapping import ProducerMapping, Readings
from rebalancer.ingest.reader import Decoded
from rebalancer.kafka.broker import TOPICS

NOTICES = "notices"
OWN = MetricProducer(topic="metrics", decoder="rebalancer")


class SentRecord(Struct, frozen=True):
    """A record as it stands in Kafka or in a file.

    where: its topic, partition and offset, or file and line.
    value: its bytes; None of a tombstone.
    headers: as Kafka has them.
    at: Kafka's timestamp, UTC epoch seconds.
    """

    where: str
    value: bytes | None
    headers: Headers
    at: float


class ToldGauge(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One gauge or counter that a record tells.

    of: `namespace/pod`, the pod's UID, or the model where it is of all of it.
    gauge: its name as in our own format.
    value: in its unit.
    old_seconds: its age where that is too much to count, however late its producer usually is; None where it is not.
    """

    of: str
    gauge: str
    value: float
    old_seconds: float | None = None


class Understood(Struct, frozen=True):
    """What becomes of one record.

    where: as of the record.
    readings: gauges that count.
    notices: sentences about nodes that go.
    dropped: `reason: detail` of each part that does not count.
    unmapped: series that no row of the policy names.
    tombstone: whether it has no value at all: nobody's fault, and no reading.
    """

    where: str
    readings: tuple[ToldGauge, ...] = ()
    notices: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    unmapped: int = 0
    tombstone: bool = False


class Understanding:
    """How records of one topic are read: `producer`'s rows, our own metrics (None), or notices."""

    def __init__(self, producer: MetricProducer | None = None, *, notices: bool = False) -> None:
        self._decode = decode_notice if notices else decode_metric
        foreign = producer is not None and producer.decoder != OWN.decoder
        self._mapping = ProducerMapping(producer) if producer is not None and foreign else None

    def of(self, record: SentRecord, now: float) -> Understood:
        """What one record says at `now` (UTC epoch seconds)."""
        if record.value is None:
            return Understood(record.where, tombstone=True)
        here = Position(record.where, 0, 0)
        if self._mapping is not None:
            read = self._mapping.read(record.value, here, record.at, now)
            return _mapped(record.where, read, self._mapping.producer.interval_seconds, now)
        return _own(record.where, self._decode(record.value, record.headers, here, record.at, now), now)


def understanding_of(topic: str, prefix: str, policy: Policy | None) -> Understanding | None:
    """How the service reads metrics or notices from the topic with this full name; None: it does not."""
    if topic == f"{prefix}{OWN.topic}":
        return Understanding()
    if topic == f"{prefix}{NOTICES}":
        return Understanding(notices=True)
    if is_ours(topic, prefix):
        return None
    entry = next((one for one in (policy.producers if policy else ()) if one.topic == topic), None)
    return None if entry is None else Understanding(entry)


def is_ours(topic: str, prefix: str) -> bool:
    """Whether it is one of our own topics: the service passes over what a policy says of a producer there."""
    return topic.startswith(prefix) and topic.removeprefix(prefix) in TOPICS


def _mapped(where: str, read: Readings | Rejection, interval_seconds: float, now: float) -> Understood:
    if isinstance(read, Rejection):
        return Understood(where, dropped=(_why(read),))
    gauges = tuple(
        ToldGauge("/".join(filter(None, one.pod)), one.name, one.value, _too_old(one.at, interval_seconds, now))
        for one in read.readings
    )
    return Understood(where, gauges, (), tuple(_why(one) for one in read.dropped), read.unmapped)


def _own(where: str, decoded: Decoded, now: float) -> Understood:
    readings: list[ToldGauge] = []
    notices: list[str] = []
    dropped: list[str] = []
    for part in decoded.parts if isinstance(decoded, Several) else (decoded,):
        match part:
            case MetricSample():
                readings += _of_sample(part, now)
            case Mended():
                readings += _of_sample(part.sample, now)
                dropped.append(_why(part.rejection))
            case Partly():
                notices += _sentences(part.notices)
                dropped.append(_why(part.rejection))
            case Rejection():
                dropped.append(_why(part))
            case tuple():
                notices += _sentences(part)
    return Understood(where, tuple(readings), tuple(notices), tuple(dropped))


def _of_sample(sample: MetricSample, now: float) -> list[ToldGauge]:
    pod = f"{sample.namespace}/{sample.pod}" if sample.namespace else sample.pod
    values: dict[str, float] = to_builtins(sample.gauges) | (to_builtins(sample.counters) if sample.counters else {})
    old = _too_old(sample.at, sample.interval_seconds, now)
    return [ToldGauge(pod or sample.model, name, value, old) for name, value in values.items() if name != "startTime"]


def _too_old(at: float, interval_seconds: float, now: float) -> float | None:
    age, fresh_seconds = now - at, max(LEAST_FRESH_SECONDS, FRESH_INTERVALS * interval_seconds)
    return age if age > MOST_LAG_SECONDS + fresh_seconds else None


def _sentences(notices: Sequence[CapacityNotice]) -> list[str]:
    return [
        f"{one.node or one.instance_id} {'stays' if one.cancelled else 'goes'}: {one.kind} ({one.confidence})"
        for one in notices
    ]


def _why(rejection: Rejection) -> str:
    return f"{rejection.reason}: {rejection.detail}"
