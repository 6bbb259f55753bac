"""Whether the level has shifted: what became of excesses like today's, a start later.

Most bursts are over before a replica could start, so an excess alone says little; how much of the model's own earlier
ones was left by then says how likely this one lasts. One that is far beyond all of them counts as lasting.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rebalancer.state.outlook.learned import Excesses, Learned
from rebalancer.state.outlook.past import F64, NOW, ROW_SECONDS, PastPoints, RunningSums
from rebalancer.state.outlook.rule import (
    DISPERSION_SECONDS,
    GROWS_ON,
    GROWS_ON_TOGETHER,
    LEAST_BINS,
    LEAST_LEVEL,
    LEAST_POINTS,
    QUANTUM,
    SHIFT_CLIP,
    SHIFT_LEAST,
    SHIFT_LEAST_TIMES,
    SHIFT_LIKE,
    SHIFT_MOST,
    SHIFT_PRIOR_DISPERSION,
    SHIFT_PRIOR_ENDS,
    SHIFT_PRIOR_LASTS,
    SHIFT_TYPICAL,
    SHIFT_UNHEARD,
    SHIFT_WINDOWS_SECONDS,
    SINCE_ERRORS,
    SINCE_SECONDS,
    UNKNOWN_WORK_OF_ONE,
)

TO_DEVIATION = 1.4826  # of a median of absolute values, where they are normal
LEAST_TYPICAL = 0.001
BEFORE_A_SHIFT = SHIFT_WINDOWS_SECONDS[-1] // ROW_SECONDS


class LevelShift(NamedTuple):
    """Whether each model's level has shifted, (models,) each.

    p: probability that it is `level` now, 0-1.
    level: mean over the window with the most unusual excess, or the level since the shift (`shift`), in replicas.
    excess: excess over that window, in square roots of the level.
    times_usual: its size as a multiple of the model's usual excess.
    """

    p: F64
    level: F64
    excess: F64
    times_usual: F64


def excesses(sums: RunningSums, at: PastPoints, levels: F64, off: F64, known: F64) -> list[tuple[Excesses, Excesses]]:
    """Per model what the grid of past forecasts says about each window. `levels`, `off`, `known`: (points, models)."""
    windows = []
    for window in SHIFT_WINDOWS_SECONDS:
        rates = np.nan_to_num(sums.mean(at, window))
        x = np.where(known > 0.0, (rates - levels) / np.sqrt(levels), 0.0)
        most = SHIFT_CLIP * np.abs(x)
        windows.append(_of_window(x, np.clip(off, -most, most), known))
    return list(zip(*windows, strict=True))


def _of_window(x: F64, left: F64, known: F64) -> list[Excesses]:
    excesses = []
    enough = known.sum(axis=0) >= LEAST_POINTS
    typical = np.round(np.where(enough, _usual(x, known), 0.0), QUANTUM)
    up, down = (np.round(np.maximum(of.max(axis=0), 0.0), QUANTUM) for of in (x, -x))
    beyond = (np.abs(x) >= SHIFT_LIKE * SHIFT_TYPICAL * typical) & (known > 0.0) & (typical > 0.0)
    for model, usual in enumerate(typical):
        if usual == 0.0:
            excesses.append(Excesses())
            continue
        rows = np.flatnonzero(beyond[:, model])
        pairs = np.round(np.column_stack([x[rows, model], left[rows, model]]), QUANTUM)
        apart = tuple((float(excess), float(rest)) for excess, rest in pairs.tolist())
        excesses.append(Excesses(float(usual), float(up[model]), float(down[model]), apart))
    return excesses


def _usual(x: F64, known: F64) -> F64:
    """The usual size of an excess, (models,): of the difference from the one a minute earlier, over sqrt(2).

    Against the level a model that steps every 7 to 30 min is unusual most of the time, since its level follows a step
    for 20 min, and no excess of its counts as unusual: two that swap 3 and 10 replicas 32 % late instead of 14 %.
    """
    both = (known[1:] > 0.0) & (known[:-1] > 0.0)
    apart = np.where(both, np.abs(x[1:] - x[:-1]), np.inf)
    typical: F64 = TO_DEVIATION * _median(apart) / np.sqrt(2.0) + LEAST_TYPICAL
    return typical


def _median(of: F64) -> F64:
    """Median of each column, (models,), inf standing for unknown. numpy's own for NaN takes 2 ms for 3 columns."""
    ascending = np.sort(of, axis=0)
    count = np.isfinite(of).sum(axis=0)
    columns = np.arange(of.shape[1])
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, len(of) - 1)
    middle: F64 = 0.5 * (ascending[low, columns] + ascending[high, columns])
    return middle


def shift(sums: RunningSums, levels: F64, learned: Sequence[Learned], usual: F64) -> LevelShift:
    """Whether each model's level has shifted by now, the end of the past. `levels`: (models,), `usual`: `usual_of`."""
    rates = np.array([sums.mean(NOW, window)[0] for window in SHIFT_WINDOWS_SECONDS])
    shifted = shift_of_means(rates, levels, learned, usual)
    moved = np.flatnonzero(shifted.p >= SHIFT_LEAST)
    if not len(moved):
        return shifted
    means = np.stack([sums.mean(NOW, window)[0, moved] for window in SINCE_SECONDS])
    since = shifted.level.copy()
    since[moved] = level_since(np.where(np.isnan(means), since[moved], means), levels[moved], usual[-1, moved])
    return shifted._replace(level=since)


def level_since(means: F64, levels: F64, usual: F64) -> F64:
    """The mean over the longest of `SINCE_SECONDS` that agrees with all shorter ones; a rise under way goes on.

    A longer window has less noise, one that reaches back before the shift disagrees (Lepski's rule). Where several
    models rise at once they are not believed to go on as far. `means`: (windows, models), `levels` before; `usual`:
    excess over the longest of `SHIFT_WINDOWS_SECONDS`, in sqrt(level).
    """
    lengths = np.array(SINCE_SECONDS)[:, np.newaxis]
    error = usual * np.sqrt(SHIFT_WINDOWS_SECONDS[-1] / lengths) * np.sqrt(np.maximum(means, LEAST_LEVEL))
    low = np.maximum.accumulate(means - SINCE_ERRORS * error)[:-1]
    high = np.minimum.accumulate(means + SINCE_ERRORS * error)[:-1]
    agrees = np.logical_and.accumulate((means[1:] >= low) & (means[1:] <= high))
    since = means[agrees.sum(axis=0), np.arange(means.shape[1])]
    last, two, three, minute = (means[SINCE_SECONDS.index(seconds)] for seconds in (10, 20, 30, 60))
    # What each of the last two 10 s added: a step came in one of them, only a rise in both.
    grown = np.minimum(2.0 * (last - two), 3.0 * (two - three) - (last - two))
    rises = (last > levels) & (minute - levels < (last - levels) / 2.0) & (grown > 0.0)
    goes_on = GROWS_ON if rises.sum() <= 1 else GROWS_ON_TOGETHER
    level: F64 = np.where(rises, np.maximum(since, last + goes_on * grown), since)
    return np.maximum(level, LEAST_LEVEL)


def usual_of(learned: Sequence[Learned], sums: RunningSums, each: F64) -> F64:
    """The usual excess over each of `SHIFT_WINDOWS_SECONDS`, (windows, models): learnt, else `usual_at_first`."""
    if all(window.typical for one in learned for window in one.excesses):
        return learnt_usual(learned, np.zeros(()))
    return learnt_usual(learned, usual_at_first(sums, each))


def learnt_usual(learned: Sequence[Learned], otherwise: F64) -> F64:
    """The usual excess that was learnt, `otherwise` where there is none yet; (windows, models)."""
    known = np.array([window.typical for one in learned for window in one.excesses])
    known = known.reshape(-1, len(SHIFT_WINDOWS_SECONDS)).T
    usual: F64 = np.where(known > 0.0, known, otherwise)
    return usual


def usual_at_first(sums: RunningSums, each: F64) -> F64:
    """The usual excess over each of `SHIFT_WINDOWS_SECONDS` of models that have none learnt yet, (windows, models).

    Work of variance D x level per second has means over a window that stand off the level by sqrt(D / window), in
    square roots of the level. D is that of requests which come by chance, or the `roughness` seen, if that is more.
    `each`: replica-seconds per request, (models,), 0 where nobody counts requests.
    """
    each = np.where(each > 0.0, each, UNKNOWN_WORK_OF_ONE)
    spread = np.maximum(SHIFT_PRIOR_DISPERSION * each, roughness(sums))
    usual: F64 = np.sqrt(spread / np.array(SHIFT_WINDOWS_SECONDS)[:, np.newaxis])
    return usual


def roughness(sums: RunningSums) -> F64:
    """Variance per second over mean of what came in the five minutes before the last one; (models,), in replicas.

    From the differences of rates 10 s apart (von Neumann's estimate): a step or a ramp among them is no roughness, and
    a surge in its fifth minute would lose by it what it has. 10 where fewer than six such rates are known.
    """
    rows = slice(-(BEFORE_A_SHIFT + DISPERSION_SECONDS // ROW_SECONDS) - 1, -BEFORE_A_SHIFT)
    seen, work = (of[rows][1:] - of[rows][:-1] for of in (sums.seen, sums.work))
    known = np.broadcast_to(seen * 2 >= ROW_SECONDS, work.shape)
    rates = np.divide(work, seen, out=np.zeros(work.shape), where=known)
    both = known[1:] & known[:-1]
    number, mean = both.sum(axis=0), rates.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    variance = (np.diff(rates, axis=0) ** 2 * both).sum(axis=0) / (2.0 * np.maximum(number, 1))
    enough = (number + 1 >= LEAST_BINS) & (mean > 0.0)
    rough: F64 = ROW_SECONDS * np.divide(variance, mean, out=np.ones(mean.shape), where=enough)
    return rough


def shift_of_means(rates: F64, levels: F64, learned: Sequence[Learned], usual: F64) -> LevelShift:
    """The same from means over `SHIFT_WINDOWS_SECONDS`, NaN where unknown. `rates`, `usual`: (windows, models)."""
    rates = np.where(np.isnan(rates), levels, rates)
    x = (rates - levels) / np.sqrt(levels)
    times = np.divide(np.abs(x), usual, out=np.zeros(x.shape), where=usual > 0.0)
    chosen = times.argmax(axis=0)
    columns = np.arange(len(levels))
    excess, most = x[chosen, columns], times[chosen, columns]
    p = np.zeros(len(levels))
    for model in (most > SHIFT_LEAST_TIMES).nonzero()[0].tolist():
        p[model] = probability(float(excess[model]), learned[model].excesses[int(chosen[model])])
    p *= np.clip((most - SHIFT_LEAST_TIMES) / (SHIFT_TYPICAL - SHIFT_LEAST_TIMES), 0.0, 1.0)
    return LevelShift(p.round(QUANTUM), rates[chosen, columns], excess, most)


def probability(excess: float, known: Excesses) -> float:
    """The share of such an excess that outlived a start, with a prior that counts where it is unheard of."""
    size = abs(excess)
    largest = known.up if excess > 0.0 else known.down
    unheard = max(0.0, 1.0 - SHIFT_UNHEARD * largest / size)
    like = [(x, left) for x, left in known.pairs if x * excess > 0.0 and abs(x) >= SHIFT_LIKE * size]
    lasts, ends = SHIFT_PRIOR_LASTS * unheard, SHIFT_PRIOR_ENDS * (1.0 - unheard)
    above = lasts * size**2 + sum(x * left for x, left in like)
    below = (lasts + ends) * size**2 + sum(x * x for x, _ in like)
    return min(max(above / below, 0.0), SHIFT_MOST)
