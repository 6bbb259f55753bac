"""Dead letters are delivered until acknowledged, in bounded memory."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence

import pytest
from aiokafka import ConsumerRecord

from rebalancer.domain.events import Position, Rejection
from rebalancer.kafka.dead_letters import DeadLetters, Letter
from rebalancer.kafka.frontier import Frontier
from tests.kafka.waiting import SkippingClock, until


class Moody:
    """A keeper that acknowledges offsets below `up_to`."""

    def __init__(self) -> None:
        self.up_to = 0
        self.asked: list[int] = []
        self.kept: list[int] = []
        self.value_bytes: list[int] = []

    async def dead_letter(
        self,
        rejection: Rejection,
        key: bytes | None,
        value: bytes,
        headers: Sequence[tuple[str, bytes | None]],
        *,
        value_bytes: int | None = None,
    ) -> bool:
        offset = rejection.position.offset
        self.asked.append(offset)
        await asyncio.sleep(0)
        if offset >= self.up_to:
            return False
        self.kept.append(offset)
        self.value_bytes.append(value_bytes or len(value))
        return True


def a_letter(offset: int, frontier: Frontier, value: bytes = b"poison") -> Letter:
    record = ConsumerRecord("t", 0, offset, 0, 0, None, value, None, -1, len(value), ())
    frontier.next_offset = offset + 1
    return Letter(record, Rejection(Position("t", 0, offset), 0.0, "not-json", ""), frontier)


@pytest.fixture
def keeper() -> Moody:
    return Moody()


@pytest.fixture
def clock() -> SkippingClock:
    return SkippingClock()


@pytest.fixture
async def letters(keeper: Moody, clock: SkippingClock) -> AsyncIterator[DeadLetters]:
    opened = DeadLetters(keeper, clock, random.Random(1), max_waiting_bytes=10_000)
    running = asyncio.create_task(opened.run())
    yield opened
    running.cancel()
    await asyncio.wait({running})


async def test_a_letter_is_open_until_it_is_acknowledged_and_tried_until_then(
    letters: DeadLetters, keeper: Moody, clock: SkippingClock
) -> None:
    frontier = Frontier(0)
    for offset in (3, 5, 8):
        letters.bury(a_letter(offset, frontier))
    await until(lambda: len(keeper.asked) >= 3)
    assert frontier.safe == 3
    keeper.up_to = 6
    clock.skipped += 60
    await until(lambda: frontier.safe == 8)
    keeper.up_to = 9
    clock.skipped += 60
    await until(lambda: frontier.safe == 9)
    assert keeper.kept == [3, 5, 8]
    assert (letters.counts["buried"], letters.waiting_bytes) == (3, 0)


async def test_between_tries_it_waits_longer_and_longer(
    letters: DeadLetters, keeper: Moody, clock: SkippingClock
) -> None:
    letters.bury(a_letter(0, Frontier(0)))
    for tries in range(1, 5):
        await until(lambda tries=tries: len(keeper.asked) >= tries)  # type: ignore[misc]  # bound now
        clock.skipped += 10
    assert len(keeper.asked) <= 5


async def test_letters_that_find_no_room_are_left_to_the_next_start(letters: DeadLetters, keeper: Moody) -> None:
    frontier = Frontier(0)
    for offset in range(10):
        letters.bury(a_letter(offset, frontier, b"x" * 2000))
    assert letters.waiting_bytes <= 10_000
    keeper.up_to = 100
    await until(lambda: letters.counts["buried"] == 4)
    assert (letters.counts["put-off"], frontier.safe, letters.waiting_bytes) == (6, 4, 0)


async def test_large_letters_wait_with_the_part_of_them_that_is_kept() -> None:
    """Three records of 8 MiB that came as a few KiB: the second one found no room beside the first."""
    keeper, frontier = Moody(), Frontier(0)
    letters = DeadLetters(keeper, SkippingClock(), random.Random(1))
    for offset in range(3):
        letters.bury(a_letter(offset, frontier, b"x" * 8 * 2**20))
    assert (letters.counts["put-off"], frontier.safe) == (0, 0)
    assert letters.waiting_bytes < 2 * 2**20
    keeper.up_to = 3
    running = asyncio.create_task(letters.run())
    await until(lambda: letters.counts["buried"] == 3)
    running.cancel()
    await asyncio.wait({running})
    assert keeper.value_bytes == [8 * 2**20] * 3
