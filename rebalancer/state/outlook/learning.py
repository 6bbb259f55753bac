"""What the last three hours say about how each model's level, dispersion and errors carry over to what comes.

One forecast a minute is made as it would have been then, and compared with what came between a start later and the
horizon. Every 300 s per model; 1 to 3 ms for 100 models.
"""

from typing import NamedTuple

import numpy as np

from rebalancer.state.outlook.changepoint import excesses
from rebalancer.state.outlook.learned import Learned
from rebalancer.state.outlook.level import Base, base, bins, busiest, dispersion, level
from rebalancer.state.outlook.past import F64, I64, ROW_SECONDS, Past, PastPoints, RunningSums
from rebalancer.state.outlook.period import periods
from rebalancer.state.outlook.rule import (
    DISPERSION_AHEAD_SECONDS,
    DISPERSION_SECONDS,
    GRID_SECONDS,
    HOUR_SECONDS,
    LEARN_SECONDS,
    LEAST_LEVEL,
    LEAST_POINTS,
    PAST_SECONDS,
    QUANTUM,
    RARE,
    RIDGE,
    RIDGE_POINTS,
    SEEN_BEFORE_SECONDS,
    YOUNGEST_SECONDS,
)
from rebalancer.state.outlook.stood import stood

HELD_OUT = 60  # points, the newest: what the correction's worth is measured on
CHANGE_LEAST, CHANGE_MOST = -1.0, 2.0  # of the level: a surge among the points does not bend the correction
LEAST_DISPERSION = 1e-3  # of a constant series, whose logarithm is asked for


class Grid(NamedTuple):
    """Forecasts of the past and how they went, newest first; (points, models) where no shape is named.

    at: the points in the past.
    of_level: the level's parts then.
    came: mean offered work from a start later to the horizon, in replicas.
    young: 1 where at least a minute of past was known then, else 0.
    known: 1 where at least five minutes were, else 0.
    """

    at: PastPoints
    of_level: Base
    came: F64
    young: F64
    known: F64


def learn(past: Past, cold_seconds: int, horizon_seconds: int) -> tuple[Learned, ...]:
    """The figures learnt about each model of the past, in its order."""
    oldest = int(past.until - past.since.min())
    count = min(LEARN_SECONDS, oldest - horizon_seconds - YOUNGEST_SECONDS) // GRID_SECONDS
    if count < LEAST_POINTS:
        return tuple(
            Learned(at=past.until, enough=still.enough, peak=still.peak, minute=still.minute)
            for still in stood(past.running_sums(min(oldest, LEARN_SECONDS)), cold_seconds)
        )
    points = PastPoints(horizon_seconds // ROW_SECONDS, GRID_SECONDS // ROW_SECONDS, count)
    sums = past.running_sums(horizon_seconds + GRID_SECONDS * count + HOUR_SECONDS)
    grid = _grid(sums, points, cold_seconds, horizon_seconds)
    beta, error, plain = _correction(grid)
    levels = level(grid.of_level, beta)
    off = np.where(grid.young > 0, (grid.came - levels) / np.sqrt(levels), 0.0)
    gamma = _persistence(sums, grid, horizon_seconds)
    lag, rho = periods(off, grid.young.sum(axis=0).astype(np.int64), -(-horizon_seconds // GRID_SECONDS) + 1)
    known = excesses(sums, grid.at, levels, off, grid.known)
    rare = _rare(past.until - grid.at.seconds_ago, np.where(grid.known > 0, off, 0.0), past.until - horizon_seconds)
    most = busiest(sums, points)
    stills = stood(sums, cold_seconds)
    beta, gamma, rho, most = (np.round(of, QUANTUM) + 0.0 for of in (beta, gamma, rho, most))
    return tuple(
        Learned(
            beta=(float(b[0]), float(b[1]), float(b[2])),
            gamma=float(g),
            period_seconds=int(lags) * GRID_SECONDS,
            rho=float(share),
            excesses=pair,
            error=_known(e),
            plain_error=_known(p),
            rare=worst,
            at=past.until,
            busiest=float(top),
            enough=still.enough,
            peak=still.peak,
            minute=still.minute,
        )
        for b, g, lags, share, pair, e, p, worst, top, still in zip(
            beta, gamma, lag, rho, known, error, plain, rare, most, stills, strict=True
        )
    )


def _rare(seconds: I64, off: F64, newest: int) -> list[tuple[int, ...]]:
    """Per model the `RARE` points with the most above their forecast, of those too old to be replayed anyway.

    `seconds`: (points,); `off`: (points, models), above 0 where more came than was told.
    """
    old = off[seconds <= newest - PAST_SECONDS]
    ages = seconds[seconds <= newest - PAST_SECONDS]
    order = np.argsort(-old, axis=0, kind="stable")[:RARE]
    return [
        tuple(int(ages[point]) for point in points.tolist() if old[point, model] > 0.0)
        for model, points in enumerate(order.T)
    ]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), QUANTUM)


def _grid(sums: RunningSums, points: PastPoints, cold_seconds: int, horizon_seconds: int) -> Grid:
    parts = base(sums, points)
    came = sums.mean(points.earlier(-horizon_seconds), horizon_seconds - cold_seconds)
    age = sums.age - points.seconds_ago[:, np.newaxis]
    there = ~np.isnan(came) & ~np.isnan(parts.base)
    young, known = ((there & (age >= span)).astype(np.float64) for span in (YOUNGEST_SECONDS, SEEN_BEFORE_SECONDS))
    features = np.where(there, parts.features, 0.0)
    filled = Base(np.where(there, parts.base, LEAST_LEVEL), features)
    return Grid(points, filled, np.where(there, came, 0.0), young, known)


def _correction(grid: Grid) -> tuple[F64, F64, F64]:
    """Correction (models, 3), and the relative errors with it and without, NaN where there is too little.

    A correction that was worse than none on the newest hour, learnt without that hour, is not used.
    """
    change = np.clip(grid.came / grid.of_level.base - 1.0, CHANGE_LEAST, CHANGE_MOST)
    beta = _ridge(grid.of_level.features, change, grid.known)
    error, plain = (np.full(len(beta), np.nan) for _ in range(2))
    if len(change) >= HELD_OUT + RIDGE_POINTS:
        before = _ridge(grid.of_level.features[:, HELD_OUT:], change[HELD_OUT:], grid.known[HELD_OUT:])
        error, plain = (_relative_error(grid, with_beta) for with_beta in (before, np.zeros_like(before)))
        beta = np.where((error > plain)[:, np.newaxis], 0.0, beta)
    return beta, error, plain


def _relative_error(grid: Grid, beta: F64) -> F64:
    """|forecast - came| over what came, summed over the newest hour's points; NaN where nothing came."""
    newest = Base(grid.of_level.base[:HELD_OUT], grid.of_level.features[:, :HELD_OUT])
    came, known = grid.came[:HELD_OUT], grid.known[:HELD_OUT]
    apart = (np.abs(level(newest, beta) - came) * known).sum(axis=0)
    total = (came * known).sum(axis=0)
    error: F64 = np.divide(apart, total, out=np.full(len(total), np.nan), where=total > 0.0)
    return error


def _ridge(features: F64, change: F64, weights: F64) -> F64:
    """Regression of `change` (points, models) on `features` (3, points, models) with a prior of no correction."""
    number = weights.sum(axis=0)
    weighed = features * weights
    gram = np.empty((3, 3, len(number)))
    moments = np.empty((3, len(number)))
    for a in range(3):
        moments[a] = (weighed[a] * change).sum(axis=0)
        for b in range(a, 3):
            gram[a, b] = gram[b, a] = (weighed[a] * features[b]).sum(axis=0)
    trace = gram[0, 0] + gram[1, 1] + gram[2, 2]
    each = np.maximum(number, 1.0)
    for a in range(3):
        gram[a, a] += RIDGE * (gram[a, a] / each + 0.2 * trace / (3.0 * each))
    beta = _solve(gram, moments)
    trusted: F64 = np.where((number >= RIDGE_POINTS)[:, np.newaxis], beta.T, 0.0)
    return trusted


def _solve(gram: F64, moments: F64) -> F64:
    """Three equations each, by Cramer's rule: no library whose sums depend on the machine. 0 where singular."""

    def determinant(of: F64) -> F64:
        solution: F64 = (
            of[0, 0] * (of[1, 1] * of[2, 2] - of[1, 2] * of[2, 1])
            - of[0, 1] * (of[1, 0] * of[2, 2] - of[1, 2] * of[2, 0])
            + of[0, 2] * (of[1, 0] * of[2, 1] - of[1, 1] * of[2, 0])
        )
        return solution

    whole = determinant(gram)
    beta = np.zeros_like(moments)
    for a in range(3):
        swapped = gram.copy()
        swapped[:, a] = moments
        np.divide(determinant(swapped), whole, out=beta[a], where=np.abs(whole) > 0.0)
    return beta


def _persistence(sums: RunningSums, grid: Grid, horizon_seconds: int) -> F64:
    """Slope, called gamma, of the logarithm of the dispersion after the horizon on that before; (models,)."""
    counted = bins(sums)
    before = dispersion(counted, grid.at, DISPERSION_SECONDS)
    after = dispersion(counted, grid.at.earlier(-horizon_seconds), DISPERSION_AHEAD_SECONDS)
    before, after = (np.log(np.maximum(of, LEAST_DISPERSION)) for of in (before, after))
    count = grid.known.sum(axis=0)
    number = np.maximum(count, 1.0)
    apart = (before - (before * grid.known).sum(axis=0) / number) * grid.known
    spread = (apart * apart).sum(axis=0)
    together = (apart * after).sum(axis=0)
    held_back = spread * (1.0 + RIDGE / number)
    slope = np.divide(together, held_back, out=np.zeros(len(count)), where=spread > 0.0)
    return np.where(count >= LEAST_POINTS, np.clip(slope, 0.0, 1.0), 0.0)
