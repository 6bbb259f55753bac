"""Wait for a condition, not for a while; a clock that skips; read a topic as it is now."""

import asyncio
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from rebalancer.kafka.broker import Broker
from rebalancer.loop.clock import RealClock


class SkippingClock(RealClock):
    """Real time that a test can move ahead; whoever sleeps looks again at once."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def now(self) -> float:
        return super().now() + self.skipped

    def monotonic(self) -> float:
        return super().monotonic() + self.skipped

    async def sleep(self, seconds: float) -> None:
        ends = self.monotonic() + seconds
        while self.monotonic() < ends:
            await asyncio.sleep(min(0.02, ends - self.monotonic()))


def time_passes(clock: SkippingClock) -> bool:
    """Within `until` some five times as fast: faster than it looks for what is new a consumer would be behind."""
    clock.skipped += 0.025
    return True


def skips(clock: SkippingClock, seconds: float) -> bool:
    """Within `until` so much time at each look."""
    clock.skipped += seconds
    return True


async def until(holds: Callable[[], object], seconds: float = 20.0) -> None:
    """Return when the condition holds. Raises TimeoutError when it does not come to hold in time."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.005)


async def records(broker: Broker, name: str) -> list[ConsumerRecord]:
    """All records of a topic of ours, partition by partition."""
    topic = broker.topic(name)
    partitions = [TopicPartition(topic, number) for number in range(await broker.partitions(topic))]
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    async with consumer, asyncio.timeout(20):
        end = await consumer.end_offsets(partitions)
        consumer.assign(partitions)
        found: list[ConsumerRecord] = []
        for one in partitions:
            consumer.seek(one, 0)
        while len(found) < sum(end.values()):
            batches = await consumer.getmany(timeout_ms=1000)
            found += [record for batch in batches.values() for record in batch]
    return sorted(found, key=lambda record: (record.partition, record.offset))
