"""Kafka in memory: logs with offsets, producers that lose, double and delay, and each replica's way there."""

import asyncio
import random
from collections.abc import Callable, Sequence
from itertools import dropwhile

from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError
from msgspec.structs import replace

from rebalancer.domain.codec import from_bytes, to_bytes
from rebalancer.domain.events import CapacityNotice, MetricSample, Position
from rebalancer.ingest.reader import Decoder, Reader
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.consumer import SHARE
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.outbox import Headers, Outbox
from rebalancer.kafka.topic_past import PastUnreadable, TopicPast
from rebalancer.obs.clock import Clock
from tests.schedules.links import KafkaLink
from tests.schedules.virtual import START, Host, VirtualLoop

BROKER = Broker("")
METRICS, NOTICES = BROKER.topic("metrics"), BROKER.topic("notices")
DECISIONS, STATE = BROKER.topic("decisions"), BROKER.topic("state")
READ = (TopicPartition(NOTICES, 0), TopicPartition(METRICS, 0), TopicPartition(METRICS, 1))
ACK_SECONDS = 0.004
UNHEARD_SECONDS = 6.0  # a send waits for 5


class Logs:
    """All topics. `losing`, `doubling`, `late_seconds`: what becomes of the samples that exporters send.

    `held`: partitions from which nothing is fetched for a while. `news`: who is to hear that something can be.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self.losing = self.doubling = False
        self.late_seconds = 0.0
        self.held: set[TopicPartition] = set()
        self.news: list[Callable[[], None]] = []
        self._loop = loop
        self._records: dict[TopicPartition, list[ConsumerRecord]] = {}
        self._notices = 0

    def append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes,
        headers: Headers = (),
        sent_at: float | None = None,
    ) -> int:
        """Store one record; its offset. It is stamped when it was sent, by the sender's clock (UTC); None: just now."""
        records = self._records.setdefault(TopicPartition(topic, partition), [])
        sent_at = START + self._loop.time() if sent_at is None else sent_at
        offset, stamp = len(records), int(sent_at * 1000)
        records.append(ConsumerRecord(topic, partition, offset, stamp, 0, key, value, None, -1, len(value), headers))
        for hear in self.news:
            hear()
        return offset

    def sample(self, sample: MetricSample) -> None:
        """By an exporter; the models' keys spread over two partitions."""
        if self.losing:
            return
        key, value = sample.model.encode(), to_bytes(sample)
        for _ in range(2 if self.doubling else 1):
            if self.late_seconds:
                self._loop.elsewhere(self.late_seconds, lambda: self.append(METRICS, key[0] % 2, key, value))
            else:
                self.append(METRICS, key[0] % 2, key, value)

    def notice(self, notice: CapacityNotice) -> None:
        """By the cloud, each under an id of its own: one that takes another back is no second copy of it."""
        self._notices += 1
        value = to_bytes(replace(notice, id=f"{notice.id}-{self._notices}"))
        for _ in range(2 if self.doubling else 1):
            self.append(NOTICES, 0, None, value)

    def fetched(self, partition: TopicPartition, offset: int) -> Sequence[ConsumerRecord]:
        """What comes from there, as much as a consumer takes at a time."""
        return [] if partition in self.held else self._records.get(partition, [])[offset : offset + SHARE]

    def hold(self, which: float, seconds: float) -> bool:
        """Nothing is fetched from one partition for a while; whether it was before."""
        partition = READ[int(which * len(READ))]
        known = partition in self.held
        self.held.add(partition)
        self._loop.elsewhere(seconds, lambda: self.release(partition))
        return not known

    def release(self, *partitions: TopicPartition) -> None:
        """It is fetched from again; without a name all are."""
        self.held -= {*(partitions or READ)}
        for hear in self.news:
            hear()

    def past(self, topic: str, since: float | None = None) -> list[TopicPast]:
        """As `kafka.topic_past.read_past`."""
        records = self._records.get(TopicPartition(topic, 0), [])
        if since is not None:  # from the first of that age on, whatever is stamped what is behind it
            records = [*dropwhile(lambda record: record.timestamp < int(since * 1000), records)]
        return [TopicPast(record.key or b"", record.value, record.timestamp / 1000) for record in records]

    def forget_checkpoints(self, newest: int) -> None:
        """The last so many records of memory are gone, as after brokers that lost their disks."""
        records = self._records.get(TopicPartition(STATE, 0), [])
        memories = [place for place, record in enumerate(records) if record.key == b"memory"]
        for place in reversed(memories[-newest:] if newest else []):
            del records[place]


class KafkaWay:
    """One process's way there."""

    def __init__(self, logs: Logs, link: KafkaLink, host: Host, loop: VirtualLoop) -> None:
        self.link = link
        self._logs, self._host, self._loop = logs, host, loop
        self._waiting: list[Callable[[], None]] = []

    def past(self, topic: str, since: float | None = None) -> list[TopicPast]:
        """Raises PastUnreadable."""
        self._host.must_live()
        if self.link.away:
            raise PastUnreadable(f"topic {topic} cannot be read: connection refused")
        return self._logs.past(topic, since)

    def put(
        self, topic: str, key: bytes | None, value: bytes, headers: Headers, sent_at: float
    ) -> asyncio.Future[object]:
        """The producer has it, and tries until the brokers take it; the future is their acknowledgement."""
        self._host.must_live()
        sent: asyncio.Future[object] = self._loop.create_future()

        def arrive() -> None:
            if self.link.no_checkpoints and topic == STATE:
                answer(KafkaError("not enough replicas"))
                return
            self._logs.append(topic, 0, key, value, headers, sent_at)
            seconds = UNHEARD_SECONDS if self.link.unheard else ACK_SECONDS
            self._loop.elsewhere(seconds, lambda: answer(None))

        def answer(error: KafkaError | None) -> None:
            if not sent.done() and not sent.get_loop().is_closed():
                sent.set_result(None) if error is None else sent.set_exception(error)

        if self.link.away:
            self._waiting.append(arrive)
        else:
            self._loop.elsewhere(ACK_SECONDS, arrive)
        return sent

    def back(self) -> None:
        """The brokers answer again: what the producer held goes out, if there still is a producer."""
        waiting, self._waiting = self._waiting, []
        for arrive in waiting if self._host.alive else ():
            arrive()

    def turn(self, reader: Reader, now: float) -> bool:
        """One turn of the consumer; whether there was anything."""
        if self.link.away:
            return False
        batch = {one: self._logs.fetched(one, reader.frontiers[one].next_offset) for one in READ}
        batch = {one: records for one, records in batch.items() if records}
        reader.read(batch, now)
        return bool(batch)


class MemoryOutbox(Outbox):
    """The outbox as it is, but for the client below it."""

    def __init__(self, way: KafkaWay, clock: Clock) -> None:
        super().__init__(BROKER, clock, random.Random(1))
        self.trouble = None
        self._connected.set()
        self._way = way

    async def _put(
        self, _producer: object, topic: str, key: bytes | None, value: bytes, headers: Headers
    ) -> asyncio.Future[object]:
        return self._way.put(BROKER.topic(topic), key, value, headers, self._clock.now())


def frontiers(offsets: dict[tuple[str, int], int]) -> dict[TopicPartition, Frontier]:
    """Where a process reads on."""
    return {one: Frontier(offsets.get((one.topic, one.partition), 0)) for one in READ}


def _sample(value: bytes, _headers: object, position: Position, _stamp: float, _now: float) -> MetricSample:
    return replace(from_bytes(value, MetricSample), position=position)


def _notice(
    value: bytes, _headers: object, position: Position, _stamp: float, _now: float
) -> tuple[CapacityNotice, ...]:
    return (replace(from_bytes(value, CapacityNotice), position=position),)


DECODERS: dict[str, Decoder] = {METRICS: _sample, NOTICES: _notice}
"""Records here are the events themselves: what exporters and clouds really send is decoded in `tests/ingest`."""
