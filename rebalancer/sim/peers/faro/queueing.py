"""Latency of a job with deterministic service on `c` replicas, as Faro estimates it, compiled.

M/D/c is taken as M/M/c with half the wait (DOI 10.1016/j.aeue.2005.01.002); an overloaded job is looked at with the
rate it could bear, and its latency grows in proportion to what it cannot.
"""

import math

import numpy as np

from rebalancer.sim.compiled import compiled
from rebalancer.sim.demand import F64

EPSILON = 1e-4


@compiled
def wait_percentile(rate: float, service_seconds: float, replicas: float, percentile: float) -> float:
    """Seconds that `percentile` (0-100) of the requests wait at most in M/M/c.

    `replicas` may be fractional: whole ones make the states, all of it makes the load. Needs a load below 1.
    """
    offered = rate * service_seconds
    load = offered / replicas
    term, below = 1.0, 1.0
    for count in range(1, int(replicas) + 1):
        term *= offered / count
        below += term
    below -= term
    queues = 1.0 - below / (below + term / (1.0 - load))
    mean = queues / (replicas / service_seconds - rate)
    if queues <= 0.0:
        queues = EPSILON
    return max(0.0, mean / queues * math.log(100.0 * queues / (100.0 - percentile)))


@compiled
def latency(rate: float, service_seconds: float, replicas: float, percentile: float, max_load: float) -> float:
    """Seconds of the percentile's latency; inf without replicas."""
    if replicas <= 0.0:
        return math.inf
    borne = rate
    if rate * service_seconds / replicas > max_load:
        borne = max_load * replicas / service_seconds
    within = wait_percentile(borne, service_seconds, replicas, percentile) / 2.0 + service_seconds
    return within if borne == rate else within * rate / borne


@compiled
def utilities(  # noqa: PLR0913  # a compiled kernel takes flat arguments
    replicas: F64,
    old: F64,
    late_bins: int,
    rates: F64,
    service_seconds: F64,
    slo_seconds: F64,
    percentile: float,
    max_load: float,
) -> F64:
    """Mean over the window of min(1, SLO / latency), by job; shape (jobs,).

    `rates`: (jobs, bins) requests per second. More replicas than `old` count from bin `late_bins` on, unless the
    window is no longer than that. All is 0 while some job has no replicas: its latency has no meaning there.
    """
    jobs, bins = rates.shape
    by_job = np.zeros(jobs)
    if np.min(replicas) <= 0.0:
        return by_job
    late = late_bins if late_bins < bins else 0
    for job in range(jobs):
        for at in range(bins):
            count = min(replicas[job], old[job]) if at < late else replicas[job]
            seconds = latency(rates[job, at], service_seconds[job], count, percentile, max_load)
            by_job[job] += min(1.0, slo_seconds[job] / max(seconds, EPSILON / 1e3))
        by_job[job] /= bins
    return by_job
