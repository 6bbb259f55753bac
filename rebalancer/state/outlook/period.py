"""The period after which a model's forecast errors come again: what an hourly batch or a cron job looks like."""

import numpy as np

from rebalancer.state.outlook.past import F64, I64
from rebalancer.state.outlook.rule import GRID_SECONDS, LONGEST_PERIOD_SECONDS, PERIOD_POINTS, RHO_MOST

LEAST_CORRELATION = 0.5  # below, a period is taken for chance


def periods(off: F64, points: I64, shortest: int) -> tuple[I64, F64]:
    """The best lag in points, and how far to trust it: clip((r - .5) / .5, 0, .9) by Pearson's r.

    `off`: (points, models) forecast errors, newest first, 0 after each model's first `points`; lags from `shortest`.
    """
    lags = np.arange(shortest, LONGEST_PERIOD_SECONDS // GRID_SECONDS + 1)
    lags = lags[lags < len(off)]
    none = np.zeros(len(points), dtype=np.int64)
    if not len(lags):
        return none, none.astype(np.float64)
    pairs = points - lags[:, np.newaxis]
    enough = pairs >= np.maximum(PERIOD_POINTS, lags)[:, np.newaxis]
    r = np.where(enough, _correlation(off, points, lags, np.maximum(pairs, 1)), 0.0)
    best = np.argmax(r, axis=0)
    rho = np.clip((r[best, np.arange(len(points))] - LEAST_CORRELATION) / (1.0 - LEAST_CORRELATION), 0.0, RHO_MOST)
    return np.where(rho > 0.0, lags[best], none), rho


def _correlation(off: F64, points: I64, lags: I64, pairs: I64) -> F64:
    """Pearson's r of each series with itself `lags` points later; (lags, models)."""
    columns = np.arange(len(points))
    sums, squares = (_running(of) for of in (off, off * off))
    last = np.minimum(pairs, len(off))
    newer, newer_squares = sums[last, columns], squares[last, columns]
    first = np.minimum(lags[:, np.newaxis], points)
    older, older_squares = (of[points, columns] - of[first, columns] for of in (sums, squares))
    later = np.concatenate([off, np.zeros_like(off)])
    shifted = np.lib.stride_tricks.sliding_window_view(later, len(off), axis=0)[lags]  # (lags, models, points)
    both = np.einsum("nk,lkn->lk", off, shifted, optimize=False)
    spread = (newer_squares - newer * newer / pairs) * (older_squares - older * older / pairs)
    together = both - newer * older / pairs
    r: F64 = np.divide(together, np.sqrt(np.maximum(spread, 0.0)), out=np.zeros(pairs.shape), where=spread > 0.0)
    return r


def _running(of: F64) -> F64:
    return np.concatenate([np.zeros((1, of.shape[1])), np.cumsum(of, axis=0)])
