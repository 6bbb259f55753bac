"""What an admission webhook answered twice is not asked again at once; other directions and targets go on."""

import pytest

from rebalancer.act.driver import Ask, Refused
from rebalancer.act.rests import CHANGED_SECONDS, DENIED_SECONDS, Rests
from rebalancer.domain.plan import Change
from tests.act.rig import SteppingClock, change
from tests.builders import a_target


def to(replicas: int, name: str = "b") -> Change:
    """From 3 replicas."""
    return change(a_target(name, 3), replicas)


def rests(found: Rests, asked: Change) -> bool:
    try:
        found.ask(asked)
    except Refused as refused:
        return refused.check == "webhook"
    return False


def test_a_raise_that_was_denied_twice_rests_a_minute_and_nothing_else_does() -> None:
    clock = SteppingClock()
    found = Rests(clock)
    found.denied(to(4), "nobody scales on Fridays")
    assert not rests(found, to(4))
    found.denied(to(4), "nobody scales on Fridays")
    assert rests(found, to(4))
    assert rests(found, to(5))  # one more is no other question
    assert [rests(found, one) for one in (to(3), to(2), to(4, "c"))] == [False, False, False]
    clock.passed += DENIED_SECONDS - 1.0
    assert rests(found, to(4))
    clock.passed += 1.0
    assert not rests(found, to(4))
    found.denied(to(4), "still Friday")
    with pytest.raises(Refused, match="the server denies it: still Friday; it is tried again in 60 s"):
        found.ask(to(4))


def test_a_number_that_is_changed_twice_rests_as_long_as_a_fight_would_until_it_is_stored_as_asked() -> None:
    clock = SteppingClock()
    found = Rests(clock)
    for _ in range(2):
        found.stored(to(5), Ask(5, 5), Ask(4, 4))
    with pytest.raises(Refused, match="an admission webhook stores 4 where 5 is asked for"):
        found.ask(to(5))
    clock.passed += CHANGED_SECONDS
    assert not rests(found, to(5))
    found.stored(to(5), Ask(5, 5), Ask(5, 5))
    found.stored(to(5), Ask(5, 5), Ask(4, 4))
    assert not rests(found, to(5))


def test_new_bounds_rest_for_a_minimum_that_is_changed_twice_and_a_raise_does_not() -> None:
    found = Rests(SteppingClock())
    for _ in range(2):
        found.stored(to(3), Ask(3, 2), Ask(3, 3))
        found.stored(to(5), Ask(5, 2), Ask(5, 3))
    assert (rests(found, to(3)), rests(found, to(5))) == (True, False)
    with pytest.raises(Refused, match=r"an admission webhook stores 3 where 2\.\.3 is asked for"):
        found.ask(to(3))


def test_answers_of_long_ago_are_forgotten() -> None:
    clock = SteppingClock()
    found = Rests(clock)
    found.denied(to(4), "no")
    clock.passed += 2 * DENIED_SECONDS
    found.denied(to(4), "no")
    assert not rests(found, to(4))


def test_a_restart_forgets_what_rests_and_two_more_answers_bring_it_back() -> None:
    for found in (Rests(SteppingClock()), Rests(SteppingClock())):
        for _ in range(2):
            assert not rests(found, to(4))
            found.denied(to(4), "nobody scales on Fridays")
        assert rests(found, to(4))
