"""All that a schedule may do to replicas, links, brokers and the world, by its name."""

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from rebalancer.obs.effects import When
from tests.machine.disturbed import inputs, nodes, notices, pods, targets
from tests.machine.disturbed.picking import Touched, lasting, pick
from tests.machine.killed import EFFECTS
from tests.machine.scene import Scene
from tests.schedules.links import ANSWERS, LATENCY_SECONDS, ApiLink
from tests.schedules.stage import Seat, Stage

Whom = Literal["leader", "standby"]


class Fault(Struct, frozen=True):
    """At which second what happens, to whom of the two replicas and how (`x`, `y`).

    With nobody leading the first of them is taken for the leader. The world's own happen to the world.
    """

    at: float
    name: str
    whom: Whom
    x: float
    y: float


Deed = Callable[[Stage, Seat, float, float], bool]


# --- a replica's process and machine


def killed(_stage: Stage, seat: Seat, _x: float, _y: float) -> bool:
    """Between two effects, wherever it is."""
    seat.kill()
    return True


def killed_at_an_effect(_stage: Stage, seat: Seat, x: float, y: float) -> bool:
    """Before or after the next effect of that name, or of any."""
    if seat.host is None:
        return False
    name, at = pick([*EFFECTS, ""], y), "before" if x < 0.5 else "after"  # one half each

    def dies(effect: str, when: When) -> bool:
        return name in {effect, ""} and when == at

    seat.host.dies = dies
    return True


def ended_in_order(_stage: Stage, seat: Seat, _x: float, _y: float) -> bool:
    """SIGTERM: an upgrade, a drain."""
    host, replica = seat.host, seat.replica
    if host is None or replica is None or not host.alive:
        return False
    host.beside(replica.end_in_order()).add_done_callback(lambda _task: host.kill())
    return True


def paused(stage: Stage, seat: Seat, _x: float, y: float) -> bool:
    """SIGSTOP, or a machine that swaps: its clock goes on, its code does not."""
    host = seat.host
    if host is None or host.paused:
        return False
    host.pause()
    stage.loop.elsewhere(lasting(y, 0.5, 40.0), host.resume)
    return True


def clock_stepped(stage: Stage, seat: Seat, x: float, y: float) -> bool:
    """Somebody sets it, and back some minutes later."""
    if seat.clock.offset_seconds:
        return False
    seat.clock.offset_seconds = (1 if y < 0.5 else -1) * lasting(x, 2.0, 1800.0)  # one half each
    _after(stage, 20.0 + 100.0 * x, seat.clock, "offset_seconds", 0.0)
    return True


# --- its way to the API server


def _after(stage: Stage, seconds: float, thing: object, field: str, value: object) -> None:
    stage.loop.elsewhere(seconds, lambda: setattr(thing, field, value))


def _api(field: str, value: object, least: float, most: float) -> Deed:
    def deed(stage: Stage, seat: Seat, _x: float, y: float) -> bool:
        before, whole = getattr(seat.api, field), getattr(ApiLink(), field)
        setattr(seat.api, field, value)
        _after(stage, lasting(y, least, most), seat.api, field, whole)
        return bool(before != value)

    return deed


def api_slow(stage: Stage, seat: Seat, x: float, y: float) -> bool:
    """Each call takes up to 4 s."""
    seat.api.seconds = lasting(x, 0.1, 4.0)
    _after(stage, lasting(y, 2.0, 60.0), seat.api, "seconds", LATENCY_SECONDS)
    return True


def lease_slow(stage: Stage, seat: Seat, x: float, y: float) -> bool:
    """Calls of the Lease alone do."""
    seat.api.lease_seconds = lasting(x, 0.2, 5.0)
    _after(stage, lasting(y, 2.0, 40.0), seat.api, "lease_seconds", 0.0)
    return True


def answers_badly(_stage: Stage, seat: Seat, x: float, y: float) -> bool:
    """The next writes, one to four of them, are answered with 503, 409 or 504, applied or not."""
    answer = pick(ANSWERS, x)
    if answer is not None:
        seat.api.answers.extend([answer] * (1 + int(4 * y)))
    return answer is not None


def watches_late(stage: Stage, seat: Seat, x: float, y: float) -> bool:
    """By up to 10 s."""
    seat.api.watch_seconds = lasting(x, 0.5, 10.0)
    _after(stage, lasting(y, 5.0, 90.0), seat.api, "watch_seconds", 0.0)
    return True


def lease_deleted(stage: Stage, _seat: Seat, _x: float, _y: float) -> bool:
    """By somebody's kubectl."""
    there = bool(stage.server.leases)
    stage.server.leases.clear()
    return there


# --- its way to Kafka, and Kafka


def kafka_away(stage: Stage, seat: Seat, x: float, y: float) -> bool:
    """From one replica, or from both."""
    seats = stage.seats if x < 0.5 else [seat]  # one half each
    for one in seats:
        one.kafka.away = True
        stage.loop.elsewhere(lasting(y, 2.0, 120.0), one.reach_kafka)
    return True


def _kafka(field: str) -> Deed:
    def deed(stage: Stage, seat: Seat, _x: float, y: float) -> bool:
        setattr(seat.kafka, field, True)
        _after(stage, lasting(y, 5.0, 90.0), seat.kafka, field, value=False)
        return True

    return deed


def _samples(field: str) -> Deed:
    def deed(stage: Stage, _seat: Seat, _x: float, y: float) -> bool:
        setattr(stage.logs, field, True)
        _after(stage, lasting(y, 5.0, 90.0), stage.logs, field, value=False)
        return True

    return deed


def samples_late(stage: Stage, _seat: Seat, x: float, y: float) -> bool:
    """By up to half a minute, so that they come out of order as it ends."""
    stage.logs.late_seconds = lasting(x, 1.0, 30.0)
    _after(stage, lasting(y, 5.0, 90.0), stage.logs, "late_seconds", 0.0)
    return True


def partitions_reordered(stage: Stage, _seat: Seat, x: float, y: float) -> bool:
    """One partition is not fetched for a while, so that what is younger in the others comes first."""
    return stage.logs.hold(x, lasting(y, 2.0, 60.0))


def checkpoints_lost(stage: Stage, _seat: Seat, _x: float, y: float) -> bool:
    """The newest one to four are gone: who starts now finds an older one."""
    stage.logs.forget_checkpoints(1 + int(4 * y))
    return True


OF_REPLICAS: Mapping[str, Deed] = {
    "killed": killed,
    "killed at an effect": killed_at_an_effect,
    "ended in order": ended_in_order,
    "paused": paused,
    "clock set": clock_stepped,
    "API server away": _api("away", value=True, least=1.0, most=90.0),
    "API server silent": _api("silent", value=True, least=1.0, most=90.0),
    "API server slow": api_slow,
    "API server answers badly": answers_badly,
    "watches silent": _api("watches_silent", value=True, least=2.0, most=150.0),
    "watches late": watches_late,
    "Lease slow": lease_slow,
    "Lease unanswered": _api("lease_lost", value=True, least=1.0, most=40.0),
    "Lease deleted": lease_deleted,
    "Kafka away": kafka_away,
    "acknowledgements late": _kafka("unheard"),
    "checkpoints refused": _kafka("no_checkpoints"),
    "checkpoints lost": checkpoints_lost,
    "samples lost": _samples("losing"),
    "records doubled": _samples("doubling"),
    "samples late": samples_late,
    "partitions reordered": partitions_reordered,
}

OF_THE_WORLD: Mapping[str, Callable[[Scene, float, float], Touched]] = {
    "traffic changes": inputs.traffic_changes,
    "everybody is busy": inputs.everybody_is_busy,
    "node goes before its pods": nodes.node_goes,
    "node falls silent": nodes.node_falls_silent,
    "device plugin drops": nodes.devices_drop,
    "others take GPUs": nodes.others_take_gpus,
    "pod crashes": pods.pod_crashes,
    "several pods crash": pods.pods_crash,
    "pod fails": pods.pod_fails,
    "pod is stuck loading": pods.pod_sticks,
    "pod hangs in Terminating": pods.pod_clings,
    "rollout": targets.rollout,
    "somebody writes once": targets.somebody_writes,
    "GitOps writes again and again": targets.gitops_writes,
    "webhook refuses": targets.webhook_refuses,
    "machine is taken": notices.machine_is_taken,
    "Karpenter drains": notices.karpenter_drains,
    "cloud has none": notices.cloud_has_none,
}

KINDS = (*OF_REPLICAS, *OF_THE_WORLD)


# --- what wide schedules have besides: people, and nodes that keep journals


def writes_stopped(stage: Stage, _seat: Seat, _x: float, y: float) -> bool:
    """Somebody presses the red button, and takes it back after up to a minute."""
    name = stage.server.stop_writes()
    stage.loop.elsewhere(lasting(y, 5.0, 60.0), lambda: stage.server.lift_stops(name))
    return True


def journal_lost(_stage: Stage, seat: Seat, _x: float, _y: float) -> bool:
    """Its process is killed, and the next one runs on a new node."""
    there = bool(seat.journal.paths())
    seat.kill()
    seat.lose_journal()
    return there


def model_pinned(stage: Stage, _seat: Seat, x: float, y: float) -> bool:
    """Somebody pins a model for a minute at most, or an hour: to none, or up to one more than it owns."""
    models = stage.spec.models
    which = x * len(models)
    model = models[int(which)]
    replicas = int(which % 1.0 * (model.entitlement + 2))
    stage.server.pin(model.name, replicas, lasting(y / 0.7, 5.0, 60.0) if y < 0.7 else 3600.0)
    return True


def taken_undrained(stage: Stage, _seat: Seat, x: float, y: float) -> bool:
    """A node is to go, and nobody but the service drains it."""
    return notices.machine_is_taken_undrained(stage, x, y) is not None


OF_WIDE: Mapping[str, Deed] = {
    "writes stopped": writes_stopped,
    "killed, journal lost": journal_lost,
    "model pinned": model_pinned,
    "machine is taken, undrained": taken_undrained,
}


def befall(stage: Stage, fault: Fault) -> bool:
    """It happens, if there is anything that it can happen to."""
    of_world = OF_THE_WORLD.get(fault.name)
    if of_world is not None:
        return of_world(stage, fault.x, fault.y) is not None
    leading = stage.leading() or stage.seats[0]
    seat = leading if fault.whom == "leader" else next(one for one in stage.seats if one is not leading)
    return {**OF_REPLICAS, **OF_WIDE}[fault.name](stage, seat, fault.x, fault.y)
