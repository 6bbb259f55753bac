"""KEDA and the HPA controller in their own time."""

from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world import Dial, World, WorldScaledObject
from rebalancer.world.autoscaling import POLL_SECONDS, SYNC_SECONDS
from tests.world.worlds import START, a_deployment, a_served_model, a_world

REF = WorkloadRef("serving", "Deployment", "a")


def scaled(
    minimum: int | None = 1, maximum: int | None = 6, idle: int | None = None, rate: float = 2.0
) -> tuple[World, WorldScaledObject, Dial]:
    """Two replicas, of which a line of 8.2 requests wants 2."""
    world = a_world()
    dial = a_served_model(world, rate_per_second=rate)
    a_deployment(world, "a", 2)
    found = world.add_scaled_object("a", REF, minimum, maximum, idle)
    world.advance(START + 600.0)  # who waited for the first load is served, and the HPA has forgotten it
    return world, found, dial


def replicas(world: World) -> int:
    return world.deployments[REF].replicas


def test_bounds_reach_the_hpa_within_a_second_and_the_target_at_its_next_look() -> None:
    world, found, _ = scaled()
    world.set_bounds(found, 5, 5, {})
    assert found.hpa is not None
    assert found.hpa.minimum == 1
    world.advance(world.now + 1.0)
    assert (found.hpa.minimum, found.hpa.maximum) == (5, 5)
    assert replicas(world) == 2
    world.advance(world.now + SYNC_SECONDS)
    assert replicas(world) == 5


def test_between_the_bounds_the_load_decides_and_downwards_only_after_five_minutes() -> None:
    world, _, dial = scaled()
    dial.turn(6.0, world.now)
    world.advance(world.now + 90.0)
    assert 5 <= (most := replicas(world)) <= 6  # 24.6 requests at a time, 5.6 a replica, and those who wait at first
    dial.turn(1.0, world.now)
    world.advance(world.now + 150.0)
    assert replicas(world) == most
    world.advance(world.now + 300.0)
    assert replicas(world) == 1


def test_a_target_of_no_replicas_switches_its_hpa_off() -> None:
    world = a_world()
    a_deployment(world, "a", 2)
    hpa = world.add_hpa("a", REF, 1, 6)
    world.follow(hpa)
    world.scale(REF, 0)
    world.set_bounds(hpa, 3, 3, {})
    world.advance(world.now + 120.0)
    assert replicas(world) == 0


def test_keda_brings_a_target_of_no_replicas_back_to_a_minimum_above_0_when_it_looks_next() -> None:
    world, found, _ = scaled()
    world.set_bounds(found, 3, 3, {})
    world.scale(REF, 0)
    world.advance(world.now + POLL_SECONDS + 1.0)
    assert replicas(world) == 3


def test_a_paused_object_has_no_hpa_and_leaves_its_target_alone() -> None:
    world, found, _ = scaled()
    world.pause(found, paused=True)
    world.set_bounds(found, 5, 5, {})
    world.advance(world.now + 60.0)
    assert found.hpa is None
    assert not world.hpas
    assert replicas(world) == 2
    world.pause(found, paused=False)
    world.advance(world.now + 30.0)
    assert replicas(world) == 5


def test_an_idle_object_goes_to_its_idle_count_while_nobody_asks() -> None:
    world, _, dial = scaled(minimum=2, idle=0)
    dial.turn(0.0, world.now)
    world.advance(world.now + 300.0)
    assert replicas(world) == 0
    dial.turn(2.0, world.now)
    world.advance(world.now + 60.0)
    assert replicas(world) >= 2


def test_each_bound_has_the_manager_that_changed_it_last() -> None:
    world, found, _ = scaled()
    world.set_bounds(found, 2, 6, {}, "argocd")
    assert found.writers == ("argocd", "")
    world.set_bounds(found, 3, 4, {})
    assert found.writers == ("", "")
