"""Faro and its baselines as controllers, on the fluid world and on the request-level one.

Forecasts are perfect: the scenario's own future, in minutes.
"""

from typing import Protocol, runtime_checkable

import numpy as np

from rebalancer.sim.controller import Seen
from rebalancer.sim.demand import F64
from rebalancer.sim.peers.faro.jobs import Job
from rebalancer.sim.peers.faro.policy import BIN_SECONDS, WINDOW_BINS, Faro, Forecast, Policy
from rebalancer.sim.peers.faro.reactive import TICK_SECONDS
from rebalancer.sim.peers.faro.solver import Settings
from rebalancer.sim.scenario import Scenario

LOOK_BACK_SECONDS = 30
SERVICE_BACK_SECONDS = 600
ASSUMED_SECONDS = 0.18  # what Faro's planner takes one request of ResNet-34 to last
LEAST_SERVICE_SECONDS = 1e-3
CAUTION = 180 / 159  # Faro's planner assumes 180 ms of requests that last 159


@runtime_checkable
class ShowsLatency(Protocol):
    """A view whose heads measure latency themselves."""

    def latency_seconds(self, model: int, seconds: int) -> float | None:
        """Mean over what was answered in the last `seconds`; None when nothing was."""
        ...


class OnFluid:
    """A policy over jobs as a controller of the fluid world.

    A job's latency is the backlog per replica that its requests met, and one request's own work. A request is late
    where that backlog is above `slo_wait_seconds` + `headroom_seconds`: with its own work that is the latency's SLO.
    """

    every_seconds = TICK_SECONDS

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def decide(self, seen: Seen) -> list[int]:
        """Replicas asked for, by model."""
        models = seen.scenario.models
        used = sum(asked * model.gpus for asked, model in zip(seen.asked, models, strict=True))
        jobs = [self._job(index, seen) for index in range(len(models))]
        return self._policy.step(seen.now, jobs, seen.scenario.gpus - used)

    def _job(self, index: int, seen: Seen) -> Job:
        latency, slo = self._latency_and_slo(index, seen)
        model = seen.scenario.models[index]
        return Job(
            latency_seconds=latency,
            slo_seconds=slo,
            replicas=seen.asked[index],
            ready=seen.ready[index],
            changing=seen.loading[index] + seen.waiting[index] > 0,
            floor=model.floor,
            most=model.most,
            units=model.gpus,
        )

    def _latency_and_slo(self, index: int, seen: Seen) -> tuple[float, float]:
        model = seen.scenario.models[index]
        requests = float(np.add.reduce(seen.window(seen.requests, index, SERVICE_BACK_SECONDS)))
        work = float(np.add.reduce(seen.window(seen.work, index, SERVICE_BACK_SECONDS)))
        service = work / requests if requests > 0.0 else 0.0
        return _backlog(index, seen) + service, model.slo_wait_seconds + model.headroom_seconds + service


class OnRequests(OnFluid):
    """The same where heads measure latency (`ShowsLatency`). Raises TypeError on another view."""

    def __init__(self, policy: Policy, slo_seconds: float = 0.72) -> None:
        super().__init__(policy)
        self._slo_seconds = slo_seconds

    def _latency_and_slo(self, index: int, seen: Seen) -> tuple[float, float]:
        if not isinstance(seen, ShowsLatency):
            raise TypeError(f"{type(seen).__name__} shows no latency; play this controller on the request-level world")
        return seen.latency_seconds(index, LOOK_BACK_SECONDS) or 0.0, self._slo_seconds


def faro_on_fluid(scenario: Scenario, settings: Settings | None = None, caution: float = CAUTION) -> OnFluid:
    """Faro for one fluid scenario: the work to come in requests of mean service, each assumed `caution` times as long.

    `caution` is what there is to tune: without it the estimate, which knows of no bursts, fills replicas to 95 %.
    """
    service = np.array(service_seconds(scenario))
    minutes = _minutes(np.stack([model.work for model in scenario.models]), scenario)
    return OnFluid(Faro(forecast(minutes / service[:, None]), service * caution, settings))


def faro_on_requests(scenario: Scenario, settings: Settings | None = None, slo_seconds: float = 0.72) -> OnRequests:
    """Faro for one request-level scenario: the requests to come, each assumed to last 180 ms."""
    minutes = _minutes(np.stack([model.requests for model in scenario.models]), scenario)
    return OnRequests(Faro(forecast(minutes), [ASSUMED_SECONDS] * len(scenario.models), settings), slo_seconds)


def service_seconds(scenario: Scenario) -> list[float]:
    """Replica-seconds of a request, by model, over the whole scenario; at least 1 ms."""
    totals = [(float(model.work.sum()), float(model.requests.sum())) for model in scenario.models]
    return [max(LEAST_SERVICE_SECONDS, work / requests) if requests > 0.0 else 1.0 for work, requests in totals]


def forecast(rates: F64) -> Forecast:
    """The coming seven minutes of rates that are known; `rates`: (jobs, minutes), per second."""

    def of(now: int) -> F64:
        begin = now // BIN_SECONDS
        coming: F64 = rates[:, begin : begin + WINDOW_BINS]
        return coming

    return of


def _minutes(per_second: F64, scenario: Scenario) -> F64:
    """Means over minutes; a minute that is not whole is left out."""
    bins = scenario.seconds // BIN_SECONDS
    means: F64 = per_second[:, : bins * BIN_SECONDS].reshape(len(per_second), bins, BIN_SECONDS).mean(axis=2)
    return means


def _backlog(index: int, seen: Seen) -> float:
    """Seconds of backlog per replica that the requests of the last 30 s met on average; inf where nobody serves it."""
    weights = seen.window(seen.requests, index, LOOK_BACK_SECONDS)
    total = float(np.add.reduce(weights))
    if total <= 0.0:
        return 0.0
    left = seen.window(seen.left, index, LOOK_BACK_SECONDS)
    able = seen.window(seen.served_by, index, LOOK_BACK_SECONDS)
    alone = able <= 0.0
    if np.logical_and(alone, weights * left > 0.0).any():
        return float("inf")
    return float(np.add.reduce(weights * left / np.where(alone, 1.0, able))) / total
