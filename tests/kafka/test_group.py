"""When a member of the group gives its session up. The embedded broker has no groups: the client is a double."""

import random
from collections.abc import Iterable, Mapping

import pytest
from aiokafka import TopicPartition

from rebalancer.kafka.broker import Broker
from rebalancer.kafka.consumer import STUCK_SECONDS, Batch, StuckError
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.group import GroupConsumer, Membership
from tests.kafka.waiting import SkippingClock

OURS = TopicPartition("rebalancer.metrics", 0)


class Silent:
    """A client whose partition was committed up to 5, and which no broker has answered yet."""

    def assignment(self) -> set[TopicPartition]:
        return {OURS}

    async def committed(self, one: TopicPartition) -> int:
        return 5

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {}

    end_offsets = beginning_offsets

    def seek(self, one: TopicPartition, offset: int) -> None: ...

    async def position(self, one: TopicPartition) -> int:
        return 5

    def last_poll_timestamp(self, one: TopicPartition) -> None: ...

    def last_stable_offset(self, one: TopicPartition) -> None: ...


class Worker:
    def __init__(self) -> None:
        self.frontiers: dict[TopicPartition, Frontier] = {}

    def read(self, batch: Batch, now: float) -> None: ...

    def own(self, begins: Mapping[TopicPartition, int]) -> None:
        self.frontiers = {one: Frontier(offset) for one, offset in begins.items()}

    async def hand_on(
        self, complete_until: Mapping[TopicPartition, float], partitions: int
    ) -> dict[TopicPartition, int]:
        return {}


async def test_a_session_has_a_minute_to_begin_however_long_the_one_before_stood_still() -> None:
    clock, client = SkippingClock(), Silent()
    group = GroupConsumer(Broker("nowhere:1"), clock, random.Random(1), Membership("g", "m"), "metrics", 60.0, Worker())
    await group._take_over(client)  # noqa: SLF001  no broker here divides partitions
    clock.skipped += 1.5 * STUCK_SECONDS  # Kafka is away
    with pytest.raises(StuckError, match="no progress for 90 s"):
        await group._look(client)  # noqa: SLF001  same
    await group._take_over(client)  # noqa: SLF001  same
    await group._look(client)  # noqa: SLF001  same
    assert group.stuck_seconds() >= 1.5 * STUCK_SECONDS, "who asks how long it lasts hears of all of it"
    clock.skipped += 1.1 * STUCK_SECONDS
    with pytest.raises(StuckError, match="no progress for 156 s"):
        await group._look(client)  # noqa: SLF001  same
