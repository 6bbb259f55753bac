"""What disturbs a world: each deed picks what it hits by two numbers in [0, 1), so that it can be told and replayed.

A deed answers with the pools that it touches, or None when there is nothing that it could hit. What it breaks for a
while it gives back at an instant that it enters into the world's future; `Stage.heal` gives all of it back at once.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct

from rebalancer.domain.cluster import WorkloadRef
from rebalancer.domain.events import CapacityNotice
from rebalancer.kube.errors import Forbidden, Invalid, KubeError, Temporary
from rebalancer.world import Deployment, Hpa, Node, Pod, ScaledObject
from tests.machine.stage import Stage
from tests.machine.worlds import NAMESPACE, rate_of

T = TypeVar("T")
Touched = frozenset[str] | None
WEEKS = 14 * 86_400.0
MANAGERS = ("argocd-controller", "kubectl-edit")
REFUSALS: tuple[KubeError, ...] = (
    Invalid("admission webhook denied the request"),
    Forbidden("exceeded quota", verb="patch", resource="scaledobjects"),
    Temporary("503 Service Unavailable"),
)


class Deed(Struct, frozen=True):
    """At which step what happens; `late`: between that step's plan and its writes."""

    step: int
    name: str
    x: float
    y: float
    late: bool = False


def pick(some: Sequence[T], x: float) -> T | None:
    """One of them."""
    return some[int(x * len(some))] if some else None


def lasting(y: float, least: float, most: float) -> float:
    """Seconds between the two, more often few."""
    return least + (most - least) * y * y


# --- nodes


def _nodes(stage: Stage) -> list[Node]:
    return [node for node in stage.world.nodes.values() if node.labels["pool"] in stage.hit]


def _of(node: Node) -> Touched:
    return frozenset((node.labels["pool"],))


def node_goes(stage: Stage, x: float, y: float) -> Touched:
    """A Node object goes, its machine too; another one may come for it, or the same one comes back."""
    node = pick(_nodes(stage), x)
    if node is None:
        return None
    if node.node_pool is not None:
        stage.world.lose(node.name)
        return _of(node)
    stage.world.faults.remove(node)
    back = lasting(y, 10.0, 400.0)
    if y < 0.3:
        stage.later(back, lambda: stage.world.faults.register_again(node))
    elif y < 0.8:
        stage.later(back, lambda: _another(stage, node))
    return _of(node)


def _another(stage: Stage, node: Node) -> None:
    name = f"{node.name}n"
    if name not in stage.world.nodes:
        stage.world.add_node(name, node.gpus, node.labels)


def node_falls_silent(stage: Stage, x: float, y: float) -> Touched:
    node = pick([node for node in _nodes(stage) if node.alive], x)
    if node is None:
        return None
    stage.world.faults.silence(node)
    stage.later(lasting(y, 10.0, 900.0), lambda: stage.world.faults.heal(node))
    return _of(node)


def devices_drop(stage: Stage, x: float, y: float) -> Touched:
    """The device plugin restarts: allocatable 8 -> 0 -> 8."""
    node = pick(_nodes(stage), x)
    if node is None:
        return None
    stage.world.faults.show_devices(node, 0)
    stage.later(lasting(y, 5.0, 200.0), lambda: stage.world.faults.show_devices(node, None))
    return _of(node)


def devices_are_fewer(stage: Stage, x: float, y: float) -> Touched:
    """Some devices are reported no more, for a while or for good."""
    node = pick(_nodes(stage), x)
    if node is None:
        return None
    lost = 1 + int(y * 3)
    if y < 0.5 or node.gpus <= lost:
        stage.world.faults.show_devices(node, max(0, node.gpus - lost))
        stage.later(lasting(y, 10.0, 900.0), lambda: stage.world.faults.show_devices(node, None))
    else:
        stage.world.faults.lose_devices(node, lost)
    return _of(node)


def others_take_gpus(stage: Stage, x: float, y: float) -> Touched:
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


# --- pods


def _pods(stage: Stage, *, ready: bool = True) -> list[Pod]:
    pods = (pod for pod in stage.world.pods.values() if pod.ready or not ready)
    return [pod for pod in pods if pod.owner.node_selector["pool"] in stage.hit and pod.owner.model]


def _at(pod: Pod) -> Touched:
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


# --- targets


def _targets(stage: Stage) -> list[Deployment]:
    return [one for one in stage.world.deployments.values() if one.model and one.node_selector["pool"] in stage.hit]


def _on(owner: Deployment) -> Touched:
    return frozenset((owner.node_selector["pool"],))


def rollout(stage: Stage, x: float, y: float) -> Touched:
    owner = pick(_targets(stage), x)
    if owner is None:
        return None
    stage.world.faults.roll(owner)
    stage.world.advance(stage.world.now)
    return _on(owner)


def rollout_hangs(stage: Stage, x: float, y: float) -> Touched:
    owner = pick(_targets(stage), x)
    if owner is None:
        return None
    stage.world.faults.roll(owner, broken=True)
    stage.later(lasting(y, 60.0, 600.0), lambda: _mend(stage, owner))
    return _on(owner)


def template_changes_gpus(stage: Stage, x: float, y: float) -> Touched:
    """A template whose pods hold twice the devices, or one more, which the policy does not know."""
    owner = pick(_targets(stage), x)
    if owner is None or owner.generation:
        return None
    stage.world.faults.roll(owner, gpus=stage.models[owner.model].gpus * 2)
    stage.later(lasting(y, 60.0, 600.0), lambda: _mend(stage, owner))
    return _on(owner)


def _mend(stage: Stage, owner: Deployment) -> None:
    """The template as it was, of whatever Deployment has that name by now."""
    there = stage.world.deployments[owner.ref]
    if there.broken or there.gpus != stage.models[there.model].gpus:
        stage.world.faults.roll(there, gpus=stage.models[there.model].gpus)


def _autoscaler(stage: Stage, owner: Deployment) -> Hpa | ScaledObject | None:
    scaled = next((one for one in stage.world.scaled_objects.values() if one.target == owner.ref), None)
    return scaled or next((one for one in stage.world.hpas.values() if one.target == owner.ref), None)


def _write(stage: Stage, owner: Deployment, low: int, high: int, manager: str) -> None:
    found = _autoscaler(stage, owner)
    if found is None:
        stage.world.scale(owner.ref, low, manager)
    elif (found.minimum, found.maximum) != (low, high):
        stage.world.set_bounds(found, low, high, found.annotations, manager)


def somebody_writes(stage: Stage, x: float, y: float) -> Touched:
    """Bounds or replicas, once: a maximum of 100, half of what there is, one."""
    owner = pick(_targets(stage), x)
    if owner is None:
        return None
    now = owner.replicas
    bounds = pick([(1, 100), (now + 2, now + 2), (1, max(1, now // 2))], y)
    low, high = bounds or (1, 1)
    _write(stage, owner, low, high, MANAGERS[1])
    return _on(owner)


def gitops_writes(stage: Stage, x: float, y: float) -> Touched:
    """Every few seconds the same bounds or replicas again, for a while."""
    owner = pick(_targets(stage), x)
    if owner is None:
        return None
    spec = stage.models[owner.model]
    low, high = (max(1, spec.floor), 100) if y < 0.5 else (spec.entitlement, spec.entitlement + 2)
    until = stage.world.now + lasting(y, 15.0, 300.0)

    def again() -> None:
        if stage.world.now <= until and not stage.healed:
            _write(stage, owner, low, high, MANAGERS[0])
            stage.world.at(stage.world.now + 5.0, again)

    again()
    return _on(owner)


def webhook_refuses(stage: Stage, x: float, y: float) -> Touched:
    """Nobody may write one target or its autoscaler for a while."""
    owner = pick(_targets(stage), x)
    if owner is None:
        return None
    names = {owner.ref.name}
    stage.refused.update(dict.fromkeys(names, pick(REFUSALS, y)))
    stage.later(lasting(y, 20.0, 400.0), lambda: [stage.refused.pop(name, None) for name in names])
    return _on(owner)


def keda_is_paused(stage: Stage, x: float, y: float) -> Touched:
    scaled = pick([one for one in stage.world.scaled_objects.values() if not one.paused], x)
    owner = None if scaled is None else stage.world.deployments.get(scaled.target)
    if scaled is None or owner is None or owner.node_selector["pool"] not in stage.hit:
        return None
    stage.world.pause(scaled, paused=True)
    stage.later(lasting(y, 30.0, 600.0), lambda: stage.world.pause(scaled, paused=False))
    return _on(owner)


def somebody_scales_to_zero(stage: Stage, x: float, y: float) -> Touched:
    """Which switches its HPA off."""
    owner = pick(_targets(stage), x)
    if owner is None or owner.replicas == 0:
        return None
    before = owner.replicas
    stage.world.scale(owner.ref, 0, MANAGERS[1])
    if y < 0.7:
        stage.later(lasting(y, 10.0, 200.0), lambda: stage.world.scale(owner.ref, before, MANAGERS[1]))
    return _on(owner)


def target_is_made_anew(stage: Stage, x: float, y: float) -> Touched:
    """Deleted, and made again as somebody's file has it: another UID, its pods new."""
    owner = pick(_targets(stage), x)
    if owner is None:
        return None
    stage.oracle.asked.pop(owner.ref, None)
    stage.world.recreate(owner.ref, stage.models[owner.model].entitlement)
    return _on(owner)


# --- notices


def _notice(stage: Stage, node: Node, kind: str, seconds: float, *, cancelled: bool = False) -> None:
    now = stage.world.now
    name = f"{kind}-{node.uid}"
    stage.world.announce(
        CapacityNotice("aws.health", name, now, kind, now + seconds, node=node.name, cancelled=cancelled)
    )


def maintenance_weeks_ahead(stage: Stage, x: float, y: float) -> Touched:
    node = pick(_nodes(stage), x)
    if node is None:
        return None
    _notice(stage, node, "scheduled-change", WEEKS)
    stage.later(lasting(y, 60.0, 1200.0), lambda: _notice(stage, node, "scheduled-change", WEEKS, cancelled=True))
    return _of(node)


def machine_is_taken(stage: Stage, x: float, y: float) -> Touched:
    """A notice, and at its deadline the machine goes; now and then it is taken back before."""
    node = pick(_nodes(stage), x)
    if node is None or stage.going(node):
        return None
    seconds = 60.0 + 240.0 * y
    if node.node_pool is not None and not stage.world.node_claims[node.name].deleted_at:
        stage.world.interrupt(node.name, stage.world.now + seconds)
        stage.noticed(node, stage.world.now + seconds)
    elif node.node_pool is None:
        _notice(stage, node, "scheduled-change", seconds)
        stage.noticed(node, stage.world.now + seconds)
        stage.world.faults.cordon(node)
        if y < 0.3:
            stage.later(20.0 + 40.0 * y, lambda: _take_back(stage, node, seconds))
        else:
            stage.world.at(stage.world.now + seconds, lambda: stage.world.faults.remove(node))
            stage.world.at(stage.world.now + seconds + 60.0, lambda: _another(stage, node))
    return _of(node)


def _take_back(stage: Stage, node: Node, seconds: float) -> None:
    _notice(stage, node, "scheduled-change", seconds, cancelled=True)
    stage.world.faults.cordon(node, off=True)
    stage.spared(node)


def karpenter_drains(stage: Stage, x: float, y: float) -> Touched:
    """Consolidation or drift: it empties a node, voluntarily."""
    claim = pick([one for one in stage.world.node_claims.values() if one.node is not None and not one.deleted_at], x)
    if claim is None or claim.node is None or claim.node_pool.name not in stage.hit:
        return None
    stage.world.drain(claim.name)
    stage.noticed(claim.node, stage.world.now)
    return _of(claim.node)


def cloud_has_none(stage: Stage, x: float, y: float) -> Touched:
    pool = pick(list(stage.world.node_pools.values()), x)
    if pool is None or pool.name not in stage.hit:
        return None
    stage.world.offer(pool.name, 0 if y < 0.5 else len(pool.claims), 120.0)
    for claim in pool.claims.values():
        if claim.node is not None:
            stage.noticed(claim.node, stage.world.now + 120.0)
    stage.later(lasting(y, 60.0, 600.0), lambda: stage.world.offer(pool.name, None) and None)
    return frozenset((pool.name,))


# --- what it sees by, and what it is


def _model(stage: Stage, x: float) -> str | None:
    return pick([name for name, spec in stage.models.items() if spec.pool in stage.hit], x)


def _about(stage: Stage, model: str) -> Touched:
    pools = {one.node_selector["pool"] for one in stage.world.deployments.values() if one.model == model}
    return frozenset(pools)


def metrics_are_silent(stage: Stage, x: float, y: float) -> Touched:
    model = _model(stage, x)
    if model is None:
        return None
    stage.service.silent.add(model)
    stage.later(lasting(y, 10.0, 400.0), lambda: stage.service.silent.discard(model))
    return _about(stage, model)


def sources_disagree(stage: Stage, x: float, y: float) -> Touched:
    """One says what is, the other 0."""
    model = _model(stage, x)
    if model is None:
        return None
    stage.service.doubted.add(model)
    stage.later(lasting(y, 30.0, 600.0), lambda: stage.service.doubted.discard(model))
    return _about(stage, model)


def clock_steps(stage: Stage, x: float, y: float) -> Touched:
    clock = stage.service.utc
    if clock.offset_seconds:
        return None
    clock.offset_seconds = (1 if y < 0.5 else -1) * lasting(x, 2.0, 1800.0)
    stage.later(30.0 + 200.0 * x, lambda: setattr(clock, "offset_seconds", 0.0))
    return stage.everything


def service_restarts(stage: Stage, x: float, y: float) -> Touched:
    """From the last checkpoint, or one of some minutes ago."""
    stage.service.restart(0 if y < 0.4 else int(y * 10))
    return stage.everything


def kafka_is_away(stage: Stage, x: float, y: float) -> Touched:
    stage.service.topics.away = True
    stage.later(lasting(y, 20.0, 300.0), lambda: setattr(stage.service.topics, "away", False))
    return stage.everything


def traffic_changes(stage: Stage, x: float, y: float) -> Touched:
    """To any level from nothing to well beyond what it owns."""
    model = _model(stage, x)
    if model is None:
        return None
    most = stage.models[model].entitlement * 1.6
    level = 0.0 if y < 0.08 else y * most
    stage.turn(model, rate_of(level), 60.0 * x)
    return _about(stage, model)


# --- policy


def policy_is_reloaded(stage: Stage, x: float, y: float) -> Touched:
    """A model leaves or returns, a pool is renamed, a limit or a number changes, a target is another."""
    return stage.reload(x, y)


DEEDS: dict[str, Callable[[Stage, float, float], Touched]] = {
    "traffic changes": traffic_changes,
    "node goes before its pods": node_goes,
    "node falls silent": node_falls_silent,
    "device plugin drops": devices_drop,
    "fewer devices": devices_are_fewer,
    "others take GPUs": others_take_gpus,
    "pod crashes": pod_crashes,
    "several pods crash": pods_crash,
    "pod fails": pod_fails,
    "pod is stuck loading": pod_sticks,
    "pod hangs in Terminating": pod_clings,
    "rollout": rollout,
    "rollout hangs": rollout_hangs,
    "template changes GPUs": template_changes_gpus,
    "somebody writes once": somebody_writes,
    "GitOps writes again and again": gitops_writes,
    "webhook refuses": webhook_refuses,
    "KEDA is paused": keda_is_paused,
    "somebody scales to zero": somebody_scales_to_zero,
    "target is made anew": target_is_made_anew,
    "maintenance weeks ahead": maintenance_weeks_ahead,
    "machine is taken": machine_is_taken,
    "Karpenter drains": karpenter_drains,
    "cloud has none": cloud_has_none,
    "metrics are silent": metrics_are_silent,
    "sources disagree": sources_disagree,
    "clock steps": clock_steps,
    "service restarts": service_restarts,
    "Kafka is away": kafka_is_away,
    "policy is reloaded": policy_is_reloaded,
}
# What may happen between a plan and its writes.
LATE = (
    "pod crashes",
    "several pods crash",
    "pod fails",
    "pod is stuck loading",
    "node goes before its pods",
    "others take GPUs",
    "somebody writes once",
)
# Of these a pool that shares nothing with what they hit must notice nothing at all.
APART = tuple(name for name in DEEDS if name not in {"clock steps", "service restarts", "Kafka is away"})
__all__ = ["APART", "DEEDS", "LATE", "NAMESPACE", "Deed"]
