"""A model whose ScaledObject follows our answer: it is moved within that object's own bounds, or left alone by name."""

from rebalancer.domain.snapshot import MetricView
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_autoscaler
from tests.planning.story import Story, moves, refusal_of

POLICY = a_policy(a_model("b", 1, entitlement=6, actuation="metric"), pools=(a_pool(gpus=8),))


def a_story(metric: MetricView, minimum: int = 1, maximum: int = 8, need: float = 24.0) -> Story:
    """`b` has 3 replicas, each of which carries 4 requests, and needs 6."""
    load = {"b": {"concurrency": need}}
    story = Story(POLICY, a_snapshot(POLICY, {"b": 3}, load, {"b": need / 4}))
    story.target("b", autoscaler=an_autoscaler(minimum, maximum), metric=metric)
    return story


def test_it_is_raised_to_what_it_needs_and_no_further_than_its_scaled_object_goes() -> None:
    assert moves(a_story(MetricView()).plan()) == {"b": (3, 6)}
    assert moves(a_story(MetricView(), maximum=5).plan()) == {"b": (3, 5)}


def test_one_that_would_not_follow_is_left_alone_and_named() -> None:
    plan = a_story(MetricView(faults=("its targetValue is 10, not 1",))).plan()
    assert moves(plan) == {}
    assert "its targetValue is 10, not 1" in refusal_of(plan, "owner", "b").why
