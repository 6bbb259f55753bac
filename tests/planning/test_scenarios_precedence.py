"""Who comes first: the policy's priority, and among equals the PriorityClass of the pods."""

from msgspec.structs import replace

from rebalancer.domain.quota_view import PodRank
from tests.builders import a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, moves


def a_story(*, priority_of_a: int = 100, ranks: tuple[PodRank, ...] = ()) -> Story:
    """Models a and b want 6 more replicas each; 4 GPUs are free."""
    models = [a_model("a", 1, entitlement=1, priority=priority_of_a), a_model("b", 1, entitlement=1)]
    policy = a_policy(*models, pools=(a_pool("a100", 6),))
    readings = {name: {"concurrency": 28.0} for name in ("a", "b")}
    story = Story(policy, replace(a_snapshot(policy, {"a": 1, "b": 1}, readings), ranks=ranks))
    story.turns(12)
    return story


def held(story: Story) -> dict[str, int]:
    return {name: story.replicas(name) for name in ("a", "b")}


def test_among_equals_they_share() -> None:
    assert held(a_story()) == {"a": 3, "b": 3}


def test_among_equals_the_higher_priority_class_comes_first() -> None:
    assert held(a_story(ranks=(PodRank("b", "a100", "serving-high", 1000),))) == {"a": 1, "b": 5}
    assert held(a_story(ranks=(PodRank("b", "a100", "serving-low", -5),))) == {"a": 5, "b": 1}


def test_what_the_policy_says_stands_before_it() -> None:
    assert held(a_story(priority_of_a=200, ranks=(PodRank("b", "a100", "serving-high", 1000),))) == {"a": 5, "b": 1}


def test_nothing_moves_to_and_fro_for_it() -> None:
    story = a_story(ranks=(PodRank("b", "a100", "serving-high", 1000),))
    assert all(moves(plan) == {} for plan in story.turns(10))
