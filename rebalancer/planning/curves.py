"""Allocation by curves: who gets the GPUs of one pool when each model says what every count of replicas costs it.

Greedy on the lower convex hulls of the curves: always the replica that gains most per GPU. On convex curves of one-GPU
replicas that is the optimum; where hulls or sizes leave a rest, single steps of the real curves use it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

LEAST_GAIN = 5e-7  # requests: half of what values are rounded to


class Curve(NamedTuple):
    """`values`: cost of `least`, least + 1, ... replicas of `gpus` each; lower is better."""

    least: int
    values: Sequence[float]
    gpus: int = 1


class Share(NamedTuple):
    """Replicas by model, in order; `short`: GPUs by which even the least of all do not fit."""

    counts: tuple[int, ...]
    short: int = 0


def share_out(curves: Sequence[Curve], budget: int) -> Share:
    """Counts within the curves whose total cost is least and whose GPUs fit the budget; ties by order of models.

    Where the least of all do not fit, the least: who then goes short is not for curves to say.
    """
    if not curves:
        return Share(())
    values = _padded(curves)
    gpus = np.array([curve.gpus for curve in curves], dtype=np.int64)
    least = np.array([curve.least for curve in curves], dtype=np.int64)
    free = budget - int((least * gpus).sum())
    if free < 0:
        return Share(tuple(least.tolist()), -free)
    slopes = hull_slopes(values)
    extra, free = _greedy(slopes, gpus, free)
    extra = _settled(values, gpus, extra, free)
    return Share(tuple((least + extra).tolist()))


def _padded(curves: Sequence[Curve]) -> F64:
    """(models, widest): inf beyond a model's range."""
    values = np.full((len(curves), max(len(curve.values) for curve in curves)), np.inf)
    for row, curve in zip(values, curves, strict=True):
        row[: len(curve.values)] = curve.values
    return values


def hull_slopes(values: F64) -> F64:
    """(models, widest - 1): the slope of each curve's lower convex hull over every step; inf beyond its range.

    The slopes of a hull are the isotonic regression of the steps: max over beginnings of the min over ends of means.
    """
    models, width = values.shape
    slopes = np.full((models, max(0, width - 1)), -np.inf)
    inside = np.isfinite(values)
    known = np.where(inside, values, 0.0)
    for begin in range(width - 1):
        means = (known[:, begin + 1 :] - known[:, begin, np.newaxis]) / np.arange(1, width - begin)
        means = np.where(inside[:, begin + 1 :], means, np.inf)
        lowest = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]
        slopes[:, begin:] = np.maximum(slopes[:, begin:], lowest)
    return np.where(inside[:, 1:], slopes, np.inf)


def _greedy(slopes: F64, gpus: I64, free: int) -> tuple[I64, int]:
    """Steps by gain per GPU while they fit; (models,) replicas beyond the least, and the GPUs left."""
    models, steps = np.nonzero(slopes < -LEAST_GAIN)
    extra = np.zeros(len(gpus), dtype=np.int64)
    if not len(models):
        return extra, free
    per_gpu = slopes[models, steps] / gpus[models]
    order = np.lexsort((steps, models, per_gpu))
    models = models[order]
    used = np.cumsum(gpus[models])
    fits = int(np.searchsorted(used, free, side="right"))
    extra += np.bincount(models[:fits], minlength=len(gpus))
    free -= int(used[fits - 1]) if fits else 0
    closed: set[int] = set()
    for model in models[fits:].tolist() if free >= int(gpus.min()) else ():
        if model in closed:
            continue
        if gpus[model] > free:
            closed.add(model)  # its steps come in order: without this one, no later one
            continue
        extra[model] += 1
        free -= int(gpus[model])
    return extra, free


def _settled(values: F64, gpus: I64, extra: I64, free: int) -> I64:
    """Hulls promise what the real curves may not keep: single steps until none gains, a replica for another included.

    Each round does the best of: one more, one less, one less for one more of somebody else.
    """
    models = np.arange(len(gpus))
    for _ in range(2 * values.shape[1]):
        now = values[models, extra]
        more = np.full(len(gpus), np.inf)
        can = extra + 1 < values.shape[1]
        more[can] = values[models[can], extra[can] + 1] - now[can]
        less = np.full(len(gpus), np.inf)
        can = extra > 0
        less[can] = values[models[can], extra[can] - 1] - now[can]
        best = _best_step(more, less, gpus, free)
        if best is None:
            break
        up, down = best
        if up is not None:
            extra[up] += 1
            free -= int(gpus[up])
        if down is not None:
            extra[down] -= 1
            free += int(gpus[down])
    return extra


def _best_step(more: F64, less: F64, gpus: I64, free: int) -> tuple[int | None, int | None] | None:
    """(who gets one, who gives one) of the largest gain; None when nothing gains."""
    gain, found = -LEAST_GAIN, None
    fitting = np.where(gpus <= free, more, np.inf)
    up = int(np.argmin(fitting))
    if fitting[up] < gain:
        gain, found = float(fitting[up]), (up, None)
    down = int(np.argmin(less))
    if less[down] < gain:
        gain, found = float(less[down]), (None, down)
    for size in np.unique(gpus).tolist():
        givers = np.where(gpus >= size - free, less, np.inf)
        takers = np.where(gpus == size, more, np.inf)
        give, take = _apart(givers, takers)
        total = float(givers[give] + takers[take])
        if total < gain:
            gain, found = total, (take, give)
    return found


def _apart(givers: F64, takers: F64) -> tuple[int, int]:
    """The cheapest giver and the best taker, who must not be the same."""
    give, take = int(np.argmin(givers)), int(np.argmin(takers))
    if give != take:
        return give, take
    others = np.arange(len(givers)) != give
    if not others.any():
        return give, take if not np.isfinite(givers[give] + takers[take]) else take
    other_give = int(np.argmin(np.where(others, givers, np.inf)))
    other_take = int(np.argmin(np.where(others, takers, np.inf)))
    if givers[other_give] + takers[take] <= givers[give] + takers[other_take]:
        return other_give, take
    return give, other_take
