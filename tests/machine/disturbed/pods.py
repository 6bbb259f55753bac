"""Pods that crash, fail or hang."""

from rebalancer.world import WorldPod
from tests.machine.disturbed.picking import Touched, lasting, pick
from tests.machine.stage import Stage


def _pods(stage: Stage, *, ready: bool = True) -> list[WorldPod]:
    pods = (pod for pod in stage.world.pods.values() if pod.ready or not ready)
    return [pod for pod in pods if pod.owner.node_selector["pool"] in stage.hit and pod.owner.model]


def _at(pod: WorldPod) -> Touched:
    return frozenset((pod.owner.node_selector["pool"],))


def pod_crashes(stage: Stage, x: float, y: float) -> Touched:
    pod = pick(_pods(stage), x)
    if pod is None:
        return None
    stage.world.faults.crash(pod)
    return _at(pod)


def pods_crash(stage: Stage, x: float, y: float) -> Touched:
    """Several of one model, as after a bad prompt."""
    first = pick(_pods(stage), x)
    if first is None:
        return None
    for pod in [pod for pod in first.owner.pods.values() if pod.ready][: 1 + int(3 * y)]:
        stage.world.faults.crash(pod)
    return _at(first)


def pod_fails(stage: Stage, x: float, y: float) -> Touched:
    pod = pick(_pods(stage), x)
    if pod is None:
        return None
    stage.world.faults.fail(pod)
    stage.world.advance(stage.world.now)
    return _at(pod)


def pod_sticks(stage: Stage, x: float, y: float) -> Touched:
    pod = pick(_pods(stage), x)
    if pod is None:
        return None
    stage.world.faults.stick(pod)
    stage.later(lasting(y, 30.0, 600.0), lambda: stage.world.faults.free(pod))
    return _at(pod)


def pod_clings(stage: Stage, x: float, y: float) -> Touched:
    """Once deleted, it hangs in Terminating: a finalizer, or a driver that does not let go."""
    pod = pick(_pods(stage), x)
    if pod is None:
        return None
    pod.clings = True
    if y < 0.5:
        stage.world.delete_pod(*pod.key)
    stage.later(lasting(y, 30.0, 600.0), lambda: stage.world.faults.free(pod))
    return _at(pod)
