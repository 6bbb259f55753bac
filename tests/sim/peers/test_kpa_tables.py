"""KPA against knative/serving `pkg/autoscaler/scaling/autoscaler_test.go`.

All tests that expect a number of pods or a panic. Left out: excess burst capacity (no activator is simulated), metrics
that are reported, pods that cannot be counted and metrics that cannot be read, pausing the collection.
"""

from dataclasses import dataclass, field, replace

import pytest

from rebalancer.sim.peers.kpa import Decider, Spec

NOW = 1000.0


def spec(target: float, up_rate: float = 10.0, down_rate: float = 10.0) -> Spec:
    """The project's test autoscaler."""
    return Spec(target, up_rate=up_rate, down_rate=down_rate)


@dataclass(frozen=True)
class Case:
    spec: Spec
    ready: int
    stable: float
    panic: float
    expected: int
    decider: Decider = field(default_factory=Decider)


SCALE = {
    "NoDataAtZeroNoAutoscale": Case(spec(10), 1, 0, 0, 0),
    "StableModeUnlimitedTBC": Case(spec(181), 1, 21, 26, 1),
    "0TBC": Case(spec(10), 1, 50, 49, 5),
    "StableModeNoChange": Case(spec(10), 1, 50, 50, 5),
    "PanicStableLargerThanPanic": Case(spec(1), 5, 50, 30, 50, Decider(NOW - 5, 5)),
    "PanicStableLessThanPanic": Case(spec(1), 5, 20, 30, 30, Decider(NOW - 5, 5)),
    "StableModeNoChangeAlreadyScaled": Case(spec(10), 5, 50, 50, 5),
    "StableModeIncreaseWithSmallScaleUpRate": Case(spec(1, up_rate=1.1), 2, 3, 3.1, 3),
    "StableModeDecreaseWithSmallScaleDownRate": Case(spec(10, down_rate=1.1), 100, 1, 1, 90),
    "StableModeDecreaseNonReachable": Case(replace(spec(10, down_rate=1.1), reachable=False), 100, 1, 1, 1),
    "PanicModeDoublePodCount": Case(spec(10), 1, 50, 100, 10),
    "UseOnePodAsMinimumIfEndpointsNotFound": Case(spec(10), 0, 1000, 888, 10),
    "Metrics": Case(spec(10), 1, 50, 50, 5),
    "MetricsWithRPS": Case(spec(10), 1, 100, 99, 10),
}


@pytest.mark.parametrize("case", SCALE.values(), ids=SCALE.keys())
def test_scales_as_the_project(case: Case) -> None:
    decider = replace(case.decider)
    assert decider.scale(case.spec, NOW, case.ready, case.stable, case.panic) == case.expected


@dataclass(frozen=True)
class Step:
    """What is seen `at`, and what has to come: pods, and since when it panics (False: not looked at)."""

    at: float
    ready: int
    stable: float
    panic: float
    expected: int
    panic_at: float | bool | None = False


SEQUENCES = {
    "StableModeIncreaseWithConcurrencyDefault": (10, [Step(0, 1, 50, 10, 5), Step(0, 1, 100, 10, 10)]),
    "StableModeIncreaseWithRPS": (10, [Step(0, 1, 50, 50, 5), Step(0, 1, 100, 99, 10)]),
    "UnpanicAfterSlowIncrease": (
        1,
        [Step(0, 10, 11, 25, 25, 0), Step(30, 40, 30, 41, 41, 0), Step(62, 55, 50, 56, 50, None)],
    ),
    "ExtendPanicWindow": (1, [Step(0, 10, 11, 25, 25, 0), Step(30, 40, 30, 80, 80, 30)]),
    "StableModeDecrease": (10, [Step(0, 8, 100, 100, 10), Step(0, 8, 50, 50, 5)]),
    "StableModeNoTrafficScaleToZero": (10, [Step(0, 1, 1, 0, 1), Step(0, 1, 0, 0, 0)]),
    "PanicModeExponentialTrackAndStabilize": (
        1,
        [
            Step(0, 1, 6, 6, 6),
            Step(1, 6, 36, 36, 36, 1),
            Step(2, 36, 216, 216, 216, 2),
            Step(2, 216, 1296, 1296, 1296, 2),
            Step(3, 1296, 1296, 1296, 1296),
        ],
    ),
    "PanicThenUnPanicScaleDown": (
        10,
        [
            Step(0, 1, 100, 100, 10),
            Step(0, 10, 100, 1000, 100),
            Step(30, 10, 1, 1, 100),
            Step(61, 10, 1, 1, 1),
        ],
    ),
    "RateLimitScaleUp": (10, [Step(0, 1, 1000, 1001, 10), Step(0, 10, 1000, 1001, 100)]),
    "RateLimitScaleDown": (10, [Step(0, 100, 1, 1, 10), Step(0, 10, 1, 1, 1)]),
}


@pytest.mark.parametrize(("target", "steps"), SEQUENCES.values(), ids=SEQUENCES.keys())
def test_goes_through_a_surge_as_the_project(target: float, steps: list[Step]) -> None:
    decider = Decider()
    for step in steps:
        assert decider.scale(spec(target), step.at, step.ready, step.stable, step.panic) == step.expected
        if step.panic_at is not False:
            assert decider.panic_at == step.panic_at


def test_an_activation_scale_is_the_least_while_anything_is_wanted() -> None:
    several = replace(spec(10), activation_scale=2)
    assert Decider().scale(several, 0, 1, 0, 0) == 0
    assert Decider().scale(several, 0, 1, 1, 0) == 2


def test_a_new_target_holds_from_the_next_tick_on() -> None:
    decider = Decider()
    assert decider.scale(spec(10), 0, 1, 100, 101) == 10
    assert decider.scale(spec(1), 0, 10, 100, 101) == 100


@pytest.mark.parametrize(("ready", "panics"), [(0, False), (1, False), (2, True)])
def test_above_one_pod_it_begins_in_panic(ready: int, panics: bool) -> None:  # noqa: FBT001  # a column of the table
    decider = Decider.begin(NOW, ready)
    assert (decider.panic_at is not None) == panics
    assert decider.most == ready


def test_a_delayed_decrease_waits_for_its_window() -> None:
    decider, delayed = Decider(), replace(spec(10), panic_threshold=100.0, down_delay_seconds=300.0)
    seen = [(2, 40, 4), (300, 0, 4), (302, 0, 0)]
    seen += [(540, 40, 4), (600, 30, 4), (660, 0, 4), (840, 0, 3), (900, 0, 0)]
    for at, concurrency, expected in seen:
        assert decider.scale(delayed, at, 0, concurrency, concurrency) == expected


def test_what_cannot_be_reached_decreases_without_delay() -> None:
    decider, delayed = Decider(), replace(spec(10), panic_threshold=100.0, down_delay_seconds=300.0)
    assert decider.scale(delayed, 2, 0, 40, 40) == 4
    assert decider.scale(delayed, 60, 0, 0, 0) == 4
    assert decider.scale(replace(delayed, reachable=False), 62, 0, 0, 0) == 0


def test_without_a_delay_it_decreases_within_a_tick() -> None:
    decider, at_once = Decider(), replace(spec(10), panic_threshold=100.0)
    assert decider.scale(at_once, 0, 0, 40, 40) == 4
    assert decider.scale(at_once, 0.5, 0, 20, 20) == 2
