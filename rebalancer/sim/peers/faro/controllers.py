"""Faro and its baselines as controllers, on the fluid world and on the request-level one.

Forecasts are perfect: the scenario's own future, in minutes.
"""

from typing import Protocol, runtime_checkable

import numpy as np

from rebalancer.sim.controller import Seen
from rebalancer.sim.demand import F64
from rebalancer.sim.peers.faro.jobs import FaroJob
from rebalancer.sim.peers.faro.policy import BIN_SECONDS, WINDOW_BINS, Faro, FaroPolicy, Forecast
from rebalancer.sim.peers.faro.reactive import TICK_SECONDS
from rebalancer.sim.peers.faro.solver import FaroSettings
from rebalancer.sim.scenario import Scenario, ScenarioModel

LOOK_BACK_SECONDS = 30
ASSUMED_SECONDS = 0.18  # what Faro's planner takes one request of ResNet-34 to last
SLO_PER_SERVICE = 4.0
CAUTION = 180 / 159  # Faro's planner assumes 180 ms of requests that last 159


@runtime_checkable
class ShowsLatency(Protocol):
    """A view whose heads measure latency themselves."""

    def latency_seconds(self, model: int, seconds: int) -> float | None:
        """Mean over what was answered in the last `seconds`; None when nothing was."""
        ...


class OnFluid:
    """A policy over jobs as a controller of the fluid world.

    Work comes in pieces of which each keeps a replica for a quarter of the SLO, as in the paper: what Faro makes of an
    overload (latency grows with the rate over what can be borne) leans on that, and takes three times what replicas
    can do for harmless where an SLO is eleven times the service. A request is late where the backlog per replica is
    above `slo_wait_seconds` + `headroom_seconds`: with one piece more that is the SLO of a job's latency.
    """

    every_seconds = TICK_SECONDS

    def __init__(self, policy: FaroPolicy) -> None:
        self._policy = policy

    def decide(self, seen: Seen) -> list[int]:
        """Replicas asked for, by model."""
        models = seen.scenario.models
        used = sum(replicas * model.gpus for replicas, model in zip(seen.desired, models, strict=True))
        jobs = [self._job(index, seen) for index in range(len(models))]
        return self._policy.step(seen.now, jobs, seen.scenario.gpus - used)

    def _job(self, index: int, seen: Seen) -> FaroJob:
        latency, slo = self._latency_and_slo(index, seen)
        model = seen.scenario.models[index]
        return FaroJob(
            latency_seconds=latency,
            slo_seconds=slo,
            replicas=seen.desired[index],
            ready=seen.ready[index],
            changing=seen.loading[index] + seen.waiting[index] > 0,
            floor=model.floor,
            most=model.most,
            units=model.gpus,
        )

    def _latency_and_slo(self, index: int, seen: Seen) -> tuple[float, float]:
        piece = piece_seconds(seen.scenario.models[index])
        return _backlog(index, seen) + piece, SLO_PER_SERVICE * piece


class OnRequests(OnFluid):
    """The same where heads measure latency (`ShowsLatency`). Raises TypeError on another view."""

    def __init__(self, policy: FaroPolicy, slo_seconds: float = 0.72) -> None:
        super().__init__(policy)
        self._slo_seconds = slo_seconds

    def _latency_and_slo(self, index: int, seen: Seen) -> tuple[float, float]:
        if not isinstance(seen, ShowsLatency):
            raise TypeError(f"{type(seen).__name__} shows no latency; play this controller on the request-level world")
        return seen.latency_seconds(index, LOOK_BACK_SECONDS) or 0.0, self._slo_seconds


def faro_on_fluid(scenario: Scenario, settings: FaroSettings | None = None, caution: float = CAUTION) -> OnFluid:
    """Faro for one fluid scenario: the work to come in pieces, each assumed to last `caution` times as long.

    `caution` is what there is to tune: the estimate knows of no bursts and fills replicas as far as Poisson lets.
    """
    pieces = np.array([piece_seconds(model) for model in scenario.models])
    minutes = _minutes(np.stack([model.work for model in scenario.models]), scenario)
    return OnFluid(Faro(forecast(minutes / pieces[:, None]), pieces * caution, settings))


def faro_on_requests(scenario: Scenario, settings: FaroSettings | None = None, slo_seconds: float = 0.72) -> OnRequests:
    """Faro for one request-level scenario: the requests to come, each assumed to last 180 ms."""
    minutes = _minutes(np.stack([model.requests for model in scenario.models]), scenario)
    return OnRequests(Faro(forecast(minutes), [ASSUMED_SECONDS] * len(scenario.models), settings), slo_seconds)


def piece_seconds(model: ScenarioModel) -> float:
    """How long a piece of a model's work keeps a replica: with three times that to wait it makes the SLO."""
    return (model.slo_wait_seconds + model.headroom_seconds) / (SLO_PER_SERVICE - 1.0)


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
