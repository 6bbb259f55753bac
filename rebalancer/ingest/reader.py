"""Records to events to the sink: everything between a batch from Kafka and the state, without waiting for anything."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import inf

import structlog

from rebalancer.domain.events import CapacityNotice, Event, MetricSample, Position, Rejection
from rebalancer.domain.producers import MetricProducer
from rebalancer.ingest.aggregated import Aggregated, decode_readings
from rebalancer.ingest.completeness import Completeness
from rebalancer.ingest.decode import Mended, Several, decode_metric, decode_override
from rebalancer.ingest.envelope import Headers
from rebalancer.ingest.gauges import IMPOSSIBLE
from rebalancer.ingest.notices import Partly, decode_notice
from rebalancer.ingest.override_queue import OverrideQueue, QueuedOverride
from rebalancer.ingest.producers.stream import ProducerStream
from rebalancer.ingest.rejected import Reason, rejection
from rebalancer.ingest.signed import SignedOverride
from rebalancer.kafka.dead_letters import DeadLetters, Letter
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.records import ConsumerRecord, TopicPartition

REMEMBERED_IDS = 10_000
LINE_EVERY_SECONDS = 3600.0
MOST_LINES = 100  # of gauges that are left out, in that time: the rest is in the counters
PASSING = frozenset({Reason.NOT_APPLIED, Reason.TIME_AHEAD})  # whoever reads such a record again finds it good
LETTER_EVERY_SECONDS = 60.0  # one about the same fault of a producer; it may send that every second, for ever

Sink = Callable[[list[Event]], None]
Batch = Mapping[TopicPartition, Sequence[ConsumerRecord]]
Decoded = (
    MetricSample | Mended | Several | Aggregated | tuple[CapacityNotice, ...] | Partly | SignedOverride | Rejection
)
Decoder = Callable[[bytes, Headers, Position, float, float], Decoded]

DECODERS: dict[str, Decoder] = {
    "metrics": decode_metric,
    "readings": decode_readings,
    "notices": decode_notice,
    "overrides": decode_override,
}

log = structlog.get_logger()


class Reader:
    """Decodes batches and hands the events to `sink`, overrides to `queue`; the rest goes to `dead_letters`.

    `decoders` by full topic name. `completeness` hears how far others read for us, and its word goes to `sink`.
    `frontiers` has one per partition that is read. `counts`: events, tombstones,
    ignored (records that mean nothing to us), duplicates, unmapped (series of other producers that no row of the policy
    names), rejected.<reason>, and impossible.<gauge>.
    """

    def __init__(
        self,
        decoders: Mapping[str, Decoder],
        sink: Sink,
        dead_letters: DeadLetters,
        queue: OverrideQueue | None = None,
        completeness: Completeness | None = None,
    ) -> None:
        self.frontiers: dict[TopicPartition, Frontier] = {}
        self.counts: Counter[str] = Counter()
        self._ours = frozenset(decoders)
        self._decoders = dict(decoders)
        self._sink = sink
        self._dead_letters = dead_letters
        self._queue = queue
        self._completeness = completeness
        self._seen: dict[tuple[str, ...], None] = {}
        self._mended_at: dict[tuple[str, ...], float] = {}
        self._logged_at: dict[tuple[str, ...], float] = {}
        self._streams: dict[str, ProducerStream] = {}

    def follow(self, producers: Sequence[MetricProducer]) -> None:
        """Read the topics of these producers, and of no others; one that stays as it is keeps what it gathered.

        What is read as our own stays so, whoever names it as a producer's.
        """
        streams = {}
        for producer in producers:
            if producer.topic in self._ours:
                continue
            if producer.decoder == "rebalancer":
                self._decoders[producer.topic] = decode_metric
                continue
            known = self._streams.get(producer.topic)
            streams[producer.topic] = (
                known if known and known.producer == producer else ProducerStream(producer, self.counts)
            )
        self._streams = streams

    def read(self, batch: Batch, now: float) -> None:
        """Take a batch in. Raises nothing, whatever is in it."""
        events: list[Event] = []
        for partition, records in batch.items():
            stream = self._streams.get(partition.topic)
            if stream is None:
                self._decode(partition, records, now, events)
            else:
                self._gather(stream, records, now, events)
        for stream in self._streams.values():
            events += stream.settled(now)
        if self._completeness is not None:
            events += self._completeness.source_states(now)
        if events:
            self.counts["events"] += len(events)
            self._apply(events, batch, now)
        for partition, records in batch.items():
            if records:
                self.frontiers[partition].next_offset = records[-1].offset + 1

    def _decode(
        self, partition: TopicPartition, records: Sequence[ConsumerRecord], now: float, events: list[Event]
    ) -> None:
        topic, number = partition
        decode = self._decoders.get(topic)
        if decode is None:  # its producer left the policy; the consumer still has it for up to half a minute
            return
        known = self.frontiers[partition].known
        for record in records:
            if record.value is None:
                self.counts["tombstones"] += 1
                continue
            if record.offset in known:
                self._bury(record, known[record.offset])
                continue
            position = Position(topic, number, record.offset)
            try:
                decoded = decode(record.value, record.headers, position, record.timestamp / 1000, now)
                if type(decoded) is MetricSample:
                    events.append(decoded)
                elif isinstance(decoded, tuple):
                    events += self._fresh(decoded)
                else:
                    self._decoded(record, decoded, now, events)
            except Exception as error:
                log.exception("a record was not read")
                self._defect(record, error, now)

    def _decoded(self, record: ConsumerRecord, decoded: Decoded, now: float, events: list[Event]) -> None:
        """What is neither one sample nor only notices."""
        if isinstance(decoded, Mended):
            events.append(decoded.sample)
            self._mended(record, decoded, now)
        elif isinstance(decoded, Aggregated):
            events += decoded.samples
            self._aggregated(record, decoded)
        elif isinstance(decoded, Several):
            self._several(record, decoded, now, events)
        elif isinstance(decoded, Partly):
            events += self._fresh(decoded.notices)
            self._reject(record, decoded.rejection)
        elif isinstance(decoded, SignedOverride):
            self._queue_override(record, decoded)
        elif isinstance(decoded, Rejection):
            self._reject(record, decoded)

    def _aggregated(self, record: ConsumerRecord, aggregated: Aggregated) -> None:
        if self._completeness is not None:
            self._completeness.note(aggregated.stretch)
        if aggregated.rejected:
            self._reject(record, aggregated.rejected[0])
            self.counts.update(f"rejected.{one.reason}" for one in aggregated.rejected[1:])

    def _several(self, record: ConsumerRecord, several: Several, now: float, events: list[Event]) -> None:
        """Each part counts by itself; the record is buried once, with the first fault in it."""
        rejected: list[Rejection] = []
        for part in several.parts:
            if isinstance(part, Rejection):
                rejected.append(part)
            elif isinstance(part, Mended):
                events.append(part.sample)
                self._mended(record, part, now)
            else:
                events.append(part)
        if rejected:
            self._reject(record, rejected[0])
            self.counts.update(f"rejected.{one.reason}" for one in rejected[1:])

    def _gather(
        self, stream: ProducerStream, records: Sequence[ConsumerRecord], now: float, events: list[Event]
    ) -> None:
        for record in records:
            if record.value is None:
                self.counts["tombstones"] += 1
                continue
            position = Position(record.topic, record.partition, record.offset)
            try:
                samples, why = stream.take(record.value, position, record.timestamp / 1000, now)
            except Exception as error:
                log.exception("a record was not read")
                self._defect(record, error, now)
                continue
            events += samples
            if why is not None:
                self._bury(record, why)

    def _queue_override(self, record: ConsumerRecord, signed: SignedOverride) -> None:
        frontier = self.frontiers[TopicPartition(record.topic, record.partition)]
        if self._queue is not None:
            self._queue.put(QueuedOverride(record, signed, frontier))

    def _mended(self, record: ConsumerRecord, mended: Mended, now: float) -> None:
        """What was left out is counted; the record itself can be read in the dead-letter topic, at times.

        A gauge that nobody knows is told once by its name: a whole fleet of one exporter has it.
        """
        self.counts.update(f"{IMPOSSIBLE}{gauge}" for gauge in mended.left_out)
        source, reason = mended.sample.source, mended.rejection.reason
        about = (reason, *mended.unknown) if reason == Reason.UNKNOWN_GAUGE else (reason, source)
        known = 0 <= now - self._mended_at.get(about, -inf) < LETTER_EVERY_SECONDS
        if reason == Reason.UNKNOWN_GAUGE or not known:
            self.counts[f"rejected.{reason}"] += 1
        if known:
            return
        if len(self._mended_at) >= REMEMBERED_IDS:
            self._mended_at.clear()
        self._mended_at[about] = now
        self._log_left_out(mended, now)
        self._bury(record, mended.rejection)

    def _log_left_out(self, mended: Mended, now: float) -> None:
        """A line an hour about the same gauges, with their first source; names come from outside and may be many."""
        gauges = (*mended.left_out, *mended.unknown)
        self._logged_at = {one: at for one, at in self._logged_at.items() if 0 <= now - at < LINE_EVERY_SECONDS}
        if gauges in self._logged_at or len(self._logged_at) >= MOST_LINES:
            return
        self._logged_at[gauges] = now
        where = "samples: `rebalancer events check TOPIC`, and the dead letters"
        log.warning("gauges are left out", source=mended.sample.source, why=mended.rejection.detail, which=where)

    def _fresh(self, notices: tuple[CapacityNotice, ...]) -> tuple[CapacityNotice, ...]:
        """The notices of one record without those that came with a record before."""
        if not notices:
            self.counts["ignored"] += 1
        identities = dict.fromkeys(map(_identity, notices))
        known = {identity for identity in identities if identity in self._seen}
        self.counts["duplicates"] += len(known)
        self._seen |= identities
        while len(self._seen) > REMEMBERED_IDS:
            del self._seen[next(iter(self._seen))]
        return tuple(one for one in notices if _identity(one) not in known)

    def _apply(self, events: list[Event], batch: Batch, now: float) -> None:
        try:
            self._sink(events)
        except Exception:  # one bad event must not lose its neighbours
            log.exception("events were not applied together, now one by one", events=len(events))
            self._apply_singly(events, batch, now)

    def _apply_singly(self, events: list[Event], batch: Batch, now: float) -> None:
        """The sink failed on one of them: find it, so that its neighbours count. Applying twice is applying once."""
        for event in events:
            try:
                self._sink([event])
            except Exception as error:
                log.exception("an event was not applied")
                if isinstance(event, MetricSample | CapacityNotice) and event.position is not None:
                    position = event.position
                    records = batch.get(TopicPartition(position.topic, position.partition), ())
                    record = next((one for one in records if one.offset == position.offset), None)
                    if record is not None and position.topic not in self._streams:
                        self._defect(record, error, now)

    def _defect(self, record: ConsumerRecord, error: Exception, now: float) -> None:
        position = Position(record.topic, record.partition, record.offset)
        why = f"{type(error).__name__}: {error}: a defect of the rebalancer, report it with this record"
        self._reject(record, rejection(position, now, Reason.NOT_APPLIED, why))

    def _reject(self, record: ConsumerRecord, why: Rejection) -> None:
        self.counts[f"rejected.{why.reason}"] += 1
        self._bury(record, why)

    def _bury(self, record: ConsumerRecord, why: Rejection) -> None:
        frontier = self.frontiers[TopicPartition(record.topic, record.partition)]
        self._dead_letters.bury(Letter(record, why, frontier, passing=why.reason in PASSING))


def _identity(notice: CapacityNotice) -> tuple[str, ...]:
    """What two notices have in common that are one: some producers give those of one second the same id."""
    return notice.source, notice.id, notice.node or "", notice.instance_id or ""
