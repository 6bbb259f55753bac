"""Where to begin to read a topic's partitions."""

from collections.abc import Iterable, Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition


async def starts(
    consumer: AIOKafkaConsumer,
    partitions: Iterable[TopicPartition],
    since: Mapping[str, float],
    read_up_to: Mapping[tuple[str, int], int],
) -> dict[TopicPartition, int]:
    """From where a partition was read up to, else from the instant `since` of its topic. Raises KafkaError."""
    wanted = list(partitions)
    fresh = [one for one in wanted if one not in read_up_to]
    first, end = await consumer.beginning_offsets(fresh), await consumer.end_offsets(fresh)
    by_time = await offsets_since(consumer, {one: since[one.topic] for one in fresh}, first, end)
    return {one: read_up_to[one] if one in read_up_to else by_time[one] for one in wanted}


async def offsets_since(
    consumer: AIOKafkaConsumer,
    since: Mapping[TopicPartition, float],
    first: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The first offset at or after an instant, the end where all records are older. Raises KafkaError."""
    by_time = await _offsets_for_times(consumer, {one: max(0, int(at * 1000)) for one, at in since.items()})
    # No record since 1970 in a partition that holds records: this broker cannot look up by time, so read them all.
    doubtful = [one for one in since if by_time[one] is None and first[one] < end[one]]
    ever = await _offsets_for_times(consumer, dict.fromkeys(doubtful, 0))
    offsets: dict[TopicPartition, int] = {}
    for one in since:
        offset = by_time[one]
        if offset is None:
            offset = first[one] if ever.get(one, end[one]) is None else end[one]
        offsets[one] = offset
    return offsets


async def _offsets_for_times(
    consumer: AIOKafkaConsumer, milliseconds: dict[TopicPartition, int]
) -> dict[TopicPartition, int | None]:
    if not milliseconds:
        return {}
    by_time = await consumer.offsets_for_times(milliseconds)
    return {one: None if at is None else at.offset for one, at in by_time.items()}
