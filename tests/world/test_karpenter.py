"""Nodes that come for pending pods and go on a notice."""

from rebalancer.domain.cluster import NodeClaim
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world import World
from rebalancer.world.karpenter import (
    BATCH_SECONDS,
    DISRUPTED,
    DRAIN_AFTER_SECONDS,
    NO_CAPACITY_AFTER_SECONDS,
    UNAVAILABLE_SECONDS,
)
from rebalancer.world.values import value
from tests.world.worlds import LAUNCH_SECONDS, OWNED, SPOT, START, a_deployment, a_node_pool, a_world

A = WorkloadRef("serving", "Deployment", "a")
COMES = BATCH_SECONDS + LAUNCH_SECONDS


def a_spot_world(replicas: int = 2) -> World:
    """One spot node, full with `replicas` Ready pods of one GPU."""
    world = a_world(nodes=0)
    a_node_pool(world, limit=8, nodes=1)
    a_deployment(world, replicas=replicas, gpus=1, selector=SPOT)
    world.advance(START + 60)
    return world


def test_a_node_comes_for_a_pending_pod_after_its_launch_time() -> None:
    world = a_world(nodes=0)
    a_node_pool(world)
    deployment = a_deployment(world, replicas=1, gpus=1, selector=SPOT)
    world.advance(START + COMES - 0.1)
    assert not world.nodes
    assert len(world.node_claims) == 1
    world.advance(START + COMES)
    (node,) = world.nodes.values()
    (pod,) = deployment.pods.values()
    assert pod.node is node
    assert node.node_pool == "spot"
    assert node.provider_id.startswith("aws:///")


def test_pods_that_fit_together_get_one_node() -> None:
    world = a_world(nodes=0)
    a_node_pool(world, limit=8)
    a_deployment(world, replicas=2, gpus=1, selector=SPOT)
    world.advance(START + 100)
    assert len(world.nodes) == 1


def test_no_node_comes_beyond_the_limit_until_it_is_raised() -> None:
    world = a_world(nodes=0)
    a_node_pool(world, limit=2)
    a_deployment(world, replicas=3, gpus=1, selector=SPOT)
    world.advance(START + 300)
    assert len(world.nodes) == 1
    world.set_limit("spot", 4)
    world.advance(START + 300 + COMES)
    assert len(world.nodes) == 2
    assert all(pod.node is not None for pod in world.pods.values())


def test_a_limit_under_what_runs_ends_no_node() -> None:
    world = a_spot_world()
    world.set_limit("spot", 0)
    world.advance(START + 300)
    assert len(world.nodes) == 1


def test_no_node_comes_for_a_pod_that_could_not_land_on_it() -> None:
    world = a_world(nodes=0)
    a_node_pool(world)
    a_deployment(world, "a", replicas=1, gpus=1, selector=OWNED)
    a_deployment(world, "b", replicas=1, gpus=3, selector=SPOT)
    world.advance(START + 300)
    assert not world.node_claims


def test_on_a_notice_the_node_is_drained_within_seconds_and_goes_when_it_is_empty() -> None:
    world = a_spot_world()
    (name,) = world.nodes
    notice = world.now
    world.interrupt(name, notice + 120)
    world.advance(notice + DRAIN_AFTER_SECONDS - 0.1)
    assert len(world.ready_pods("a")) == 2
    world.advance(notice + DRAIN_AFTER_SECONDS)
    assert not world.ready_pods("a")
    assert DISRUPTED in world.nodes[name].taints
    world.advance(notice + DRAIN_AFTER_SECONDS + 4.0)  # the pods' stop time
    assert name not in world.nodes
    assert name not in world.node_claims


def test_evicted_pods_are_replaced_on_another_node() -> None:
    world = a_spot_world()
    (name,) = world.nodes
    world.interrupt(name, world.now + 120)
    world.advance(world.now + DRAIN_AFTER_SECONDS + COMES + 30)
    assert len(world.ready_pods("a")) == 2
    assert name not in world.nodes


def test_at_the_deadline_the_machine_is_gone_with_all_that_still_runs_there() -> None:
    world = a_world(nodes=0)
    a_node_pool(world, nodes=1)
    a_deployment(world, replicas=1, gpus=1, selector=SPOT, stop_seconds=29.0)
    world.advance(START + 60)
    (name,) = world.nodes
    world.interrupt(name, world.now + 10)
    world.advance(START + 69.9)
    assert name in world.nodes
    world.advance(START + 70)
    assert name not in world.nodes
    assert all(pod.node is None for pod in world.pods.values())


def test_a_claim_deleted_before_its_node_came_brings_none() -> None:
    world = a_world(nodes=0)
    a_node_pool(world, limit=2)
    a_deployment(world, replicas=1, gpus=1, selector=SPOT)
    world.advance(START + 10)
    (name,) = world.node_claims
    world.drain(name)
    world.scale(A, 0)
    world.advance(START + 300)
    assert not world.nodes
    assert not world.node_claims


def test_an_order_beyond_what_the_cloud_offers_fails_and_is_tried_again_later() -> None:
    world = a_world(nodes=0)
    a_node_pool(world, limit=8)
    a_deployment(world, replicas=1, gpus=1, selector=SPOT)
    world.offer("spot", 0)
    world.advance(START + BATCH_SECONDS + NO_CAPACITY_AFTER_SECONDS)
    (claim,) = world.node_claims.values()
    assert claim.failed is not None
    assert claim.failed.startswith("InsufficientCapacityError")
    _, known = value(claim, 1)
    assert isinstance(known, NodeClaim)
    assert known.failed == claim.failed
    world.advance(START + 30)
    assert not world.node_claims
    world.offer("spot", 1)
    world.advance(START + UNAVAILABLE_SECONDS)
    assert not world.node_claims  # the offering rests
    world.advance(START + UNAVAILABLE_SECONDS + 2 * COMES)
    assert len(world.nodes) == 1


def test_what_the_cloud_takes_back_goes_after_its_notice_or_at_once() -> None:
    for notice, there in ((120.0, 1), (0.0, 0)):
        world = a_spot_world()
        (claim,) = world.node_claims
        assert world.offer("spot", 0, notice_seconds=notice) == [claim]
        assert len(world.nodes) == there
        world.advance(START + 60 + DRAIN_AFTER_SECONDS + 30)
        assert not world.nodes
        assert world.stops == 2
        assert all(pod.node is None for pod in world.pods.values())


def test_orders_come_to_what_they_are_said_to() -> None:
    world = a_world(nodes=0)
    orders: list[float | None] = [None, 40.0]
    world.add_node_pool("spot", 1, SPOT, 0.0, orders=iter(orders), rest_seconds=20.0)
    a_deployment(world, replicas=1, gpus=1, selector=SPOT)
    world.advance(START + BATCH_SECONDS + NO_CAPACITY_AFTER_SECONDS)
    assert [claim.failed is not None for claim in world.node_claims.values()] == [True]
    came = START + BATCH_SECONDS + NO_CAPACITY_AFTER_SECONDS + 20 + 40
    world.advance(came - 1)
    assert not world.nodes
    world.advance(came + BATCH_SECONDS)
    assert len(world.nodes) == 1
    assert world.node_pools["spot"].gpu_seconds(world.now) == world.now - came + 40  # what failed costs nothing


def test_a_node_that_stays_empty_goes_unless_a_budget_holds_it() -> None:
    world = a_world(nodes=0)
    node_pool = world.add_node_pool("spot", 2, SPOT, 0.0, nodes=1, empty_seconds=100.0)
    deployment = a_deployment(world, replicas=1, gpus=1, selector=SPOT)
    world.advance(START + 300)
    assert len(world.nodes) == 1
    world.scale(deployment.ref, 0)
    world.set_node_pool(node_pool, None, [{"nodes": "0", "reasons": ["Empty", "Underutilized"]}], {})
    world.advance(START + 500)
    assert len(world.nodes) == 1
    world.set_node_pool(node_pool, None, None, {})
    world.advance(START + 501)
    assert not world.nodes
    assert 2 * 500 <= node_pool.gpu_seconds(world.now) <= 2 * 501


def test_an_interruption_is_announced_as_the_cloud_does() -> None:
    world = a_spot_world()
    (claim,) = world.node_claims.values()
    world.interrupt(claim.name, world.now + 120)
    (notice,) = world.take_notices()
    assert (notice.kind, notice.at, notice.deadline) == ("spot-interruption", world.now, world.now + 120)
    assert claim.provider_id.endswith(f"/{notice.instance_id}")
    assert world.take_notices() == []


def test_a_machine_may_come_and_go_by_itself() -> None:
    world = a_world(nodes=0)
    world.add_node_pool("spot", 1, SPOT, 0.0, limit=0)
    a_deployment(world, replicas=1, gpus=1, selector=SPOT)
    world.advance(START + 10)
    assert not world.node_claims  # nobody orders within a limit of none
    name = world.launch("spot", "first")
    assert [pod.node.name for pod in world.pods.values() if pod.node is not None] == [name]
    world.advance(START + 100)
    world.lose(name)
    assert not world.nodes
    assert world.stops == 1
    assert [pod.node for pod in world.pods.values()] == [None]
    assert world.take_notices() == []
