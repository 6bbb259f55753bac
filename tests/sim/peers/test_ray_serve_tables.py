"""Ray Serve against ray-project/ray `python/ray/serve/tests/unit/test_autoscaling_policy.py`.

The cases of the default policy, its factors and its delays. Left out: custom and application-level policies (the same
factors and delays around another rule), gangs of replicas, merging series of metrics, lazy fields of the context.
"""

import pytest

from rebalancer.sim.peers.ray_serve import Config, Delay, ServeDeployment, smoothed

TICK_SECONDS = 0.1


@pytest.mark.parametrize(
    ("config", "desired", "current", "expected"),
    [
        pytest.param(Config(up_factor=0.5), 20, 10, 15, id="upscale"),
        pytest.param(Config(down_factor=0.5), 5, 20, 13, id="downscale"),
        pytest.param(Config(down_factor=0.5), 9, 10, 9, id="stuck downscale"),
        pytest.param(Config(up_factor=0.5), 3, 1, 2, id="1 to 3 at 0.5"),
        pytest.param(Config(up_factor=1.0), 3, 1, 3, id="1 to 3 at 1"),
        pytest.param(Config(down_factor=0.5), 0, 3, 2, id="3 to 0 at 0.5"),
    ],
)
def test_factors_apply_to_the_difference_as_the_project(
    config: Config, desired: float, current: int, expected: int
) -> None:
    assert smoothed(config, desired, current) == expected


@pytest.mark.parametrize(("factor", "expected"), [(10, 10), (0.5, 1)])
def test_a_cold_start_skips_delay_and_bounds(factor: float, expected: int) -> None:
    deployment = ServeDeployment(Config(up_factor=factor), 0, 2)
    assert deployment.replicas(0, 1, current=0, target=0) == expected
    assert ServeDeployment(Config(up_factor=factor), 0, 2).replicas(0, 0, current=0, target=0) == 0


def test_going_to_nothing_stops_at_one_first() -> None:
    deployment = ServeDeployment(Config(up_delay_seconds=0, down_delay_seconds=0, down_factor=10), 0, 5)
    assert deployment.replicas(0, 0, current=5, target=5) == 1
    assert deployment.replicas(1, 0, current=1, target=1) == 0


def test_a_small_factor_does_not_get_stuck_above_nothing() -> None:
    deployment = ServeDeployment(Config(up_delay_seconds=0, down_delay_seconds=0, down_factor=0.2), 0, 5)
    replicas = 5
    for at in range(5):
        replicas = deployment.replicas(at, 0, replicas, replicas)
    assert replicas == 0


class Loop:
    """A control loop of 0.1 s around one deployment that starts at once."""

    def __init__(self, to_zero_delay_seconds: float | None) -> None:
        self.config = Config(1, 30, 600, to_zero_delay_seconds)
        self._deployment = ServeDeployment(self.config, 0, 2)
        self._tick = 0

    def holds(self, seconds: float, ongoing: float, replicas: int) -> None:
        for _ in range(round(seconds / TICK_SECONDS)):
            assert self.next(ongoing, replicas) == replicas

    def next(self, ongoing: float, replicas: int) -> int:
        at, self._tick = self._tick / 10, self._tick + 1
        return self._deployment.replicas(at, ongoing, replicas, replicas)


@pytest.mark.parametrize("to_zero_delay_seconds", [None, 300])
def test_delays_are_waited_for_and_begin_anew_when_interrupted(to_zero_delay_seconds: float | None) -> None:
    loop = Loop(to_zero_delay_seconds)
    to_zero = to_zero_delay_seconds or 600
    loop.holds(30, ongoing=2, replicas=1)
    assert loop.next(2, 1) == 2
    loop.holds(600, ongoing=0, replicas=2)
    assert loop.next(0, 2) == 1
    loop.holds(to_zero, ongoing=0, replicas=1)
    assert loop.next(0, 1) == 0
    loop.holds(15, ongoing=2, replicas=1)
    loop.next(0, 1)
    loop.holds(30, ongoing=2, replicas=1)
    assert loop.next(2, 1) == 2
    loop.holds(300, ongoing=0, replicas=2)
    loop.next(4, 2)
    loop.holds(600, ongoing=0, replicas=2)
    assert loop.next(0, 2) == 1
    loop.holds(to_zero / 2, ongoing=0, replicas=1)
    loop.next(2, 1)
    loop.holds(to_zero, ongoing=0, replicas=1)
    assert loop.next(0, 1) == 0


def test_replicas_that_take_time_to_start_are_not_asked_for_again() -> None:
    deployment = ServeDeployment(Config(1, 0, 100_000), 1, 200)
    seen = [(100, 1, 1, 100), (100, 1, 100, 100), (123, 3, 100, 123), (10, 4, 123, 123)]
    for at, (ongoing, current, target, expected) in enumerate(seen):
        assert deployment.replicas(at, ongoing, current, target) == expected


@pytest.mark.parametrize(("delay_seconds", "after_more", "after_less"), [(30, 1, 2), (0, 2, 1)])
def test_a_load_that_swings_moves_nothing_within_the_delay(
    delay_seconds: float, after_more: int, after_less: int
) -> None:
    deployment = ServeDeployment(Config(50, delay_seconds, delay_seconds), 1, 10)
    for trial in range(0, 1000, 2):
        assert deployment.replicas(trial * TICK_SECONDS, 100, 1, 1) == after_more
        assert deployment.replicas((trial + 1) * TICK_SECONDS, 40, 2, 2) == after_less


@pytest.mark.parametrize("ongoing", [20, 100, 10])
def test_one_replica_with_all_requests_counts_as_the_mean(ongoing: int) -> None:
    deployment = ServeDeployment(Config(5, 0, 0), 1, 50)
    assert deployment.replicas(0, ongoing, 4, 4) == ongoing / 5


def test_a_slow_loop_waits_no_longer_than_the_delay() -> None:
    delay, config = Delay(), Config(up_delay_seconds=100)
    fired = next(at for at in (step * 0.6 for step in range(1000)) if delay.passed(config, at, 5, 1) == 5)
    assert 100 <= fired <= 100.6


def test_delays_are_times_not_ticks() -> None:
    delay, config = Delay(), Config(up_delay_seconds=0.3)
    assert [delay.passed(config, 1000 + at, 5, 1) for at in (0, 0.05, 0.1, 0.31)] == [1, 1, 1, 5]
    delay, config = Delay(), Config(down_delay_seconds=0.3, to_zero_delay_seconds=0.4)
    assert [delay.passed(config, 1000 + at, 0, 4) for at in (0, 0.05, 0.1, 0.31)] == [4, 4, 4, 1]
    assert [delay.passed(config, 1000.5 + at, 0, 1) for at in (0, 0.1, 0.2, 0.41)] == [1, 1, 1, 0]
