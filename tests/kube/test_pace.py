"""However the world behaves, connections come at most once a second, and seldom while nobody answers."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.kube.pace import Pacer, WatchPace
from tests.kube.logins import HandClock


def a_pacer(clock: HandClock, seed: int = 0) -> Pacer:
    return Pacer(WatchPace(), clock, random.Random(seed))


@given(st.integers(), st.lists(st.sampled_from(["failed", "succeeded", "asked", "took long"])))
async def test_turns_are_a_second_apart_whatever_happens(seed: int, happenings: list[str]) -> None:
    clock = HandClock()
    pacer = a_pacer(clock, seed)
    turns: list[float] = []
    for happening in happenings:
        await pacer.turn()
        turns.append(clock.seconds)
        match happening:
            case "failed":
                pacer.failed()
            case "asked":
                pacer.failed(at_least_seconds=10)
            case "succeeded":
                pacer.succeeded()
            case _:
                clock.seconds += 3
    gaps = [b - a for a, b in pairwise(turns)]
    assert all(gap >= 1 - 1e-9 for gap in gaps)
    for gap, happening in zip(gaps, happenings, strict=False):
        assert gap >= 10 - 1e-9 or happening != "asked"


def test_the_wait_doubles_up_to_its_cap_and_a_week_of_failures_is_no_overflow() -> None:
    pacer = a_pacer(HandClock())
    waits = [pacer.failed() for _ in range(20_000)]
    for doublings, wait in enumerate(waits[:5]):
        assert 2**doublings / 2 <= wait <= 2**doublings
    assert all(15 <= wait <= 30 for wait in waits[5:])


def test_two_pacers_do_not_knock_together() -> None:
    first, second = a_pacer(HandClock(), 1), a_pacer(HandClock(), 2)
    assert [first.failed() for _ in range(5)] != [second.failed() for _ in range(5)]


def test_success_forgets_failures() -> None:
    pacer = a_pacer(HandClock())
    for _ in range(10):
        pacer.failed()
    pacer.succeeded()
    assert pacer.failed() <= 1


@pytest.mark.parametrize(("asked", "waits"), [(20.0, 20.0), (86_400.0, 60.0)])
def test_retry_after_is_honoured_up_to_a_minute(asked: float, waits: float) -> None:
    assert a_pacer(HandClock()).failed(at_least_seconds=asked) == waits
