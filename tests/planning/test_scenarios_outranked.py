"""An override that another one outranks changes nothing: not the floor either, which it could lower by itself."""

import pytest

from rebalancer.domain.people import Override
from tests.builders import a_model, a_node, a_policy, a_pool, a_snapshot, an_override
from tests.planning.story import Story, decision_of, moves

TO_NOTHING = an_override("cap", value=0, allow_below_floor=True)


def a_shrunken_story(*overrides: Override) -> Story:
    """Models a (floor 4) and b (floor 2) hold 4 GPUs each and need them; the pool has 4 left for certain."""
    policy = a_policy(a_model("a", 4, entitlement=4), a_model("b", 2, entitlement=2), pools=(a_pool(gpus=8),))
    readings = {name: {"concurrency": 16.0} for name in ("a", "b")}
    story = Story(policy, a_snapshot(policy, {"a": 4, "b": 4}, readings, {"a": 4.0, "b": 4.0}))
    story.override(*overrides)
    story.pool("a100", nodes=(a_node("a100-1", 8, foreign_gpus=4, labels={"pool": "a100"}),))
    return story


class TestOutranked:
    @pytest.mark.parametrize(
        "over", [an_override("pin", value=4), an_override("freeze")], ids=["by a pin", "by a freeze"]
    )
    def test_an_outranked_cap_takes_no_floor_away(self, over: Override) -> None:
        story = a_shrunken_story(over, TO_NOTHING)
        plans = story.turns(6, seconds=400.0)
        assert story.replicas("b") == 2
        assert {change.floor for plan in plans for change in plan.changes} == {2}

    def test_an_outranked_pin_takes_no_floor_away(self) -> None:
        story = a_shrunken_story(an_override("freeze"), an_override("pin", value=0, allow_below_floor=True))
        story.turns(6, seconds=400.0)
        assert story.replicas("b") == 2

    def test_a_model_that_is_paused_keeps_its_floor(self) -> None:
        story = a_shrunken_story(an_override("pause"), TO_NOTHING)
        assert decision_of(story.turn(), "b").floor == 2

    @pytest.mark.parametrize(
        "one", [an_override("pin", value=1), an_override("cap", value=1), an_override("floor", value=8)]
    )
    def test_a_number_below_a_freeze_sets_none(self, one: Override) -> None:
        decisions = []
        for overrides in ((an_override("freeze"), one), (an_override("freeze"),)):
            story = a_shrunken_story(*overrides)
            decisions.append(decision_of(story.plan(), "b"))
        assert decisions[0].demand == 4
        assert decisions[0] == decisions[1]

    def test_an_outranked_cap_takes_no_scheduled_floor_away(self) -> None:
        rush = {"name": "rush", "timeZone": "UTC", "from": "00:00", "until": "23:00", "minReplicas": 3}
        policy = a_policy(a_model("b", 1, schedules=(rush,)), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}))
        story.override(an_override("freeze"), an_override("cap", value=1))
        story.pool("a100", nodes=(a_node("a100-1", 8, foreign_gpus=8, labels={"pool": "a100"}),))
        story.turns(6, seconds=400.0)
        assert story.replicas("b") == 3

    def test_a_floor_override_outranks_no_cap(self) -> None:
        story = a_shrunken_story(TO_NOTHING, an_override("floor", value=3))
        story.turns(6, seconds=400.0)
        assert story.replicas("b") == 0

    def test_one_pinned_low_goes_as_low_as_the_pin_says_and_not_as_low_as_the_cap(self) -> None:
        story = a_shrunken_story(an_override("pin", value=1, allow_below_floor=True), TO_NOTHING)
        story.turns(6, seconds=400.0)
        assert story.replicas("b") == 1

    def test_what_went_below_the_floor_is_raised_to_a_newer_pin(self) -> None:
        story = a_shrunken_story(TO_NOTHING)
        story.pool("a100", nodes=(a_node("a100-1", 8, labels={"pool": "a100"}),))
        assert moves(story.turn()) == {"b": (4, 0)}
        story.override(TO_NOTHING, an_override("pin", value=1))
        story.turns(3)
        assert story.replicas("b") == 2  # at its floor: the pin does not say that it may go below
