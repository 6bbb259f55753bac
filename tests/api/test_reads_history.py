"""What is kept of cycles in memory: each thing told once when it begins, within bounds."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.api.ports.timeline import TimelineEvent
from rebalancer.app.history import MOST_CYCLES, MOST_EVENTS, MOST_GONE, MOST_PER_CYCLE, RECENT_SECONDS, History
from rebalancer.domain.memory import Loan, Memory
from rebalancer.domain.outcome import FAILED, REFUSED, SHADOW, UNKNOWN, WRITTEN, Intent, Outcome
from rebalancer.domain.plan import Decision, Plan, Refusal
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from tests.builders import NOW, a_notice, a_policy, a_snapshot, a_write_stop, an_override
from tests.cli.scene import decided

STEP = Refusal("step", "b", 3, 2, "lost 1 at 07:58:00", until=NOW + 60.0)


POLICY = a_policy()


def cycle(number: int, *refusals: Refusal, **seen: object) -> tuple[Snapshot, Decision, Policy]:
    """One cycle, 10 s after the last."""
    at = NOW + 10.0 * number
    snapshot = replace(a_snapshot(), cycle=number, at=at, **seen)
    models = (decided("b", 2, 2, 3, 0, 0, 1, why=""),)
    return snapshot, Decision(Plan(cycle=number, at=at, refusals=refusals, models=models), Memory()), POLICY


def wrote(number: int, status: str = WRITTEN, kind: str = "grant", at: float | None = None, **more: object) -> Outcome:
    at = NOW + 10.0 * number if at is None else at
    intent = Intent(f"{number}-b", number, at, kind, "b", "deployment/serving/b", 2, 3, "demand is 3", pool="a100")
    return Outcome(replace(intent, **more), at, status, "why not" if status in {REFUSED, FAILED, UNKNOWN} else "")


def told(history: History) -> list[tuple[str, str]]:
    return [(each.kind, each.text) for row in history.rows() for each in row.timeline]


def test_a_refusal_is_told_when_it_begins_and_again_when_it_came_back_after_a_minute() -> None:
    history = History()
    for number in range(1, 4):
        history.cycle(*cycle(number, STEP))
    assert told(history) == [
        ("refusal", "keeps 1 replica that would go (3 -> 2): guard step, lost 1 at 07:58:00; not before 08:01:00")
    ]
    for number in range(4, 12):
        history.cycle(*cycle(number))
    history.cycle(*cycle(12, STEP))
    assert [row.cycle for row in history.rows()] == [1, 12]


def test_a_refusal_about_no_model_names_the_node_pool() -> None:
    history = History()
    history.cycle(*cycle(1, Refusal("budget", "spot", 16, 24, "the policy allows 16")))
    assert history.rows()[0].timeline[0].model is None
    assert told(history)[0][1] == "nodepool/spot is left as it is: guard budget, the policy allows 16"


def test_a_release_and_its_grant_are_told_as_one_shift() -> None:
    history = History()
    gives: dict[str, Any] = {
        "kind": "release",
        "subject": "a",
        "shift": "s1-b-a100",
        "recipients": ("b",),
        "reason": "gives 1 to b",
    }
    history.wrote([wrote(1, replicas_from=5, replicas_to=4, **gives)])
    history.wrote([wrote(2, replicas_from=4, replicas_to=3, **gives)])
    history.wrote([wrote(3, shift="s1-b-a100", reason="gets 1 from a")])
    history.wrote([wrote(4, shift="s1-b-a100", reason="gets 1 from a"), wrote(5, reason="gets 1")])
    happenings = [each for row in history.rows() for each in row.timeline]
    assert [(each.kind, each.shift) for each in happenings] == [
        ("release", "1-b"),
        ("release", "2-b"),
        ("grant", "1-b"),
        ("grant", "2-b"),
        ("grant", None),
    ]
    assert happenings[2].text == "gets 1 from a (2 -> 3), 20 s after a 5 -> 4 at 08:00:10"
    assert [(each.at - NOW, each.model, each.text) for each in happenings[2].steps] == [
        (10.0, "a", "gives 1 to b (5 -> 4)"),
        (30.0, "b", "gets 1 from a (2 -> 3)"),
    ]


def test_an_entry_has_the_same_name_whenever_it_is_made_and_another_than_its_neighbours() -> None:
    names = []
    for _ in range(2):
        history = History()
        history.wrote([wrote(1), wrote(1, reason="demand is 4")])
        names.append([each.id for row in history.rows() for each in row.timeline])
    assert names[0] == names[1]
    assert len(set(names[0])) == 2


def test_what_was_heard_before_a_start_stands_before_what_is_heard_after_it() -> None:
    older, history = History(), History()
    older.wrote([wrote(1)])
    older.wrote([wrote(5, reason="heard twice")])
    history.wrote([wrote(5)])
    history.wrote([wrote(6)])
    history.put_before(older)
    assert [row.cycle for row in history.rows()] == [1, 5, 6]
    assert told(history)[1] == ("grant", "demand is 3 (2 -> 3)")


def test_what_went_after_a_start_is_not_pushed_out_by_as_many_as_are_kept_from_before_it() -> None:
    older, history = History(), History()
    for heard, names in ((older, [f"old-{n}" for n in range(MOST_GONE)]), (history, ["just-now"])):
        there = tuple(an_override("floor", "b", 2, name=name, uid=name) for name in names)
        heard.cycle(*cycle(1, overrides=there))
        heard.cycle(*cycle(2))
    history.put_before(older)
    assert [one.name for one in (history.gone()[0], history.gone()[-1])] == ["old-1", "just-now"]


@pytest.mark.parametrize(
    ("outcome", "kind", "said"),
    [
        (wrote(1), "grant", "demand is 3 (2 -> 3)"),
        (wrote(1, kind="settle", replicas_from=3, replicas_to=2), "release", "demand is 3 (3 -> 2)"),
        (wrote(1, kind="replace"), "grant", "demand is 3 (2 -> 3)"),
        (wrote(1, SHADOW), "grant", "demand is 3 (2 -> 3); shadow, so nothing is written"),
        (wrote(1, REFUSED), "refusal", "demand is 3 (2 -> 3); not written: why not"),
        (wrote(1, FAILED), "refusal", "demand is 3 (2 -> 3); could not be written: why not"),
        (wrote(1, UNKNOWN), "grant", "demand is 3 (2 -> 3); may have been written: why not"),
        (
            wrote(1, kind="limit", subject="spot", limit_from=16, limit_to=24),
            "node",
            "nodepool/spot GPU limit 16 -> 24: demand is 3",
        ),
        (wrote(1, kind="hold", subject="spot"), "node", "nodepool/spot consolidation is held: demand is 3"),
    ],
)
def test_what_became_of_a_change_is_told_in_its_words(outcome: Outcome, kind: str, said: str) -> None:
    history = History()
    history.wrote([outcome])
    assert told(history) == [(kind, said)]
    assert history.rows()[0].timeline[0].model == (None if kind == "node" else "b")


def test_bounds_move_silently_and_what_is_tried_again_and_again_is_told_once() -> None:
    history = History()
    history.wrote([wrote(1, kind="bounds")])
    for number in range(1, 5):
        history.cycle(*cycle(number))
        history.wrote([wrote(number, SHADOW)])
    assert len(told(history)) == 1
    history.wrote([wrote(5), wrote(6)])
    assert len(told(history)) == 3


def test_notices_overrides_and_the_red_button_are_told_when_they_come_and_go() -> None:
    history = History()
    cap = replace(an_override("cap", "b", 2, reason="calm"), expires_at=NOW + 45.0)
    drain = an_override("drain", "a100", subject_kind="pool")
    history.cycle(*cycle(1))
    history.cycle(*cycle(2, notices=(a_notice("a100-1", deadline=NOW + 120.0),), overrides=(cap, drain)))
    history.cycle(*cycle(3, overrides=(cap,), write_stop=a_write_stop(reason="bad rollout")))
    history.cycle(*cycle(5, overrides=(cap,)))
    assert told(history) == [
        ("notice", "a100-1 goes 08:02:00 (spot-interruption)"),
        ("override", "is put under cap 2 by alice until 08:00:45: calm"),
        ("override", "pool a100 is put under drain by alice until 09:00:00: test"),
        ("override", "pool a100 is no longer under drain by alice (taken back)"),
        ("stop", "alice stopped the writes: bad rollout"),
        ("override", "is no longer under cap 2 by alice (expired)"),
        ("stop", "writes go on again"),
    ]
    by_said = {each.text: each for row in history.rows() for each in row.timeline}
    assert by_said["is put under cap 2 by alice until 08:00:45: calm"].model == "b"
    assert by_said["pool a100 is no longer under drain by alice (taken back)"].pool == "a100"
    assert by_said["a100-1 goes 08:02:00 (spot-interruption)"].pool == "a100"


def test_what_was_there_at_the_start_did_not_happen_now() -> None:
    history = History()
    history.cycle(*cycle(1, notices=(a_notice("a100-1"),), overrides=(an_override(),), write_stop=a_write_stop()))
    assert history.rows() == ()


def test_one_cycle_is_one_row_and_keeps_fifty_of_its_happenings() -> None:
    history = History()
    history.cycle(*cycle(1, STEP))
    history.wrote([wrote(1, subject=f"m{n}") for n in range(60)])
    (row,) = history.rows()
    assert (len(row.timeline), row.more) == (MOST_PER_CYCLE, 11)


def test_memory_is_bounded_in_cycles_and_in_happenings() -> None:
    history = History()
    for number in range(1, MOST_CYCLES + 500):
        history.wrote([wrote(number)])
    assert len(history.rows()) == MOST_CYCLES
    for number in range(5_000, 5_000 + MOST_CYCLES):
        history.wrote([wrote(number, subject=f"m{n}") for n in range(60)])
    assert sum(len(row.timeline) for row in history.rows()) <= MOST_EVENTS


def test_recent_are_the_last_thirty_minutes_oldest_first() -> None:
    history = History()
    for minute in range(60):
        history.wrote([wrote(minute, at=NOW + 60.0 * minute)])
    recent = history.recent(NOW + 59 * 60.0)
    assert [each.at for each in recent] == [NOW + 60.0 * minute for minute in range(29, 60)]
    assert recent[-1].at - recent[0].at <= RECENT_SECONDS


def test_it_knows_the_last_snapshot_and_the_loans_booked_by_its_plan() -> None:
    history = History()
    snapshot, decision, policy = cycle(1)
    loans = (Loan("b", "a", "a100", 1, NOW),)
    history.cycle(snapshot, replace(decision, memory=Memory(loans=loans)), policy)
    assert (history.snapshot, history.loans) == (snapshot, loans)


async def test_whoever_waits_hears_of_each_move() -> None:
    history = History()
    assert await history.newer_than(-1) == 0
    waiting = asyncio.ensure_future(history.newer_than(0))
    await asyncio.wait([waiting], timeout=0.01)
    assert not waiting.done()
    history.cycle(*cycle(1))
    assert await waiting == 1


def test_happenings_have_no_control_characters() -> None:
    history = History()
    history.wrote([wrote(1, reason="a\nb\x1b[31m\u202e")])
    assert told(history)[0][1].isprintable()


def test_a_happening_is_a_value_of_the_contract() -> None:
    history = History()
    history.wrote([wrote(1)])
    assert history.recent(NOW + 20.0) == (
        TimelineEvent(NOW + 10.0, "grant", "demand is 3 (2 -> 3)", 1, "b", "a100", id="1-57b50f96"),
    )
