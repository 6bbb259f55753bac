"""What a plan costs as the fleet grows, counted in calls: times lie on a busy machine, calls do not."""

import sys
from types import FrameType

import pytest

from tests.bench.fleet import Fleet, World

FEW, MANY = 60, 240
MOST_FOLD = 6.0  # four times as many models take 3.8 to 4.4 times the calls; who looks at all others takes 8 to 9


def _world(models: int, pools: int) -> World:
    world = Fleet(models, pools).world()
    world.settle(2)
    world.go_on(0.05, 1)
    return world


def _calls(world: World) -> int:
    """Calls of Python's and C's functions in one plan."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        world.turn()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("pools", [1, 4])
def test_a_plan_of_four_times_as_many_models_takes_about_four_times_as_many_calls(pools: int) -> None:
    few, many = _calls(_world(FEW, pools)), _calls(_world(MANY, pools))
    assert many < MOST_FOLD * few, f"{few} calls for {FEW} models, {many} for {MANY}"
