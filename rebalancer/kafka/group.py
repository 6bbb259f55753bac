"""One member of a consumer group: some partitions of one topic, by what the group agrees on, and commits.

Membership is static: who restarts under its name within `SESSION_SECONDS` finds its partitions as they were, and nobody
else's move. aiokafka has no cooperative protocol: when members come or go, all of them stop for a moment.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, NoReturn, Protocol

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError

from rebalancer.kafka.broker import BROKER_ERRORS, Broker, bring_up, finish
from rebalancer.kafka.consumer import (
    BACKOFF_SECONDS,
    FETCH,
    STOP_SECONDS,
    STUCK_SECONDS,
    Batch,
    RotatedError,
    StuckError,
)
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.offsets import starts
from rebalancer.kafka.progress import Progress
from rebalancer.kafka.unreadable import pass_unreadable
from rebalancer.obs.backoff import Backoff
from rebalancer.obs.clock import Clock
from rebalancer.obs.effects import effect

SESSION_SECONDS = 15.0  # a pod that is restarted is back; one that is gone for good is missed for so long
JOIN_SECONDS = 60.0  # the first assignment waits for the session of who is gone
HAND_ON_EVERY_SECONDS = 1.0
HAND_OVER_SECONDS = 5.0  # for the last word on partitions that go: what is not handed on then, the next one reads again
SHARE = 1000
WAIT_MS = 200

log = structlog.get_logger()


class Membership(NamedTuple):
    """`group`: its name in Kafka; `member`: our name in it, of which there is one at a time."""

    group: str
    member: str


class PartitionWorker(Protocol):
    """Receiver of what is read of the partitions that are ours."""

    @property
    def frontiers(self) -> Mapping[TopicPartition, Frontier]:
        """How far each of them was read."""
        ...

    @property
    def full(self) -> bool:
        """Whether no more should be read until what was read is handed on."""
        ...

    def read(self, batch: Batch, now: float) -> None:
        """Take a batch in; called in the event loop. Returns at once and raises nothing, whatever is in it."""
        ...

    def own(self, begins: Mapping[TopicPartition, int]) -> None:
        """From now on these partitions are ours and no others, each from this offset on; forget all else."""
        ...

    async def hand_on(
        self, complete_until: Mapping[TopicPartition, float], partitions: int
    ) -> dict[TopicPartition, int]:
        """Hand on what was read; the offsets from which another member would have to go on, where they are known.

        `complete_until`: instant (UTC epoch seconds) by which each partition held nothing that is not read; 0: unknown.
        `partitions`: how many the topic has.
        """
        ...


class GroupConsumer:
    """Run `run()` as a task. `topic`: name without prefix; `since_seconds`: how far back it is read at the very first.

    `trouble` says why nothing is read, None while it is. `counts`: rebalances, resyncs (records were gone before they
    were read), unreadable (records that the client cannot decode) and reconnects. `lag_records`: of our partitions,
    those that are not read yet.
    """

    def __init__(  # noqa: PLR0913  # the parts it connects
        self,
        broker: Broker,
        clock: Clock,
        rng: random.Random,
        membership: Membership,
        topic: str,
        since_seconds: float,
        worker: PartitionWorker,
    ) -> None:
        self.trouble: str | None = "not connected yet"
        self.counts: Counter[str] = Counter()
        self.lag_records = 0
        self._broker = broker
        self._clock = clock
        self._membership = membership
        self._topic = broker.topic(topic)
        self._since_seconds = since_seconds
        self._worker = worker
        self._backoff = Backoff(rng, *BACKOFF_SECONDS)
        self._progress = Progress(clock.monotonic())
        self._handing_on = asyncio.Lock()
        self._moved = False

    def stuck_seconds(self) -> float:
        """How long the partition that is worst off has not made progress."""
        return self._progress.stuck_seconds(self._clock.monotonic())

    async def run(self) -> NoReturn:
        """Read for ever, and connect again whatever happens. Raises nothing but cancellation."""
        while True:
            started_monotonic = self._clock.monotonic()
            try:
                await self._session()
            except Exception as error:  # noqa: BLE001  # a defect of the client ends its session, not the process
                self._troubled(f"Kafka at {self._broker.bootstrap} cannot be read: {error!r}")
            self.counts["reconnects"] += 1
            if self._clock.monotonic() - started_monotonic > STUCK_SECONDS:
                self._backoff.succeeded()
            await self._clock.sleep(self._backoff.failed())

    async def _session(self) -> None:
        """One membership, until it fails; what was not handed on by then is read again."""
        credentials = await self._broker.credentials()
        await self._broker.make_topics()
        consumer = AIOKafkaConsumer(
            **await self._broker.connection(),
            **FETCH,
            group_id=self._membership.group,
            group_instance_id=self._membership.member,
            session_timeout_ms=int(SESSION_SECONDS * 1000),
            heartbeat_interval_ms=int(SESSION_SECONDS * 1000 / 5),
            partition_assignment_strategy=(StickyPartitionAssignor,),
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
        )
        consumer.subscribe([self._topic], listener=_Moves(self, consumer))
        try:
            async with asyncio.timeout(JOIN_SECONDS):
                await bring_up(consumer.start())
            await self._consume(consumer, credentials)
        finally:
            await self.gives_up(consumer)
            if not await finish(consumer.stop(), STOP_SECONDS):
                await finish(consumer._client.close(), STOP_SECONDS)  # noqa: SLF001  no public call does it

    async def _consume(self, consumer: AIOKafkaConsumer, credentials: tuple[object, ...]) -> None:
        handed_on_monotonic = self._clock.monotonic()
        while True:
            if self._moved:
                await self._take_over(consumer)
            self._hold_back(consumer)
            left = handed_on_monotonic + HAND_ON_EVERY_SECONDS - self._clock.monotonic()
            if left > 0:
                await self._read(consumer, min(WAIT_MS, max(1, int(left * 1000))))
                continue
            handed_on_monotonic = self._clock.monotonic()
            if await self._broker.credentials() != credentials:
                raise RotatedError("the files with our credentials have changed: connecting anew")
            await self._look(consumer)
            await self._hand_on(consumer)

    def _hold_back(self, consumer: AIOKafkaConsumer) -> None:
        """Fetch nothing while the worker is full; who is asked for nothing is a member all the same, and not stuck."""
        assignment, paused = consumer.assignment(), consumer.paused()
        if self._worker.full:
            consumer.pause(*assignment)
            self._progress.follow((), self._clock.monotonic())
        elif paused:
            consumer.resume(*paused)
            self._progress.follow(assignment, self._clock.monotonic())

    async def _read(self, consumer: AIOKafkaConsumer, wait_ms: int) -> None:
        try:
            batch = await consumer.getmany(timeout_ms=wait_ms, max_records=SHARE)
        except OffsetOutOfRangeError as error:
            await self._resync(consumer, error.args[0])
        except NoOffsetForPartitionError:  # a partition that the group has not read yet came while we waited
            self._moved = True
        except UnicodeDecodeError:
            ours = {one: at for one, at in self._worker.frontiers.items() if one in consumer.assignment()}
            self.counts["unreadable"] += await pass_unreadable(consumer, ours, SHARE, self._take)
        else:
            self._take(batch)

    def _take(self, batch: Batch) -> None:
        self._worker.read(batch, self._clock.now())

    async def _resync(self, consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]) -> None:
        """What was to be read next is gone (retention, a topic made anew): read everything there is."""
        for one, offset in (await consumer.beginning_offsets(list(partitions))).items():
            await self._commit(consumer, {one: offset})
            self.counts["resyncs"] += 1
            log.error("records are gone before they were read", partition=str(one), read_again_from=offset)
        self._moved = True

    async def _take_over(self, consumer: AIOKafkaConsumer) -> None:
        """Go on with each of our partitions where the group stands with it."""
        self._moved = False
        partitions = sorted(consumer.assignment())
        committed = {one: await consumer.committed(one) for one in partitions}
        known = {one: offset for one, offset in committed.items() if offset is not None}
        since = {self._topic: self._clock.now() - self._since_seconds}
        begins = await starts(
            consumer, partitions, since, {(one.topic, one.partition): at for one, at in known.items()}
        )
        if self._moved:  # while we asked
            return
        for one, offset in begins.items():
            consumer.seek(one, offset)
        self._worker.own(begins)
        self._progress.follow(partitions, self._clock.monotonic())
        self.trouble = None
        log.info("reads", partitions=[one.partition for one in partitions])

    async def _look(self, consumer: AIOKafkaConsumer) -> None:
        """Is anything coming through? Raises StuckError when nothing has in a minute since the take-over."""
        if self._moved:
            return
        monotonic = self._clock.monotonic()
        await self._progress.look(consumer, monotonic)
        if self._progress.session_stuck_seconds(monotonic) > STUCK_SECONDS and self._worker.frontiers:
            raise StuckError(f"no progress for {self.stuck_seconds():.0f} s")

    async def _hand_on(self, consumer: AIOKafkaConsumer) -> None:
        async with self._handing_on:
            assignment = consumer.assignment()
            ours = [one for one in self._worker.frontiers if one in assignment]
            complete = {one: await self._complete_until(consumer, one) for one in ours}
            partitions = len(consumer.partitions_for_topic(self._topic) or complete)
            if not complete:
                return
            self.lag_records = sum([await _lag(consumer, one) for one in ours])
            offsets = await self._worker.hand_on(complete, partitions)
            try:
                if offsets:
                    await self._commit(consumer, offsets)
            except KafkaError as error:  # they moved meanwhile: the next one hands the same on again
                log.warning("offsets were not committed", error=repr(error))

    async def _commit(self, consumer: AIOKafkaConsumer, offsets: dict[TopicPartition, int]) -> None:
        with effect("kafka/commit", self._membership.group):
            await consumer.commit(offsets)

    @staticmethod
    async def _complete_until(consumer: AIOKafkaConsumer, one: TopicPartition) -> float:
        """The instant of the broker's last answer for a partition that is read to its end; 0 for one that is not."""
        answered = consumer.last_poll_timestamp(one)
        return 0.0 if answered is None or await _lag(consumer, one) else float(answered / 1000)

    async def gives_up(self, consumer: AIOKafkaConsumer) -> None:
        """Our partitions may be another's soon: hand on what was read, as far as there is time."""
        try:
            async with asyncio.timeout(HAND_OVER_SECONDS):
                await self._hand_on(consumer)
        except (TimeoutError, *BROKER_ERRORS) as error:
            log.warning("partitions go before all was handed on; it is read again", error=repr(error))
        self._worker.own({})
        self.lag_records = 0

    def takes_over(self) -> None:
        """The group divided the partitions anew."""
        self.counts["rebalances"] += 1
        self._moved = True

    def _troubled(self, why: str) -> None:
        """The first failure is told, not the five hundred after it."""
        if self.trouble is None:
            log.warning("kafka group", trouble=why)
        self.trouble = why


async def _lag(consumer: AIOKafkaConsumer, one: TopicPartition) -> int:
    """Records of a partition that are not read yet."""
    end: int = consumer.last_stable_offset(one) or 0
    return max(0, end - int(await consumer.position(one)))


class _Moves(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
    """What the client tells when the group divides the partitions anew."""

    def __init__(self, group: GroupConsumer, consumer: AIOKafkaConsumer) -> None:
        self._group = group
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """All of them, also those that come back."""
        if revoked:
            await self._group.gives_up(self._consumer)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:  # noqa: ARG002  the client's
        """The whole new share; the client has it."""
        self._group.takes_over()
