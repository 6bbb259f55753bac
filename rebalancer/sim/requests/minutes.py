"""What the minutes of a run were worth, as Faro scores them: by the minute in which requests arrived."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.sim.demand import F64
from rebalancer.sim.requests.arrivals import MINUTE_SECONDS

QUANTILE = 0.99


@dataclass(frozen=True, slots=True)
class Minutes:
    """The minutes of a run. Arrays have the shape (jobs, minutes); streams that overrun the last minute make one more.

    requests: requests that came in each minute, 0 where a job had none.
    p99_seconds: 99th percentile of their latencies, in seconds; inf where it falls on a request that was turned away,
        NaN where a job had no request.
    late: share of them that were over the SLO, 0 to 1; NaN where a job had no request.
    utility: SLO / p99, at most 1; NaN where a job had no request.
    """

    requests: F64
    p99_seconds: F64
    late: F64
    utility: F64

    @classmethod
    def of(cls, jobs: Sequence[F64], slo_seconds: float) -> "Minutes":
        """From the rows that `by_minute` gives for each job."""
        most = max(rows.shape[1] for rows in jobs)
        padded = [np.pad(rows, ((0, 0), (0, most - rows.shape[1])), constant_values=np.nan) for rows in jobs]
        requests, p99, late = (np.stack([rows[row] for rows in padded]) for row in range(3))
        return cls(np.nan_to_num(requests), p99, late, np.minimum(1.0, slo_seconds / p99))

    @property
    def lost_utility(self) -> float:
        """Jobs less the sum of their mean utilities."""
        return len(self.utility) - float(np.nanmean(self.utility, axis=1).sum())

    def lost_by_block(self, minutes: int) -> F64:
        """(blocks, 2) of so many minutes each: lost utility times minutes, and minutes; sums give `lost_utility`.

        A job that had no requests in some minutes weighs the more in its others.
        """
        whole = self.utility.shape[1]
        weight = whole / np.maximum(1, (~np.isnan(self.utility)).sum(axis=1, keepdims=True))
        lost = np.nansum((1.0 - self.utility) * weight, axis=0)
        begins = np.arange(0, whole, minutes)
        return np.column_stack([np.add.reduceat(lost, begins), np.diff(begins, append=whole)])

    @property
    def mean_violation(self) -> float:
        """Shares of requests over the SLO: mean over a job's minutes, then over jobs."""
        return float(np.nanmean(self.late, axis=1).mean())

    @property
    def violation(self) -> float:
        """Requests over the SLO, of all requests."""
        return float(np.nansum(self.late * self.requests) / self.requests.sum())


def by_minute(at: F64, latency_seconds: F64, slo_seconds: float) -> F64:
    """(3, minutes): requests, p99 and share over the SLO of the requests that came in each minute; NaN without any."""
    last = int(at[-1] // MINUTE_SECONDS) if len(at) else -1
    bounds = np.searchsorted(at, MINUTE_SECONDS * np.arange(last + 2))
    rows = np.full((3, last + 1), np.nan)
    for minute, (begin, end) in enumerate(itertools.pairwise(bounds)):
        if begin < end:
            latency = np.sort(latency_seconds[begin:end])
            rows[:, minute] = end - begin, _quantile(latency), (latency > slo_seconds).mean()
    return rows


def _quantile(ascending: F64) -> float:
    """Linear between neighbours; inf as soon as it leans on an inf."""
    place = QUANTILE * (len(ascending) - 1)
    below = int(place)
    low, high = float(ascending[below]), float(ascending[min(below + 1, len(ascending) - 1)])
    return low if place == below or low == high else low + (place - below) * (high - low)
