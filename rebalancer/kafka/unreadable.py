"""Records that a broker holds and the client cannot decode: they are given up one by one, and all others are read.

Brokers take any bytes for the name of a header, the client UTF-8 only. It does not say which record failed, and forgets
what else it had in hand. It decodes batches from their beginning, so what follows in the batch of such a record goes
with it: that is of the same producer, and mostly has the same header.
"""

from collections.abc import Callable, Mapping, Sequence

import structlog
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from rebalancer.kafka.frontier import Frontier

WAIT_MS = 1000  # for records that are there, and that the client has to ask for again

Read = Callable[[Mapping[TopicPartition, Sequence[ConsumerRecord]]], None]

log = structlog.get_logger()


async def pass_unreadable(
    consumer: AIOKafkaConsumer, frontiers: Mapping[TopicPartition, Frontier], share: int, read: Read
) -> int:
    """Go on after `getmany` of these partitions, of at most `share` records, raised UnicodeDecodeError.

    `read` takes what stands before the record that failed. How many records were given up: one, or none where the
    broker was too slow, and `getmany` raises again. Raises KafkaError, with nothing lost.
    """
    suspects: list[TopicPartition] = []
    for one, frontier in frontiers.items():
        if await consumer.position(one) != frontier.next_offset:  # decoded, and forgotten with the failure
            consumer.seek(one, frontier.next_offset)
        elif frontier.next_offset < (consumer.last_stable_offset(one) or 0):
            suspects.append(one)
    for one in suspects:
        try:
            read(await consumer.getmany(one, timeout_ms=WAIT_MS, max_records=share))
        except UnicodeDecodeError:
            return await _pass_in(consumer, one, frontiers[one], share, read)
    return 0


async def _pass_in(consumer: AIOKafkaConsumer, one: TopicPartition, frontier: Frontier, share: int, read: Read) -> int:
    """The same for the partition that has the record."""
    try:
        for _ in range(share):
            batch = await consumer.getmany(one, timeout_ms=WAIT_MS, max_records=1)
            if not batch:
                break
            read(batch)
    except UnicodeDecodeError as error:
        frontier.next_offset = await consumer.position(one) + 1
        consumer.seek(one, frontier.next_offset)
        log.warning("a record is given up", partition=str(one), offset=frontier.next_offset - 1, why=repr(error))
        return 1
    return 0
