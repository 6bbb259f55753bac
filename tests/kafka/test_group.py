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

    def __init__(self) -> None:
        self.held: set[TopicPartition] = set()

    def pause(self, *partitions: TopicPartition) -> None:
        self.held |= set(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self.held -= set(partitions)

    def paused(self) -> set[TopicPartition]:
        return set(self.held)

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
        self.full = False
        self.frontiers: dict[TopicPartition, Frontier] = {}

    def read(self, batch: Batch, now: float) -> None: ...

    def own(self, begins: Mapping[TopicPartition, int]) -> None:
        self.frontiers = {one: Frontier(offset) for one, offset in begins.items()}

    async def hand_on(
        self, complete_until: Mapping[TopicPartition, float], partitions: int
    ) -> dict[TopicPartition, int]:
        return {}


def member(clock: SkippingClock, worker: Worker) -> GroupConsumer:
    return GroupConsumer(Broker("nowhere:1"), clock, random.Random(1), Membership("g", "m"), "metrics", 60.0, worker)


async def test_a_session_has_a_minute_to_begin_however_long_the_one_before_stood_still() -> None:
    clock, client = SkippingClock(), Silent()
    group = member(clock, Worker())
    await group._take_over(client)  # noqa: SLF001  no broker here divides partitions
    clock.skipped += 1.5 * STUCK_SECONDS  # Kafka is away
    with pytest.raises(StuckError, match="no progress for 90 s"):
        await group._look(client)  # noqa: SLF001  no broker here divides partitions
    await group._take_over(client)  # noqa: SLF001  no broker here divides partitions
    await group._look(client)  # noqa: SLF001  no broker here divides partitions
    assert group.stuck_seconds() >= 1.5 * STUCK_SECONDS, "who asks how long it lasts hears of all of it"
    clock.skipped += 1.1 * STUCK_SECONDS
    with pytest.raises(StuckError, match="no progress for 156 s"):
        await group._look(client)  # noqa: SLF001  no broker here divides partitions


async def test_while_what_was_read_is_not_handed_on_no_more_is_read_and_nobody_calls_that_stuck() -> None:
    clock, client, worker = SkippingClock(), Silent(), Worker()
    group = member(clock, worker)
    await group._take_over(client)  # noqa: SLF001  no broker here divides partitions
    for full in (True, True, False):
        worker.full = full
        group._hold_back(client)  # noqa: SLF001  no broker here divides partitions
        await group._look(client)  # noqa: SLF001  no broker here divides partitions
        assert client.held == ({OURS} if full else set())
        assert group.stuck_seconds() < 1.0
        clock.skipped += 2 * STUCK_SECONDS
    with pytest.raises(StuckError):
        await group._look(client)  # noqa: SLF001  no broker here divides partitions
