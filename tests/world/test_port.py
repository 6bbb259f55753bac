"""The simulated cluster answers the gate as a server would: preconditions hold, what is not there is not found."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from rebalancer.act.deletion_cost import ANNOTATION
from rebalancer.domain.autoscalers import Hpa, Originals
from rebalancer.domain.cluster import NodePool
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.kube.errors import Conflict, NotFound
from rebalancer.kube.resources import DEPLOYMENTS, HPAS, NODEPOOLS, OVERRIDES, PODS, WRITESTOPS, Ref
from rebalancer.world import World
from rebalancer.world.port import WorldPort
from rebalancer.world.values import value
from tests.world.worlds import a_deployment, a_node_pool, a_world

TARGET = Ref(DEPLOYMENTS, "serving", "a")
SCALER = Ref(HPAS, "serving", "a")
POOL = Ref(NODEPOOLS, None, "spot")


def done(work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401  # JSON
    return asyncio.run(work)


@pytest.fixture
def world() -> World:
    world = a_world()
    a_deployment(world)
    a_node_pool(world)
    world.add_hpa("a", WorkloadRef("serving", "Deployment", "a"), 1, 4)
    return world


def test_a_scale_is_written_at_the_revision_that_was_read(world: World) -> None:
    port = WorldPort(world)
    seen = done(port.get_scale(TARGET))
    assert seen["spec"]["replicas"] == 2
    stored = done(port.put_scale(TARGET, 3, seen["metadata"]["resourceVersion"]))
    assert stored["spec"]["replicas"] == 3
    assert [each.replicas for each in world.deployments.values()] == [3]
    with pytest.raises(Conflict):
        done(port.put_scale(TARGET, 4, seen["metadata"]["resourceVersion"]))


def test_bounds_and_what_they_were_before_reach_the_hpa(world: World) -> None:
    port = WorldPort(world)
    seen = done(port.get(SCALER))
    body = {"metadata": {"annotations": {"rebalancer.io/originals": '{"min":1,"max":4}'}}, "spec": {"maxReplicas": 2}}
    done(port.patch(SCALER, body, resource_version=seen["metadata"]["resourceVersion"]))
    (hpa,) = world.hpas.values()
    assert (hpa.minimum, hpa.maximum) == (1, 2)
    _, known = value(hpa, 1)
    assert isinstance(known, Hpa)
    assert known.originals == Originals(1, 4)
    with pytest.raises(Conflict):
        done(port.patch(SCALER, body, resource_version=seen["metadata"]["resourceVersion"]))
    assert [each["metadata"]["name"] for each in done(port.list(HPAS, "serving")).items] == ["a"]


def test_an_hpa_of_keda_shows_its_scaled_object_as_its_owner(world: World) -> None:
    target = WorkloadRef("serving", "Deployment", "a")
    world.add_scaled_object("b", target, 1, 4)
    world.advance(world.now + 60.0)
    hpa = next(each for each in world.hpas.values() if each.owner is not None)
    seen = done(WorldPort(world).get(Ref(HPAS, "serving", hpa.name)))
    assert seen["metadata"]["ownerReferences"] == [{"kind": "ScaledObject", "name": "b"}]


def test_a_node_pools_limit_and_hold_reach_it_and_go_again(world: World) -> None:
    port = WorldPort(world)
    hold = [{"nodes": "0", "reasons": ["Empty", "Underutilized"]}]
    done(port.patch(POOL, {"spec": {"limits": {"nvidia.com/gpu": "6"}, "disruption": {"budgets": hold}}}))
    pool = world.node_pools["spot"]
    assert (pool.limit, pool.budgets) == (6, hold)
    _, known = value(pool, 1)
    assert isinstance(known, NodePool)
    assert [budget.nodes for budget in known.budgets or ()] == ["0"]
    done(port.patch(POOL, {"spec": {"limits": None, "disruption": {"budgets": None}}}))
    assert (pool.limit, pool.budgets) == (None, None)


def test_a_deletion_cost_is_written_to_that_very_pod(world: World) -> None:
    port = WorldPort(world)
    pod = next(iter(world.pods.values()))
    ref = Ref(PODS, "serving", pod.name)
    done(port.patch(ref, {"metadata": {"uid": pod.uid, "annotations": {ANNOTATION: "-5"}}}))
    assert pod.deletion_cost == -5
    with pytest.raises(Conflict):
        done(port.patch(ref, {"metadata": {"uid": "another", "annotations": {ANNOTATION: "-6"}}}))
    assert pod.deletion_cost == -5


def test_what_is_not_there_is_not_found(world: World) -> None:
    port = WorldPort(world)
    assert done(port.list(WRITESTOPS)).items == []
    for ask in (
        port.get_scale(Ref(DEPLOYMENTS, "serving", "b")),
        port.get(Ref(HPAS, "serving", "b")),
        port.get(Ref(NODEPOOLS, None, "b")),
        port.patch(Ref(PODS, "serving", "b"), {}),
        port.patch_status(Ref(OVERRIDES, "serving", "b"), {}),
        port.list(OVERRIDES),
    ):
        with pytest.raises(NotFound):
            done(ask)
