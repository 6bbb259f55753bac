"""Nodes and their devices."""

from functools import partial

from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.world import WorldNode
from tests.machine.disturbed.picking import Touched, lasting, pick
from tests.machine.scene import Scene


def nodes_of(stage: Scene) -> list[WorldNode]:
    return [node for node in stage.world.nodes.values() if node.labels["pool"] in stage.hit]


def pool_of(node: WorldNode) -> Touched:
    return frozenset((node.labels["pool"],))


def node_goes(stage: Scene, x: float, y: float) -> Touched:
    """A Node object goes, its machine too; another one may come for it, or the same one comes back."""
    node = pick(nodes_of(stage), x)
    if node is None:
        return None
    if node.node_pool is not None:
        stage.world.lose(node.name)
        return pool_of(node)
    stage.world.faults.remove(node)
    back = lasting(y, 10.0, 400.0)
    if y < 0.3:
        stage.later(back, lambda: stage.world.faults.register_again(node))
    elif y < 0.8:
        stage.later(back, lambda: another(stage, node))
    return pool_of(node)


def another(stage: Scene, node: WorldNode) -> None:
    """A machine of a name of its own: schedulers count by names, and a pod may still be bound to one that is gone."""
    name, bound = f"{node.name}n", {pod.node.name for pod in stage.world.pods.values() if pod.node is not None}
    while name in bound - stage.world.nodes.keys():
        name += "n"
    if name not in stage.world.nodes:
        stage.world.add_node(name, node.gpus, node.labels)


def node_falls_silent(stage: Scene, x: float, y: float) -> Touched:
    node = pick([node for node in nodes_of(stage) if node.alive], x)
    if node is None:
        return None
    stage.world.faults.silence(node)
    stage.later(lasting(y, 10.0, 900.0), lambda: stage.world.faults.heal(node), hinders=False)
    return pool_of(node)


def devices_drop(stage: Scene, x: float, y: float) -> Touched:
    """The device plugin restarts: allocatable 8 -> 0 -> 8."""
    node = pick(nodes_of(stage), x)
    if node is None:
        return None
    stage.world.faults.show_devices(node, 0)
    stage.later(lasting(y, 5.0, 200.0), lambda: stage.world.faults.show_devices(node, None))
    return pool_of(node)


def all_devices_drop(stage: Scene, x: float, y: float) -> Touched:
    """The device plugin of a whole pool is rolled out anew."""
    pool = pick(stage.hit, x)
    nodes = [node for node in nodes_of(stage) if node.labels["pool"] == pool]
    if not nodes or pool is None:
        return None
    for node in nodes:
        stage.world.faults.show_devices(node, 0)
        stage.later(lasting(y, 5.0, 200.0), partial(stage.world.faults.show_devices, node, None))
    return frozenset((pool,))


def devices_are_fewer(stage: Scene, x: float, y: float) -> Touched:
    """Some devices are reported no more, for a while or for good."""
    node = pick(nodes_of(stage), x)
    if node is None:
        return None
    lost = 1 + int(y * 3)
    if y < 0.5 or node.gpus <= lost:
        stage.world.faults.show_devices(node, max(0, node.gpus - lost))
        stage.later(lasting(y, 10.0, 900.0), lambda: stage.world.faults.show_devices(node, None))
    else:
        stage.world.faults.lose_devices(node, lost)
    return pool_of(node)


def others_take_gpus(stage: Scene, x: float, y: float) -> Touched:
    """Pods that are no model's, on a node's devices."""
    pool = pick(stage.hit, x)
    ref = WorkloadRef("other", "Deployment", f"job-{pool}")
    if pool is None or any(one.replicas for one in stage.world.deployments.values() if one.ref == ref):
        return None
    if ref in stage.world.deployments:
        stage.world.scale(ref, 1 + int(3 * y))
    else:
        stage.world.add_deployment("", ref, 1 + int(3 * y), 1, node_selector={"pool": pool})
    stage.later(lasting(y, 20.0, 600.0), lambda: stage.world.scale(ref, 0))
    return frozenset((pool,))
