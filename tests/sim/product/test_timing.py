"""What plans take, by somebody's clock: one figure a cycle, and nothing of it in the record."""

from dataclasses import replace
from itertools import count

import pytest

from rebalancer.sim.product import PlanTimes, default_policy, play_product
from tests.sim.product.scenarios import a_surge

SCENARIO = replace(a_surge(), seconds=300)


def test_a_run_tells_what_each_of_its_plans_took() -> None:
    ticks = count(step=0.25)
    times = PlanTimes(lambda: next(ticks))
    play_product(SCENARIO, default_policy(SCENARIO), times=times)
    assert len(times.seconds) >= 300 / default_policy(SCENARIO).plan_every_seconds
    assert set(times.seconds) == {0.25}  # the clock is read when the plan begins, when it ends, and at no other time


def test_the_slowest_hundredth_does_not_count() -> None:
    times = PlanTimes(lambda: 0.0)
    assert times.p99_ms is None
    times.seconds += [0.001] * 98 + [0.002, 5.0]
    assert times.p99_ms == pytest.approx(2.0)


def test_the_same_run_is_played_whether_it_is_timed_or_not() -> None:
    timed = play_product(SCENARIO, default_policy(SCENARIO), times=PlanTimes(iter(range(1000)).__next__))
    untimed = play_product(SCENARIO, default_policy(SCENARIO))
    assert timed.wait.tobytes() == untimed.wait.tobytes()
    assert timed.ready.tobytes() == untimed.ready.tobytes()
