"""The end of a topic, read as it grows: what a successor would read is there before it is asked for.

To open two topics and read them takes 0.3 s on an idle machine and seconds on a busy one, while nobody leads; to ask
how far a topic reaches that has been followed takes a few milliseconds.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, NoReturn

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from rebalancer.kafka.broker import BROKER_ERRORS, Broker, bring_up, finish
from rebalancer.kafka.offsets import offsets_since
from rebalancer.kafka.topic_past import FETCH_MS, TopicPast, read_past
from rebalancer.obs.clock import Clock

ANSWER_SECONDS = 2.0  # for the way to the end; who waits longer reads the topic anew instead
AGAIN_SECONDS = 2.0  # between two tries to follow a topic


class _Followed(NamedTuple):
    """A topic that is being read. `since`: from which instant on (UTC epoch seconds).

    `asker` is a client of its own: a broker answers one connection's requests in turn, and a Fetch waits for records.
    """

    consumer: AIOKafkaConsumer
    asker: AIOKafkaConsumer
    partitions: list[TopicPartition]
    since: float


class TopicTail:
    """Run `run()` as a task; `since` from anywhere, whether or not that has come to anything.

    `name` is one of `broker.TOPICS`. `keep_seconds`: how far back it reaches. `wanted`: which keys are held.
    """

    def __init__(
        self,
        broker: Broker,
        name: str,
        clock: Clock,
        keep_seconds: float,
        wanted: Callable[[bytes], bool] = lambda _key: True,
    ) -> None:
        self._broker = broker
        self._topic = broker.topic(name)
        self._clock = clock
        self._keep_seconds = keep_seconds
        self._wanted = wanted
        self._records: deque[TopicPast] = deque()
        self._followed: _Followed | None = None
        self._turned = asyncio.Event()

    @property
    def follows(self) -> bool:
        """Whether the topic is being read."""
        return self._followed is not None

    @property
    def _oldest(self) -> float:
        return self._clock.now() - self._keep_seconds

    async def run(self) -> NoReturn:
        """Follows the topic until cancelled. A failure costs the head start, and nothing else."""
        while True:
            with suppress(*BROKER_ERRORS):
                await self._follow()
            await self._clock.sleep(AGAIN_SECONDS)

    async def since(self, at: float) -> list[TopicPast]:
        """Every wanted record from `at` (UTC epoch seconds) to the present end; older ones may be among them.

        Where the topic is not followed so far back, it is read as `topic_past.read_past` does. Raises PastUnreadable.
        """
        followed = self._followed
        if followed is not None and max(followed.since, self._oldest) <= at:
            with suppress(*BROKER_ERRORS):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._come_to_the_end(followed)
                return list(self._records)
        return await read_past(self._broker.bootstrap, self._topic, await self._broker.secured(), at)

    async def _come_to_the_end(self, followed: _Followed) -> None:
        """Wait until everything that the topic has by now was read. Raises one of BROKER_ERRORS."""
        end = await followed.asker.end_offsets(followed.partitions)
        for partition in followed.partitions:
            while (position := await followed.consumer.position(partition)) < end[partition]:
                await self._turned.wait()
                if self._followed is not followed:
                    raise KafkaError(f"{self._topic} is not followed any more")
            if position > end[partition]:
                raise KafkaError(f"{self._topic} was made anew")

    async def _follow(self) -> None:
        """Read on until something is not as it was. Raises one of BROKER_ERRORS."""
        number = await self._broker.partitions(self._topic)
        connection = await self._broker.connection()
        # Never jump in silence: records that went away meanwhile are an error.
        consumer = AIOKafkaConsumer(
            **connection, enable_auto_commit=False, auto_offset_reset="none", isolation_level="read_committed"
        )
        asker = AIOKafkaConsumer(**connection, enable_auto_commit=False, isolation_level="read_committed")
        try:
            if number:
                await bring_up(consumer.start())
                await bring_up(asker.start())
                partitions = [TopicPartition(self._topic, index) for index in range(number)]
                since = self._oldest
                begin = await asker.beginning_offsets(partitions)
                end = await asker.end_offsets(partitions)  # which leaves it connected for the question that counts
                offsets = await offsets_since(asker, dict.fromkeys(partitions, since), begin, end)
                consumer.assign(partitions)
                for partition in partitions:
                    consumer.seek(partition, offsets[partition])
                self._followed = _Followed(consumer, asker, partitions, since)
                await self._read(self._followed)
        finally:
            self._followed = None
            self._records.clear()
            self._turn()
            await finish(consumer.stop(), seconds=1.0)
            await finish(asker.stop(), seconds=1.0)

    async def _read(self, followed: _Followed) -> None:
        """Reads until the topic has other partitions than it had."""
        while len(followed.consumer.partitions_for_topic(self._topic) or followed.partitions) == len(
            followed.partitions
        ):
            for records in (await followed.consumer.getmany(timeout_ms=FETCH_MS)).values():
                self._records.extend(
                    TopicPast(record.key or b"", record.value, record.timestamp / 1000)
                    for record in records
                    if record.value is not None and self._wanted(record.key or b"")
                )
            while self._records and self._records[0].at < self._oldest:
                self._records.popleft()
            self._turn()

    def _turn(self) -> None:
        """Whoever waits looks again."""
        self._turned.set()
        self._turned = asyncio.Event()
