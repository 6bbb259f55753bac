"""What must hold before anything is written, and what is told about it afterwards."""

from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from rebalancer.domain.outcome import Outcome
from rebalancer.domain.snapshot import Sync
from rebalancer.sandbox.api.resources import DEPLOYMENTS, WRITESTOPS
from tests.act.rig import Rig, change, deployment, hpa, node_pool, node_pool_change, write_stop
from tests.builders import NAMESPACE, a_write_stop, an_autoscaler


def says(outcome: Outcome, status: str, start: str = "") -> bool:
    """Whether the outcome has that status, and its detail begins so."""
    assert (outcome.status, outcome.detail[: len(start)]) == (status, start), outcome
    return True


async def test_a_release_is_written_with_its_intent_before_and_its_outcome_after(rig: Rig) -> None:
    (outcome,) = await rig.apply(change(rig.target("b"), 4, counts="step", shift="s1", recipients=("a",)))

    assert says(outcome, "written")
    assert rig.replicas("b") == 4
    assert rig.written == [("b", 4)]
    (intent,) = rig.notebook.intents
    assert (intent.subject, intent.replicas_from, intent.replicas_to) == ("b", 5, 4)
    assert (intent.cycle, intent.kind, intent.counts, intent.shift, intent.recipients) == (
        7,
        "release",
        "step",
        "s1",
        ("a",),
    )
    assert rig.notebook.outcomes == [outcome]


async def test_scale_is_written_at_the_revision_that_was_read(rig: Rig) -> None:
    version = rig.object(DEPLOYMENTS, "b")["metadata"]["resourceVersion"]

    await rig.apply(change(rig.target("b"), 4))

    (entry,) = rig.writes
    assert entry.path.endswith("/deployments/b/scale")
    assert entry.body["metadata"]["resourceVersion"] == version


async def test_shadow_writes_nothing_and_reads_nothing(rig: Rig) -> None:
    rig.server.faults.fail_next(100, 500)  # any request would show in the outcomes

    outcomes = await rig.apply_by(rig.gate("shadow"), node_pool_change("hold"), change(rig.target("b"), 4))

    assert [outcome.status for outcome in outcomes] == ["shadow", "shadow"]
    assert not any(outcome.happened for outcome in outcomes)
    assert rig.server.audit == []
    assert rig.notebook.intents == []
    assert rig.notebook.outcomes == list(outcomes)


# --- may we write at all


async def test_nothing_is_written_without_leadership(rig: Rig) -> None:
    rig.why_not = "pod rebalancer-1 leads"

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "leadership: pod rebalancer-1 leads")
    assert rig.writes == []


async def test_leadership_lost_while_the_intent_was_on_its_way_stops_the_write(rig: Rig) -> None:
    def lose() -> None:
        rig.why_not = "the lease was not renewed in time"

    rig.notebook.before_answer = lose

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "leadership")
    assert rig.writes == []


async def test_a_write_stop_that_no_watch_has_shown_yet_stops_the_write(rig: Rig) -> None:
    rig.store.put(write_stop())

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "write-stop: stop by alice: incident 42")
    assert rig.writes == []


async def test_a_write_stop_between_two_changes_stops_the_second(rig: Rig) -> None:
    def press_after_the_first_write(_: object) -> None:
        if not rig.store.list(WRITESTOPS):
            rig.store.put(write_stop())
            rig.clock.passed += 1.1

    rig.store.subscribe(press_after_the_first_write)

    first, second = await rig.apply(change(rig.target("b"), 4), change(rig.show("a", replicas=3, pods=()), 4))

    assert says(first, "written")
    assert says(second, "refused", "write-stop")
    assert rig.written_objects == ["b"]


async def test_a_write_stop_pressed_while_the_intent_was_on_its_way_stops_the_write(rig: Rig) -> None:
    def press() -> None:
        rig.store.put(write_stop())
        rig.clock.passed += 1.1

    rig.notebook.before_answer = press

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "write-stop")
    assert rig.writes == []


async def test_a_write_stop_pressed_meanwhile_stops_a_node_pools_write_too(rig: Rig) -> None:
    def press() -> None:
        rig.store.put(write_stop())
        rig.clock.passed += 1.1

    rig.notebook.before_answer = press
    rig.store.put(node_pool())

    (outcome,) = await rig.apply(node_pool_change("hold"))

    assert says(outcome, "refused", "write-stop")
    assert rig.writes == []


async def test_nothing_is_written_while_write_stops_cannot_be_read(rig: Rig) -> None:
    rig.server.faults.fail_next(3, 500, path_part="writestops")

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "write-stop: cannot be read")
    assert rig.writes == []


async def test_one_list_of_write_stops_serves_the_writes_of_a_second(rig: Rig) -> None:
    gate = rig.gate()
    await rig.apply_by(gate, change(rig.target("b"), 4))
    rig.server.faults.fail_next(1000, 500, path_part="writestops")

    (within,) = await rig.apply_by(gate, change(rig.target("b"), 3))
    rig.clock.passed += 1.1
    (later,) = await rig.apply_by(gate, change(rig.target("b"), 2))

    assert says(within, "written")
    assert says(later, "refused", "write-stop: cannot be read")


async def test_a_write_stop_that_the_state_knows_is_enough(rig: Rig) -> None:
    rig.facts = replace(rig.facts, write_stop=a_write_stop())

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "write-stop")


@pytest.mark.parametrize("sync", [Sync(missing=("pods",)), Sync(stale=("pods",), synced_at=1.0)])
async def test_nothing_is_written_while_a_source_is_missing_or_silent(rig: Rig, sync: Sync) -> None:
    rig.facts = replace(rig.facts, sync=sync)

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "unsynced")
    assert "pods" in outcome.detail
    assert rig.writes == []


# --- is the object still what the plan saw


async def test_an_object_made_again_under_its_name_is_not_written(rig: Rig) -> None:
    rig.store.remove(DEPLOYMENTS, "b", NAMESPACE)
    rig.store.put(deployment("b", 5, uid="another"))

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "recreated")
    assert rig.writes == []


async def test_an_object_that_is_gone_is_not_written(rig: Rig) -> None:
    rig.store.remove(DEPLOYMENTS, "b", NAMESPACE)

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "gone")


async def test_replicas_that_somebody_changed_are_decided_anew(rig: Rig) -> None:
    rig.store.put(deployment("b", 6))

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "moved: deployment/serving/b asks for 6 replicas, the plan saw 5")
    assert rig.writes == []


async def test_our_own_write_that_no_watch_has_shown_yet_is_what_the_plan_saw(rig: Rig) -> None:
    rig.store.put(deployment("b", 4))
    target = rig.show("b", asked=4)  # replicas still reads 5

    (outcome,) = await rig.apply(change(target, 3))

    assert says(outcome, "written")
    assert rig.replicas("b") == 3


async def test_scale_is_never_written_under_a_live_hpa(rig: Rig) -> None:
    rig.store.put(hpa("b", 1, 10))

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "foreign: HPA b scales deployment/serving/b")
    assert rig.writes == []


async def test_an_hpa_of_another_target_does_not_matter(rig: Rig) -> None:
    rig.store.put(hpa("a", 1, 10))

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "written")


async def test_a_model_that_asked_for_scale_is_refused_while_an_autoscaler_owns_its_target(rig: Rig) -> None:
    models = tuple(
        model.model_copy(update={"actuation": "scale"}) if model.id == "b" else model for model in rig.policy.models
    )
    rig.policy = rig.policy.model_copy(update={"models": models})
    target = rig.show("b", autoscaler=an_autoscaler())

    (outcome,) = await rig.apply(change(target, 4))

    assert says(outcome, "refused", "foreign: ScaledObject b owns b")


# --- intents


async def test_a_decrease_that_kafka_did_not_acknowledge_is_not_written(rig: Rig) -> None:
    rig.notebook.acknowledges = False

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "unrecorded")
    assert rig.writes == []


@pytest.mark.parametrize("passes", ["drain", "override pin-b"])
async def test_drains_and_overrides_go_ahead_on_the_local_journal(rig: Rig, passes: str) -> None:
    rig.notebook.acknowledges = False

    (outcome,) = await rig.apply(change(rig.target("b"), 4, passes=passes))

    assert says(outcome, "written")


async def test_a_reclaim_waits_for_the_acknowledgement(rig: Rig) -> None:
    rig.notebook.acknowledges = False

    (outcome,) = await rig.apply(change(rig.target("b"), 4, passes="reclaim"))

    assert says(outcome, "refused", "unrecorded")


async def test_a_raise_waits_for_no_acknowledgement(rig: Rig) -> None:
    rig.notebook.acknowledges = False
    rig.stand(rig.policy, rig.facts)
    target = rig.show("b", replicas=4, pods=rig.target("b").pods[:4])
    rig.store.put(deployment("b", 4))

    (outcome,) = await rig.apply(change(target, 5))

    assert says(outcome, "written")


async def test_a_release_that_calls_itself_a_grant_still_needs_the_acknowledgement(rig: Rig) -> None:
    rig.notebook.acknowledges = False

    (outcome,) = await rig.apply(change(rig.target("b"), 4, kind="grant", replicas_from=3))

    assert says(outcome, "refused", "unrecorded")
    assert rig.writes == []


# --- what becomes of a write


async def test_a_conflict_is_refused_and_not_tried_again(rig: Rig) -> None:
    rig.server.faults.fail_next(1, 409, method="PUT")

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "conflict")
    assert [entry.code for entry in rig.writes] == [409]
    assert rig.written == []


async def test_a_writer_that_comes_between_read_and_write_wins(rig: Rig) -> None:
    def come_between() -> None:
        rig.store.put(deployment("b", 9))

    rig.notebook.before_answer = come_between

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "refused", "conflict")
    assert rig.replicas("b") == 9


async def test_a_lost_reply_is_read_back_and_found_written(rig: Rig) -> None:
    rig.server.faults.lose_next_replies(1, method="PUT")

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "written", "the reply was lost; the object shows our value")
    assert len(rig.writes) == 1
    assert rig.written == [("b", 4)]


async def test_a_reply_lost_before_the_write_took_effect_is_unknown_and_not_sent_again(rig: Rig) -> None:
    rig.server.faults.fail_next(1, 500, method="PUT")

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "unknown")
    assert outcome.happened
    assert len(rig.writes) == 1
    assert rig.written == []


async def test_a_lost_reply_that_cannot_be_read_back_is_unknown(rig: Rig) -> None:
    rig.server.faults.lose_next_replies(1, method="PUT")
    rig.notebook.before_answer = lambda: rig.server.faults.fail_next(3, 500, method="GET", path_part="/deployments/b")

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "unknown")


async def test_a_denied_write_fails_with_words_and_the_next_change_goes_on(rig: Rig) -> None:
    rig.server.faults.fail_next(1, 403, method="PUT", path_part="/b/")

    denied, other = await rig.apply(change(rig.target("b"), 4), change(rig.target("a"), 2))

    assert says(denied, "failed")
    assert "deployments" in denied.detail
    assert says(other, "written")


async def test_an_exception_in_one_change_never_stops_the_next_ones(rig: Rig) -> None:
    broken = change(rig.target("b"), 4, victims=("x",), victim_names=())  # victims without names: a bug of ours

    with capture_logs() as logged:
        first, second = await rig.apply(broken, change(rig.target("a"), 2))

    assert says(first, "failed", "ValueError")
    assert [entry["log_level"] for entry in logged] == ["error"]
    assert says(second, "written")


async def test_a_recorder_that_breaks_costs_a_drain_nothing(rig: Rig) -> None:
    def break_down() -> None:
        raise OSError("disk full")

    rig.notebook.before_answer = break_down

    with capture_logs():
        drain, release = await rig.apply(change(rig.target("b"), 4, passes="drain"), change(rig.target("a"), 2))

    assert says(drain, "written")
    assert says(release, "refused", "unrecorded")


async def test_a_number_that_a_webhook_changed_is_told_as_stored(rig: Rig) -> None:
    def never_below_five(_target: object, _old: object, new: dict[str, Any]) -> None:
        new["spec"]["replicas"] = max(5, new["spec"]["replicas"])

    rig.server.verbs.admit = never_below_five

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "written", "stored as 5, not 4")
    assert rig.written == [("b", 5)]


# --- order


async def test_releases_are_written_before_grants_and_holds_before_both(rig: Rig) -> None:
    rig.store.put(node_pool())
    target = rig.show("a", pods=rig.target("a").pods[:2])  # one of a's pods has gone: room for one more of b

    outcomes = await rig.apply(
        node_pool_change("end-hold", name="other"),
        node_pool_change("hold"),
        change(rig.target("b"), 6),
        change(replace(target, asked=None), 1),
    )

    assert [entry.target.name for entry in rig.writes if entry.target] == ["spot", "a", "b"]
    assert [outcome.intent.subject for outcome in outcomes] == ["spot", "a", "b", "other"]


async def test_changes_of_one_object_keep_the_plans_order(rig: Rig) -> None:
    rig.store.put(deployment("b", 4))
    target = rig.show("b", replicas=4, pods=rig.target("b").pods[:4])

    first, second = await rig.apply(change(target, 5), change(replace(target, asked=5), 4))

    assert says(first, "written")
    assert says(second, "written")
    assert rig.replicas("b") == 4
