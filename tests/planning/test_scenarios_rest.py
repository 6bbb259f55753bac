"""How long a NodePool rests after a failure to bring a node."""

import pytest
from msgspec.structs import replace

from tests.builders import (
    a_node,
    a_node_claim,
)
from tests.planning.story import Story, change_of, moves
from tests.planning.test_scenarios_nodes import a_story, two_models


def rest_after_a_failed_claim(story: Story) -> float:
    """A node is asked for, its NodeClaim fails, it is withdrawn; seconds until one is asked for again."""
    assert story.turn().node_pools
    claim = a_node_claim(created_at=story.snapshot.at - 10.0, failed="InsufficientCapacity")
    story.pool("spot", node_pools=(replace(story.view("spot").node_pools[0], claims=(claim,)),))
    withdrawn = story.turn(0.0)
    assert {change.kind for change in withdrawn.changes} == {"withdraw"}
    story.pool("spot", node_pools=(replace(story.view("spot").node_pools[0], claims=()),))
    failed_at = story.snapshot.at
    while not story.plan().changes:
        story.wait(10.0)
    return story.snapshot.at - failed_at


class TestRest:
    def test_a_node_pool_rests_a_minute_after_a_failed_claim_then_twice_as_long_up_to_a_time_out(self) -> None:
        story = a_story(3)
        assert [rest_after_a_failed_claim(story) for _ in range(6)] == [60.0, 120.0, 240.0, 480.0, 900.0, 900.0]

    def test_what_fails_for_two_models_at_once_is_one_failure(self) -> None:
        story = two_models({"a": 3, "b": 3}, limit=32)
        assert [rest_after_a_failed_claim(story) for _ in range(2)] == [60.0, 120.0]

    def test_a_node_that_came_since_makes_the_next_failure_the_first(self) -> None:
        story = a_story(3)
        assert [rest_after_a_failed_claim(story) for _ in range(2)] == [60.0, 120.0]
        story.turn()
        story.karpenter()
        story.load("b", {"concurrency": 80.0})
        story.turn()
        assert rest_after_a_failed_claim(story) == 60.0

    def test_a_node_that_came_before_it_failed_does_not(self) -> None:
        story = a_story(20, held=16)
        assert [rest_after_a_failed_claim(story) for _ in range(2)] == [60.0, 120.0]

    def test_a_rest_ends_when_a_node_comes_after_all(self) -> None:
        # 900 s after it was asked for the node is given up; it comes 5 min later, for somebody else.
        story = a_story(3)
        story.turns(91)
        story.wait(300.0)
        node = a_node("spot-1", 8, foreign_gpus=8, node_pool="spot", ready_changed_at=story.snapshot.at)
        story.pool("spot", nodes=(node,))
        assert change_of(story.plan(), "b").grant is not None

    @pytest.mark.parametrize(("made_before_seconds", "rests"), [(86_400.0, True), (30.0, False)])
    def test_a_node_that_was_there_before_and_is_ready_again_ends_no_rest(
        self, made_before_seconds: float, *, rests: bool
    ) -> None:
        # One that was made while it was waited for, 30 s before it was given up, ends it.
        story = a_story(3)
        story.turns(91)
        made_at = story.snapshot.at - made_before_seconds
        story.wait(30.0)
        node = a_node("spot-1", 8, foreign_gpus=8, node_pool="spot", ready_changed_at=story.snapshot.at)
        story.pool("spot", nodes=(replace(node, created_at=made_at),))
        assert (moves(story.plan()) == {}) is rests

    def test_a_failure_long_past_counts_no_more(self) -> None:
        # The next claim fails 1000 s after the rest of the one before was over.
        story = a_story(3)
        assert [rest_after_a_failed_claim(story) for _ in range(2)] == [60.0, 120.0]
        story.load("b", {"concurrency": 0.0})
        story.wait(1000.0)
        story.turns(6)
        story.load("b", {"concurrency": 12.0})
        story.turn()
        assert rest_after_a_failed_claim(story) == 60.0
