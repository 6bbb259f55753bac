"""What a day should have come to by our own model of the world, and what came: whether the shadow is to be believed.

A prediction is made from the day's offered work, the replicas at its first look, the policy, and the autoscalers'
bounds; it knows neither the replicas that followed nor the latency that users saw. It is made twice: with the
autoscaler in charge, and with us in charge in the simulated cluster of `courses`. What came is held against the course
of whoever was in charge that day.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import numpy as np

from rebalancer.obs.predictions import AUTOSCALER, US, DayPrediction
from rebalancer.report.courses import METRICS_DELAY_SECONDS, side_of
from rebalancer.report.days import ModelDay, RecordedDay
from rebalancer.report.lateness import by_its_autoscaler, late_with, served
from rebalancer.sim.contest.contest import contest
from rebalancer.sim.record import Record
from rebalancer.sim.scenario import ScenarioModel
from rebalancer.sim.suite.names import Ours, contender

LATENCY_KNOWN = 0.9  # of the requests: with less of them told of, what came is played with the recorded replicas

Heard = Callable[[str, float], None]  # what is under way, the share of it that is done


def predicted(day: RecordedDay, *, writes: int, heard: Heard = lambda _, __: None) -> tuple[DayPrediction, ...]:
    """The day's predictions by model, and what came; `writes` of ours in that day: with none the autoscaler had it."""
    models = {name: served(of, day) for name, of in sorted(day.models.items())}
    by_autoscaler = {
        name: (float(course.late.sum()), float(course.ready.sum()) * models[name].gpus / 3600)
        for name, course in by_its_autoscaler(day, {}).items()
    }
    by_us = _by_model([_with_us(part, heard) for part in day.stretches()])
    date = f"{datetime.fromtimestamp(day.since, UTC):%Y-%m-%d}"
    return tuple(_prediction(day, date, model, by_autoscaler, by_us, writes) for model in models.values())


def _with_us(day: RecordedDay, heard: Heard) -> Record:
    who = contender("ours")
    if not isinstance(who, Ours):
        raise TypeError("ours is the service")
    side = side_of(who, day.policy, day, day.models, f"prediction of {day.since}")
    _, (run,) = contest("journal", [side], heard, metrics_delay_seconds=METRICS_DELAY_SECONDS)
    return run.record


def _by_model(records: Iterable[Record]) -> dict[str, tuple[float, float]]:
    """(late requests, GPU-hours of Ready replicas) of each model."""
    sums: dict[str, tuple[float, float]] = {}
    for record in records:
        for model, late, ready in zip(record.scenario.models, record.late, record.ready, strict=True):
            had = sums.get(model.name, (0.0, 0.0))
            sums[model.name] = had[0] + float(late.sum()), had[1] + float(ready.sum()) * model.gpus / 3600
    return sums


def _prediction(  # noqa: PLR0913  # what a line is made of
    day: RecordedDay,
    date: str,
    model: ScenarioModel,
    by_autoscaler: dict[str, tuple[float, float]],
    by_us: dict[str, tuple[float, float]],
    writes: int,
) -> DayPrediction:
    of = day.models[model.name]
    counted = bool(of.requests[: day.seconds].any())
    late, late_by = came(of, model, day.seconds)
    us = by_us.get(model.name)
    return DayPrediction(
        day=date,
        model=model.name,
        seconds=day.seconds,
        in_charge=US if writes else AUTOSCALER,
        requests=float(of.requests[: day.seconds].sum()) if counted else None,
        late_by_autoscaler=by_autoscaler[model.name][0] if counted else None,
        late_by_us=us[0] if counted and us is not None else None,
        late=late if counted else None,
        late_by=late_by,
        gpu_hours_by_autoscaler=by_autoscaler[model.name][1],
        gpu_hours_by_us=None if us is None else us[1],
        gpu_hours=float(of.ready[: day.seconds].sum()) * model.gpus / 3600,
        late_by_replicas=float(late_with(model, of.ready[: day.seconds]).sum()) if counted else None,
    )


def came(of: ModelDay, model: ScenarioModel, seconds: int) -> tuple[float, str]:
    """Late requests as they came, and by what: requests while the p95 that users saw was above the SLO.

    Of a model with a deadline, or whose latency is told of less than nine tenths of its requests: those that the
    recorded replicas make late when the day is played.
    """
    requests, latency = of.requests[:seconds], of.latency[:seconds]
    known = ~np.isnan(latency)
    if model.deferred or requests[known].sum() < LATENCY_KNOWN * requests.sum():
        return float(late_with(model, of.ready[:seconds]).sum()), "replicas"
    return float(requests[known & (latency > model.slo_wait_seconds)].sum()), "latency"
