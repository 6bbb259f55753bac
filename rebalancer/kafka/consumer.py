"""The one consumer: every partition of the topics it is to read, by `assign`, without group or commits.

Urgent topics are taken first in each turn and the bulk topic only a share at a time, so that a flood of the latter
delays neither them nor the event loop.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn, Protocol

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, TopicAuthorizationFailedError

from rebalancer.kafka.broker import BROKER_ERRORS, REQUEST_SECONDS, Broker, bring_up, finish
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.offsets import starts
from rebalancer.kafka.progress import Progress
from rebalancer.kafka.unreadable import pass_unreadable
from rebalancer.obs.backoff import Backoff
from rebalancer.obs.clock import Clock

# Records per share of a turn: at most 20 ms of decoding when all of them are rejected, 1-2 ms when none is.
SHARE = 250
IDLE_MS = 200
LOOK_SECONDS = 1.0
TOPICS_SECONDS = 30.0
MISSING_TOPICS_SECONDS = 2.0
STUCK_SECONDS = 60.0
BACKOFF_SECONDS = (1.0, 10.0)  # the first and the longest
STOP_SECONDS = 5.0

FETCH = {
    "fetch_max_wait_ms": 100,  # the longest a partition can be kept out of a fetch that waits for the others
    "max_partition_fetch_bytes": 512 * 1024,
    "fetch_max_bytes": 16 * 1024 * 1024,
}

log = structlog.get_logger()


class RotatedError(Exception):
    """The files with our credentials have changed: a new client reads them."""


class StuckError(Exception):
    """The client runs, but nothing comes through."""


Batch = Mapping[TopicPartition, Sequence[ConsumerRecord]]


class BatchReader(Protocol):
    """Receiver of what is read. `frontiers` has one per partition, from its assignment on."""

    frontiers: dict[TopicPartition, Frontier]

    def read(self, batch: Batch, now: float) -> None:
        """Take a batch in; called in the event loop. Returns at once and raises nothing, whatever is in it."""
        ...


class Consumer:
    """Run `run()` as a task: batches go to `reader`.

    `since_seconds`: the topics by name without prefix, with how far back each is read where no offset is known;
    `bulk` is the one of them that waits for the others, as do those that `follow` adds, and `bulk_share` the records
    that are taken of these at once; a start reads these no further back than that, however old its checkpoint is.
    `read_up_to`: next offset per (topic, partition) from a checkpoint. `trouble` says why nothing is read, or which
    topics are not for lack of a right, None while all are that we see.
    `counts`: resyncs (what was to be read next is gone: what there is was read again), unreadable (records that
    the client cannot decode, which are given up) and reconnects.
    """

    def __init__(  # noqa: PLR0913  # the parts it connects
        self,
        broker: Broker,
        clock: Clock,
        rng: random.Random,
        reader: BatchReader,
        since_seconds: Mapping[str, float],
        bulk: str,
        read_up_to: Mapping[tuple[str, int], int],
        bulk_share: int = SHARE,
    ) -> None:
        self.trouble: str | None = "not connected yet"
        self.counts: Counter[str] = Counter()
        self._broker = broker
        self._clock = clock
        self._reader = reader
        self._since_seconds = since_seconds
        self._bulk_topic = broker.topic(bulk)
        self._bulk_share = bulk_share
        self._others: dict[str, float] = {}
        self._read_up_to = dict(read_up_to)
        self._backoff = Backoff(rng, *BACKOFF_SECONDS)
        self._progress = Progress(clock.monotonic())
        self._there: frozenset[TopicPartition] = frozenset()
        self._missing_monotonic: dict[str, float] = {}  # topics that we do not see, each since when
        self._refused: dict[str, float] = {}  # topics that we may not read, with the monotonic instant to try again
        self._urgent: tuple[TopicPartition, ...] = ()
        self._bulk: tuple[TopicPartition, ...] = ()
        self._faltered = False
        self._logged: set[object] = set()  # kinds of trouble since all was read
        self._credentials: tuple[object, ...] = ()

    def follow(self, since_seconds: Mapping[str, float]) -> None:
        """Read these topics too, by their full names, and of such no others; within `TOPICS_SECONDS`."""
        self._others = dict(since_seconds)

    def safe_offsets(self) -> dict[tuple[str, int], int]:
        """For the checkpoint: next offset per (topic, partition) below which nothing can be lost."""
        return self._read_up_to | {
            (one.topic, one.partition): frontier.safe for one, frontier in self._reader.frontiers.items()
        }

    def stuck_seconds(self) -> float:
        """How long the partition that is worst off has not made progress."""
        return self._progress.stuck_seconds(self._clock.monotonic())

    def stuck_by_topic(self) -> dict[str, float]:
        """The same for each topic, by its name without prefix; of those that `follow` adds by the full one.

        One that is not seen makes no progress either.
        """
        return self._named(self._progress.stuck_by_topic(self._clock.monotonic())) | self.missing_by_topic()

    def behind_by_topic(self) -> dict[str, float]:
        """How long each topic has not been read to where it ended, by the same names; up to 2 s is not behind."""
        return self._named(self._progress.behind_by_topic(self._clock.monotonic()))

    def missing_by_topic(self) -> dict[str, float]:
        """How long each topic that does not exist, or that we may not see, has not been seen; by the same names."""
        monotonic = self._clock.monotonic()
        return self._named({topic: monotonic - since for topic, since in self._missing_monotonic.items()})

    def _named(self, seconds: Mapping[str, float]) -> dict[str, float]:
        names = {self._broker.topic(name): name for name in self._since_seconds} | {full: full for full in self._others}
        return {name: seconds[full] for full, name in names.items() if full in seconds}

    async def run(self) -> NoReturn:
        """Consume, and connect again whatever happens. Raises nothing but cancellation."""
        while True:
            started_monotonic = self._clock.monotonic()
            try:
                await self._session(started_monotonic)
            except Exception as error:  # noqa: BLE001  # a defect of the client ends its session, not the service
                self._troubled(f"Kafka at {self._broker.bootstrap} cannot be read: {error!r}", type(error))
            self.counts["reconnects"] += 1
            if self._clock.monotonic() - started_monotonic > STUCK_SECONDS:  # it worked until now
                self._backoff.succeeded()
            await self._clock.sleep(self._backoff.failed())

    async def _session(self, started_monotonic: float) -> None:
        """One consumer, until it fails."""
        self._credentials = await self._broker.credentials()
        self._there = await self._find_partitions()
        finding = asyncio.create_task(self._keep_finding_partitions(), name="kafka-partitions")
        consumer = AIOKafkaConsumer(
            **await self._broker.connection(),
            **FETCH,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
        )
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await bring_up(consumer.start())
            await self._consume(consumer, started_monotonic)
        finally:
            finding.cancel()
            if not await finish(consumer.stop(), STOP_SECONDS):
                # A stop that failed half-way leaves the connections open, and has no second try.
                await finish(consumer._client.close(), STOP_SECONDS)  # noqa: SLF001  no public call does it

    async def _find_partitions(self) -> frozenset[TopicPartition]:
        """All partitions there are of our topics; one may come, grow or go at any time."""
        others = tuple(self._others)
        there = await self._broker.make_topics(others)
        topics = [*(self._broker.topic(name) for name in self._since_seconds), *others]
        self._miss([topic for topic in topics if topic not in there])
        return frozenset(TopicPartition(topic, index) for topic in topics for index in range(there.get(topic, 0)))

    def _miss(self, topics: Sequence[str]) -> None:
        """These topics are not seen now: that is told when it begins and when it ends."""
        monotonic = self._clock.monotonic()
        missing = {topic: self._missing_monotonic.get(topic, monotonic) for topic in topics}
        if missing and missing.keys() != self._missing_monotonic.keys():
            log.warning("topics that are not seen: none such, or no right to Describe", topics=sorted(missing))
        elif self._missing_monotonic and not missing:
            log.info("all topics are seen")
        self._missing_monotonic = missing

    async def _keep_finding_partitions(self) -> None:
        while True:
            await self._clock.sleep(MISSING_TOPICS_SECONDS if self._missing_monotonic else TOPICS_SECONDS)
            with suppress(*BROKER_ERRORS):
                self._there = await self._find_partitions()

    async def _consume(self, consumer: AIOKafkaConsumer, started_monotonic: float) -> None:
        assigned = await self._assign(consumer)
        self._recovered()
        looked_monotonic = started_monotonic
        while True:
            if self._readable() != assigned:
                assigned = await self._assign(consumer)
            monotonic = self._clock.monotonic()
            if monotonic - looked_monotonic >= LOOK_SECONDS:
                looked_monotonic = monotonic
                await self._look(consumer, monotonic - started_monotonic)
            await self._turn(consumer)

    async def _assign(self, consumer: AIOKafkaConsumer) -> frozenset[TopicPartition]:
        """Read all partitions there are, as far as we may."""
        readable = self._readable()
        partitions = sorted(readable)
        if partitions:
            await self._seek(consumer, partitions)
        self._bulk = tuple(one for one in partitions if self._waits(one))
        self._urgent = tuple(one for one in partitions if not self._waits(one))
        self._progress.follow(self._there, self._clock.monotonic())
        return readable

    def _waits(self, partition: TopicPartition) -> bool:
        return partition.topic == self._bulk_topic or partition.topic in self._others

    def _readable(self) -> frozenset[TopicPartition]:
        """All partitions there are, but for those that we were not allowed to read a moment ago."""
        now = self._clock.monotonic()
        return frozenset(one for one in self._there if self._refused.get(one.topic, now) <= now)

    async def _look(self, consumer: AIOKafkaConsumer, session_seconds: float) -> None:
        """Is anything coming through? Raises StuckError when nothing has for a minute, RotatedError."""
        if await self._broker.credentials() != self._credentials:
            raise RotatedError("the files with our credentials have changed: connecting anew")
        monotonic = self._clock.monotonic()
        await self._progress.look(consumer, monotonic)
        silent = self._progress.stuck_by_topic(monotonic)
        self._refused = {topic: again for topic, again in self._refused.items() if silent.get(topic, 0.0) > 0.0}
        stuck = max((seconds for topic, seconds in silent.items() if topic not in self._refused), default=0.0)
        if min(stuck, session_seconds) > STUCK_SECONDS:
            raise StuckError(f"no progress for {stuck:.0f} s")
        if not self._faltered:
            self._recovered()
        self._faltered = False

    async def _seek(self, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]) -> None:
        """Assign the partitions and go on where they were read up to."""
        frontiers = self._reader.frontiers
        read_up_to = self._read_up_to | {one: frontier.next_offset for one, frontier in frontiers.items()}
        old = {one for one in partitions if self._waits(one) and one not in frontiers}
        begin = await starts(consumer, partitions, self._since(), read_up_to, old)
        consumer.assign(partitions)
        for one, offset in begin.items():
            consumer.seek(one, offset)
            if one not in frontiers:
                frontiers[one] = Frontier(offset)

    def _since(self) -> dict[str, float]:
        """From which instant on each topic is read where no offset is known."""
        now = self._clock.now()
        ours = {self._broker.topic(name): seconds for name, seconds in self._since_seconds.items()}
        return {topic: now - seconds for topic, seconds in (ours | self._others).items()}

    async def _turn(self, consumer: AIOKafkaConsumer) -> None:
        """One share of each kind, the urgent ones first; without any of them wait a moment for more."""
        try:
            busy = await self._take(consumer, self._urgent, SHARE)
            busy = await self._take(consumer, self._bulk, self._bulk_share) or busy
            if busy:
                await asyncio.sleep(0)  # noqa: TID251  # no wait: the loop's other tasks have their turn
            elif self._urgent or self._bulk:
                await self._take(consumer, self._urgent + self._bulk, self._bulk_share, IDLE_MS)
            else:
                await self._clock.sleep(LOOK_SECONDS)
        except OffsetOutOfRangeError as error:
            await self._resync(consumer, error.args[0])
        except TopicAuthorizationFailedError as error:
            self._refused[error.args[0]] = self._clock.monotonic() + TOPICS_SECONDS
            self._recovered()
        except KafkaError as error:
            self._faltered = True
            self._troubled(f"records cannot be read: {error!r}", type(error))
            await self._clock.sleep(LOOK_SECONDS)

    async def _take(
        self, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition], share: int, wait_ms: int = 0
    ) -> bool:
        """Read a share of these partitions' records; whether there were any."""
        if not partitions:
            return False
        try:
            batch = await consumer.getmany(*partitions, timeout_ms=wait_ms, max_records=share)
        except UnicodeDecodeError:
            frontiers = {one: self._reader.frontiers[one] for one in partitions}
            self.counts["unreadable"] += await pass_unreadable(consumer, frontiers, share, self._read)
            return True
        if batch or wait_ms:  # readers hold what may be half a sample: they are asked when nothing comes, too
            self._read(batch)
        return bool(batch)

    def _read(self, batch: Batch) -> None:
        self._reader.read(batch, self._clock.now())

    async def _resync(self, consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]) -> None:
        """What was to be read next is gone (retention, a topic made anew): read what there is."""
        first = await consumer.beginning_offsets(list(partitions))
        begin = await starts(consumer, first, self._since(), first, {one for one in first if self._waits(one)})
        for one, offset in begin.items():
            consumer.seek(one, offset)
            self._reader.frontiers[one] = Frontier(offset)
            self.counts["resyncs"] += 1
            log.error("records are gone before they were read", partition=str(one), read_again_from=offset)

    def _troubled(self, why: str, kind: object) -> None:
        """The first failure of each kind is told, not the 500 after it: a link is lost before its cause shows."""
        if kind not in self._logged:
            log.warning("kafka intake", trouble=why)
        self._logged.add(kind)
        self.trouble = why

    def _recovered(self) -> None:
        """Everything is read again, but for topics that we may not read."""
        if self._refused:
            self._troubled(f"no right to read {', '.join(sorted(self._refused))}: allow the operation Read", "rights")
        elif self.trouble is not None:
            log.info("kafka intake", trouble=None)
            self.trouble = None
            self._logged.clear()
