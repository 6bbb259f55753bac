"""The one consumer: every partition of metrics, notices and overrides, by `assign`, without group or commits.

Promised: each record reaches the sink or the dead-letter topic at least once. Notices and overrides are taken first in
each turn and metrics only a share at a time, so that a flood of the latter delays neither them nor the event loop.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from rebalancer.ingest.dead_letters import DeadLetters, Keeper
from rebalancer.ingest.frontier import Frontier
from rebalancer.ingest.orders import Door, Orders
from rebalancer.ingest.positions import starts
from rebalancer.ingest.progress import Progress
from rebalancer.ingest.reader import DECODERS, Reader, Sink
from rebalancer.ingest.signed import Signatures
from rebalancer.obs.broker import BROKER_ERRORS, REQUEST_SECONDS, Broker, finish
from rebalancer.obs.clock import Clock

# Without a checkpoint: the rings reach 5.1 h back, a notice or an override an hour old is history.
SINCE_SECONDS = {"metrics": 5.1 * 3600, "notices": 3600.0, "overrides": 3600.0}

# Records per share of a turn: at most 20 ms of decoding when all of them are rejected, 1-2 ms when none is.
SHARE = 250
IDLE_MS = 200
LOOK_SECONDS = 1.0
TOPICS_SECONDS = 30.0
MISSING_TOPICS_SECONDS = 2.0
STUCK_SECONDS = 60.0
BACKOFF_CAP_SECONDS = 10.0
STOP_SECONDS = 5.0

FETCH = {
    "fetch_max_wait_ms": 100,  # the longest a partition can be kept out of a fetch that waits for the others
    "max_partition_fetch_bytes": 512 * 1024,
    "fetch_max_bytes": 16 * 1024 * 1024,
}

log = structlog.get_logger()


class StuckError(Exception):
    """The client runs, but nothing comes through."""


class KafkaIntake:
    """Run `run()` as a task. `sink` is called in the event loop and returns at once.

    `read_up_to`: next offset per (topic, partition) from a checkpoint. `signed`: who may override by a record, and
    where that goes (None: every such record is rejected). `trouble` says why nothing is read, None while
    it is; `missing` names topics that do not exist. `counts` are the reader's and the dead letters', besides resyncs
    (what was to be read next is gone: everything there is was read again) and reconnects.
    """

    def __init__(  # noqa: PLR0913  # the parts it connects
        self,
        broker: Broker,
        clock: Clock,
        rng: random.Random,
        sink: Sink,
        keeper: Keeper,
        read_up_to: Mapping[tuple[str, int], int] | None = None,
        signed: tuple[Signatures, Door] | None = None,
    ) -> None:
        self.trouble: str | None = "not connected yet"
        self.missing: tuple[str, ...] = ()
        self._broker = broker
        self._clock = clock
        self._rng = rng
        self._read_up_to = dict(read_up_to or {})
        self._dead_letters = DeadLetters(keeper, clock, rng)
        decoders = dict(DECODERS)
        self._orders: Orders | None = None
        if signed is not None:
            signatures, door = signed
            decoders["overrides"] = signatures.decode
            self._orders = Orders(door, self._dead_letters, clock, rng)
        named = {broker.topic(name): decode for name, decode in decoders.items()}
        self._reader = Reader(named, sink, self._dead_letters, self._orders)
        self._progress = Progress(clock.monotonic())
        self._counts: Counter[str] = Counter()
        self._there: frozenset[TopicPartition] = frozenset()
        self._urgent: tuple[TopicPartition, ...] = ()
        self._metrics: tuple[TopicPartition, ...] = ()
        self._faltered = False

    @property
    def counts(self) -> Counter[str]:
        """What came in since the start, by what became of it; a closed set of keys."""
        ordered = self._orders.counts if self._orders is not None else Counter[str]()
        return self._counts + self._reader.counts + self._dead_letters.counts + ordered

    def safe_offsets(self) -> dict[tuple[str, int], int]:
        """For the checkpoint: next offset per (topic, partition) below which nothing can be lost."""
        return self._read_up_to | {
            (one.topic, one.partition): frontier.safe for one, frontier in self._reader.frontiers.items()
        }

    def stuck_seconds(self) -> float:
        """How long the partition that is worst off has not made progress."""
        return self._progress.stuck_seconds(self._clock.monotonic())

    def stuck_by_topic(self) -> dict[str, float]:
        """The same for each topic there is, by its name without prefix."""
        stuck = self._progress.stuck_by_topic(self._clock.monotonic())
        return {name: stuck[full] for name in DECODERS if (full := self._broker.topic(name)) in stuck}

    async def run(self) -> NoReturn:
        """Consume, and connect again whatever happens. Raises nothing but cancellation."""
        beside = [asyncio.create_task(self._dead_letters.run(), name="dead-letters")]
        if self._orders is not None:
            beside.append(asyncio.create_task(self._orders.run(), name="orders"))
        failures = 0
        try:
            while True:
                started_monotonic = self._clock.monotonic()
                try:
                    await self._session(started_monotonic)
                except Exception as error:  # noqa: BLE001  # a defect of the client ends its session, not the service
                    self._troubled(f"Kafka at {self._broker.bootstrap} cannot be read: {error!r}")
                self._counts["reconnects"] += 1
                worked = self._clock.monotonic() - started_monotonic > STUCK_SECONDS
                failures = 1 if worked else failures + 1
                ceiling = min(BACKOFF_CAP_SECONDS, 0.5 * 2.0 ** min(failures, 10))
                await self._clock.sleep(ceiling * self._rng.uniform(0.5, 1.0))
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)

    async def _session(self, started_monotonic: float) -> None:
        """One consumer, until it fails."""
        self._there = await self._find_partitions()
        finding = asyncio.create_task(self._keep_finding_partitions(), name="kafka-partitions")
        consumer = AIOKafkaConsumer(
            **self._broker.connection(),
            **FETCH,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
        )
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await consumer.start()
            await self._consume(consumer, started_monotonic)
        finally:
            finding.cancel()
            if not await finish(consumer.stop(), STOP_SECONDS):
                # A stop that failed half-way leaves the connections open, and has no second try.
                await finish(consumer._client.close(), STOP_SECONDS)  # noqa: SLF001  no public call does it

    async def _find_partitions(self) -> frozenset[TopicPartition]:
        """All partitions there are of our topics; one may come, grow or go at any time."""
        there = await self._broker.make_topics()
        topics = [self._broker.topic(name) for name in DECODERS]
        self.missing = tuple(topic for topic in topics if topic not in there)
        return frozenset(TopicPartition(topic, index) for topic in topics for index in range(there.get(topic, 0)))

    async def _keep_finding_partitions(self) -> None:
        while True:
            await self._clock.sleep(MISSING_TOPICS_SECONDS if self.missing else TOPICS_SECONDS)
            with suppress(*BROKER_ERRORS):
                self._there = await self._find_partitions()

    async def _consume(self, consumer: AIOKafkaConsumer, started_monotonic: float) -> None:
        assigned = await self._assign(consumer)
        self._recovered()
        looked_monotonic = started_monotonic
        while True:
            if self._there != assigned:
                assigned = await self._assign(consumer)
            monotonic = self._clock.monotonic()
            if monotonic - looked_monotonic >= LOOK_SECONDS:
                looked_monotonic = monotonic
                await self._look(consumer, monotonic - started_monotonic)
            await self._turn(consumer)

    async def _assign(self, consumer: AIOKafkaConsumer) -> frozenset[TopicPartition]:
        """Read all partitions there are."""
        there = self._there
        partitions = sorted(there)
        if partitions:
            await self._seek(consumer, partitions)
        metrics = self._broker.topic("metrics")
        self._metrics = tuple(one for one in partitions if one.topic == metrics)
        self._urgent = tuple(one for one in partitions if one.topic != metrics)
        self._progress.follow(partitions, self._clock.monotonic())
        return there

    async def _look(self, consumer: AIOKafkaConsumer, session_seconds: float) -> None:
        """Is anything coming through? Raises StuckError when nothing has for a minute."""
        await self._progress.look(consumer, self._clock.monotonic())
        stuck = self.stuck_seconds()
        if min(stuck, session_seconds) > STUCK_SECONDS:
            raise StuckError(f"no progress for {stuck:.0f} s")
        if not self._faltered:
            self._recovered()
        self._faltered = False

    async def _seek(self, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]) -> None:
        """Assign the partitions and go on where they were read up to."""
        now = self._clock.now()
        since = {self._broker.topic(name): now - seconds for name, seconds in SINCE_SECONDS.items()}
        frontiers = self._reader.frontiers
        read_up_to = self._read_up_to | {one: frontier.next_offset for one, frontier in frontiers.items()}
        begin = await starts(consumer, partitions, since, read_up_to)
        consumer.assign(partitions)
        for one, offset in begin.items():
            consumer.seek(one, offset)
            if one not in frontiers:
                frontiers[one] = Frontier(offset)

    async def _turn(self, consumer: AIOKafkaConsumer) -> None:
        """One share of each kind, the urgent ones first; without any of them wait a moment for more."""
        try:
            busy = await self._take(consumer, self._urgent)
            busy = await self._take(consumer, self._metrics) or busy
            if busy:
                await asyncio.sleep(0)  # noqa: TID251  # no wait: the loop's other tasks have their turn
            elif self._there:
                await self._take(consumer, self._urgent + self._metrics, IDLE_MS)
            else:
                await self._clock.sleep(LOOK_SECONDS)
        except OffsetOutOfRangeError as error:
            await self._resync(consumer, error.args[0])
        except KafkaError as error:
            self._faltered = True
            self._troubled(f"records cannot be read: {error!r}")
            await self._clock.sleep(LOOK_SECONDS)

    async def _take(self, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition], wait_ms: int = 0) -> bool:
        """Read a share of these partitions' records; whether there were any."""
        if not partitions:
            return False
        batch = await consumer.getmany(*partitions, timeout_ms=wait_ms, max_records=SHARE)
        if batch:
            self._reader.read(batch, self._clock.now())
        return bool(batch)

    async def _resync(self, consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]) -> None:
        """What was to be read next is gone (retention, a topic made anew): read everything there is."""
        for one, offset in (await consumer.beginning_offsets(list(partitions))).items():
            consumer.seek(one, offset)
            self._reader.frontiers[one] = Frontier(offset)
            self._counts["resyncs"] += 1
            log.error("records are gone before they were read", partition=str(one), read_again_from=offset)

    def _troubled(self, why: str) -> None:
        """The first failure is told, not the five hundred after it."""
        if self.trouble is None:
            log.warning("kafka intake", trouble=why)
        self.trouble = why

    def _recovered(self) -> None:
        if self.trouble is not None:
            log.info("kafka intake", trouble=None)
            self.trouble = None
