"""Faro's solver: utility of a forecast window maximised with COBYLA, rounded up, cut to the quota, then tidied.

The parts follow `src/solver.py` of beomyeol/faro at b595c4a, with the settings of its `config/autoscaler`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.optimize import minimize

from rebalancer.sim.demand import F64
from rebalancer.sim.peers.faro.queueing import EPSILON, utilities

NOTHING = 1e-9  # less than any utility that can be told from rounding
ROUNDING = 1e-6  # replicas
ROUNDS = 50  # of tidying; each but the last gains something, so this only bounds a loop
Value = Callable[[F64], float]


class Objective(Enum):
    """Sum of utilities, evenness (least - most + 1), or the sum plus evenness times the number of jobs."""

    SUM = "sum"
    FAIR = "fair"
    FAIR_SUM = "fair-sum"


@dataclass(frozen=True, slots=True)
class FaroSettings:
    """Settings of the solver, with the paper's defaults.

    COBYLA is started again from what it found as long as that gains: SciPy's compiled COBYLA gives up early where jobs
    compete. With the sum of utilities, compatible arrivals of day 11 and 32 replicas the loss is 0.936 after one round
    at any tolerance, 0.900 after five at 1e-2, 0.833 at 1e-3 (published simulator: 0.86).

    objective: what is maximised.
    percentile: percentile of a job's latency, 0-100, that is compared with its SLO.
    max_load: load of a job's replicas, 0-1, above which its latency is taken to grow in proportion to its rate.
    late_bins: bins of the forecast that new replicas miss when the quota is used up; half as many while units are free.
    first_step: COBYLA's first step, in replicas.
    last_step: COBYLA's tolerance, in replicas.
    rounds: how many times COBYLA is started at most.
    """

    objective: Objective = Objective.FAIR_SUM
    percentile: float = 99.0
    max_load: float = 0.95
    late_bins: int = 1
    first_step: float = 3.0  # COBYLA's rhobeg, in replicas
    last_step: float = 1e-3
    rounds: int = 5


@dataclass(frozen=True, slots=True)
class FaroProblem:
    """Jobs that share a quota. Arrays other than `rates` have the shape (jobs,).

    rates: requests per second that are forecast, shape (jobs, bins).
    service_seconds: seconds that one request keeps a replica.
    slo_seconds: latency that was promised, in seconds.
    current: replicas that serve, 1 where none does.
    floor: the least number of replicas, at least 1.
    units: units of the quota that one replica takes.
    quota: units that all jobs may take together.
    """

    rates: F64
    service_seconds: F64
    slo_seconds: F64
    current: F64
    floor: F64
    units: F64
    quota: float

    def spare(self, replicas: F64) -> float:
        """Units left; negative when it does not fit."""
        return self.quota - float(self.units @ replicas)


def late_bins(problem: FaroProblem, settings: FaroSettings) -> int:
    """Nobody has to release first while units are free: half the delay, in whole bins."""
    return settings.late_bins // 2 if problem.spare(problem.current) > 0 else settings.late_bins


def value(problem: FaroProblem, settings: FaroSettings) -> Value:
    """What to minimise, of replicas by job."""
    late = late_bins(problem, settings)

    def of(replicas: F64) -> float:
        each = utilities(
            replicas,
            problem.current,
            late,
            problem.rates,
            problem.service_seconds,
            problem.slo_seconds,
            settings.percentile,
            settings.max_load,
        )
        even = float(each.min() - each.max()) + 1.0
        total = float(each.sum())
        if settings.objective is Objective.SUM:
            return -total
        return -even if settings.objective is Objective.FAIR else -total - even * len(each)

    return of


def least_value(jobs: int, settings: FaroSettings) -> float:
    """What `value` is where every job has all its utility."""
    match settings.objective:
        case Objective.SUM:
            return -float(jobs)
        case Objective.FAIR:
            return -1.0
        case Objective.FAIR_SUM:
            return -2.0 * jobs


def solve(problem: FaroProblem, settings: FaroSettings) -> list[int]:
    """Replicas by job, at least the floors, within the quota if the floors are.

    Where what runs gives every job all its utility COBYLA has nothing to find, and is not asked: a third of the plans
    of S2 at 32 GPUs.
    """
    of = value(problem, settings)
    return [int(replicas) for replicas in tidy(fit(_optimum(problem, settings, of), problem, of), problem, of)]


def _optimum(problem: FaroProblem, settings: FaroSettings, of: Value) -> F64:
    """Fractional replicas by job, near the constraints."""
    start = np.maximum(problem.current, problem.floor)
    if problem.spare(start) >= 0.0 and of(start) <= least_value(len(start), settings) + NOTHING:
        return start
    best = _round(problem, settings, of, problem.current)
    for _ in range(settings.rounds - 1):
        rounded = _round(problem, settings, of, best)
        if of(rounded) >= of(best) - NOTHING or not _feasible(rounded, problem):
            break
        best = rounded
    return best


def _round(problem: FaroProblem, settings: FaroSettings, of: Value, start: F64) -> F64:
    optimum: F64 = minimize(
        of,
        start,
        method="cobyla",
        tol=settings.last_step,
        constraints=[
            {"type": "ineq", "fun": lambda replicas: np.append(replicas - problem.floor, problem.spare(replicas))}
        ],
        options={"rhobeg": settings.first_step},
    ).x
    return optimum


def _feasible(replicas: F64, problem: FaroProblem) -> bool:
    """But for rounding."""
    return problem.spare(replicas) >= -ROUNDING and bool((replicas >= problem.floor - ROUNDING).all())


def fit(replicas: F64, problem: FaroProblem, of: Value) -> F64:
    """Rounded up, then one replica less where it costs least (4 decimals), and moves least, until it fits."""
    whole = np.maximum(np.ceil(replicas), problem.floor)
    while problem.spare(whole) < 0:
        options = []
        for job in np.flatnonzero(whole > problem.floor):
            less = whole.copy()
            less[job] -= 1
            options.append((round(of(less), 4), abs(less[job] - problem.current[job]), int(job)))
        if not options:
            break
        whole[min(options)[2]] -= 1
    return whole


def tidy(replicas: F64, problem: FaroProblem, of: Value) -> F64:
    """Without replicas that gain nothing; all that is left then goes to the first job that gains by it, and again."""
    for _ in range(ROUNDS):
        lean = _without_useless(replicas, problem, of)
        if np.array_equal(lean, replicas):
            return replicas
        replicas = _give_rest(lean, problem, of)
        if np.array_equal(replicas, lean):
            return replicas
    return replicas


def _without_useless(replicas: F64, problem: FaroProblem, of: Value) -> F64:
    lean, best = replicas.copy(), of(replicas)
    for job in range(len(lean)):
        while lean[job] > problem.floor[job]:
            lean[job] -= 1
            now = of(lean)
            if now - best > EPSILON:
                lean[job] += 1
                break
            best = now
    return lean


def _give_rest(replicas: F64, problem: FaroProblem, of: Value) -> F64:
    best = of(replicas)
    for job in range(len(replicas)):
        more = replicas.copy()
        more[job] += problem.spare(replicas) // problem.units[job]
        if best - of(more) > EPSILON:
            return more
    return replicas
