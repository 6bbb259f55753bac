"""What the timeline tells of overrides: one that changes nothing never looks as if it did."""

from msgspec.structs import replace

from rebalancer.act.intents import intent_of
from rebalancer.api.pages.decisions import DecisionsQuery
from rebalancer.api.ports.timeline import DecisionRow
from rebalancer.app.history import History
from rebalancer.app.timeline import Timeline
from rebalancer.domain.account import GoingReplica, NoticeAccount
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Intent, Outcome
from rebalancer.domain.people import Override
from rebalancer.domain.plan import Decision, DrainChange, ModelDecision, OverrideState, Plan, Refusal, Unmet
from tests.builders import NOW, a_model, a_policy, a_snapshot, an_override

POLICY = a_policy(a_model("b"))


def told(timeline: Timeline, at: float, *overrides: tuple[Override, str, str]) -> list[str]:
    """What is told of one cycle with these overrides, each in its phase with its message."""
    snapshot = a_snapshot(POLICY, {"b": 2}, at=at, overrides=tuple(one for one, _, _ in overrides))
    states = tuple(OverrideState(one.namespace, one.name, one.uid, phase, said) for one, phase, said in overrides)
    return [event.text for event in timeline.of_cycle(snapshot, Plan(cycle=1, at=at, overrides=states))]


def a_timeline() -> Timeline:
    timeline = Timeline()
    told(timeline, NOW)
    return timeline


def test_a_refused_override_puts_nobody_under_it_and_its_end_ends_nothing() -> None:
    timeline, long = a_timeline(), an_override("cap", "b", 1, reason="calm")
    said = "is not under cap 1 by alice until 09:00:00: calm (refused: expires after more than 60 s)"
    assert told(timeline, NOW + 1, (long, "Refused", "expires after more than 60 s")) == [said]
    assert told(timeline, NOW + 2, (long, "Refused", "expires after more than 60 s")) == []
    assert told(timeline, NOW + 3) == []


def test_one_that_is_superseded_says_by_which_and_comes_back_into_force() -> None:
    timeline, old = a_timeline(), an_override("cap", "b", 1, name="old", uid="uid-old", reason="calm")
    new = an_override("cap", "b", 2, name="new", uid="uid-new", reason="rush")
    assert told(timeline, NOW + 1, (old, "InForce", "")) == ["is put under cap 1 by alice until 09:00:00: calm"]
    assert told(timeline, NOW + 2, (old, "Superseded", "by new, which is newer"), (new, "InForce", "")) == [
        "is not under cap 1 by alice until 09:00:00: calm (superseded: by new, which is newer)",
        "is put under cap 2 by alice until 09:00:00: rush",
    ]
    assert told(timeline, NOW + 3, (old, "InForce", "")) == [
        "is put under cap 1 by alice until 09:00:00: calm",
        "is no longer under cap 2 by alice (taken back)",
    ]


def test_a_node_that_is_empty_is_told_once_with_its_account_and_an_eviction_by_its_pod() -> None:
    timeline = a_timeline()
    gone = GoingReplica("u", "b", 2.0, ended=True, gone_by="rebalancer", gone_at=NOW + 60)
    account = NoticeAccount("n1", "spot-interruption", "aws", "a100", "certain", NOW, NOW, NOW + 120, (gone,))
    empty, snapshot = replace(account, drained_at=NOW + 60), a_snapshot(POLICY, {"b": 2}, at=NOW + 60)
    (event,) = timeline.of_cycle(snapshot, Plan(cycle=1, at=NOW + 60, accounts=(empty,)))
    assert (event.kind, event.pool, event.text) == ("notice", "a100", str(empty))
    assert "drained after 60.0 s by rebalancer, 60 s before its deadline, 2 requests in flight at the end" in event.text
    over = replace(empty, over_at=NOW + 70)
    assert timeline.of_cycle(replace(snapshot, at=NOW + 70), Plan(cycle=2, at=NOW + 70, accounts=(over,))) == []
    change = DrainChange("2-p-evict", "evict", "n1", "a100", "n1 goes in 50 s", "b", "serving", "p", "u")
    (event,) = timeline.of_outcomes((Outcome(intent_of(change, 2, NOW), NOW, WRITTEN),))
    assert (event.kind, event.model, event.text) == ("node", "b", "pod/serving/p is evicted: n1 goes in 50 s")


def test_an_override_that_was_taken_back_is_remembered_as_deleted_and_one_that_ran_out_as_expired() -> None:
    history, cap = History(), an_override("cap", "b", 1, name="cap", expires_at=NOW + 600.0)
    floor = an_override("floor", "b", 1, name="floor", expires_at=NOW + 5.0)
    for at, overrides in ((NOW, (cap, floor)), (NOW + 10.0, ())):
        snapshot = a_snapshot(POLICY, {"b": 2}, at=at, overrides=overrides)
        history.cycle(snapshot, Decision(Plan(cycle=1, at=at), Memory()), POLICY)
    assert [(one.name, one.phase, one.message) for one in history.gone()] == [
        ("cap", "Deleted", "taken back by 08:00:10"),
        ("floor", "Expired", ""),
    ]


def a_write(at: float, kind: str, model: str, numbers: tuple[int, int], shift: str | None, *gives: str) -> Outcome:
    name, (before, after) = f"{at:.0f}-{model}", numbers
    intent = Intent(
        name, int(at), NOW + at, kind, model, f"deployment/serving/{model}", before, after, "for a reason", "a100"
    )
    return Outcome(replace(intent, shift=shift, recipients=gives), NOW + at, WRITTEN)


def shifts(*writes: Outcome) -> list[tuple[float, ...]]:
    """The instants of the steps of each shift that is told, in seconds."""
    events = a_timeline().of_outcomes(writes)
    return [tuple(step.at - NOW for step in each.steps) for each in events if each.steps]


def test_what_its_owner_took_back_is_no_part_of_a_later_shift() -> None:
    assert shifts(
        a_write(0, "release", "code", (5, 4), "s1-chat-a100", "chat"),
        a_write(20, "grant", "code", (4, 5), None),
        a_write(90, "release", "code", (5, 4), "s2-chat-a100", "chat"),
        a_write(93, "grant", "chat", (3, 4), "s2-chat-a100"),
    ) == [(90, 93)]


def test_a_grant_has_the_release_of_its_own_shift_before_an_older_one() -> None:
    assert shifts(
        a_write(0, "release", "code", (5, 4), "s1-chat-a100", "chat"),
        a_write(60, "release", "image", (2, 1), "s2-chat-a100", "chat"),
        a_write(63, "grant", "chat", (3, 4), "s2-chat-a100"),
        a_write(70, "grant", "chat", (4, 5), "s1-chat-a100"),
    ) == [(60, 63), (0, 70)]


def test_a_release_of_two_whose_grants_come_one_by_one_is_told_with_each() -> None:
    assert shifts(
        a_write(0, "release", "chat", (6, 4), "s1-code-a100", "code"),
        a_write(7, "grant", "code", (2, 3), "s1-code-a100"),
        a_write(15, "release", "chat", (4, 3), "s2-code-a100", "code"),
        a_write(18, "grant", "code", (3, 4), "s1-code-a100"),
        a_write(22, "grant", "code", (4, 5), "s1-code-a100"),
        a_write(60, "grant", "code", (5, 6), "s3-code-a100"),
    ) == [(0, 7), (15, 18), (0, 22)]


def test_a_refusal_names_who_waits_for_it_and_is_found_by_their_name() -> None:
    refusal = Refusal("shift", "code", 3, 2, "it has given away 2 of at most 2 replicas in 30 s")
    short = Unmet("chat", 2, "shift", str(refusal), NOW)
    timeline, snapshot = a_timeline(), a_snapshot(POLICY, {"b": 2}, at=NOW)
    code = ModelDecision("code", 3, 3, 3, 3, 0, 0, 1, surge=False, lent=0, borrowed=0, why="")
    plan = Plan(cycle=4, at=NOW, models=(code,), refusals=(refusal,), unmet=(short,))
    (event,) = timeline.of_cycle(snapshot, plan)
    assert (event.model, event.waiting) == ("code", ("chat",))
    assert event.text.endswith("in 30 s; chat waits for it")
    row = DecisionRow(4, NOW, (event,))
    assert DecisionsQuery(model="chat", kind="refusal").of(row) == row
    assert DecisionsQuery(model="image", kind="refusal").of(row) is None
