"""What must hold before anything is written, and what is told about it afterwards."""

from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from rebalancer.domain.outcome import Outcome
from rebalancer.sandbox.api.resources import DEPLOYMENTS, STATEFULSETS
from tests.act.rig import Rig, change, deployment, node_pool, node_pool_change, refused, says, scaled_object
from tests.builders import NAMESPACE, a_model, a_notice, a_policy, a_pool, a_snapshot, a_write_stop, an_autoscaler


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


@pytest.mark.parametrize("passes", ["drain", "override pin-b"])
async def test_drains_and_overrides_wait_a_second_for_their_acknowledgement(rig: Rig, passes: str) -> None:
    """While Kafka answers, the next leader knows of them as of any other decrease."""
    await rig.apply(change(rig.target("b"), 4, passes=passes))

    assert rig.notebook.waits == [1.0]


async def test_with_kafka_silent_one_second_is_lost_for_all_urgent_decreases_of_a_plan(rig: Rig) -> None:
    """A notice is to reach its first call within two, and a plan may hold hundreds."""
    rig.notebook.acknowledges = False

    target = rig.target("b")
    then = change(replace(target, replicas=4, unconfirmed_replicas=4), 3, passes="drain")
    outcomes = await rig.apply(change(target, 4, passes="drain"), then)

    assert [outcome.status for outcome in outcomes] == ["written", "written"]
    assert rig.notebook.waits == [1.0, 0.0]


async def test_while_kafka_takes_longer_than_the_urgent_wait_others_wait_for_it_all_the_same(rig: Rig) -> None:
    rig.notebook.seconds = 1.5

    target = rig.target("b")
    then = change(replace(target, replicas=4, unconfirmed_replicas=4), 3)
    outcomes = await rig.apply(change(target, 4, passes="drain"), then)

    assert [outcome.status for outcome in outcomes] == ["written", "written"]
    assert rig.notebook.waits == [1.0, 5.0]


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
    assert rig.notebook.waits == [0.0]


async def test_a_release_that_calls_itself_a_grant_still_needs_the_acknowledgement(rig: Rig) -> None:
    rig.notebook.acknowledges = False

    (outcome,) = await rig.apply(change(rig.target("b"), 4, kind="grant", replicas_from=3))

    assert says(outcome, "refused", "unrecorded")
    assert rig.writes == []


# --- what becomes of a write


async def test_a_conflict_by_a_status_update_is_looked_at_again_and_written(rig: Rig) -> None:
    """Only the revision moved: what the plan stands on is still true, and every check is asked again."""

    def become_ready() -> None:
        rig.store.patch(DEPLOYMENTS, "b", {"status": {"readyReplicas": 5}}, NAMESPACE)

    rig.notebook.before_answer = become_ready

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "written")
    assert [entry.code for entry in rig.writes] == [409, 200]
    assert len(rig.notebook.intents) == 1


async def test_after_a_conflict_the_checks_are_asked_again(rig: Rig) -> None:
    rig.server.faults.fail_next(1, 409, method="PUT")

    def press() -> None:
        rig.facts = replace(rig.facts, write_stop=a_write_stop())

    rig.notebook.before_answer = press

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert refused(outcome, "write-stop")
    assert [entry.code for entry in rig.writes] == [409]


async def test_conflict_after_conflict_is_left_to_the_next_cycle(rig: Rig) -> None:
    rig.server.faults.fail_next(9, 409, method="PUT")

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert refused(outcome, "conflict")
    assert [entry.code for entry in rig.writes] == [409, 409, 409]
    assert rig.written == []


async def test_a_writer_that_comes_between_read_and_write_wins(rig: Rig) -> None:
    def come_between() -> None:
        rig.store.put(deployment("b", 9))

    rig.notebook.before_answer = come_between

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert refused(outcome, "moved")
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


async def test_a_minimum_that_a_webhook_changes_is_told_as_stored_and_asked_for_twice_only(rig: Rig) -> None:
    def at_least_four(_target: object, _old: object, new: dict[str, Any]) -> None:
        if new["kind"] == "ScaledObject":
            new["spec"]["minReplicaCount"] = max(4, new["spec"]["minReplicaCount"])

    rig.server.verbs.admit = at_least_four
    rig.store.put(scaled_object("b", 4, 9))
    gate = rig.gate()
    outcomes: list[Outcome] = []
    for low, high in ((4, 9), (4, 5), (4, 5)):
        target = rig.show("b", autoscaler=an_autoscaler(low, high), unconfirmed_replicas=None)
        outcomes += await rig.apply_by(gate, change(target, 5, kind="bounds", minimum=3))
        rig.clock.passed += 10.0

    for outcome in outcomes[:2]:
        assert says(outcome, "written", "stored as 4..5, not 3..5: an admission webhook changed it")
    assert refused(outcomes[2], "webhook")


# --- order


async def test_releases_are_written_before_grants_and_holds_before_both(rig: Rig) -> None:
    rig.store.put(node_pool())
    target = rig.show("a", pods=rig.target("a").pods[:2])  # one of a's pods has gone: room for one more of b

    outcomes = await rig.apply(
        node_pool_change("end-hold", name="other"),
        node_pool_change("hold"),
        change(rig.target("b"), 6),
        change(replace(target, unconfirmed_replicas=None), 1),
    )

    assert [entry.target.name for entry in rig.writes if entry.target] == ["spot", "a", "b"]
    assert [outcome.intent.subject for outcome in outcomes] == ["spot", "a", "b", "other"]


async def test_changes_of_one_object_keep_the_plans_order(rig: Rig) -> None:
    rig.store.put(deployment("b", 4))
    target = rig.show("b", replicas=4, pods=rig.target("b").pods[:4])

    first, second = await rig.apply(change(target, 5), change(replace(target, unconfirmed_replicas=5), 4))

    assert says(first, "written")
    assert says(second, "written")
    assert rig.replicas("b") == 4


# --- what else may break


async def test_after_one_silence_of_kafka_the_other_decreases_do_not_wait(rig: Rig) -> None:
    rig.notebook.acknowledges = False
    gate = rig.gate()

    first, second = await rig.apply_by(gate, change(rig.target("b"), 4), change(rig.target("b"), 3))
    asked = len(rig.notebook.intents)
    rig.notebook.acknowledges = True
    (later,) = await rig.apply_by(gate, change(rig.target("b"), 4))

    assert says(first, "refused", "unrecorded")
    assert says(second, "refused", "unrecorded")
    assert asked == 1
    assert says(later, "written")


async def test_a_write_that_the_state_could_not_hear_of_is_written_all_the_same(rig: Rig) -> None:
    rig.deaf = True

    with capture_logs() as logged:
        (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert says(outcome, "written")
    assert [entry["event"] for entry in logged] == ["a write could not be told"]


# --- targets that are no Deployments


class TestAStatefulSet:
    """Model b is a StatefulSet of 5 with a floor of 2; its replicas are numbered 0 to 4."""

    def stand(self, rig: Rig) -> None:
        policy = a_policy(a_model("a"), a_model("b", min_replicas=2, kind="StatefulSet"), pools=(a_pool(),))
        rig.policy, rig.facts = policy, a_snapshot(policy, replicas={"a": 3, "b": 5})
        rig.store.put(deployment("b", 5) | {"kind": "StatefulSet"})

    def of(self, rig: Rig) -> int:
        return int(rig.object(STATEFULSETS, "b")["spec"]["replicas"])

    async def test_it_is_scaled_and_nothing_is_marked(self, rig: Rig) -> None:
        self.stand(rig)
        b = rig.target("b")
        (outcome,) = await rig.apply(change(b, 4, victims=("uid-b-4",), victim_names=("b-4",)))
        assert says(outcome, "written")
        (entry,) = rig.writes
        assert (entry.path.endswith("/statefulsets/b/scale"), self.of(rig)) == (True, 4)

    async def test_its_floor_is_judged_by_the_numbers_that_stay_whatever_was_marked(self, rig: Rig) -> None:
        self.stand(rig)
        pods = [replace(pod, phase="ready" if pod.ordinal in {0, 4} else "loading") for pod in rig.target("b").pods]
        b = rig.show("b", pods=tuple(pods))
        (outcome,) = await rig.apply(change(b, 3, victims=("uid-b-3", "uid-b-2"), victim_names=("b-3", "b-2")))
        assert refused(outcome, "floor")
        assert "would keep 1 Ready replica" in outcome.detail

    async def test_a_doomed_one_is_taken_for_gone_only_where_a_decrease_ends_it(self, rig: Rig) -> None:
        self.stand(rig)
        pods = [replace(pod, node="n2" if pod.ordinal == 0 else pod.node) for pod in rig.target("b").pods]
        rig.facts = replace(rig.facts, notices=(a_notice("n2"),))
        b = rig.show("b", pods=tuple(pods))
        (outcome,) = await rig.apply(change(b, 2, victims=("uid-b-0", "uid-b-1", "uid-b-2"), passes="drain"))
        assert refused(outcome, "floor")
        assert "would keep 1 replica," in outcome.detail, "0 stays and is doomed, 1 stays, whatever was meant to go"
