"""Faro and its baselines on the fluid world: a request's service is its work, its latency the backlog before it.

A request is late where the backlog of its model is above (`slo_wait_seconds` + `headroom_seconds`) per replica; with
its own service that is the SLO of its latency. Forecasts are perfect: the scenario's own future.
"""

import numpy as np

from rebalancer.sim.controller import Seen
from rebalancer.sim.demand import F64
from rebalancer.sim.peers.faro.jobs import Job
from rebalancer.sim.peers.faro.policy import BIN_SECONDS, WINDOW_BINS, Faro, Forecast, Policy
from rebalancer.sim.peers.faro.reactive import TICK_SECONDS
from rebalancer.sim.peers.faro.solver import Settings
from rebalancer.sim.scenario import Scenario

LOOK_BACK_SECONDS = 30


class OnFluid:
    """Any policy over plain jobs as a controller."""

    every_seconds = TICK_SECONDS

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def decide(self, seen: Seen) -> list[int]:
        """Replicas asked for, by model."""
        models = seen.scenario.models
        used = sum(asked * model.gpus for asked, model in zip(seen.asked, models, strict=True))
        jobs = [_job(index, seen) for index in range(len(models))]
        return self._policy.step(seen.now, jobs, seen.scenario.gpus - used)


class FluidFaro(OnFluid):
    """Faro for one scenario."""

    def __init__(self, scenario: Scenario, settings: Settings | None = None) -> None:
        super().__init__(Faro(perfect_forecast(scenario), service_seconds(scenario), settings))


def service_seconds(scenario: Scenario) -> list[float]:
    """Replica-seconds of a request, by model, over the whole scenario; a model without requests counts as 1 ms."""
    totals = [(float(model.work.sum()), float(model.requests.sum())) for model in scenario.models]
    return [max(1e-3, work / requests) if requests > 0.0 else 1e-3 for work, requests in totals]


def perfect_forecast(scenario: Scenario) -> Forecast:
    """The requests of mean service that the work of the coming minutes makes, per second."""
    bins = scenario.seconds // BIN_SECONDS
    work = np.stack([model.work[: bins * BIN_SECONDS] for model in scenario.models])
    rates = work.reshape(len(work), bins, BIN_SECONDS).mean(axis=2) / np.array(service_seconds(scenario))[:, None]

    def forecast(now: int) -> F64:
        begin = now // BIN_SECONDS
        coming: F64 = rates[:, begin : begin + WINDOW_BINS]
        return coming

    return forecast


def _job(index: int, seen: Seen) -> Job:
    model = seen.scenario.models[index]
    requests = seen.window(seen.requests, index, 600)
    total = float(requests.sum())
    service = float(seen.window(seen.work, index, 600).sum()) / total if total > 0.0 else 0.0
    return Job(
        latency_seconds=_wait(index, seen) + service,
        slo_seconds=model.slo_wait_seconds + model.headroom_seconds + service,
        replicas=seen.asked[index],
        ready=seen.ready[index],
        changing=seen.loading[index] + seen.waiting[index] > 0,
        floor=model.floor,
        most=model.most,
        units=model.gpus,
    )


def _wait(index: int, seen: Seen) -> float:
    """Seconds of backlog per replica that the requests of the last 30 s met on average; inf where nobody serves it."""
    left = seen.window(seen.left, index, LOOK_BACK_SECONDS)
    able = seen.window(seen.served_by, index, LOOK_BACK_SECONDS)
    weights = seen.window(seen.requests, index, LOOK_BACK_SECONDS)
    met = np.divide(left, able, out=np.where(left > 0.0, np.inf, 0.0), where=able > 0.0)[weights > 0.0]
    return float(np.average(met, weights=weights[weights > 0.0])) if len(met) else 0.0
