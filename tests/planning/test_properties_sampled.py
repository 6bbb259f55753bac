"""What holds when the look-ahead is the real one: samples in, outlooks from their rings, plans out."""

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.builders import a_model, a_policy, a_pool
from tests.planning.sampled import Sampled
from tests.planning.worlds import fewer, patience

MODELS = ("a", "b", "c")
BOTH = {"concurrency": {"per_replica": 4.0}, "queue": {"high": 4.0}}


def a_world(gpus: int = 8, **replicas: int) -> Sampled:
    """Models with a floor of 1 and what they own, on one node."""
    models = [a_model(name, 1, entitlement=2, signals=BOTH) for name in replicas]
    return Sampled(a_policy(*models, pools=(a_pool(gpus=gpus),)), dict(replicas), gpus)


def turns_of(course: list[int]) -> int:
    """How often a course changes its direction."""
    steps = [now > before for before, now in itertools.pairwise(course) if now != before]
    return sum(one != other for one, other in itertools.pairwise(steps))


def test_under_constant_load_nothing_goes_back_and_forth_and_all_comes_to_rest() -> None:
    world = a_world(a=3, b=3, c=2)
    course = world.lives(25, {"a": 0.5, "b": 2.2, "c": 1.1})
    for name in MODELS:
        assert turns_of([at[name] for at in course]) <= 1, [at[name] for at in course]
    assert course[-60] == course[-1], "at rest for the last ten minutes"


def test_an_overloaded_model_whose_backlog_cannot_drain_is_not_starved() -> None:
    # b is offered three times what all GPUs together could do; its queue only grows, whatever it gets. a needs 1 or 2.
    world = a_world(a=4, b=4)
    course = world.lives(15, {"a": 0.5, "b": 24.0})
    assert course[-1]["b"] >= 6, [at["b"] for at in course]
    assert all(later["b"] >= now["b"] for now, later in itertools.pairwise(course[30:]))


def test_two_overloaded_models_both_get_more_than_their_floors() -> None:
    world = a_world(a=4, b=4)
    course = world.lives(15, {"a": 20.0, "b": 24.0})
    assert min(course[-1].values()) >= 2, course[-1]
    assert sum(course[-1].values()) == 8


def test_a_model_that_falls_silent_keeps_what_it_has() -> None:
    world = a_world(a=4, b=4)
    world.lives(5, {"a": 0.5, "b": 2.0})
    before = world.replicas["a"]
    course = world.lives(10, {"a": None, "b": 20.0})
    assert all(at["a"] >= before for at in course)


class SampledWorld(RuleBasedStateMachine):
    """Minutes of load, silence, pods that come late: after every plan floors and the budget stand, twice the same."""

    @initialize(replicas=st.tuples(*[st.integers(1, 3)] * 3), priority=st.sampled_from([100, 300]))
    def begin(self, replicas: tuple[int, int, int], priority: int) -> None:
        models = [
            a_model(name, 1, entitlement=2, signals=BOTH, priority=priority if name == "b" else 100) for name in MODELS
        ]
        policy = a_policy(*models, pools=(a_pool(gpus=9),))
        self.world = Sampled(policy, dict(zip(MODELS, replicas, strict=True)), 9)
        self.world.offered = dict.fromkeys(MODELS, 1.0)
        self.world.goes_on(120)

    @rule(model=st.sampled_from(MODELS), level=st.sampled_from([0.0, 0.3, 1.0, 2.5, 6.0, 30.0, None]))
    def load_changes(self, model: str, level: float | None) -> None:
        self.world.offered[model] = level

    @rule(seconds=st.sampled_from([10, 10, 30, 60]))
    def time_passes(self, seconds: int) -> None:
        self.world.goes_on(seconds)

    @rule()
    def pods_are_ready(self) -> None:
        self.world.become_ready()

    @rule(gpus=st.sampled_from([6, 9, 9]))
    def the_node_shrinks_or_grows(self, gpus: int) -> None:
        self.world.gpus = gpus

    @invariant()
    def the_wheel_turns(self) -> None:
        self.world.turn()


TestSampledWorld = pytest.mark.timeout(patience(180))(SampledWorld.TestCase)
TestSampledWorld.settings = settings(fewer(10), stateful_step_count=25)
