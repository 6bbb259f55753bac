"""A number far below what a model holds, or would hold: whoever sets it, the model is given nothing for it."""

import pytest

from rebalancer.domain.people import Override
from rebalancer.domain.policy import Policy
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_override
from tests.planning.story import Story, change_of, moves, refused
from tests.planning.test_scenarios_shares import flat, steep

ALL_DAY = {"days": ("mon", "tue", "wed", "thu", "fri", "sat", "sun"), "from": "06:00", "until": "22:00"}
NIGHT = ({"name": "night", **ALL_DAY, "timeZone": "UTC", "maxReplicas": 4},)


def a_story_beside_idle_gpus() -> Story:
    """Model b has 12 replicas and gains from 18; 10 GPUs are idle. Its outlook knows 6 replicas and more."""
    policy = a_policy(a_model("a", 1), a_model("b", 1, entitlement=1), pools=(a_pool(gpus=24),))
    readings = {"a": {"concurrency": 4.0}, "b": {"concurrency": 48.0}}
    story = Story(policy, a_snapshot(policy, {"a": 2, "b": 12}, readings, {"a": 1.0, "b": 12.0}))
    story.foresee("b", steep(6, 18), level=12.0)
    story.foresee("a", flat(1, 8), level=1.0)
    return story


class TestBesideIdleGpus:
    @pytest.mark.parametrize("kind", ["cap", "pin"])
    @pytest.mark.parametrize("value", [11, 8, 6, 5, 4, 2])
    def test_a_model_capped_or_pinned_below_what_it_holds_goes_there_at_once(self, kind: str, value: int) -> None:
        story = a_story_beside_idle_gpus()
        story.override(an_override(kind, value=value))
        assert moves(story.turn()) == {"b": (12, value)}
        assert moves(story.turn()) == {}


class TestTheMaximumOfThePolicy:
    """It falls from 10 to 2 while b needs 5 of its 6 replicas; a person's number above it asked for none of that."""

    def a_story(self, needed_by_a: float, *overrides: Override) -> Story:
        def policy(most: int) -> Policy:
            models = a_model("a", 1, entitlement=4), a_model("b", 1, entitlement=1, max_replicas=most)
            return a_policy(*models, pools=(a_pool(gpus=7),))

        readings = {"a": {"concurrency": 4.0 * needed_by_a}, "b": {"concurrency": 20.0}}
        story = Story(policy(10), a_snapshot(policy(10), {"a": 1, "b": 6}, readings, {"a": needed_by_a, "b": 5.0}))
        story.override(*overrides)
        assert moves(story.turn()) == {}
        story.policy = policy(2)
        return story

    @pytest.mark.parametrize("kind", ["cap", "pin"])
    def test_what_is_above_it_goes_through_the_guards_whatever_a_person_allows(self, kind: str) -> None:
        changes = []
        for overrides in ((), (an_override(kind, value=8 if kind == "cap" else 6),)):
            story = self.a_story(0.5, *overrides)
            changes.append(change_of(story.plan(), "b"))
        assert (changes[0].replicas_to, changes[0].passes) == (5, None)
        assert changes[0] == changes[1]

    def test_a_cap_between_takes_at_once_down_to_the_cap_and_no_further(self) -> None:
        story = self.a_story(0.5)
        story.override(an_override("cap", value=4))
        plan = story.plan()
        change = change_of(plan, "b")
        assert (change.replicas_to, change.passes) == (3, None)
        assert "gives up 2 replicas for cap 4 by alice, override cap-b; gives up 1 replica that nobody" in change.reason
        assert ("step", "b") in refused(plan)

    def test_nor_does_it_give_to_others_in_the_persons_name(self) -> None:
        changes = []
        for overrides in ((), (an_override("cap", value=8),)):
            story = self.a_story(1.0, *overrides)
            story.load("a", {"concurrency": 8.0}, 2.0)
            changes.append([str(change) for change in story.plan().changes])
        assert changes[0] == changes[1]


def an_owner(cap: int | None = None, **schedules: object) -> Story:
    """Model code owns 6 of 8 GPUs and is served by 2, 5 with room for bursts; chat borrows 4 and needs all."""
    chat, code = a_model("chat", 1, entitlement=2), a_model("code", 1, entitlement=6, **schedules)
    policy = a_policy(chat, code, pools=(a_pool(gpus=8),))
    readings = {"chat": {"concurrency": 24.0}, "code": {"concurrency": 8.0}}
    story = Story(policy, a_snapshot(policy, {"chat": 6, "code": 2}, readings, {"chat": 6.0, "code": 2.0}))
    story.foresee("chat", steep(1, 12), level=6.0)
    story.foresee("code", {1: 40.0, 2: 0.2, 3: 0.1, **flat(4, 8)}, level=2.0)
    if cap is not None:
        story.override(an_override("cap", "code", cap))
    return story


class TestOfAnOwner:
    @pytest.mark.parametrize("cap", [None, 5, 4, 3])
    def test_a_cap_claims_nothing_that_its_work_does_not(self, cap: int | None) -> None:
        assert [moves(plan) for plan in an_owner(cap).turns(4)] == [{}] * 4

    def test_the_cap_of_a_schedule_neither(self) -> None:
        assert [moves(plan) for plan in an_owner(schedules=NIGHT).turns(4)] == [{}] * 4

    def test_a_pin_is_what_a_person_wants_it_to_have(self) -> None:
        story = an_owner()
        story.override(an_override("pin", "code", 4))
        story.turns(4)
        assert story.replicas("code") == 4


class TestAFloorOfAPerson:
    @pytest.mark.parametrize("cap", [None, 5, 4])
    def test_an_owner_who_comes_back_leaves_it_alone(self, cap: int | None) -> None:
        # chat owns 6 of 8 GPUs and needs them; code owns 2, is served by 2, and a person wants 4 there.
        policy = a_policy(a_model("chat", 1, entitlement=6), a_model("code", 1, entitlement=2), pools=(a_pool(gpus=8),))
        readings = {"chat": {"concurrency": 24.0}, "code": {"concurrency": 8.0}}
        story = Story(policy, a_snapshot(policy, {"chat": 4, "code": 4}, readings, {"chat": 6.0, "code": 2.0}))
        story.foresee("chat", steep(1, 12), level=6.0)
        story.foresee("code", {1: 40.0, 2: 0.2, 3: 0.1, **flat(4, 8)}, level=2.0)
        caps = () if cap is None else (an_override("cap", "code", cap),)
        story.override(an_override("floor", "code", 4), *caps)
        assert [moves(plan) for plan in story.turns(4)] == [{}] * 4
