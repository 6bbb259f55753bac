"""Pods, nodes and GPUs over time."""

import pytest

from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world import WorldPod
from rebalancer.world.cluster import LOAD_JITTER
from tests.world.worlds import OWNED, START, a_deployment, a_world, used

A = WorkloadRef("serving", "Deployment", "a")


def ready_pods(pods: dict[str, WorldPod]) -> int:
    return sum(pod.ready for pod in pods.values())


def test_a_pod_serves_once_it_has_loaded_and_not_before() -> None:
    world = a_world()
    deployment = a_deployment(world, replicas=3, load_seconds=20.0)
    world.advance(START + 20.0 * (1 - LOAD_JITTER) - 0.01)
    assert ready_pods(deployment.pods) == 0
    world.advance(START + 20.0 * (1 + LOAD_JITTER) + 0.01)
    assert ready_pods(deployment.pods) == 3
    assert world.ready_pods("a") == list(deployment.pods.values())


def test_gpus_come_free_when_the_pod_is_gone_and_not_when_it_is_asked_to_end() -> None:
    world = a_world(nodes=1)
    a_deployment(world, "a", replicas=4, gpus=2, stop_seconds=4.0)
    waiting = a_deployment(world, "b", replicas=1, gpus=2)
    world.advance(START + 60)
    world.scale(A, 3)
    world.advance(START + 63.9)
    assert used(world) == {"n1": 8}
    assert next(iter(waiting.pods.values())).node is None
    world.advance(START + 64)
    assert used(world) == {"n1": 8}
    assert next(iter(waiting.pods.values())).node is not None


def test_a_pod_that_takes_longer_than_its_grace_is_ended_by_it() -> None:
    world = a_world()
    deployment = a_deployment(world, replicas=1, stop_seconds=500.0)
    world.advance(START + 60)
    world.scale(A, 0)
    world.advance(START + 60 + deployment.grace_seconds)
    assert not world.pods


def test_a_pending_pod_that_is_not_wanted_any_more_goes_at_once() -> None:
    world = a_world(nodes=1)
    a_deployment(world, replicas=5, gpus=2)
    assert len(world.pods) == 5
    world.scale(A, 4)
    assert len(world.pods) == 4
    assert all(pod.node is not None for pod in world.pods.values())


def test_a_pod_that_is_deleted_is_replaced_before_it_is_gone() -> None:
    world = a_world()
    deployment = a_deployment(world, replicas=1)
    world.advance(START + 60)
    (old,) = deployment.pods.values()
    world.delete_pod("serving", old.name)
    assert len(deployment.active) == 1
    assert old.deleted_at == START + 60
    assert old.key in world.pods
    assert not world.ready_pods("a")


def test_the_victim_of_a_shrink_is_the_pod_with_the_lowest_deletion_cost() -> None:
    world = a_world()
    deployment = a_deployment(world, replicas=4)
    world.advance(START + 60)
    names = sorted(pod.name for pod in deployment.pods.values())
    world.set_deletion_cost("serving", names[2], -1000)
    world.scale(A, 3)
    assert [pod.name for pod in deployment.pods.values() if pod.deleted_at is not None] == [names[2]]


def test_pods_fill_the_fullest_node_that_has_room() -> None:
    world = a_world(nodes=2)
    a_deployment(world, "a", replicas=1, gpus=6)
    a_deployment(world, "b", replicas=1, gpus=1)
    a_deployment(world, "c", replicas=1, gpus=8)
    assert sorted(used(world).values()) == [7, 8]


def test_who_came_first_is_placed_first() -> None:
    world = a_world(nodes=1)
    a_deployment(world, "a", replicas=4, gpus=2)
    early, late = a_deployment(world, "b", replicas=1, gpus=2), a_deployment(world, "c", replicas=1, gpus=2)
    world.advance(START + 60)
    world.scale(A, 3)
    world.advance(START + 70)
    assert [each.node is not None for each in (*early.pods.values(), *late.pods.values())] == [True, False]


@pytest.mark.parametrize("selector", [{"pool": "other"}, {**OWNED, "zone": "b"}])
def test_a_pod_whose_selector_matches_no_node_waits(selector: dict[str, str]) -> None:
    world = a_world()
    deployment = a_deployment(world, replicas=1, selector=selector)
    world.advance(START + 600)
    assert [pod.node for pod in deployment.pods.values()] == [None]


def test_a_change_is_told_once_and_as_it_is_now() -> None:
    world = a_world(nodes=1)
    deployment = a_deployment(world, replicas=1)
    told = world.take_changes()
    assert {type(change.thing).__name__ for change in told} == {"WorldNode", "Deployment", "WorldPod"}
    assert world.take_changes() == []
    world.advance(START + 60)
    world.scale(A, 0)
    world.advance(START + 120)
    (pod,) = [change for change in world.take_changes() if isinstance(change.thing, WorldPod)]
    assert pod.gone
    assert deployment.pods == {}


def test_scaling_what_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        a_world().scale(A, 1)


def test_pods_have_the_uids_of_another_world_whose_other_deployments_differ() -> None:
    uids = []
    for others in (1, 3):
        world = a_world(uids_by_owner=True)
        a_deployment(world, "b", others)
        a_deployment(world, "a", 2)
        world.advance(START + 1.0)
        uids.append([pod.uid for pod in world.pods.values() if pod.owner.ref.name == "a"])
    assert uids[0] == uids[1]


def test_no_two_pods_of_a_deployment_have_one_name_however_many_they_are() -> None:
    world = a_world(nodes=0)
    deployment = a_deployment(world, replicas=8000)  # five letters of 27: some pairs draw the same
    world.advance(START + 1)
    assert len({pod.name for pod in deployment.pods.values()}) == 8000
    world.scale(A, 0)
    world.advance(START + 60)
    assert not deployment.pods
