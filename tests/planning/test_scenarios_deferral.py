"""Batch work yields first and is deferred, not starved: once per hour it has a turn of a quarter of an hour.

b is batch and shares 8 GPUs with a, which is interactive and gains from all of them. b's level is 4.0: it needs
ceil(4 + 1.5 x 2) = 7; a quarter of that is 2.
"""

import pytest

from rebalancer.domain.plan import Plan, Step
from rebalancer.domain.policy import DeferralRule
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, decision_of

HOUR, QUARTER = 3600.0, 900.0
NEED = 7


def a_story(held: dict[str, int], workload_class: str = "batch", saved: tuple[float, float] = (50.0, 100.0)) -> Story:
    """Every replica saves a `saved[0]` late requests and b `saved[1]`."""
    b = a_model("b", 0, workload_class=workload_class)
    policy = a_policy(a_model("a"), b, pools=(a_pool(gpus=8),))
    story = Story(policy, a_snapshot(policy, held, {name: {"concurrency": 4.0} for name in held}))
    for name, each in zip(("a", "b"), saved, strict=True):
        foresee(story, name, each)
    return story


def foresee(story: Story, name: str, each: float) -> None:
    least = 1 if name == "a" else 0
    story.foresee(name, {count: each * (8 - count) for count in range(least, 9)}, level=4.0)


def shares(plan: Plan) -> dict[str, int]:
    return {one.model: one.allocation for one in plan.models}


def step(plan: Plan) -> Step | None:
    return next((each for each in decision_of(plan, "b").steps if each.stage == "deferral"), None)


def at(story: Story, seconds: float) -> Plan:
    """The plan so many seconds after NOW, with everything as it was."""
    story.wait(NOW + seconds - story.snapshot.at)
    return story.plan()


class TestYielding:
    def test_what_it_saves_counts_a_tenth(self) -> None:
        # b would save 100 with each replica, a 50: at equal priority b's would be worth more. 10 < 50: a has all.
        assert shares(a_story({"a": 4, "b": 4}).plan()) == {"a": 8, "b": 0}

    def test_other_classes_do_not_yield(self) -> None:
        assert shares(a_story({"a": 4, "b": 4}, "interactive").plan()) == {"a": 1, "b": 7}

    def test_it_has_what_nobody_else_gains_from(self) -> None:
        assert shares(a_story({"a": 1, "b": 0}, saved=(0.0, 2.0)).plan()) == {"a": 1, "b": 7}

    def test_explained(self) -> None:
        plan = a_story({"a": 1, "b": 7}, saved=(0.0, 2.0)).plan()
        found = step(plan)
        assert found is not None
        assert found.said == "a request of batch work weighs 0.1 of its priority"
        assert next((one for one in decision_of(plan, "a").steps if one.stage == "deferral"), None) is None


class TestTurn:
    @pytest.mark.parametrize(
        ("seconds", "replicas"),
        [
            (HOUR - QUARTER - 1, 0),
            (HOUR - QUARTER, 2),  # a quarter of 7, rounded up
            (HOUR - 1, 2),
            (HOUR, 0),  # the next window begins
            (2 * HOUR - QUARTER, 2),
        ],
    )
    def test_once_per_window_a_share_of_its_need_comes_before_any_gain(self, seconds: float, replicas: int) -> None:
        # It saves so little that its whole priority is not enough either: 20 < 50.
        story = a_story({"a": 8, "b": 0}, saved=(50.0, 20.0))
        story.plan()
        if seconds > HOUR:
            at(story, HOUR)
        assert shares(at(story, seconds))["b"] == replicas

    def test_in_its_turn_it_counts_as_others_do(self) -> None:
        # 100 > 50: in its turn it has all it gains from, down to a's floor.
        story = a_story({"a": 8, "b": 0})
        story.plan()
        assert shares(at(story, HOUR - QUARTER)) == {"a": 1, "b": 7}

    def test_it_keeps_its_turn_though_it_then_has_what_it_needs(self) -> None:
        story = a_story({"a": 8, "b": 0})
        story.plan()
        story.wait(HOUR - QUARTER)
        story.turns(12, 60.0)  # guards let a give half of what it has above its floor in a minute
        assert story.replicas("b") >= 2
        foresee(story, "a", 50.0)
        foresee(story, "b", 20.0)
        assert shares(story.plan())["b"] >= 2

    def test_who_has_what_it_needs_is_not_deferred(self) -> None:
        story = a_story({"a": 1, "b": NEED}, saved=(0.0, 2.0))
        story.plan()
        foresee(story, "a", 50.0)
        assert shares(at(story, HOUR - QUARTER)) == {"a": 8, "b": 0}

    def test_what_was_enough_again_before_its_turn_begins_anew(self) -> None:
        story = a_story({"a": 4, "b": 4}, saved=(0.0, 2.0))
        story.plan()
        story.wait(600.0)
        story.target("b", replicas=NEED)
        story.settle()
        story.plan()
        assert story.memory.models["b"].deferred_since is None

    def test_guards_hold(self) -> None:
        # a holds 8 and needs them: half of what it has above its floor of 1, so 3, in a minute, though b is due 7.
        story = a_story({"a": 8, "b": 0})
        story.load("a", {"concurrency": 32.0}, work=8.0)
        foresee(story, "a", 50.0)
        story.plan()
        plan = at(story, HOUR - QUARTER)
        assert {change.model: change.replicas_to for change in plan.changes} == {"a": 5}

    def test_explained_with_its_instants(self) -> None:
        # NOW is 08:00.
        story = a_story({"a": 8, "b": 0})
        found = step(story.plan())
        assert found is not None
        assert "deferred since 08:00:00 and has its turn at 08:45:00" in found.said
        found = step(at(story, HOUR - QUARTER))
        assert found is not None
        assert found.said == "it has its turn until 09:00:00: 2 replicas of it come before what anybody gains"


def test_a_share_of_nothing_is_still_one_replica() -> None:
    b = a_model("b", 0, workload_class="batch")
    policy = a_policy(a_model("a"), b, pools=(a_pool(gpus=8),), deferral=DeferralRule(share=0.0))
    story = Story(policy, a_snapshot(policy, {"a": 8, "b": 0}, {"a": {"concurrency": 4.0}, "b": {"concurrency": 4.0}}))
    foresee(story, "a", 50.0)
    foresee(story, "b", 20.0)
    story.plan()
    assert shares(at(story, HOUR - QUARTER))["b"] == 1
