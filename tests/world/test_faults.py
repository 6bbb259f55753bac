"""What goes wrong, in the time Kubernetes takes: who serves, what the API shows, when pods are gone."""

import pytest

from rebalancer.domain.cluster import Node, Pod, Workload
from rebalancer.world import World
from rebalancer.world import WorldNode as Machine
from rebalancer.world.faults import EVICTED_AFTER_SECONDS, NOT_READY_AFTER_SECONDS
from rebalancer.world.values import value
from tests.world.worlds import START, a_deployment, a_served_model, a_world


def a_serving_world(replicas: int = 4) -> World:
    """Two nodes of 8 GPUs; pods of 2 GPUs fill the first and then the second, all of them Ready."""
    world = a_world(pods_outlive_nodes=True)
    a_served_model(world)
    a_deployment(world, "a", replicas)
    world.advance(START + 60.0)
    return world


def first(world: World) -> Machine:
    return world.nodes["n1"]


def shown(world: World, thing: object) -> object:
    return value(thing, world.revision(thing))[1]


def ready(world: World) -> int:
    """Pods that the API shows as Ready."""
    return sum(pod.ready for pod in world.pods.values())


class TestNodeThatGoes:
    def test_its_pods_are_shown_as_ready_for_40_to_60_seconds_and_serve_nobody(self) -> None:
        world = a_serving_world()
        world.faults.remove(first(world))
        assert ready(world) == 4
        assert not world.ready_pods("a")
        world.advance(world.now + 39.0)
        assert ready(world) == 4
        world.advance(world.now + 21.5)
        assert not any(pod.node is not None and pod.node.name == "n1" for pod in world.pods.values())

    def test_their_replicaset_makes_others_only_when_they_are_gone(self) -> None:
        world = a_serving_world()
        world.faults.remove(first(world))
        world.advance(world.now + 30.0)
        assert len(world.pods) == 4
        world.advance(world.now + 70.0)
        assert len(world.ready_pods("a")) == 4

    def test_pods_of_one_that_comes_back_in_time_run_on(self) -> None:
        world = a_serving_world()
        node, uids = first(world), {pod.uid for pod in world.pods.values()}
        world.faults.remove(node)
        world.advance(world.now + 30.0)
        world.faults.register_again(node)
        world.advance(world.now + 100.0)
        assert {pod.uid for pod in world.ready_pods("a")} == uids

    def test_one_that_was_silent_before_it_went_and_comes_back_stays_ready(self) -> None:
        world = a_serving_world()
        node = first(world)
        world.faults.silence(node)
        world.advance(world.now + 5.0)
        world.faults.remove(node)
        world.advance(world.now + 10.0)
        world.faults.register_again(node)
        world.advance(world.now + NOT_READY_AFTER_SECONDS + EVICTED_AFTER_SECONDS)
        assert node.ready
        assert len(world.ready_pods("a")) == 4

    def test_one_that_is_gone_is_told_of_no_more(self) -> None:
        world = a_serving_world()
        node = first(world)
        world.faults.remove(node)
        world.take_changes()
        world.faults.show_devices(node, 0)
        assert world.take_changes() == []


class TestNodeThatFallsSilent:
    def test_its_pods_serve_nobody_at_once_and_are_shown_unready_after_40_seconds(self) -> None:
        world = a_serving_world()
        world.faults.silence(first(world))
        assert not world.ready_pods("a")
        world.advance(world.now + NOT_READY_AFTER_SECONDS - 1.0)
        assert ready(world) == 4
        world.advance(world.now + 2.0)
        assert ready(world) == 0
        node = shown(world, first(world))
        assert isinstance(node, Node)
        assert not node.ready

    def test_evicted_pods_hang_in_terminating_until_it_answers_again(self) -> None:
        world = a_serving_world()
        before = set(world.pods)
        world.faults.silence(first(world))
        world.advance(world.now + NOT_READY_AFTER_SECONDS + EVICTED_AFTER_SECONDS + 200.0)
        assert before < set(world.pods)
        assert all(world.pods[key].deleted_at is not None for key in before)
        assert len(world.ready_pods("a")) == 4  # on the other node
        world.faults.heal(first(world))
        assert not before & set(world.pods)

    def test_one_that_answers_in_time_serves_as_before(self) -> None:
        world = a_serving_world()
        before = set(world.pods)
        world.faults.silence(first(world))
        world.advance(world.now + 100.0)
        world.faults.heal(first(world))
        assert len(world.ready_pods("a")) == 4
        world.advance(world.now + 400.0)
        assert set(world.pods) == before

    def test_nobody_new_lands_there(self) -> None:
        world = a_serving_world()
        world.faults.silence(world.nodes["n2"])
        world.advance(world.now + 60.0)
        world.scale(next(iter(world.deployments)), 6)
        world.advance(world.now + 60.0)
        assert len(world.ready_pods("a")) == 4


class TestDevices:
    def test_they_drop_and_return_under_pods_that_serve_on(self) -> None:
        world = a_serving_world()
        world.faults.show_devices(first(world), 0)
        node = shown(world, first(world))
        assert isinstance(node, Node)
        assert node.allocatable == {"nvidia.com/gpu": 0}
        assert len(world.ready_pods("a")) == 4
        world.faults.show_devices(first(world), None)
        assert first(world).free == 0

    def test_fewer_than_are_held_leave_room_for_nobody(self) -> None:
        world = a_serving_world()
        world.faults.lose_devices(first(world), 3)
        assert first(world).free == -3


class TestPods:
    def test_one_that_crashes_is_ready_again_after_a_load(self) -> None:
        world = a_serving_world()
        world.faults.crash(world.ready_pods("a")[0])
        assert len(world.ready_pods("a")) == 3
        world.advance(world.now + 25.0)
        assert len(world.ready_pods("a")) == 4

    def test_one_that_is_stuck_stays_so_until_it_is_freed(self) -> None:
        world = a_serving_world()
        pod = world.ready_pods("a")[0]
        world.faults.stick(pod)
        world.advance(world.now + 300.0)
        assert len(world.ready_pods("a")) == 3
        world.faults.free(pod)
        world.advance(world.now + 25.0)
        assert len(world.ready_pods("a")) == 4

    def test_one_that_fails_stays_as_an_object_and_holds_nothing(self) -> None:
        world = a_serving_world()
        pod = world.ready_pods("a")[0]
        world.faults.fail(pod)
        world.advance(world.now + 30.0)
        seen = shown(world, pod)
        assert isinstance(seen, Pod)
        assert seen.phase == "Failed"
        assert len(world.ready_pods("a")) == 4
        assert first(world).used == 8

    def test_one_that_clings_holds_its_devices_while_it_terminates(self) -> None:
        world = a_serving_world()
        pod = world.ready_pods("a")[0]
        pod.clings = True
        world.delete_pod(*pod.key)
        world.advance(world.now + 120.0)
        assert first(world).used == 8
        world.faults.free(pod)
        assert first(world).used == 6


class TestRollout:
    @pytest.mark.parametrize("gpus", [None, 1])
    def test_it_replaces_every_pod_and_keeps_most_of_them_ready(self, gpus: int | None) -> None:
        world = a_serving_world()
        owner, before = next(iter(world.deployments.values())), set(world.pods)
        world.faults.roll(owner, gpus)
        least = 4
        for _ in range(200):
            world.advance(world.now + 1.0)
            least = min(least, len(world.ready_pods("a")))
        assert least >= 3  # a quarter may be unavailable
        assert not owner.rolling
        assert not before & set(world.pods)
        assert {pod.gpus for pod in world.pods.values()} == {gpus or 2}

    def test_a_broken_template_hangs_until_a_good_one_comes(self) -> None:
        world = a_serving_world()
        owner = next(iter(world.deployments.values()))
        world.faults.roll(owner, broken=True)
        world.advance(world.now + 600.0)
        seen = shown(world, owner)
        assert isinstance(seen, Workload)
        assert seen.rolling
        assert len(world.ready_pods("a")) == 3
        world.faults.roll(owner)
        world.advance(world.now + 200.0)
        assert not owner.rolling
        assert len(world.ready_pods("a")) == 4

    @pytest.mark.parametrize(("broken", "seconds", "unproven"), [(True, 200.0, True), (False, 200.0, False)])
    def test_one_whose_old_pods_died_is_over_by_its_counts_and_its_template_unproven_until_all_have_served(
        self, *, broken: bool, seconds: float, unproven: bool
    ) -> None:
        world = a_serving_world()
        owner = next(iter(world.deployments.values()))
        world.faults.roll(owner, broken=broken)
        for pod in [*owner.pods.values()]:
            world.delete_pod(*pod.key)
        world.advance(world.now + seconds)
        seen = shown(world, owner)
        assert isinstance(seen, Workload)
        assert (seen.rolling, seen.unproven) == (False, unproven)
        for pod in owner.active:
            world.faults.crash(pod)
        assert owner.unproven is unproven  # once proven it stays so


def test_a_deployment_made_anew_has_another_uid_and_pods_of_its_own() -> None:
    world = a_serving_world()
    old, before = next(iter(world.deployments.values())), set(world.pods)
    world.recreate(old.ref, 2)
    world.advance(world.now + 60.0)
    assert world.deployments[old.ref].uid != old.uid
    assert not before & set(world.pods)
    assert len(world.ready_pods("a")) == 2


def test_one_that_was_deleted_is_never_shown_again_whatever_becomes_of_its_last_pods() -> None:
    world = a_serving_world()
    old = next(iter(world.deployments.values()))
    pod = world.ready_pods("a")[0]
    pod.clings = True
    world.recreate(old.ref, 2)
    world.advance(world.now + 30.0)
    world.take_changes()
    world.faults.silence(pod.node or first(world))
    world.advance(world.now + NOT_READY_AFTER_SECONDS)
    assert pod.ready_at is None  # the API shows it as not Ready, and it was
    assert old not in [thing for thing, _ in world.take_changes()]


def test_nothing_is_different_where_nobody_asked_for_faults() -> None:
    world = a_world()
    a_deployment(world, "a", 4)
    pool = world.add_node_pool("spot", 2, {"pool": "spot"}, 25.0, 4, 1)
    world.advance(START + 60.0)
    world.lose(next(iter(pool.claims)))
    assert not any(pod.node is not None and pod.node.name not in world.nodes for pod in world.pods.values())
