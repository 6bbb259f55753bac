"""Rollouts, and others who write where we do."""

from functools import partial

from rebalancer.act.originals import ANNOTATION
from rebalancer.kube.errors import Forbidden, Invalid, KubeError, Temporary
from rebalancer.world import Deployment, WorldHpa, WorldScaledObject
from tests.machine.disturbed.picking import Touched, lasting, pick
from tests.machine.stage import Stage

OTHER = "elsewhere"  # another installation
MANAGERS = ("argocd-controller", "kubectl-edit")
REFUSALS: tuple[KubeError, ...] = (
    Invalid("admission webhook denied the request"),
    Forbidden("exceeded quota", verb="patch", resource="scaledobjects"),
    Temporary("503 Service Unavailable"),
)


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
    stage.later(lasting(y, 60.0, 600.0), lambda: _mend(stage, owner), hinders=False)
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


def _autoscaler(stage: Stage, owner: Deployment) -> WorldHpa | WorldScaledObject | None:
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


def numbers_are_put_back(stage: Stage, x: float, y: float) -> Touched:
    """Whoever wrote there puts our own numbers back."""
    owner = pick(_targets(stage), x)
    ours = None if owner is None else stage.oracle.ours.get(owner.ref)
    if owner is None or ours is None:
        return None
    _write(stage, owner, *ours, MANAGERS[1])
    return _on(owner)


def another_installation_holds(stage: Stage, x: float, y: float) -> Touched:
    """A second rebalancer whose policy names one of our targets; nothing of ours is left on its autoscaler."""
    owner = pick([one for one in _targets(stage) if _autoscaler(stage, one) is not None], x)
    found = None if owner is None else _autoscaler(stage, owner)
    if owner is None or found is None:
        return None
    theirs = {ANNOTATION: f'{{"min":1,"max":2,"by":"{OTHER}"}}'}
    stage.world.set_bounds(found, found.minimum, found.maximum, theirs, OTHER)
    stage.later(lasting(y, 30.0, 600.0), partial(_let_go, stage, found))
    return _on(owner)


def _let_go(stage: Stage, found: WorldHpa | WorldScaledObject) -> None:
    stage.world.set_bounds(found, found.minimum, found.maximum, {}, OTHER)


def person_says_stand_up(stage: Stage, x: float, y: float) -> Touched:
    owner = pick(_targets(stage), x)
    if owner is None:
        return None
    stage.stand_up(owner.model)
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
    if _autoscaler(stage, owner) is None:
        stage.oracle.ours.pop(owner.ref, None)  # its replicas are what the file says
    stage.world.recreate(owner.ref, stage.models[owner.model].entitlement)
    return _on(owner)
