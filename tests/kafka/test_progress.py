"""A consumer that has stopped without saying so is noticed."""

import pytest
from aiokafka import TopicPartition

from rebalancer.kafka.progress import Progress

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class Seen:
    """What a consumer shows of its partitions: when the broker last answered, how far was read, how far it could."""

    def __init__(self) -> None:
        self.answered: dict[TopicPartition, int | None] = {FIRST: 0, SECOND: 0}
        self.read = {FIRST: 0, SECOND: 0}
        self.readable = {FIRST: 0, SECOND: 0}

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self.answered)

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        return self.answered[partition]

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        return self.readable[partition]

    async def position(self, partition: TopicPartition) -> int:
        return self.read[partition]

    def answer(self, *partitions: TopicPartition) -> None:
        for one in partitions:
            self.answered[one] = (self.answered[one] or 0) + 1


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def progress() -> Progress:
    made = Progress(0.0)
    made.follow([FIRST, SECOND], 0.0)
    return made


async def test_an_idle_broker_that_answers_is_progress(progress: Progress, seen: Seen) -> None:
    for second in range(200):
        seen.answer(FIRST, SECOND)
        await progress.look(seen, float(second))
    assert progress.stuck_seconds(199.0) == 0


async def test_one_partition_without_an_answer_is_enough_to_be_stuck(progress: Progress, seen: Seen) -> None:
    for second in range(1, 100):
        seen.answer(FIRST, *([SECOND] if second <= 30 else []))
        await progress.look(seen, float(second))
    assert progress.stuck_seconds(99.0) == 69


async def test_answers_whose_records_never_come_through_are_no_progress(progress: Progress, seen: Seen) -> None:
    seen.answer(FIRST, SECOND)
    await progress.look(seen, 1.0)
    seen.readable[FIRST] = 10
    for second in range(2, 80):
        seen.answer(FIRST, SECOND)
        await progress.look(seen, float(second))
    assert progress.stuck_seconds(79.0) == 78
    seen.read[FIRST] = 3
    seen.answer(FIRST, SECOND)
    await progress.look(seen, 80.0)
    assert progress.stuck_seconds(80.0) == 0


async def test_a_new_connection_does_not_make_a_stuck_partition_young(progress: Progress, seen: Seen) -> None:
    progress.follow([FIRST, SECOND], 50.0)
    seen.answered = {FIRST: None, SECOND: None}
    await progress.look(seen, 60.0)
    assert progress.stuck_seconds(60.0) == 60


async def test_without_partitions_nothing_is_stuck(seen: Seen) -> None:
    progress = Progress(0.0)
    progress.follow([], 10.0)
    await progress.look(seen, 500.0)
    assert progress.stuck_seconds(501.0) == 1


async def test_a_partition_that_always_grows_and_is_read_a_look_later_is_not_behind(
    progress: Progress, seen: Seen
) -> None:
    for second in range(1, 100):
        seen.answer(FIRST, SECOND)
        seen.read[FIRST], seen.readable[FIRST] = 1000 * (second - 1), 1000 * second
        await progress.look(seen, float(second))
    assert progress.behind_by_topic(99.0) == {"t": 1}


async def test_one_that_is_read_at_half_the_speed_of_its_growth_is_behind_by_half_the_time_and_not_stuck(
    progress: Progress, seen: Seen
) -> None:
    for second in range(1, 101):
        seen.answer(FIRST, SECOND)
        seen.read[FIRST], seen.readable[FIRST] = 500 * second, 1000 * second
        await progress.look(seen, float(second))
    assert 45 <= progress.behind_by_topic(100.0)["t"] <= 75, "an end is looked for when the one before was read to"
    assert progress.stuck_seconds(100.0) == 0
    seen.read[FIRST] = seen.readable[FIRST]
    for second in (101, 102):
        seen.answer(FIRST, SECOND)
        await progress.look(seen, float(second))
    assert progress.behind_by_topic(102.0) == {"t": 1}


async def test_what_was_read_before_partitions_came_stays_as_far_behind(progress: Progress, seen: Seen) -> None:
    seen.answer(FIRST, SECOND)
    seen.readable[FIRST] = 1000
    await progress.look(seen, 1.0)
    progress.follow([FIRST, SECOND, TopicPartition("u", 0)], 50.0)
    assert progress.behind_by_topic(60.0) == {"t": 60, "u": 10}
