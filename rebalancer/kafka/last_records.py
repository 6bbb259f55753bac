"""The last records of a topic, to look at them: no group, no commit, nothing is changed."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition

from rebalancer.kafka.broker import Broker, bring_up, finish
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.records import ConsumerRecord
from rebalancer.kafka.unreadable import pass_unreadable

READ_SECONDS = 30.0
FETCH_MS = 500


class LastRecords(NamedTuple):
    """The newest records of a topic.

    records: oldest first.
    unreadable: how many more the client could not decode; the service skips such records, too.
    """

    records: list[ConsumerRecord]
    unreadable: int


async def last_records(broker: Broker, topic: str, most: int) -> LastRecords | None:
    """The newest `most` records of the topic with this full name; None where there is no such topic.

    Raises one of BROKER_ERRORS, TimeoutError among them.
    """
    number = await broker.partitions(topic)
    if not number:
        return None
    consumer = AIOKafkaConsumer(
        **await broker.connection(),
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",  # as the service reads
    )
    try:
        async with asyncio.timeout(READ_SECONDS):
            await bring_up(consumer.start())
            return await _read(consumer, [TopicPartition(topic, index) for index in range(number)], most)
    finally:
        await finish(consumer.stop(), seconds=5.0)


async def _read(consumer: AIOKafkaConsumer, partitions: list[TopicPartition], most: int) -> LastRecords:
    first, end = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
    consumer.assign(partitions)
    frontiers = {one: Frontier(max(first[one], end[one] - most)) for one in partitions}
    for one, frontier in frontiers.items():
        consumer.seek(one, frontier.next_offset)
    unread = {one for one in partitions if first[one] < end[one]}
    records: list[ConsumerRecord] = []
    unreadable = 0

    def take(batch: Mapping[TopicPartition, Sequence[ConsumerRecord]]) -> None:
        for one, more in batch.items():
            records.extend(more)
            frontiers[one].next_offset = more[-1].offset + 1

    while unread:
        try:
            take(await consumer.getmany(*unread, timeout_ms=FETCH_MS))
        except UnicodeDecodeError:
            unreadable += await pass_unreadable(consumer, {one: frontiers[one] for one in unread}, most, take)
        unread = {one for one in unread if await consumer.position(one) < end[one]}
    records.sort(key=lambda record: (record.timestamp, record.partition, record.offset))
    return LastRecords(records[-most:], unreadable)
