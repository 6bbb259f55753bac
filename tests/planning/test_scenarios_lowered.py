"""A number far below what a model holds, or would hold: whoever sets it, the model is given nothing for it."""

import pytest

from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_override
from tests.planning.story import Story, moves
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
