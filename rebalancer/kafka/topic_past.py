"""Reads a topic from an instant, or its beginning, to its present end: a start needs `state` and `decisions`."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition

from rebalancer.kafka.broker import BROKER_ERRORS, Broker, bring_up, finish
from rebalancer.kafka.offsets import offsets_since

WHOLE_READ_SECONDS = 60.0
FETCH_MS = 500


class PastUnreadable(Exception):
    """Kafka could not be read to the end in time; the text says which topic and why."""


@dataclass(frozen=True, slots=True)
class TopicPast:
    """One record of a topic's past; `at` is Kafka's timestamp in epoch seconds."""

    key: bytes
    value: bytes
    at: float


async def read_past(
    bootstrap: str, topic: str, connection: Mapping[str, object], since: float | None = None
) -> list[TopicPast]:
    """Every record of `topic` from `since` (None: its beginning) to its present end, partition by partition.

    A topic that does not exist yet has no past. Raises PastUnreadable.
    """
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="none",  # never jump in silence: records that went away meanwhile are an error
        isolation_level="read_committed",
        **connection,
    )
    try:
        async with asyncio.timeout(WHOLE_READ_SECONDS):
            number = await Broker(bootstrap, security=lambda: connection).partitions(topic)
            if not number:
                return []
            await bring_up(consumer.start())
            return await _read(consumer, [TopicPartition(topic, index) for index in range(number)], since)
    except BROKER_ERRORS as error:
        raise PastUnreadable(f"topic {topic} on {bootstrap} cannot be read: {error or type(error).__name__}") from error
    finally:
        await finish(consumer.stop(), seconds=5.0)


async def _read(consumer: AIOKafkaConsumer, partitions: list[TopicPartition], since: float | None) -> list[TopicPast]:
    begin, end = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
    if since is not None:
        begin = await offsets_since(consumer, dict.fromkeys(partitions, since), begin, end)
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, begin[partition])
    unread = {partition for partition in partitions if begin[partition] < end[partition]}
    past: list[TopicPast] = []
    while unread:
        batches = await consumer.getmany(*unread, timeout_ms=FETCH_MS)
        for records in batches.values():
            past += [
                TopicPast(record.key or b"", record.value, record.timestamp / 1000)
                for record in records
                if record.value is not None
            ]
        unread = {partition for partition in unread if await consumer.position(partition) < end[partition]}
    return past
