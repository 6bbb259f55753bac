"""Records to events to the sink: everything between a batch from Kafka and the state, without waiting for anything."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import inf

import structlog

from rebalancer.domain.events import CapacityNotice, Event, MetricSample, Position, Rejection
from rebalancer.ingest.decode import Mended, decode_metric, decode_override
from rebalancer.ingest.envelope import Headers
from rebalancer.ingest.gauges import IMPOSSIBLE
from rebalancer.ingest.notices import Partly, decode_notice
from rebalancer.ingest.override_queue import OverrideQueue, QueuedOverride
from rebalancer.ingest.rejected import Reason, rejection
from rebalancer.ingest.signed import SignedOverride
from rebalancer.kafka.dead_letters import DeadLetters, Letter
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.records import ConsumerRecord, TopicPartition

REMEMBERED_IDS = 10_000
MENDED_EVERY_SECONDS = 60.0  # one letter about a producer's impossible gauges; it may send them every second, for ever

Sink = Callable[[list[Event]], None]
Batch = Mapping[TopicPartition, Sequence[ConsumerRecord]]
Decoded = MetricSample | Mended | tuple[CapacityNotice, ...] | Partly | SignedOverride | Rejection
Decoder = Callable[[bytes, Headers, Position, float, float], Decoded]

DECODERS: dict[str, Decoder] = {
    "metrics": decode_metric,
    "notices": decode_notice,
    "overrides": decode_override,
}

log = structlog.get_logger()


class Reader:
    """Decodes batches and hands the events to `sink`, overrides to `queue`; the rest goes to `dead_letters`.

    `decoders` by full topic name. `frontiers` has one per partition that is read. `counts`: events, tombstones,
    ignored (records that mean nothing to us), duplicates, rejected.<reason>, and impossible.<gauge>.
    """

    def __init__(
        self,
        decoders: Mapping[str, Decoder],
        sink: Sink,
        dead_letters: DeadLetters,
        queue: OverrideQueue | None = None,
    ) -> None:
        self.frontiers: dict[TopicPartition, Frontier] = {}
        self.counts: Counter[str] = Counter()
        self._decoders = decoders
        self._sink = sink
        self._dead_letters = dead_letters
        self._queue = queue
        self._seen: dict[tuple[str, str], None] = {}
        self._mended_at: dict[str, float] = {}

    def read(self, batch: Batch, now: float) -> None:
        """Take a batch in. Raises nothing, whatever is in it."""
        events: list[Event] = []
        for partition, records in batch.items():
            self._decode(partition, records, now, events)
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
        decode = self._decoders[topic]
        for record in records:
            if record.value is None:
                self.counts["tombstones"] += 1
                continue
            position = Position(topic, number, record.offset)
            decoded = decode(record.value, record.headers, position, record.timestamp / 1000, now)
            if type(decoded) is MetricSample:
                events.append(decoded)
            elif isinstance(decoded, Mended):
                events.append(decoded.sample)
                self._mended(record, decoded, now)
            elif isinstance(decoded, tuple):
                events += self._fresh(decoded)
            elif isinstance(decoded, Partly):
                events += self._fresh(decoded.notices)
                self._reject(record, decoded.rejection)
            elif isinstance(decoded, SignedOverride):
                self._queue_override(record, decoded)
            elif isinstance(decoded, Rejection):
                self._reject(record, decoded)

    def _queue_override(self, record: ConsumerRecord, signed: SignedOverride) -> None:
        frontier = self.frontiers[TopicPartition(record.topic, record.partition)]
        if self._queue is not None:
            self._queue.put(QueuedOverride(record, signed, frontier))

    def _mended(self, record: ConsumerRecord, mended: Mended, now: float) -> None:
        """Each gauge that was left out is counted; the record itself can be read in the dead-letter topic, at times."""
        self.counts.update(f"{IMPOSSIBLE}{gauge}" for gauge in mended.left_out)
        source = mended.sample.source
        if 0 <= now - self._mended_at.get(source, -inf) < MENDED_EVERY_SECONDS:
            return
        if len(self._mended_at) >= REMEMBERED_IDS:
            self._mended_at.clear()
        self._mended_at[source] = now
        log.warning("gauges cannot be and are left out", source=source, why=mended.rejection.detail)
        self._reject(record, mended.rejection)

    def _fresh(self, notices: tuple[CapacityNotice, ...]) -> tuple[CapacityNotice, ...]:
        """The notices of one record without those whose source and id came with a record before."""
        if not notices:
            self.counts["ignored"] += 1
        identities = dict.fromkeys((one.source, one.id) for one in notices)
        known = {identity for identity in identities if identity in self._seen}
        self.counts["duplicates"] += len(known)
        self._seen |= identities
        while len(self._seen) > REMEMBERED_IDS:
            del self._seen[next(iter(self._seen))]
        return tuple(one for one in notices if (one.source, one.id) not in known)

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
                    records = batch[TopicPartition(position.topic, position.partition)]
                    record = next(one for one in records if one.offset == position.offset)
                    why = f"{type(error).__name__}: {error}: a defect of the rebalancer, report it with this record"
                    self._reject(record, rejection(position, now, Reason.NOT_APPLIED, why))

    def _reject(self, record: ConsumerRecord, why: Rejection) -> None:
        self.counts[f"rejected.{why.reason}"] += 1
        frontier = self.frontiers[TopicPartition(record.topic, record.partition)]
        self._dead_letters.bury(Letter(record, why, frontier))
