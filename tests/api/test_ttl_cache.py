"""Answers that are kept: asked once for all who wait, bounded, and no error among them."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from rebalancer.api.auth.ttl_cache import TtlCache
from tests.sandbox.hand_clock import HandClock


async def test_who_goes_away_takes_the_answer_from_nobody() -> None:
    kept: TtlCache[str, int] = TtlCache(HandClock(), 8)
    go = asyncio.Event()
    asked = 0

    async def ask() -> tuple[int, float]:
        nonlocal asked
        asked += 1
        await go.wait()
        return 7, 60.0

    first, second = asyncio.create_task(kept.get("a", ask)), asyncio.create_task(kept.get("a", ask))
    while not asked:
        await asyncio.sleep(0)
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    go.set()
    assert await second == 7
    assert asked == 1


async def test_at_most_so_many_are_kept_and_the_least_used_goes() -> None:
    kept: TtlCache[str, str] = TtlCache(HandClock(), 2)

    async def ask() -> tuple[str, float]:
        return "x", 60.0

    for key in ("a", "b", "a", "c"):
        await kept.get(key, ask)
    assert [kept.has(key) for key in ("a", "b", "c")] == [True, False, True]


async def test_an_error_is_told_to_who_waits_and_asked_again_by_the_next() -> None:
    kept: TtlCache[str, int] = TtlCache(HandClock(), 2)
    answers: Iterator[ValueError | int] = iter([ValueError("away"), 5])

    async def ask() -> tuple[int, float]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer, 60.0

    with pytest.raises(ValueError, match="away"):
        await kept.get("a", ask)
    assert await kept.get("a", ask) == 5
