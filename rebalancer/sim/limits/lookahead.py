"""The look-ahead rule's arithmetic for a known future, compiled: what a count of replicas costs, and who gets what.

Values and allocation with the true future as the single scenario: no spread, hence no standard
error. Frozen with FORESIGHT_VERSION: a change here is a new version.
"""

import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.compiled import compiled
from rebalancer.sim.demand import F64

I64 = NDArray[np.int64]

TERMINAL_CAP_SECONDS = 300.0
LEAST_DRAIN = 0.3  # replicas by which a backlog is taken to shrink at least
FULL_USE = 1e-7  # what a replica earns by itself: GPUs of a fixed budget are never left idle
BLOCK_SECONDS = 60  # of the utility objective


@compiled
def _ahead(  # noqa: PLR0913  # a compiled kernel takes flat arguments
    arriving: F64,
    now: int,
    step: int,
    serving: int,
    due: I64,
    backlog: float,
    slo: float,
    headroom: float,
    patience: float,
    queue_base: float,
    queue_per_replica: float,
    latency_slo: float,
    service: float,
    level: float,
) -> tuple[float, float, float]:
    """Late work (or lost utility x level) over the horizon, and the backlog and the replicas at its end."""
    cost, left, slowest = 0.0, backlog, 0.0
    able = float(serving)
    started, length = 0, 0
    for i, arrives in enumerate(arriving):
        while started < len(due) and due[started] <= now + i * step:
            started += 1
        able = float(serving + started)
        y = left / max(able, 1e-3)
        stays = y <= patience + headroom and left <= queue_base + queue_per_replica * able
        if latency_slo > 0.0:
            if arrives > 0.0:
                slowest = max(slowest, y if stays else np.inf)
            length += step
            if length >= BLOCK_SECONDS or i == len(arriving) - 1:
                cost += length * level * max(0.0, 1.0 - latency_slo / (slowest + service))
                slowest, length = 0.0, 0
        else:
            cost += arrives * min(1.0, y / (headroom + 2.0 * slo))
        left = max(0.0, left + (arrives if stays else 0.0) - able * step)
    return cost, left, able


@compiled
def values(  # noqa: PLR0913  # a compiled kernel takes flat arguments
    work: F64,
    now: int,
    horizon: int,
    step: int,
    cold: int,
    ready: int,
    due: I64,
    backlog: float,
    level: float,
    weight: float,
    switching: float,
    slo: float,
    headroom: float,
    patience: float,
    queue_base: float,
    queue_per_replica: float,
    latency_slo: float,
    service: float,
    least: int,
    most: int,
) -> F64:
    """Cost of holding m replicas from now on, for m in [least, most]; shape (most - least + 1,).

    `work`: (seconds,) replica-seconds that arrive; `due`: seconds at which starting replicas serve, ascending;
    `level`: slow work rate, for the backlog beyond the horizon; `weight`: cost of a late replica-second; `switching`:
    replica-seconds per moved pair; `queue_*`: replica-seconds of backlog above which arrivals are turned away.
    With `latency_slo` > 0 the cost is Faro's utility lost per minute, else late work.
    """
    current = ready + len(due)
    out = np.empty(most - least + 1)
    arriving = np.zeros(horizon // step)
    for s in range(now, min(now + len(arriving) * step, len(work))):
        arriving[(s - now) // step] += work[s]
    for m in range(least, most + 1):
        loading = max(0, min(len(due), m - ready))  # shrinking takes starting ones first, the latest first
        path = np.concatenate((due[:loading], np.full(max(0, m - current), now + cold)))
        cost, left, able = _ahead(
            arriving,
            now,
            step,
            min(ready, m),
            path,
            backlog,
            slo,
            headroom,
            patience,
            queue_base,
            queue_per_replica,
            latency_slo,
            service,
            level,
        )
        excess = left - (headroom + slo) * able
        if excess > 0.0:
            cost += level * min(excess / max(able - level, LEAST_DRAIN), TERMINAL_CAP_SECONDS)
        out[m - least] = (cost + 0.5 * switching * abs(m - current)) * weight - FULL_USE * m
    return out


@compiled
def allocate(costs: F64, least: I64, most: I64, gpus: I64, budget: int) -> I64:
    """The counts m, least <= m <= most, of least total cost with sum m x `gpus` <= `budget`: exact, by DP.

    `costs`: (models, widest range); row i holds the costs of least[i]..most[i]. Empty where even the least do not fit.
    """
    models = len(least)
    best = np.full((models + 1, budget + 1), np.inf)
    pick = np.zeros((models, budget + 1), np.int64)
    best[0, :] = 0.0
    for i in range(models):
        for free in range(budget + 1):
            for m in range(least[i], most[i] + 1):
                rest = free - m * gpus[i]
                if rest < 0:
                    break
                total = best[i, rest] + costs[i, m - least[i]]
                if total < best[i + 1, free]:
                    best[i + 1, free] = total
                    pick[i, free] = m
    if not np.isfinite(best[models, budget]):
        return np.empty(0, np.int64)
    out = np.zeros(models, np.int64)
    free = budget
    for i in range(models - 1, -1, -1):
        out[i] = pick[i, free]
        free -= out[i] * gpus[i]
    return out
