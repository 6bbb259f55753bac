"""Reads a topic from an instant, or its beginning, to its present end: a start needs `state` and `decisions`."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

WHOLE_READ_SECONDS = 60.0
FETCH_MS = 500


class PastUnreadable(Exception):
    """Kafka could not be read to the end in time; the text says which topic and why."""


@dataclass(frozen=True, slots=True)
class Past:
    """One record of a topic's past; `at` is Kafka's timestamp in epoch seconds."""

    key: bytes
    value: bytes
    at: float


async def read_past(
    bootstrap: str, topic: str, connection: Mapping[str, object], since: float | None = None
) -> list[Past]:
    """Every record of `topic` from `since` (None: its beginning) to its present end, partition by partition.

    A topic that does not exist yet has no past. Raises PastUnreadable.
    """
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, isolation_level="read_committed", **connection
    )
    try:
        async with asyncio.timeout(WHOLE_READ_SECONDS):
            await consumer.start()
            return await _read(consumer, topic, since)
    except (KafkaError, TimeoutError, OSError) as error:
        raise PastUnreadable(f"topic {topic} on {bootstrap} cannot be read: {error or type(error).__name__}") from error
    finally:
        await consumer.stop()


async def _read(consumer: AIOKafkaConsumer, topic: str, since: float | None) -> list[Past]:
    if topic not in await consumer.topics():
        return []
    numbers = consumer.partitions_for_topic(topic) or set()
    partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
    if not partitions:
        return []
    consumer.assign(partitions)
    ends = await consumer.end_offsets(partitions)
    starts = await _starts(consumer, partitions, ends, since)
    for partition, offset in starts.items():
        consumer.seek(partition, offset)
    open_ = {partition for partition in partitions if starts[partition] < ends[partition]}
    found: list[Past] = []
    while open_:
        batches = await consumer.getmany(*open_, timeout_ms=FETCH_MS)
        for records in batches.values():
            found += [
                Past(record.key or b"", record.value, record.timestamp / 1000)
                for record in records
                if record.value is not None
            ]
        for partition in tuple(open_):
            if await consumer.position(partition) >= ends[partition]:
                open_.discard(partition)
    return found


async def _starts(
    consumer: AIOKafkaConsumer,
    partitions: list[TopicPartition],
    ends: Mapping[TopicPartition, int],
    since: float | None,
) -> dict[TopicPartition, int]:
    if since is None:
        return dict(await consumer.beginning_offsets(partitions))
    times = await consumer.offsets_for_times({partition: int(since * 1000) for partition in partitions})
    return {
        partition: found.offset if (found := times.get(partition)) is not None else ends[partition]
        for partition in partitions
    }
