"""A curve stands until what it was made from has changed, and is renewed in turn."""

from typing import Any

import numpy as np
import pytest

from rebalancer.state.outlook.staleness import Glance, stale

AT = 6_000


def glance(
    ready: int = 5, starting: int = 1, backlog: float = 2.0, level: float = 4.0, shift: float = 0.0, at: int = AT
) -> Glance:
    counts = np.array([ready]), np.array([starting])
    return Glance(*counts, np.array([backlog]), np.array([level]), np.array([shift]), np.array([at]))


def wants(then: Glance, now: Glance, turn: int = 3) -> bool:
    return bool(stale(then, now, np.array([turn]), 10)[0])


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, False),
        ({"ready": 6}, True),
        ({"starting": 0}, True),
        ({"level": 4.19}, False),
        ({"level": 4.21}, True),
        ({"level": 3.79}, True),
        ({"backlog": 6.9}, False),
        ({"backlog": 7.1}, True),
        ({"shift": 0.019}, False),
        ({"shift": 0.02}, True),
        ({"at": AT + 30}, True),  # its turn
        ({"at": AT + 40}, False),
        ({"at": AT + 70}, True),
    ],
)
def test_it_stands_until_what_it_was_made_from_changes(change: dict[str, Any], *, wanted: bool) -> None:
    assert wants(glance(), glance(**change)) is wanted


def test_the_end_of_a_shift_makes_a_new_one() -> None:
    assert wants(glance(shift=0.4), glance())


def test_turns_spread_over_a_minute_so_that_no_plan_renews_all() -> None:
    turns = np.arange(600)
    quiet = Glance._make(np.repeat(of, 600) for of in glance(at=AT - 1))
    for plan in range(6):
        now = quiet._replace(at=np.full(600, AT + 10 * plan))
        assert stale(quiet, now, turns, 10).sum() == 100


def test_what_was_renewed_in_its_turn_stands_when_an_event_looks_again_in_the_same_plan() -> None:
    assert wants(glance(at=AT - 1), glance(at=AT + 30))
    assert not wants(glance(at=AT + 30), glance(at=AT + 34))
