"""Faro: the solver on a forecast every five minutes, and one replica more for a job that stays over its SLO."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from rebalancer.sim.demand import F64
from rebalancer.sim.peers.faro.jobs import Admission, FaroJob, FaroWish
from rebalancer.sim.peers.faro.reactive import Reactive, one_by_one
from rebalancer.sim.peers.faro.solver import FaroProblem, FaroSettings, solve

PLAN_SECONDS = 300
FIRST_PLAN_SECONDS = 60
BIN_SECONDS = 60
WINDOW_BINS = 7  # 420 s
TRIES = 5  # ticks that a planned increase waits for its quota

Forecast = Callable[[int], F64]


class FaroPolicy(Protocol):
    """Faro and its baselines alike; call `step` every `reactive.TICK_SECONDS`."""

    def step(self, now: int, jobs: Sequence[FaroJob], free_units: int, /) -> list[int]:
        """Replicas asked for by job. `free_units`: of the quota that no job has asked for."""
        ...


class Faro:
    """`forecast(now)`: requests per second of the coming bins of 60 s, shape (jobs, up to 7), the one under way first.

    `service_seconds`: of one request, by job, as a planner knows it.
    """

    def __init__(
        self, forecast: Forecast, service_seconds: Sequence[float] | F64, settings: FaroSettings | None = None
    ) -> None:
        self._forecast = forecast
        self._service_seconds = np.array(service_seconds, dtype=np.float64)
        self._settings = settings or FaroSettings()
        self._extra = Reactive(one_by_one, inside_faro=True)
        self._admission = Admission()
        self._started = False

    def step(self, now: int, jobs: Sequence[FaroJob], free_units: int) -> list[int]:
        """Replicas asked for by job. Plans at 60 s and then at every multiple of 300 s; between that, +1."""
        every = PLAN_SECONDS if self._started else FIRST_PLAN_SECONDS
        if now % every:
            return self._admission.admit(self._extra.wishes(jobs), jobs, free_units)
        self._started = True
        self._extra.forget()
        return self._admission.admit(self._plan(now, jobs, free_units), jobs, free_units)

    def _plan(self, now: int, jobs: Sequence[FaroJob], free_units: int) -> list[FaroWish]:
        rates = self._forecast(now)
        if not rates.shape[1]:
            return []
        units = np.array([float(job.units) for job in jobs])
        problem = FaroProblem(
            rates=rates,
            service_seconds=self._service_seconds,
            slo_seconds=np.array([job.slo_seconds for job in jobs]),
            current=np.array([float(max(job.ready, 1)) for job in jobs]),
            floor=np.array([float(max(job.floor, 1)) for job in jobs]),
            units=units,
            quota=free_units + float(units @ np.array([job.replicas for job in jobs])),
        )
        return [FaroWish(job, replicas, tries=TRIES) for job, replicas in enumerate(solve(problem, self._settings))]
