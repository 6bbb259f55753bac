"""Those who wait are those who came last; how long ago is told by the work that came since."""

import pytest

from rebalancer.domain.memory import Waiting, WaitingSince
from rebalancer.domain.readings import NoReading, Work
from rebalancer.planning.demand.waiting import MOST_GROUPS, follow
from tests.builders import NOW, a_load, a_reading

ONE, DEADLINE = 2.0, 3200.0  # replica-seconds of a request; groups of 100 s


def look(waiting: float, after: float, busy: float | None = 0.0, before: Waiting | None = None) -> Waiting | None:
    """After a look `after` seconds from NOW at which so many wait; `busy`: replicas that the last minute kept so."""
    load = a_load("b", {"queue": a_reading(waiting, at=NOW + after)}, Work(last_60s=busy))
    return follow(before, load, ONE, DEADLINE)


def those(at: float, *came: tuple[float, float]) -> Waiting:
    return Waiting(NOW + at, tuple(WaitingSince(NOW + since, requests) for since, requests in came))


def test_of_the_first_look_all_count_as_new() -> None:
    assert look(30.0, 0.0) == those(0.0, (0.0, 30.0))


def test_who_was_not_served_grows_older() -> None:
    assert look(30.0, 200.0, before=those(0.0, (0.0, 30.0))) == those(200.0, (0.0, 30.0))


def test_more_than_came_by_the_last_minute_came_all_the_same() -> None:
    assert look(50.0, 200.0, before=those(0.0, (-300.0, 30.0))) == those(200.0, (-300.0, 30.0), (0.0, 20.0))


def test_as_many_as_before_are_others_when_work_came_meanwhile() -> None:
    # 0.5 replicas kept busy are 0.25 requests a second: 25 came in 100 s, so 25 of the oldest were served.
    found = look(30.0, 100.0, 0.5, those(0.0, (-400.0, 20.0), (-200.0, 10.0)))
    assert found == those(100.0, (-200.0, 5.0), (0.0, 25.0))


def test_fewer_than_came_are_all_new() -> None:
    assert look(10.0, 100.0, 0.5, those(0.0, (-400.0, 20.0))) == those(100.0, (0.0, 10.0))


def test_nobody_waits() -> None:
    assert look(0.0, 100.0, 0.5, those(0.0, (-400.0, 20.0))) == those(100.0)


def test_who_came_within_a_group_is_as_old_as_the_first_of_it() -> None:
    assert look(40.0, 90.0, before=those(80.0, (0.0, 30.0))) == those(90.0, (0.0, 40.0))


def test_unknown_work_makes_nobody_younger() -> None:
    assert look(30.0, 200.0, None, those(0.0, (0.0, 30.0))) == those(200.0, (0.0, 30.0))


@pytest.mark.parametrize("before", [None, those(0.0, (-400.0, 20.0))])
def test_without_a_newer_look_it_is_as_it_was(before: Waiting | None) -> None:
    assert follow(before, a_load("b", {"queue": NoReading("absent")}), ONE, DEADLINE) is before
    assert look(90.0, -5.0, 0.5, those(0.0, (-400.0, 20.0))) == those(0.0, (-400.0, 20.0))


def test_a_line_that_nobody_serves_for_days_stays_short_and_forgets_nobody() -> None:
    found = None
    for number in range(2 * MOST_GROUPS):
        found = look(float(number), 1000.0 * number, before=found)
    assert found is not None
    assert len(found.groups) == MOST_GROUPS
    assert sum(each.requests for each in found.groups) == 2 * MOST_GROUPS - 1
    assert found.groups[0].since == NOW
