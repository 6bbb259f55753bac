"""Engines asleep on GPUs: what a pod finds on the GPU it gets."""

import pytest

from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world import Deployment, World
from rebalancer.world.slots import Sleeping, Slots
from tests.world.worlds import OWNED, START, a_deployment

A, B = (WorkloadRef("serving", "Deployment", name) for name in "ab")
STARTS = Sleeping(1, hot_seconds=5.0, warm_seconds=90.0, cold_seconds=180.0)


def a_world(rules: Sleeping = STARTS, gpus: int = 1) -> tuple[World, Slots]:
    slots = Slots(rules, "serving")
    world = World(START, slots=slots, load_jitter=0.0)
    world.add_node("n1", gpus, OWNED)
    return world, slots


def turns(world: World, *turn: WorkloadRef) -> None:
    """Each in its turn has the GPU for five minutes; the other one ends."""
    for ref in turn:
        for each in (A, B):
            if each != ref:
                world.scale(each, 0)
        world.advance(world.now + 20.0)
        world.scale(ref, 1)
        world.advance(world.now + 300.0)


def both(world: World) -> tuple[Deployment, Deployment]:
    return a_deployment(world, "a", replicas=0, gpus=1), a_deployment(world, "b", replicas=0, gpus=1)


def test_an_engine_that_slept_on_the_gpu_is_woken() -> None:
    world, slots = a_world()
    a, _ = both(world)
    turns(world, A, B, A)
    assert slots.kinds == {("warm", "a"): 1, ("warm", "b"): 1, ("hot", "a"): 1}
    (pod,) = a.pods.values()
    assert pod.placed_at is not None
    assert pod.ready_at == pod.placed_at + 5.0


def test_a_launcher_that_keeps_none_beside_the_awake_one_forgets_the_other() -> None:
    world, slots = a_world(Sleeping(0))
    both(world)
    turns(world, A, B, A)
    assert slots.kinds == {("warm", "a"): 2, ("warm", "b"): 1}


def test_a_wake_that_fails_takes_a_cold_start() -> None:
    world, slots = a_world(Sleeping(1, failed_share=1.0))
    a, _ = both(world)
    turns(world, A, B, A)
    assert slots.kinds["cold", "a"] == 1
    (pod,) = a.pods.values()
    assert pod.placed_at is not None
    assert pod.ready_at == pod.placed_at + 180.0


def test_a_replica_of_several_gpus_is_refused() -> None:
    world, _ = a_world(gpus=2)
    with pytest.raises(ValueError, match="only engines on one GPU sleep here"):
        a_deployment(world, "a", replicas=1, gpus=2)
