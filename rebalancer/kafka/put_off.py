"""What found no room to wait in is read again once there is some, beside what reads the new."""

from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition

from rebalancer.kafka.broker import BROKER_ERRORS, Broker, bring_up, finish
from rebalancer.kafka.consumer import FETCH, IDLE_MS, SHARE, STUCK_SECONDS, Batch, BatchReader
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.unreadable import pass_unreadable
from rebalancer.obs.clock import Clock

LOOK_SECONDS = 5.0
PACE_SECONDS = 0.01  # between shares: what is new is decoded first

log = structlog.get_logger()


class PutOff:
    """Run `run()` as a task.

    frontiers: of all that is read, by partition; what they have put off is read.
    reader: another one of the kind that put it off: the state has the good records between, and they go nowhere.
    may_read: whether there is room, and time.
    """

    def __init__(
        self,
        broker: Broker,
        clock: Clock,
        frontiers: dict[TopicPartition, Frontier],
        reader: BatchReader,
        may_read: Callable[[], bool],
    ) -> None:
        self._broker = broker
        self._clock = clock
        self._frontiers = frontiers
        self._reader = reader
        self._may_read = may_read

    async def run(self) -> NoReturn:
        """Look for what was put off, for ever. Raises nothing but cancellation."""
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            for one, frontier in list(self._frontiers.items()):
                if frontier.put_off_between is not None and self._may_read():
                    with suppress(*BROKER_ERRORS):
                        await self._session(one, frontier)

    async def _session(self, one: TopicPartition, frontier: Frontier) -> None:
        """One consumer, until nothing of this partition is put off, or something is again."""
        consumer = AIOKafkaConsumer(
            **await self._broker.connection(),
            **FETCH,
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # what retention took meanwhile nobody can bury
            isolation_level="read_committed",
        )
        try:
            await bring_up(consumer.start())
            consumer.assign([one])
            await self._read_again(consumer, one, frontier)
        finally:
            await finish(consumer.stop(), seconds=5.0)

    async def _read_again(self, consumer: AIOKafkaConsumer, one: TopicPartition, frontier: Frontier) -> None:
        first, last = frontier.put_off_between or (0, -1)
        log.info("what was put off is read again", partition=str(one), first=first, last=last)
        again = Frontier(first, frontier.refused)
        self._reader.frontiers = {one: again}
        consumer.seek(one, first)
        read_monotonic = self._clock.monotonic()
        while frontier.put_off_between is not None and again.put_off_between is None:
            if self._frontiers.get(one) is not frontier:
                return  # the partition is another's now, who reads it from there
            if self._may_read() and again.next_offset <= frontier.put_off_between[1]:
                before = again.next_offset
                await self._take(consumer, one, again)
                await self._clock.sleep(PACE_SECONDS)
                if again.next_offset > before:
                    read_monotonic = self._clock.monotonic()
                elif self._clock.monotonic() - read_monotonic > STUCK_SECONDS:
                    return  # a client that knows of no broker finds none: one made anew asks the bootstrap
            else:
                await self._clock.sleep(LOOK_SECONDS)
                read_monotonic = self._clock.monotonic()
            frontier.read_again(again.safe)

    async def _take(self, consumer: AIOKafkaConsumer, one: TopicPartition, again: Frontier) -> None:
        def read(batch: Batch) -> None:
            self._reader.read(batch, self._clock.now())

        try:
            read(await consumer.getmany(one, timeout_ms=IDLE_MS, max_records=SHARE))
            again.next_offset = await consumer.position(one)  # past what was never a record of ours
        except UnicodeDecodeError:
            await pass_unreadable(consumer, {one: again}, SHARE, read)
