"""A model that nobody asks has no latency to report: seen to be idle it agrees to fewer, unseen it does not."""

import pytest

from rebalancer.domain.readings import NoReading, Reading, Signal
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, decision_of, moves, refusal_of

SIGNALS = {"concurrency": {"per_replica": 4.0}, "latency": True}
NOBODY: dict[str, float | Signal] = {"concurrency": 0.0, "queue": 0.0}
SLO = {"latency_seconds": 2.0}


def a_story(readings: dict[str, float | Signal], ready: int = 4) -> Story:
    """Model b, floor 1, with `ready` replicas; nobody else is there."""
    policy = a_policy(a_model("b", 1, signals=SIGNALS, slo=SLO, entitlement=8), pools=(a_pool(gpus=16),))
    return Story(policy, a_snapshot(policy, {"b": ready}, {"b": readings}, {"b": 0.0}))


def falls(readings: dict[str, float | Signal]) -> bool:
    """Whether b's demand falls after the cooldown."""
    story = a_story(readings)
    story.plan()
    story.wait(30.0)
    return decision_of(story.plan(), "b").demand == 1


@pytest.mark.parametrize(
    "latency",
    [
        NoReading("never-seen"),
        NoReading("absent"),
        Reading(9.0, NOW - 20.0, 1.0),  # from before it was idle
        Reading(9.0, NOW - 1.0, 0.25),  # of the one pod that answered somebody a minute ago
    ],
)
def test_an_idle_model_agrees_to_fewer_without_a_latency(latency: Signal) -> None:
    assert falls({**NOBODY, "latency": latency})


@pytest.mark.parametrize(
    "readings",
    [
        {"concurrency": 0.0},  # who waits is not told
        {"queue": 0.0},
        {"concurrency": 0.0, "queue": NoReading("absent")},
        {"concurrency": 0.1, "queue": 0.0},
        {"concurrency": 1.0, "queue": 1.0},
        {"concurrency": 0.0, "queue": Reading(0.0, NOW - 16.0, 1.0)},  # three intervals of 5 s are 15 s
        {"concurrency": 0.0, "queue": Reading(0.0, NOW - 1.0, 0.79)},
        {"concurrency": Reading(0.0, NOW - 1.0, 0.79), "queue": 0.0},
        {**NOBODY, "latency": NoReading("not-finite")},  # somebody was answered late beyond all buckets
        {**NOBODY, "latency": Reading(float("inf"), NOW - 1.0, 1.0)},
        {**NOBODY, "latency": 1.5},  # a latency that is there speaks for itself
    ],
)
def test_unknown_is_not_idle(readings: dict[str, float | Signal]) -> None:
    assert not falls(readings)


def test_an_idle_model_asks_for_its_floor_and_the_explanation_says_so() -> None:
    step = decision_of(a_story({**NOBODY, "latency": NoReading("absent")}).plan(), "b").steps[0]
    assert step.said == "concurrency asks for 0 (0 requests in flight, 1 s ago); latency asks for 1 (idle, 1 s ago)"
    assert step.numbers == {"concurrency": 0, "latency": 1}


def test_an_idle_model_lends_and_one_that_is_not_seen_does_not() -> None:
    models = (a_model("a", 1, priority=1, signals=SIGNALS, slo=SLO), a_model("b", 1, priority=1000))
    policy = a_policy(*models, pools=(a_pool(gpus=8),))
    for readings in (NOBODY, {"concurrency": 0.0}):
        story = Story(policy, a_snapshot(policy, {"a": 7, "b": 1}, {"a": readings, "b": {"concurrency": 32.0}}))
        story.turn()  # borrowing waits one planning period
        story.wait(30.0)
        plan = story.plan()
        if readings is NOBODY:
            assert moves(plan)["a"][1] < 7
        else:
            assert moves(plan) == {}
            assert refusal_of(plan, "agree", "a").why == "1 usable vote where 2 must agree: latency was never seen"


def test_without_a_ready_replica_nobody_is_idle() -> None:
    step = decision_of(a_story(NOBODY, ready=0).plan(), "b").steps[0]
    assert "latency was never seen, so it has no vote" in step.said
