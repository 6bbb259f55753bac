"""Training and batch jobs take what no model gains from, after a while, and give it back to whoever lacks a replica.

chat serves on a pool of 8 GPUs to which no node comes; nightly's workers take what is idle there.
"""

import pytest
from hypothesis import given
from msgspec.structs import replace

from rebalancer.domain.policy import Model, Policy
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot, an_override
from tests.planning.story import Story, decision_of
from tests.planning.test_properties import live
from tests.planning.worlds import fewer, stories

COOLDOWN = 300.0  # of class batch


def a_taker() -> Model:
    return a_model("nightly", 0, workload_class="batch", takes_idle=True, signals={}, max_replicas=8)


def a_story(chat: int = 3, nightly: int = 0) -> Story:
    """Chat gains nothing from more than 3 replicas, and has a floor of 1."""
    policy: Policy = a_policy(a_model("chat", 1, entitlement=4, max_replicas=8), a_taker(), pools=(a_pool(gpus=8),))
    story = Story(policy, a_snapshot(policy, {"chat": chat, "nightly": nightly}, {"chat": {"concurrency": 8.0}}))
    gains(story, 3)
    return story


def gains(story: Story, count: int) -> None:
    """Chat is late without so many replicas, and gains nothing from more."""
    story.foresee("chat", {each: 100.0 * max(0, count - each) for each in range(1, 9)}, level=2.0)


def counts(story: Story) -> dict[str, int]:
    return {name: story.of(name).replicas for name in ("chat", "nightly")}


def later(story: Story, seconds: float = COOLDOWN) -> None:
    story.turn()
    story.wait(seconds)
    story.turn()


class TestOffered:
    def test_what_nobody_gains_from_is_offered_once_it_was_idle_for_a_cooldown(self) -> None:
        story = a_story()
        story.turn()
        story.wait(COOLDOWN - 20.0)
        story.turn()
        assert counts(story) == {"chat": 3, "nightly": 0}
        story.wait(20.0)
        story.turn()
        assert counts(story) == {"chat": 3, "nightly": 5}

    def test_idle_gpus_that_a_model_holds_are_let_go_for_it(self) -> None:
        story = a_story(chat=8)
        for _ in range(12):
            story.turn(60.0)
        assert counts(story) == {"chat": 3, "nightly": 5}

    def test_without_a_taker_they_stay(self) -> None:
        policy = a_policy(a_model("chat", 1, entitlement=4, max_replicas=8), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"chat": 8}, {"chat": {"concurrency": 8.0}}))
        gains(story, 3)
        for _ in range(12):
            story.turn(60.0)
        assert story.of("chat").replicas == 8

    def test_what_another_model_is_still_to_have_is_not_idle(self) -> None:
        story = a_story()
        story.turn()
        gains(story, 7)
        story.wait(COOLDOWN)
        story.turn()
        assert counts(story) == {"chat": 7, "nightly": 1}

    def test_nobody_is_short_for_it_and_it_is_never_short(self) -> None:
        story = a_story(chat=8)
        gains(story, 8)
        for _ in range(12):
            story.turn(60.0)
        assert counts(story) == {"chat": 8, "nightly": 0}
        assert story.plan().unmet == ()

    def test_a_person_caps_pins_and_freezes_it(self) -> None:
        for kind, value, expected in (("cap", 2, 2), ("pin", 1, 1), ("freeze", None, 0)):
            story = a_story()
            story.override(an_override(kind, "nightly", value))
            later(story)
            assert counts(story)["nightly"] == expected, kind

    def test_explained(self) -> None:
        story = a_story()
        steps = {one.stage: one.said for one in decision_of(story.turn(), "nightly").steps}
        assert steps["demand"] == "it takes what no model gains from, and needs nothing"
        assert steps["idle"] == "more is idle since 08:00:00 and is offered at 08:05:00"
        assert "deferral" not in steps
        story.wait(COOLDOWN)
        steps = {one.stage: one.said for one in decision_of(story.turn(), "nightly").steps}
        assert steps["idle"] == "more is idle since 08:00:00 and was offered then"
        steps = {one.stage: one.said for one in decision_of(story.turn(), "nightly").steps}
        assert "idle" not in steps


class TestHomecoming:
    def test_whoever_gains_gets_it_in_the_same_plan_beyond_step_and_fleet(self) -> None:
        story = a_story(nightly=5)
        gains(story, 7)
        plan = story.plan()
        release = next(change for change in plan.changes if change.model == "nightly")
        assert (release.replicas_from, release.replicas_to, release.recipients) == (5, 1, ("chat",))
        assert release.passes == "reclaim"
        story.write(plan)
        story.settle()
        story.turns(2)
        assert counts(story) == {"chat": 7, "nightly": 1}

    def test_a_replica_of_several_gpus_gets_the_node_of_several_workers(self) -> None:
        models = a_model("chat", 1, entitlement=1, gpus_per_replica=4), a_taker()
        policy = a_policy(*models, pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"chat": 1, "nightly": 4}, {"chat": {"concurrency": 8.0}}))
        gains(story, 2)
        story.turns(2)
        assert counts(story) == {"chat": 2, "nightly": 0}

    def test_its_gpus_go_before_those_that_a_model_of_lower_priority_needs(self) -> None:
        models = [a_model("chat", 4, entitlement=4), a_model("code", 1, entitlement=1, priority=90), a_taker()]
        policy = a_policy(*models, pools=(a_pool(gpus=8),))
        held = {"chat": 2, "code": 4, "nightly": 2}
        story = Story(policy, a_snapshot(policy, held, {name: {"concurrency": 8.0} for name in ("chat", "code")}))
        story.foresee("chat", {each: 100.0 * max(0, 4 - each) for each in range(4, 9)}, level=2.0)
        story.foresee("code", {each: 50.0 * max(0, 4 - each) for each in range(1, 9)}, level=2.0)
        assert {change.model for change in story.turn().changes} == {"nightly"}
        story.turn()
        assert {name: story.of(name).replicas for name in held} == {"chat": 4, "code": 4, "nightly": 0}

    def test_when_the_pool_shrinks_its_replicas_go_first_though_nobody_sees_them(self) -> None:
        story = a_story(chat=3, nightly=5)
        story.snapshot = replace(story.snapshot, loads=story.snapshot.loads[:1])  # chat's
        story.policy = a_policy(*story.policy.models, pools=(a_pool(gpus=5),))
        plan = story.turn()
        assert counts(story) == {"chat": 3, "nightly": 2}
        assert plan.refusals == ()

    def test_a_floor_that_rises_is_met_at_once(self) -> None:
        story = a_story(chat=1, nightly=7)
        models = a_model("chat", 6, entitlement=6, max_replicas=8), a_taker()
        story.policy = a_policy(*models, pools=(a_pool(gpus=8),))
        story.turns(2)
        assert counts(story) == {"chat": 6, "nightly": 2}

    @pytest.mark.parametrize("intervals", [0, 5])
    def test_a_start_without_a_sample_of_it_waits_for_nothing(self, intervals: int) -> None:
        story = a_story(nightly=5)
        gains(story, 7)
        loads = tuple(
            replace(load, intervals_live=5 if load.model == "chat" else intervals) for load in story.snapshot.loads
        )
        story.snapshot = replace(story.snapshot, loads=loads)
        story.turns(2)
        assert counts(story) == {"chat": 7, "nightly": 1}


def test_it_takes_no_gpu_of_a_model_that_nobody_sees() -> None:
    story = a_story(chat=8)
    story.snapshot = replace(story.snapshot, loads=())
    for _ in range(12):
        story.turn(60.0)
    assert counts(story) == {"chat": 8, "nightly": 0}
    assert story.snapshot.at > NOW


@fewer(40)
@given(stories())
def test_in_no_world_is_a_floor_or_a_budget_broken_for_it(story: Story) -> None:
    fixed = {pool.name for pool in story.policy.pools if not pool.brings_nodes}
    nothing = {"takes_idle": True, "workload_class": "batch", "min_replicas": 0, "entitlement": 0, "ratio": None}
    models = [
        model.model_copy(update=nothing)
        if model.workload_class == "batch" and {target.pool for target in model.targets} <= fixed
        else model
        for model in story.policy.models
    ]
    story.policy = story.policy.model_copy(update={"models": tuple(models)})
    live(story, 4)
    live(story, 3, seconds=COOLDOWN)
