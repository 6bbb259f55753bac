"""A latency in its histogram's last bucket is known to be more than a bound: what that bound says counts, no more."""

import pytest

from rebalancer.domain.readings import Reading
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, decision_of, unmet_of

ABOVE = Reading(30.0, NOW, 1.0, above=True)


def a_story(slo_seconds: float, readings: dict[str, float | Reading], signals: dict[str, object], gpus: int) -> Story:
    """Model b with 4 replicas, whose latency is more than 30 s."""
    b = a_model("b", 1, entitlement=8, signals={"latency": True, **signals}, slo={"latency_seconds": slo_seconds})
    policy = a_policy(b, pools=(a_pool(gpus=gpus),))
    return Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"latency": ABOVE, **readings}}, {"b": 0.0}))


@pytest.mark.parametrize(
    ("slo_seconds", "replicas"),
    [
        (20.0, 6),  # ceil(4 x 30 / 20): the least that it can be
        (30.0, 4),  # late, by how much nobody knows
        (50.0, 4),  # late or not, it agrees to no fewer
    ],
)
def test_it_asks_for_what_its_bound_asks_for(slo_seconds: float, replicas: int) -> None:
    decision = decision_of(a_story(slo_seconds, {}, {}, gpus=16).plan(), "b")
    assert decision.demand == replicas
    assert decision.steps[0].said.startswith(f"latency asks for {replicas} (more than 30 s, ")


def test_a_bound_that_would_agree_to_fewer_says_nothing() -> None:
    # Of 90 s 31 would agree and 89 would not. The empty queue alone takes nothing.
    story = a_story(90.0, {"queue": 0.0}, {"queue": {"high": 4.0}}, gpus=16)
    decision = decision_of([*story.turns(60)][-1], "b")
    assert decision.demand == 4
    assert "latency is more than 30 s, so it has no vote" in decision.steps[0].said


@pytest.mark.parametrize("slo_seconds", [20.0, 30.0, 40.0])
def test_nobody_is_called_in_time_by_it_and_late_who_is(slo_seconds: float) -> None:
    # 40 requests, 4 per replica: 10 replicas, says the figure; there are 4 GPUs.
    story = a_story(slo_seconds, {"concurrency": 40.0}, {"concurrency": {"per_replica": 4.0}}, gpus=4)
    lacks = unmet_of(story.turns(3)[-1], "b")
    assert lacks is not None
    assert lacks.replicas == 6
    assert (f"latency is more than 30 s, its SLO {slo_seconds:g} s" in lacks.lateness) == (slo_seconds <= 30.0)
