"""The last records of a topic, to look at them: no group, no commit, nothing is changed."""

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition

from rebalancer.kafka.broker import Broker, bring_up, finish
from rebalancer.kafka.records import ConsumerRecord

READ_SECONDS = 30.0
FETCH_MS = 500


async def last_records(broker: Broker, topic: str, most: int) -> list[ConsumerRecord] | None:
    """The newest `most` records of the topic with this full name, oldest first; None where there is no such topic.

    Raises one of BROKER_ERRORS, TimeoutError among them.
    """
    number = await broker.partitions(topic)
    if not number:
        return None
    consumer = AIOKafkaConsumer(**await broker.connection(), enable_auto_commit=False, auto_offset_reset="none")
    try:
        async with asyncio.timeout(READ_SECONDS):
            await bring_up(consumer.start())
            return await _read(consumer, [TopicPartition(topic, index) for index in range(number)], most)
    finally:
        await finish(consumer.stop(), seconds=5.0)


async def _read(consumer: AIOKafkaConsumer, partitions: list[TopicPartition], most: int) -> list[ConsumerRecord]:
    first, end = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
    consumer.assign(partitions)
    for one in partitions:
        consumer.seek(one, max(first[one], end[one] - most))
    unread = {one for one in partitions if first[one] < end[one]}
    records: list[ConsumerRecord] = []
    while unread:
        batches = await consumer.getmany(*unread, timeout_ms=FETCH_MS)
        records += [record for batch in batches.values() for record in batch]
        unread = {one for one in unread if await consumer.position(one) < end[one]}
    return sorted(records, key=lambda record: (record.timestamp, record.partition, record.offset))[-most:]
