"""The period after which a model's forecast errors come again: what an hourly batch or a cron job looks like."""

import numpy as np

from rebalancer.state.outlook.past import F64, I64
from rebalancer.state.outlook.rule import GRID_SECONDS, LONGEST_PERIOD_SECONDS, PERIOD_POINTS, RHO_MOST

LEAST_CORRELATION = 0.5  # below, a period is taken for chance


def periods(off: F64, points: I64, shortest: int) -> tuple[I64, F64]:
    """The best lag in points, and how far to trust it: clip((r - .5) / .5, 0, .9) by Pearson's r.

    `off`: (points, models) forecast errors, newest first, 0 after each model's first `points`; lags from `shortest`.
    """
    models = len(points)
    columns = np.arange(models)
    sums, squares = (_running(of) for of in (off, off * off))
    best, lag = np.zeros(models), np.zeros(models, dtype=np.int64)
    for shift in range(shortest, LONGEST_PERIOD_SECONDS // GRID_SECONDS + 1):
        pairs = points - shift
        enough = pairs >= max(PERIOD_POINTS, shift)
        if not enough.any():
            break
        number = np.maximum(pairs, 1)
        last = np.maximum(pairs, 0)
        newer, newer_squares = sums[last, columns], squares[last, columns]
        older, older_squares = (of[points, columns] - of[np.minimum(shift, points), columns] for of in (sums, squares))
        both = (off[:-shift] * off[shift:]).sum(axis=0)
        together = both - newer * older / number
        spread = (newer_squares - newer * newer / number) * (older_squares - older * older / number)
        r = np.divide(together, np.sqrt(np.maximum(spread, 0.0)), out=np.zeros(models), where=spread > 0.0)
        better = enough & (r > best)
        best, lag = np.where(better, r, best), np.where(better, shift, lag)
    rho = np.clip((best - LEAST_CORRELATION) / (1.0 - LEAST_CORRELATION), 0.0, RHO_MOST)
    return np.where(rho > 0.0, lag, 0), rho


def _running(of: F64) -> F64:
    return np.concatenate([np.zeros((1, of.shape[1])), np.cumsum(of, axis=0)])
