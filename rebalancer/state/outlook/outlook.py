"""Makes the `Outlook` of each of several models: how late every count of replicas would be, and why.

Models of one batch share the cold start (hence the horizon) and the step; each model's outlook depends on it alone, but
for one thing: where several rise at once, how far they might still rise counts less (`changepoint.level_since`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rebalancer.domain.outlook import NEED_ROOTS, Outlook
from rebalancer.state.outlook.changepoint import LevelShift, shift, usual_of
from rebalancer.state.outlook.learned import Learned
from rebalancer.state.outlook.level import HOUR, Base, base, bins, busiest, dispersion, level, usual
from rebalancer.state.outlook.past import F64, I64, NOW, ROW_SECONDS, Past, RunningSums
from rebalancer.state.outlook.replays import Ahead, Replays
from rebalancer.state.outlook.rule import (
    COMMON_SECONDS,
    DISPERSION_SECONDS,
    DWELL_SECONDS,
    ERRORS_OF_DECREASE,
    FULL_USE,
    HOUR_SECONDS,
    LATE_OF_DECREASE,
    LEAST_LEVEL,
    LEAST_SECOND,
    OFFSETS,
    PAST_SECONDS,
    QUANTUM,
    SWITCHING_REPLICA_SECONDS,
    UNKNOWN_WORK_OF_ONE,
    UNSEEN_SHARE,
)
from rebalancer.state.outlook.scenarios import Paths, paths
from rebalancer.state.outlook.value import Serving, Standing, capacities, late_and_left


class ModelTerms(NamedTuple):
    """The policy for each model, (models,) each.

    serving: how it serves: waits, patience, queues.
    floor: its fewest replicas.
    most: its most replicas.
    priority: its priority over 100.
    """

    serving: Serving
    floor: I64
    most: I64
    priority: F64


class Terms(NamedTuple):
    """The figures that the models of a batch share.

    cold_seconds: seconds of a measured start, in which others' GPUs are released.
    step_seconds: seconds per step of the replays.
    interval_seconds: seconds between two samples of the metrics; of the rings' cells where these are longer.
    """

    cold_seconds: int
    step_seconds: int
    interval_seconds: int = 1

    @property
    def past_seconds(self) -> int:
        """Seconds of past that the levels of the oldest replays need."""
        return PAST_SECONDS + HOUR_SECONDS + self.horizon_seconds

    @property
    def horizon_seconds(self) -> int:
        """Seconds from now to the horizon: a start and 90 s in which a move must earn itself back, in whole rows."""
        return -(-(self.cold_seconds + DWELL_SECONDS) // ROW_SECONDS) * ROW_SECONDS

    @property
    def steps(self) -> int:
        """Number of steps to the horizon."""
        return self.horizon_seconds // self.step_seconds

    @property
    def weight(self) -> float:
        """Factor that makes late work until this horizon comparable with that of models that look less or further."""
        return COMMON_SECONDS / self.horizon_seconds


class Curves(NamedTuple):
    """Costs by count of replicas; (counts, models) where no shape is named.

    counts: the counts, from each model's least on.
    value: cost of each count, inf beyond the model's range; lower is better.
    late: late work until the horizon as `one` counts it, times priority.
    error: standard error of `late` in its difference from the present count's.
    current: replicas that serve or start, (models,).
    one: late replica-seconds that count as 1, (models,).
    weight: factor between `late` and `value`, the same for all.
    arriving: late work among what arrives until the horizon: `late` without the price of what is left there.
    """

    counts: I64
    value: F64
    late: F64
    error: F64
    current: I64
    one: F64
    weight: float
    arriving: F64


def outlooks(  # noqa: PLR0913  # one thing each
    past: Past,
    learned: Sequence[Learned],
    standing: Standing,
    service: ModelTerms,
    terms: Terms,
    sums: RunningSums | None = None,
) -> tuple[Outlook | None, ...]:
    """The outlook of each model, in order; None of a model of which nothing was ever observed.

    The stages: the level now and before correction, paths of work to the horizon, a queue on each path for each count
    of replicas, and the cost of each count. `sums`: running sums over the terms' `past_seconds`, where the caller has
    them already.
    """
    sums = sums or past.running_sums(terms.past_seconds)
    parts = base(sums, NOW)
    ahead = _ahead(past, sums, learned, parts, terms)
    known = ~np.isnan(parts.base[0])
    shifted = shift(sums, ahead.level, learned, usual_of(learned, sums, past.each))
    lanes, replays = paths(ahead, shifted)
    spread = dispersion(ahead.bins, NOW, DISPERSION_SECONDS)[0]
    middle = usual(sums)
    most = np.maximum(busiest(sums, HOUR), [one.busiest for one in learned])
    curves = _curves(ahead, lanes, standing, service, terms, _one(ahead, service, middle))
    return _outlook_per_model(ahead, parts, shifted, replays, curves, service, (spread, middle, most), known)


def _one(ahead: Ahead, service: ModelTerms, middle: F64) -> F64:
    """Late replica-seconds that count as 1, (models,): a request's, or a second's where objectives are by the minute.

    A minute counts the same however much traffic it has, so GPUs that keep as much of it in time keep more minutes of
    models that need few.
    """
    return np.where(service.serving.by_minute, np.fmax(middle, LEAST_SECOND), ahead.each)


def _ahead(past: Past, sums: RunningSums, learned: Sequence[Learned], parts: Base, terms: Terms) -> Ahead:
    beta = np.array([one.beta for one in learned])
    now = np.nan_to_num(level(parts, beta)[0], nan=1.0)
    each = np.where(past.each > 0.0, past.each, UNKNOWN_WORK_OF_ONE)
    return Ahead(past, sums, bins(sums), learned, now, each, terms.steps, terms.step_seconds, terms.interval_seconds)


def _curves(  # noqa: PLR0913  # one thing each
    ahead: Ahead, lanes: Paths, standing: Standing, service: ModelTerms, terms: Terms, one: F64
) -> Curves:
    """The cost of each count of replicas of each model.

    Late work is found by replays for the counts of `_tried`, and by straight lines for the counts between them. Then

        cost = late + moving + doubt + unseen
        value = cost x priority / one x weight - 1e-6 x count

    `moving`: 1 replica-second for each replica up or down. `doubt`, of a decrease alone: 2 standard errors, and 6 % of
    the late work of an average replica for each replica taken. `unseen`: surges that no replay has (`_unseen`). Work
    that is deferred costs `late` and `moving` only. `one`: late replica-seconds that count as 1, (models,).
    """
    current = standing.current
    tried = _tried(np.maximum.reduceat(lanes.level, lanes.starts), current)
    least = np.maximum(service.floor, tried[0])
    most = np.maximum(least, np.minimum(service.most, tried[-1]))
    tried = np.minimum(np.maximum(tried, least), most)
    able = capacities(standing, tried, terms.steps, terms.step_seconds, terms.cold_seconds)
    soon, left = late_and_left(lanes, able, standing.backlog, service.serving, terms.step_seconds)
    each = soon + left
    here = np.abs(tried - current).argmin(axis=0)
    counts = np.minimum(least + np.arange(int((most - least).max()) + 1)[:, np.newaxis], most)
    late, error = (_between(tried, of, counts) for of in _mean_and_error(each, lanes, here))
    arriving = _between(tried, np.add.reduceat(soon * lanes.weight, lanes.starts, axis=1), counts)
    moved = 0.5 * SWITCHING_REPLICA_SECONDS * np.abs(counts - current)
    each_late = late[np.clip(current - least, 0, len(late) - 1), np.arange(len(current))] / np.maximum(current, 1)
    doubt = ERRORS_OF_DECREASE * error + LATE_OF_DECREASE * each_late * (current - counts)
    caution = np.where(counts < current, doubt, 0.0)
    risk = np.where(service.serving.deferred, 0.0, caution + _unseen(ahead.level, counts, terms))
    cost = late + moved + risk
    worth = service.priority / one
    value = cost * worth * terms.weight - FULL_USE * counts
    inside = counts == least + np.arange(len(counts))[:, np.newaxis]
    value = np.where(inside, value.round(QUANTUM), np.inf)
    return Curves(counts, value, late * worth, error * worth, current, one, terms.weight, arriving * worth)


def _unseen(level: F64, counts: I64, terms: Terms) -> F64:
    """Late replica-seconds of surges that no replay holds.

    A surge to more than x times the level is taken to be as likely as 1 / x.
    """
    per_second = level * level / np.maximum(np.maximum(counts, level), LEAST_LEVEL)
    late: F64 = UNSEEN_SHARE * terms.horizon_seconds * per_second
    return late


def _tried(level: F64, current: I64) -> I64:
    """The counts that are replayed, (counts, models): up to the need of the highest level played.

    Were six up the most, a model that needs ten more would find that six gain nothing, and get none; so it would if a
    neighbour with ten to spare were replayed no further than six down.
    """
    need = np.ceil(level + NEED_ROOTS * np.sqrt(level)).astype(np.int64)
    up = np.maximum(OFFSETS[-1], need - current)
    tried: I64 = current + np.array(OFFSETS, dtype=np.int64)[:, np.newaxis] * np.ones_like(current)
    tried[0] = current - np.maximum(-OFFSETS[0], current - need)
    tried[-1] = current + up
    tried[-2] = current + np.maximum(OFFSETS[-2], up // 2)
    return tried


def _between(tried: I64, of: F64, counts: I64) -> F64:
    """Values for `counts`, on the line between the two counts tried around each of them; all are (counts, models)."""
    above = np.minimum((tried[:, np.newaxis] < counts).sum(axis=0), len(tried) - 1)
    below = np.maximum(above - 1, 0)
    models = np.arange(tried.shape[1])
    low, high = tried[below, models], tried[above, models]
    share = np.divide(counts - low, high - low, out=np.ones(counts.shape), where=high > low)
    between: F64 = of[below, models] * (1.0 - share) + of[above, models] * share
    return between


def _mean_and_error(each: F64, lanes: Paths, here: I64) -> tuple[F64, F64]:
    """Weighted mean over each model's paths, and the standard error of its difference from the count `here`.

    Both are (counts, models). The error is the root of the sum of squared weights times the weighted variance of the
    difference on the same path, since two counts share the chance of their path.
    """
    starts = lanes.starts
    mean = np.add.reduceat(each * lanes.weight, starts, axis=1)
    apart = each - each[here[lanes.model], np.arange(len(lanes.model))]
    middle = np.add.reduceat(apart * lanes.weight, starts, axis=1)
    apart -= middle[:, lanes.model]
    variance = np.add.reduceat(apart * apart * lanes.weight, starts, axis=1)
    doubled = np.add.reduceat(lanes.weight * lanes.weight, starts)
    return mean, np.sqrt(variance * doubled)


def _outlook_per_model(  # noqa: PLR0913  # one thing each
    ahead: Ahead,
    parts: Base,
    shifted: LevelShift,
    replays: Replays,
    curves: Curves,
    service: ModelTerms,
    more: tuple[F64, F64, F64],
    known: NDArray[np.bool_],
) -> tuple[Outlook | None, ...]:
    """One `Outlook` per model from the arrays of all, None where `known` is False.

    `parts`: the level before its correction; `more`: dispersion, usual work, and that of the busiest five
    minutes of three hours, (models,) each.
    """
    widths = np.isfinite(curves.value).sum(axis=0).tolist()
    least, current, usable = curves.counts[0].tolist(), curves.current.tolist(), replays.usable.tolist()
    by_minute, weight = service.serving.by_minute.tolist(), round(curves.weight, QUANTUM)
    deferred = service.serving.deferred.tolist()
    values, late, errors, arriving = _rounded(curves.value.T, curves.late.T, curves.error.T, curves.arriving.T).tolist()
    figures = _rounded(
        ahead.level, parts.base[0], shifted.p, shifted.level, shifted.times_usual, curves.one, *more
    ).tolist()
    of_models: list[Outlook | None] = []
    for model, (now, plain, p, moved, excess, one, wide, middle, most) in enumerate(zip(*figures, strict=True)):
        if not known[model]:
            of_models.append(None)
            continue
        learned, width = ahead.learned[model], widths[model]
        of_models.append(
            Outlook(
                at=float(ahead.past.until),
                horizon_seconds=ahead.steps * ahead.step_seconds,
                current=current[model],
                least=least[model],
                values=tuple(values[model][:width]),
                late=tuple(late[model][:width]),
                errors=tuple(errors[model][:width]),
                level=now,
                base=plain,
                dispersion=wide,
                shift=p,
                shifted=moved,
                excess=excess,
                replays=usable[model],
                period_seconds=learned.period_seconds,
                rho=learned.rho,
                work_of_one=one,
                error=learned.error,
                plain_error=learned.plain_error,
                usual=middle,
                weight=weight,
                by_minute=by_minute[model],
                deferred=deferred[model],
                late_arrivals=tuple(arriving[model][:width]),
                busiest=most,
                enough=learned.enough,
                peak=learned.peak,
                minute=learned.minute,
            )
        )
    return tuple(of_models)


def _rounded(*of: F64) -> F64:
    """Arrays of one shape, rounded as everything that leaves."""
    rounded: F64 = np.array(of).round(QUANTUM) + 0.0
    return rounded
