"""Where to begin to read a topic's partitions."""

from collections.abc import Collection, Iterable, Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition


async def starts(
    consumer: AIOKafkaConsumer,
    partitions: Iterable[TopicPartition],
    since: Mapping[str, float],
    read_up_to: Mapping[tuple[str, int], int],
    not_before: Collection[TopicPartition] = (),
) -> dict[TopicPartition, int]:
    """From where a partition was read up to, else from the instant `since` of its topic. Raises KafkaError.

    Those of `not_before` from that instant on where they were read up to an earlier one.
    """
    wanted = list(partitions)
    by_clock = [one for one in wanted if one not in read_up_to or one in not_before]
    first, end = await consumer.beginning_offsets(by_clock), await consumer.end_offsets(by_clock)
    by_time = await offsets_since(consumer, {one: since[one.topic] for one in by_clock}, first, end)
    return {one: max(read_up_to.get(one, 0), by_time.get(one, 0)) for one in wanted}


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
