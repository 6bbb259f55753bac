"""What a plan costs as the fleet or a number grows, in calls or lines: times lie on a busy machine, they do not."""

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType

import pytest
from msgspec.structs import replace

from rebalancer.domain.memory import Memory
from rebalancer.domain.part import MOST_REPLICAS
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.planning import plan
from tests.bench.fleet import Fleet, World
from tests.builders import a_model, a_notice, a_policy, a_pool, a_snapshot
from tests.lines import lines

FEW, MANY = 60, 240
FEW_REPLICAS, MANY_REPLICAS = 300, 1200
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


def _typed(replicas: int, kind: str = "Deployment", models: int = 1, ratio: object = None) -> tuple[Snapshot, Policy]:
    """Models that hold eight replicas each, of whom somebody asks `replicas` in all; and one beside them."""
    names = [f"m{number}" for number in range(models)]
    several = [a_model(name, max_replicas=MOST_REPLICAS, kind=kind, ratio=ratio) for name in names]
    policy = a_policy(*several, a_model("other"), pools=(a_pool(gpus=8 * (models + 1)),))
    snapshot = a_snapshot(policy, dict.fromkeys((*names, "other"), 8), {name: {"concurrency": 10.0} for name in names})
    typed = (
        replace(view, targets=tuple(replace(target, replicas=replicas // models) for target in view.targets))
        if view.id in names
        else view
        for view in snapshot.models
    )
    return replace(snapshot, models=tuple(typed)), policy


def _there(replicas: int) -> tuple[Snapshot, Policy]:
    """As many pods of a model as somebody asked for, for eight of whom there is a GPU; and who is short beside it."""
    policy = a_policy(
        a_model("a", max_replicas=MOST_REPLICAS), a_model("b", 4, max_replicas=MOST_REPLICAS), pools=(a_pool(gpus=8),)
    )
    return a_snapshot(policy, {"a": replicas}, {"a": {"concurrency": 10.0}}), policy


def _drained(replicas: int, kind: str = "Deployment") -> tuple[Snapshot, Policy]:
    """A model all of whose nodes Karpenter drains."""
    policy = a_policy(a_model("a", max_replicas=MOST_REPLICAS, kind=kind), pools=(a_pool(gpus=replicas),))
    snapshot = a_snapshot(policy, {"a": replicas}, {"a": {"concurrency": 2.0 * replicas}})
    notices = tuple(a_notice(node.name, karpenter=True) for node in snapshot.pools[0].nodes)
    return replace(snapshot, notices=notices), policy


def _lines(snapshot: Snapshot, policy: Policy) -> int:
    return lines(lambda: plan(snapshot, policy, Memory()))


@pytest.mark.parametrize(
    "world",
    [
        _typed,
        partial(_typed, kind="StatefulSet"),
        partial(_typed, models=10),
        partial(_typed, ratio={"to": "other", "min": 0.5, "max": 2.0}),
        _there,
        _drained,
        partial(_drained, kind="StatefulSet"),
    ],
    ids=["typed", "numbered", "ten-models", "role", "pods", "drained", "drained-numbered"],
)
def test_a_plan_that_takes_four_times_as_many_replicas_runs_about_four_times_as_many_lines(
    world: Callable[[int], tuple[Snapshot, Policy]],
) -> None:
    few, many = _lines(*world(FEW_REPLICAS)), _lines(*world(MANY_REPLICAS))
    assert many < MOST_FOLD * few, f"{few} lines for {FEW_REPLICAS} replicas, {many} for {MANY_REPLICAS}"
