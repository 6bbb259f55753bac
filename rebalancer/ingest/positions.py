"""Where to begin to read a topic's partitions."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition


class Start(NamedTuple):
    """`offset` to read from; `lost` = what we had read up to is not there any more, so everything there is comes."""

    offset: int
    lost: bool = False


async def starts(
    consumer: AIOKafkaConsumer,
    partitions: Iterable[TopicPartition],
    since: Mapping[str, float],
    read_up_to: Mapping[tuple[str, int], int],
) -> dict[TopicPartition, Start]:
    """From where it was read up to, else from the instant `since` of its topic. Raises KafkaError."""
    wanted = list(partitions)
    first, end = await consumer.beginning_offsets(wanted), await consumer.end_offsets(wanted)
    fresh = [one for one in wanted if one not in read_up_to]
    by_time = await offsets_since(consumer, {one: since[one.topic] for one in fresh}, first, end)
    found = {one: Start(offset) for one, offset in by_time.items()}
    for one in wanted:
        offset = read_up_to.get(one)
        if offset is not None:
            kept = first[one] <= offset <= end[one]
            found[one] = Start(offset) if kept else Start(first[one], lost=True)
    return found


async def offsets_since(
    consumer: AIOKafkaConsumer,
    since: Mapping[TopicPartition, float],
    first: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The first offset at or after an instant, the end where all records are older. Raises KafkaError."""
    found = await _offsets_for_times(consumer, {one: max(0, int(at * 1000)) for one, at in since.items()})
    # No record since 1970 in a partition that holds records: this broker cannot look up by time, so read them all.
    doubtful = [one for one in since if found[one] is None and first[one] < end[one]]
    ever = await _offsets_for_times(consumer, dict.fromkeys(doubtful, 0))
    offsets: dict[TopicPartition, int] = {}
    for one in since:
        offset = found[one]
        if offset is None:
            offset = first[one] if ever.get(one, end[one]) is None else end[one]
        offsets[one] = offset
    return offsets


async def _offsets_for_times(
    consumer: AIOKafkaConsumer, milliseconds: dict[TopicPartition, int]
) -> dict[TopicPartition, int | None]:
    if not milliseconds:
        return {}
    found = await consumer.offsets_for_times(milliseconds)
    return {one: None if at is None else at.offset for one, at in found.items()}
