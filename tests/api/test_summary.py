"""A model in one sentence, and what would change it: only what planning knows."""

import pytest
from msgspec.structs import replace

from rebalancer.api.pages.model_page import model_page
from rebalancer.api.pages.values.model import ModelPage
from rebalancer.api.ports.page_data import PageData
from rebalancer.domain.memory import Loan
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.plan import ModelDecision, Step
from rebalancer.domain.policy import Policy
from rebalancer.domain.readings import ModelLoad, Signal, Work
from rebalancer.domain.snapshot import Snapshot
from rebalancer.planning.demand.demand import level_for, need_of
from tests.api.decided import some_status_port
from tests.api.scenes import the_model_page
from tests.builders import NOW, a_model, a_model_view, a_policy, a_reading, a_target

SLO = {"latency_seconds": 2.0}
POLICY: Policy = a_policy(
    a_model(
        "chat",
        1,
        max_replicas=6,
        slo=SLO,
        entitlement=3,
        signals={"concurrency": {"per_replica": 8.0}, "latency": True},
    ),
    a_model("code", 1, max_replicas=6, entitlement=2),
)
CALM = ModelDecision("chat", 2, 2, 2, 2, 0, 0, 1, surge=False, lent=0, borrowed=0, why="has 1.5 replicas of work on 2")


def an_outlook(level: float, work_of_one: float, **changed: object) -> Outlook:
    """Nothing is late; `level` replicas of work come, `work_of_one` replica-seconds a request."""
    seen = Outlook(
        NOW, 180, 2, 1, (0.0,), (0.0,), (0.0,), level, level, 0.0, 0.0, 0.0, 0.0, 9, 0, 0.0, work_of_one, None, None
    )
    return replace(seen, **changed)


def a_page(
    decision: ModelDecision = CALM,
    work: Work | None = None,
    outlook: Outlook | None = None,
    latency: float = 0.1,
    loans: tuple[Loan, ...] = (),
) -> ModelPage:
    """The page of chat, beside code with half a replica of work."""
    signals: dict[str, Signal] = {"concurrency": a_reading(9.0, NOW - 1.0), "latency": a_reading(latency, NOW - 1.0)}
    loads = (
        ModelLoad("chat", signals, work or Work(1.4, 1.5, 1.5, 1.5, "arrivals", 1.0), outlook=outlook),
        ModelLoad("code", {}, Work(0.5, 0.5, 0.5, 0.5, "arrivals", 1.0)),
    )
    seen = Snapshot(
        cycle=1,
        at=NOW,
        models=(a_model_view("chat", a_target("chat", 2)), a_model_view("code", a_target("code", 2))),
        loads=loads,
    )
    status = some_status_port().status()
    assert status.plan is not None
    other = replace(decision, model="code", granted=2)
    plan = replace(status.plan, models=(decision, other), unmet=(), refusals=())
    data = PageData("e1", replace(status, plan=plan), seen, POLICY, loans)
    return model_page(data, plan, POLICY.models[0], decision, ())


def test_the_sentence_says_what_it_has_what_it_does_how_late_and_that_it_is_fine() -> None:
    assert a_page().summary == "2 replicas with 1.5 of work, latency 0.1 s of 2 s: fine"


@pytest.mark.parametrize(
    ("changed", "ending"),
    [
        ({"headroom": 2}, "fine, and would use 2 more"),
        ({"demand": None}, "not seen, so it keeps what it has"),
        ({"ready": 0}, "under its floor of 1"),
    ],
)
def test_the_sentence_ends_with_what_is_the_matter(changed: dict[str, object], ending: str) -> None:
    assert a_page(replace(CALM, **changed)).summary.endswith(f": {ending}")


def test_who_is_late_and_asks_for_no_more_is_not_called_fine() -> None:
    assert a_page(latency=3.0).summary.endswith("latency 3 s of 2 s: late with all that it asks for")
    most = a_page(replace(CALM, granted=6), latency=3.0)
    assert most.summary.endswith(": late with all that its policy allows (6)")


def test_unknown_work_is_not_said_to_be_none() -> None:
    assert "2 replicas, their work is unknown" in a_page(work=Work()).summary
    assert "2 replicas without work" in a_page(work=Work(0.0, 0.0, 0.0, 0.0, "arrivals", 1.0)).summary


def test_work_that_is_seen_for_seconds_is_told_by_its_level_as_in_all_other_sentences() -> None:
    # As half a minute long after it was learnt what a replica carries, or after a start.
    brief = Work(source="arrivals", resolution_seconds=1.0)
    assert "2 replicas at a level of 1.5 of work, latency" in a_page(work=brief, outlook=an_outlook(1.5, 0.1)).summary
    loading = a_page(replace(CALM, loading=1), work=brief, outlook=an_outlook(1.5, 0.1)).summary
    assert "2 replicas, 1 loading, at a level of 1.5 of work, latency" in loading
    assert "2 replicas, their work is seen for less than half of the last minute, latency" in a_page(work=brief).summary


def test_after_a_surge_the_sentence_tells_of_what_arrives_now_as_all_others_do() -> None:
    assert "2 replicas with 1.2 of work" in a_page(work=Work(1.2, 4.2, 4.0, 4.0, "arrivals", 1.0)).summary
    assert "2 replicas with 4.2 of work" in a_page(work=Work(3.9, 4.2, 4.0, 4.0, "arrivals", 1.0)).summary


def test_who_is_short_says_so_with_its_instant() -> None:
    page = the_model_page()
    assert page.summary.startswith("5 replicas, 1 loading, 1 more on nodes that go, with 6.6 of work: ")
    assert page.summary.endswith(": short of 1 replica since 03:11:40")
    assert "qwen-32b may shrink to 2, not before 03:14:40 (guard step)" in page.changes_when
    assert any(each.startswith("spot-2 goes 03:13:40") for each in page.changes_when)


def test_the_requests_at_which_another_replica_is_needed_are_those_at_which_planning_needs_it() -> None:
    level = 0.5
    page = a_page(outlook=an_outlook(level, 0.5))
    assert need_of(level) == 2
    assert page.changes_when == (
        "its 3rd replica when more than 1.4 requests/s arrive (1 expected now)",
        "it needs 1 when fewer than 0.5 requests/s arrive (1 expected now)",
    )


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40])
def test_a_level_is_the_highest_that_a_count_is_enough_for(count: int) -> None:
    level = level_for(count)
    assert need_of(level) == count
    assert need_of(level * 1.001) == count + 1


def test_without_counted_requests_the_work_is_told_and_at_the_policys_most_that_nothing_more_comes() -> None:
    by_minute = a_page(outlook=an_outlook(0.5, 1.0, by_minute=True)).changes_when
    assert by_minute[0] == "its 3rd replica when more than 0.72 replicas of work come (0.5 expected now)"
    most = a_page(replace(CALM, demand=6, granted=6), outlook=an_outlook(9.0, 1.0)).changes_when
    assert most == ("no more whatever comes: the policy's most is 6",)


def test_where_no_level_of_work_decides_no_level_is_told() -> None:
    assert a_page(outlook=an_outlook(4.0, 0.5)).changes_when == ()
    assert a_page().changes_when == ()


def test_borrowers_and_owners_are_told_by_what_work_an_owner_claims_its_own() -> None:
    lent = Loan("chat", "code", "a100", 1, NOW - 60.0)
    (borrowing,) = a_page(loans=(lent,)).changes_when
    assert borrowing == "code claims 1 of them back when its own work keeps more than 2 replicas busy (0.5 now)"
    (lending,) = a_page(loans=(replace(lent, borrower="code", owner="chat"),)).changes_when
    assert lending.startswith("the GPUs of 1 replica come home from code when its own work keeps more than 2")


@pytest.mark.parametrize(("turn_at", "told"), [(NOW + 600.0, True), (None, False)])
def test_a_schedule_is_told_only_where_it_will_change_something(turn_at: float | None, *, told: bool) -> None:
    step = Step("schedule", "office hours hold a floor of 3 until 18:00", {"nextAt": turn_at})
    changes = a_page(replace(CALM, steps=(step,))).changes_when
    assert ("schedule: office hours hold a floor of 3 until 18:00" in changes) is told


def test_an_owner_that_claims_more_than_its_level_needs_hears_what_ends_that() -> None:
    claims = replace(CALM, demand=3, granted=3)
    assert a_page(claims, outlook=an_outlook(0.5, 0.5)).changes_when == (
        "it needs 2 when its work and its votes of now claim no more of the 3 it owns",
    )
