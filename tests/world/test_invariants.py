"""What holds whatever people and controllers do: GPUs are conserved, nobody waits beside free room, time is one."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world import World
from rebalancer.world.things import may_land
from tests.world.worlds import SPOT, START, a_deployment, a_node_pool, a_served_model, a_world

NAMES = ("a", "b", "c")
Command = Callable[[World], None]


def scale(name: str, replicas: int) -> Command:
    return lambda world: world.scale(WorkloadRef("serving", "Deployment", name), replicas)


def delete(index: int) -> Command:
    def command(world: World) -> None:
        keys = sorted(world.pods)
        if keys:
            world.delete_pod(*keys[index % len(keys)])

    return command


def interrupt(index: int, seconds: float) -> Command:
    def command(world: World) -> None:
        names = sorted(world.node_claims)
        if names:
            world.interrupt(names[index % len(names)], world.now + seconds)

    return command


def limit(gpus: int) -> Command:
    return lambda world: world.set_limit("spot", gpus)


def go_on(seconds: float) -> Command:
    return lambda world: world.advance(world.now + seconds)


COMMANDS = st.one_of(
    st.builds(scale, st.sampled_from(NAMES), st.integers(0, 9)),
    st.builds(delete, st.integers(0, 20)),
    st.builds(interrupt, st.integers(0, 3), st.sampled_from([1.0, 30.0, 120.0])),
    st.builds(limit, st.integers(0, 8)),
    st.builds(go_on, st.floats(0.0, 40.0)),
)


def a_busy_world() -> World:
    """Three models: two on owned nodes with replicas of 1 and 3 GPUs, one on spot."""
    world = a_world(nodes=2, step_seconds=1.0)
    a_node_pool(world, limit=6, nodes=1)
    for name, gpus, selector in (("a", 1, {"pool": "owned"}), ("b", 3, {"pool": "owned"}), ("c", 1, SPOT)):
        a_deployment(world, name, replicas=2, gpus=gpus, selector=selector)
        a_served_model(world, name, rate_per_second=3.0, seed=name)
    return world


def check(world: World) -> None:
    for node in world.nodes.values():
        assert node.used == sum(pod.owner.gpus for pod in node.pods.values()) <= node.gpus
        assert all(pod.node is node and world.pods[pod.key] is pod for pod in node.pods.values())
    held = sum(pod.owner.gpus for pod in world.pods.values() if pod.node is not None)
    assert held == sum(node.used for node in world.nodes.values())
    for deployment in world.deployments.values():
        assert len(deployment.active) == deployment.replicas
    for pod in world.pods.values():
        if pod.node is None:
            rooms = [node for node in world.nodes.values() if may_land(pod.owner, node.labels, node.taints)]
            assert all(node.free < pod.owner.gpus for node in rooms)


@given(st.lists(COMMANDS, max_size=25))
def test_gpus_are_conserved_and_nobody_waits_beside_free_room(commands: list[Command]) -> None:
    world = a_busy_world()
    for command in commands:
        command(world)
        check(world)
    world.advance(world.now + 150)
    check(world)


@given(st.lists(COMMANDS, max_size=15))
def test_karpenter_adds_no_node_beyond_the_limit(commands: list[Command]) -> None:
    world = a_busy_world()
    for command in commands:
        pool = world.node_pools["spot"]
        before = set(pool.claims)
        command(world)
        if set(pool.claims) - before:
            assert pool.limit is not None
            assert pool.used <= pool.limit


@given(st.lists(st.floats(0.01, 30.0), max_size=20), st.integers(1, 5))
def test_what_happens_does_not_depend_on_how_often_somebody_looks(steps: list[float], replicas: int) -> None:
    often, once = a_busy_world(), a_busy_world()
    for world in (often, once):
        scale("a", replicas)(world)
        interrupt(0, 60.0)(world)
    samples = []
    for step in steps:
        often.advance(often.now + step)
        samples += often.take_samples()
    once.advance(often.now)
    assert samples == once.take_samples()
    assert summary(often) == summary(once)


@given(st.lists(COMMANDS, max_size=15))
def test_the_same_commands_make_the_same_world(commands: list[Command]) -> None:
    worlds = a_busy_world(), a_busy_world()
    for world in worlds:
        for command in commands:
            command(world)
    assert summary(worlds[0]) == summary(worlds[1])


def summary(world: World) -> object:
    pods = {
        key: (pod.uid, pod.node.name if pod.node else None, pod.ready_at, pod.deleted_at)
        for key, pod in world.pods.items()
    }
    return pods, {name: node.used for name, node in world.nodes.items()}, sorted(world.node_claims), START
