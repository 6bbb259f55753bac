"""The slow level: what a model is taken to need on average from now on, at any past second or now.

Three windows, and a correction learnt from how this model's last minute, five minutes and hour told what came next.
"""

from typing import NamedTuple

import numpy as np

from rebalancer.state.outlook.past import F64, I64, ROW_SECONDS, Past, PastPoints, RunningSums, at, running
from rebalancer.state.outlook.rule import (
    BUSIEST_SECONDS,
    CORRECTION_LEAST,
    CORRECTION_MOST,
    HOUR_SECONDS,
    LEAST_BINS,
    LEAST_LEVEL,
    LEVEL_WEIGHTS,
    LEVEL_WINDOWS_SECONDS,
)

MINUTE_SECONDS = 60
LEVEL_MEANS_SECONDS = (*LEVEL_WINDOWS_SECONDS, HOUR_SECONDS)
FEATURES = [0, 1, 3]  # of these means: the last minute, 5 minutes and hour
HOUR = PastPoints(0, MINUTE_SECONDS // ROW_SECONDS, HOUR_SECONDS // MINUTE_SECONDS)  # the ends of its minutes
_WEIGHTS = np.array(LEVEL_WEIGHTS)[:, np.newaxis, np.newaxis]


class Base(NamedTuple):
    """`base`: (points, models) replicas, NaN where nothing is known; `features`: (3, points, models)."""

    base: F64
    features: F64


def base(sums: RunningSums, points: PastPoints) -> Base:
    """The weighted mean of the windows that are known, and how the last minute, 5 minutes and hour differ from it."""
    return base_of_means(np.array([sums.mean(points, window) for window in LEVEL_MEANS_SECONDS]))


def base_of(past: Past, columns: I64, ends: I64) -> Base:
    """The same for lanes of one model and one second each, as one point: (1, lanes)."""
    windows = [past.mean_of(columns, ends, window) for window in LEVEL_MEANS_SECONDS]
    return base_of_means(np.array(windows)[:, np.newaxis])


def base_of_means(windows: F64) -> Base:
    """The same from means over `LEVEL_MEANS_SECONDS`, (4, points, models), NaN where unknown."""
    known = ~np.isnan(windows)
    filled = np.where(known, windows, 0.0)
    weights = _WEIGHTS * known[:3]
    total = weights[0] + weights[1] + weights[2]
    weighted = filled[:3] * weights
    of = np.full(total.shape, np.nan)
    np.divide(weighted[0] + weighted[1] + weighted[2], total, out=of, where=total > 0.0)
    of = np.maximum(of, LEAST_LEVEL)
    return Base(of, np.where(known, filled / of - 1.0, 0.0)[FEATURES])


def level(of: Base, beta: F64) -> F64:
    """The base x clip(1 + beta . features); `beta`: (models, 3); returns (points, models) replicas."""
    correction = of.features[0] * beta[:, 0] + of.features[1] * beta[:, 1] + of.features[2] * beta[:, 2]
    factor = np.minimum(np.maximum(1.0 + correction, CORRECTION_LEAST), CORRECTION_MOST)
    corrected: F64 = np.maximum(of.base * factor, LEAST_LEVEL)
    return corrected


def usual(sums: RunningSums) -> F64:
    """Median of the means of the last hour's minutes, of those observed; (models,), NaN where none was."""
    minutes = np.sort(sums.mean(HOUR, MINUTE_SECONDS), axis=0)
    known = (~np.isnan(minutes)).sum(axis=0)
    models = np.arange(minutes.shape[1])
    median: F64 = (minutes[np.maximum(known - 1, 0) // 2, models] + minutes[known // 2, models]) / 2.0
    return median


def busiest(sums: RunningSums, ends: PastPoints) -> F64:
    """Highest mean of the five minutes before one of the ends, of those half observed; (models,), 0 where none was."""
    seen = at(sums.seen, ends) - at(sums.seen, ends.earlier(BUSIEST_SECONDS))
    means = np.where(2 * seen >= BUSIEST_SECONDS, sums.mean(ends, BUSIEST_SECONDS), 0.0)
    most: F64 = means.max(axis=0)
    return most


class RateBins(NamedTuple):
    """Running sums over the 10-s bins between rows, (rows, models) each: bins known, their rates, rates squared."""

    known: F64
    rates: F64
    squares: F64


def bins(sums: RunningSums) -> RateBins:
    """The bins between rows of `sums`; a bin counts where at least half of it was observed."""
    seen, work = (of[1:] - of[:-1] for of in (sums.seen, sums.work))
    known = np.broadcast_to(seen * 2 >= ROW_SECONDS, work.shape)
    rates = np.divide(work, seen, out=np.zeros(work.shape), where=known)
    return RateBins(*(running(of) for of in (known.astype(np.float64), rates, rates * rates)))


def dispersion(of: RateBins, ends: PastPoints, window_seconds: int) -> F64:
    """Variance over mean of the 10-s rates in the window before each end, in replicas; (points, models).

    1 where fewer than six bins of it are known, or nothing arrived.
    """
    begins = ends.earlier(window_seconds)
    number, total, squares = (at(sums, ends) - at(sums, begins) for sums in of)
    each = np.maximum(number, 1.0)
    mean = total / each
    variance = np.maximum(squares / each - mean * mean, 0.0)
    known = (number >= LEAST_BINS) & (mean > 0.0)
    return np.divide(variance, mean, out=np.ones(mean.shape), where=known)
