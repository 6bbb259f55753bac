"""Every play of two leaders, three objects and calls that are lost, late or doubled: no floor and no budget breaks.

The budget counts what pods that end still hold: a release comes before its grant. No release is forgotten. Terms rise,
also where the Lease is deleted and all who knew it are gone.

`protocol` says which code each part of the model stands for.
"""

from dataclasses import replace

import pytest

from tests.leader.plays import Extent, explore
from tests.leader.protocol import Rules

pytestmark = pytest.mark.slow  # 25 s

LATE = Rules(late_ticks=2)
"""Writes arrive up to two thirds of a Lease after their leader gave them up."""


def test_every_play_with_one_fault_keeps_floor_and_budget_and_one_leader() -> None:
    """In four ticks the second leader begins at the third: no booking of its own expires before the end of a play."""
    verdict = explore(Rules(), Extent(troubles=1, ticks=4, wishes=2))
    assert (verdict.broken, verdict.way) == ("", ())
    assert verdict.worlds > 50_000


@pytest.mark.parametrize(
    ("undone", "rules", "extent", "breaks"),
    [
        ("own_lease", Rules(), Extent(0, 1, 0), "two lead"),
        ("creation", Rules(), Extent(2, 4, 0), "term"),
        ("right", Rules(), Extent(0, 3, 2), "floor"),
        ("right", Rules(), Extent(0, 3, 1), "release forgotten"),
        ("doubt", Rules(), Extent(1, 3, 2), "floor"),
        ("until_ended", Rules(), Extent(0, 3, 2), "floor"),
        ("until_ended", Rules(), Extent(0, 3, 1), "release forgotten"),
        ("intents", LATE, Extent(0, 3, 2), "floor"),
        ("intents", LATE, Extent(0, 3, 1), "release forgotten"),
        ("acknowledged", LATE, Extent(1, 3, 2), "floor"),
        ("acknowledged", LATE, Extent(1, 3, 1), "release forgotten"),
        ("ending", Rules(), Extent(0, 3, 2), "budget"),
        ("revisions", Rules(late_ticks=1), Extent(1, 4, 3), "floor"),
    ],
)
def test_each_rule_is_needed(undone: str, rules: Rules, extent: Extent, breaks: str) -> None:
    """A release is forgotten where it may still be written and who may write by now does not count it."""
    assert explore(replace(rules, **{undone: False}), extent, only=breaks).broken == breaks


def test_terms_rise_however_often_the_lease_is_deleted_and_processes_begin_anew() -> None:
    verdict = explore(Rules(), Extent(troubles=3, ticks=4, wishes=0))
    assert (verdict.broken, verdict.way) == ("", ())
    assert verdict.worlds > 40_000


def test_a_write_that_arrives_after_it_was_forgotten_breaks_a_floor_of_two_targets() -> None:
    """The limit that docs/operations.md names: no number protects `/scale` but the revision of its own object."""
    assert explore(Rules(late_ticks=9), Extent(0, 5, 2), only="floor").broken == "floor"


def test_an_urgent_decrease_that_kafka_did_not_acknowledge_may_come_late_and_break_a_floor() -> None:
    """One for a notice or a person waits a second for Kafka, then goes: docs/operations.md names what is left."""
    assert explore(replace(LATE, urgent=True), Extent(1, 3, 2), only="floor").broken == "floor"


@pytest.mark.proof
@pytest.mark.timeout(7200, func_only=True)
@pytest.mark.parametrize(
    ("rules", "extent"),
    [
        (Rules(), Extent(troubles=2, ticks=4, wishes=3)),
        (Rules(), Extent(troubles=1, ticks=6, wishes=3)),
        (LATE, Extent(troubles=1, ticks=5, wishes=2)),
        (Rules(urgent=True), Extent(troubles=1, ticks=4, wishes=2)),
    ],
)
def test_every_play_with_more_faults_ticks_and_writes_holds(rules: Rules, extent: Extent) -> None:
    verdict = explore(rules, extent)
    assert (verdict.broken, verdict.way) == ("", ())


@pytest.mark.proof
@pytest.mark.timeout(7200, func_only=True)
def test_a_grant_whose_intent_was_lost_with_its_leader_may_come_late_and_exceed_the_budget_by_itself() -> None:
    """Raises do not wait until their intent is stored, so that they go on without Kafka: a pod may stay Pending."""
    assert explore(LATE, Extent(troubles=1, ticks=5, wishes=3), only="budget").broken == "budget"
