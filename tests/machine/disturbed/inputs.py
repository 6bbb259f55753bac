"""What the service sees by, runs on and is told: metrics, clock, Kafka, its process, its policy; and the traffic."""

from tests.machine.disturbed.picking import Touched, lasting, pick
from tests.machine.scene import Scene
from tests.machine.stage import Stage
from tests.machine.worlds import rate_of


def _model(stage: Scene, x: float) -> str | None:
    return pick([name for name, spec in stage.models.items() if spec.pool in stage.hit], x)


def _about(stage: Scene, model: str) -> Touched:
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
    """From the last checkpoint, or one of some minutes ago; now and then on another node, without its journal.

    There half of them find no cycles in Kafka either: these were too large for a record.
    """
    stage.restart(0 if y < 0.4 else int(y * 10), disk_lost=x < 0.3, large=x < 0.15)
    return stage.everything


def kafka_is_away(stage: Stage, x: float, y: float) -> Touched:
    stage.service.topics.away = True
    stage.later(lasting(y, 20.0, 300.0), lambda: setattr(stage.service.topics, "away", False))
    return stage.everything


def traffic_changes(stage: Scene, x: float, y: float) -> Touched:
    """To any level from nothing to well beyond what it owns."""
    model = _model(stage, x)
    if model is None:
        return None
    most = stage.models[model].entitlement * 1.6
    level = 0.0 if y < 0.08 else y * most
    stage.turn(model, rate_of(level), 60.0 * x)
    return _about(stage, model)


def everybody_is_busy(stage: Scene, x: float, y: float) -> Touched:
    """All users ask for what their models own, and up to 0.7 of it more: every replica that goes is missed."""
    for name, spec in stage.models.items():
        if spec.pool in stage.hit:
            stage.turn(name, rate_of(spec.entitlement * (1.0 + 0.7 * y)), 10.0 * x)
    return frozenset(stage.hit)


def policy_is_reloaded(stage: Stage, x: float, y: float) -> Touched:
    """A model leaves or returns, a pool is renamed, a limit or a number changes, a target is another."""
    return stage.reload(x, y)
