"""Allocation by curves: who gets the GPUs of one pool when each model says what every count of replicas costs it.

Greedy on the lower convex hulls of the curves: always the replica that gains most per GPU. On convex curves of one-GPU
replicas that is the optimum; where hulls or sizes leave a rest, the few models at the price share it exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

LEAST_GAIN = 5e-7  # requests: half of what values are rounded to
SETTLED = 8  # models at the price that share their GPUs again exactly: 0.4 ms
SPAN = 512  # counts that each of them may have then; with all of 10,000 it took 8 s and 2.3 GiB
WIDE = 128  # counts beyond which a hull is made by itself: as one of 1,000 rows that are as wide it took minutes


class Curve(NamedTuple):
    """`values`: cost of `least`, least + 1, ... replicas of `gpus` each; lower is better."""

    least: int
    values: tuple[float, ...]
    gpus: int = 1


class Share(NamedTuple):
    """Replicas by model, in order; `short`: GPUs by which even the least of all do not fit."""

    counts: tuple[int, ...]
    short: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The curves of all models as arrays, one row per model, in their order.

    curves: the curve of each model.
    values: cost of each count, (models, widest curve); inf beyond a model's range.
    slopes: what the next replica changes of the cost along the lower convex hull, (models, widest curve - 1).
    least: fewest replicas of each model, (models,).
    gpus: GPUs of one replica of each model, (models,).
    steps: every step of a hull that gains: its model, and its gain per GPU as a negative cost; the best first, ties by
        model, then step.
    """

    curves: tuple[Curve, ...]
    values: F64
    slopes: F64
    least: I64
    gpus: I64
    steps: tuple[I64, F64]


def share_out(curves: Sequence[Curve], budget: int) -> Share:
    """Counts within the curves whose total cost is least and whose GPUs fit the budget; ties by order of models.

    Where the least of all do not fit, the least: who then goes short is not for curves to say.
    """
    return share_rows(table_of(curves), np.arange(len(curves)), budget) if curves else Share(())


def table_of(curves: Sequence[Curve], before: Table | None = None) -> Table:
    """The table of `curves`, at least one. Rows of `before` stand whose curves are the very same values.

    Of 1,000 models 5 % have another outlook from plan to plan: with `before` it takes 0.9 instead of 2.3 ms.
    """
    if before is not None and len(before.curves) == len(curves):
        other = [row for row, (one, then) in enumerate(zip(curves, before.curves, strict=True)) if one is not then]
        if not other:
            return before
        anew, width = [curves[row] for row in other], before.values.shape[1]
        if _widest(anew) <= width:
            values, slopes = before.values.copy(), before.slopes.copy()
            values[other] = _padded(anew, width)
            slopes[other] = hull_slopes(values[other])
            return _in_order(curves, values, slopes)
    values = _padded(curves, _widest(curves))
    return _in_order(curves, values, hull_slopes(values))


def _in_order(curves: Sequence[Curve], values: F64, slopes: F64) -> Table:
    gpus = np.array([curve.gpus for curve in curves], dtype=np.int64)
    models, steps = np.nonzero(slopes < -LEAST_GAIN)
    per_gpu = slopes[models, steps] / gpus[models]
    order = np.argsort(per_gpu, kind="stable")
    least = np.array([curve.least for curve in curves], dtype=np.int64)
    return Table(tuple(curves), values, slopes, least, gpus, (models[order], per_gpu[order]))


def share_rows(table: Table, rows: I64, budget: int, *, exactly: bool = True) -> Share:
    """`share_out` among some of the models, whose counts come in the order of `rows` (ascending).

    Not `exactly`: greedy only, for who but asks how much each would have.
    """
    least, gpus = table.least[rows], table.gpus[rows]
    free = budget - int((least * gpus).sum())
    if free < 0:
        return Share(tuple(least.tolist()), -free)
    extra, free, price = _greedy(table, rows, free)
    if price is not None and exactly:
        extra = _settled(table.values[rows], table.slopes[rows], gpus, extra, (free, price))
    return Share(tuple((least + extra).tolist()))


def _widest(curves: Sequence[Curve]) -> int:
    return max([len(curve.values) for curve in curves])


def _padded(curves: Sequence[Curve], width: int) -> F64:
    """(models, width): inf beyond a model's range."""
    widths = np.array([len(curve.values) for curve in curves])
    values = np.full((len(curves), width), np.inf)
    values[np.arange(width) < widths[:, np.newaxis]] = list(chain.from_iterable(c.values for c in curves))
    return values


def hull_slopes(values: F64) -> F64:
    """(models, widest - 1): the slope of each curve's lower convex hull over every step; inf beyond its range.

    The slopes of a hull are the isotonic regression of the steps: max over beginnings of the min over ends of means.
    """
    widths = np.isfinite(values).sum(axis=1)
    wide = widths > WIDE
    if not wide.any():
        return _slopes_by_means(values)
    slopes = np.full((len(values), values.shape[1] - 1), np.inf)
    narrow = int(widths[~wide].max(initial=1))
    slopes[~wide, : narrow - 1] = _slopes_by_means(values[~wide, :narrow])
    for row in np.flatnonzero(wide):
        slopes[row, : widths[row] - 1] = _slopes_of_one(values[row, : widths[row]])
    return slopes


def _slopes_of_one(values: F64) -> F64:
    """The same of one curve, whose hull is made from one end to the other."""
    corners: list[int] = []
    known = values.tolist()
    for count, value in enumerate(known):
        while len(corners) > 1:
            last, before = corners[-1], corners[-2]
            if (known[last] - known[before]) * (count - last) < (value - known[last]) * (last - before):
                break
            corners.pop()
        corners.append(count)
    lengths = np.diff(corners)
    slopes: F64 = np.repeat(np.diff(values[corners]) / lengths, lengths)
    return slopes


def _slopes_by_means(values: F64) -> F64:
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


def _greedy(table: Table, rows: I64, free: int) -> tuple[I64, int, float | None]:
    """Steps by gain per GPU while they fit.

    Returns the replicas of each model beyond its least, the GPUs left, and the price: the slope per GPU of the first
    step that did not fit (None: all that gain did).
    """
    gpus, (models, per_gpu) = table.gpus, table.steps
    if len(rows) < len(gpus):
        asking = np.zeros(len(gpus), dtype=np.bool_)
        asking[rows] = True
        asking_models = asking[models]
        models, per_gpu = models[asking_models], per_gpu[asking_models]
    used = np.cumsum(gpus[models])
    fits = int(np.searchsorted(used, free, side="right"))
    extra = np.bincount(models[:fits], minlength=len(gpus))
    free -= int(used[fits - 1]) if fits else 0
    if fits == len(models):
        return extra[rows], free, None
    closed: set[int] = set()
    smallest = int(gpus[rows].min())
    for model in models[fits:].tolist() if free >= smallest else ():
        if gpus[model] > free:
            closed.add(model)  # its steps come in order: without this one, no later one
        if model not in closed:
            extra[model] += 1
            free -= int(gpus[model])
        if free < smallest:
            break
    return extra[rows], free, float(per_gpu[fits])


def _settled(values: F64, slopes: F64, gpus: I64, extra: I64, left: tuple[int, float]) -> I64:
    """Hulls promise what curves may not keep, and sizes leave a rest: the few at the price share again, exactly.

    Each of them within `SPAN` counts around the one that it has. `left`: GPUs free, and the price per GPU.
    """
    free, price = left
    some = _at_the_price(slopes, gpus, extra, price)
    own, size = values[some], gpus[some]
    rows, span = np.arange(len(some)), min(SPAN, own.shape[1])
    first = np.clip(extra[some] - span // 2, 0, own.shape[1] - span)
    units = int(((extra[some] - first) * size).sum()) + free
    chosen = first + _exact(own[rows[:, np.newaxis], first[:, np.newaxis] + np.arange(span)], size, units)
    if own[rows, chosen].sum() < own[rows, extra[some]].sum() - LEAST_GAIN:
        extra = extra.copy()
        extra[some] = chosen
    return extra


def _at_the_price(slopes: F64, gpus: I64, extra: I64, price: float) -> I64:
    """The models whose last or next step costs nearest to the price, in order."""
    rows = np.arange(len(gpus))
    edged = np.pad(slopes, ((0, 0), (1, 1)), constant_values=np.inf)
    last, following = edged[rows, extra] / gpus, edged[rows, extra + 1] / gpus
    near = np.minimum(np.abs(last - price), np.abs(following - price))
    return np.sort(np.argsort(near, kind="stable")[:SETTLED])


def _exact(values: F64, gpus: I64, units: int) -> I64:
    """The steps of least total cost whose GPUs fit `units`, by dynamic programming; of equals the later get less."""
    steps = np.arange(values.shape[1])
    best = np.zeros(units + 1)
    picks = []
    for row, size in zip(values, gpus.tolist(), strict=True):
        spare = int(steps[-1]) * size
        padded = np.concatenate([np.full(spare, np.inf), best])
        used = np.arange(spare, spare + units + 1) - size * steps[:, np.newaxis]
        costs = padded[used] + row[:, np.newaxis]
        pick = np.argmin(costs, axis=0)
        best = costs[pick, np.arange(units + 1)]
        picks.append(pick)
    chosen = np.zeros(len(gpus), dtype=np.int64)
    for place in range(len(gpus) - 1, -1, -1):
        chosen[place] = picks[place][units]
        units -= int(chosen[place] * gpus[place])
    return chosen
