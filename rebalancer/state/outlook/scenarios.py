"""Paths of the work that may arrive from now to the horizon, most of them replays of the model's own past.

A replay is the work that arrived after an earlier second, moved from the level of then to that of now: it has every
error that a forecast made then would have had, at every horizon, bursts and all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rebalancer.state.outlook.chance import normals
from rebalancer.state.outlook.changepoint import LevelShift
from rebalancer.state.outlook.level import HOUR, MINUTE_SECONDS, base_of, level
from rebalancer.state.outlook.past import F32, F64, I64
from rebalancer.state.outlook.replays import Ahead, Replays, replays, windows
from rebalancer.state.outlook.rule import (
    GROWN_MOST,
    PAST_SECONDS,
    PERIOD_SLACK_SECONDS,
    PERIODS_BACK,
    PRIOR_DISPERSION,
    PRIOR_PATHS,
    PRIOR_UNTIL_ANCHORS,
    PRIOR_WEIGHT,
    SHIFT_ANCHORS,
    SHIFT_LEAST,
    YOUNGEST_SECONDS,
)


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths of work of all models; a lane is one path of one model.

    work: replica-seconds that arrive per step, (steps, lanes).
    model: number of the model, ascending, (lanes,).
    weight: weight of the path, summing to 1 over each model, (lanes,).
    level: offered work after the horizon, in replicas, (lanes,).
    """

    work: F32
    model: I64
    weight: F64
    level: F64

    @property
    def starts(self) -> I64:
        """Number of the first lane of each model, (models,)."""
        return np.concatenate([[0], 1 + (self.model[1:] != self.model[:-1]).nonzero()[0]])


def paths(ahead: Ahead, shifted: LevelShift) -> tuple[Paths, Replays]:
    """The paths of all models, each model's weights summing to 1, and the replays behind them."""
    known = replays(ahead)
    hist = windows(ahead, known)
    everybody = np.arange(ahead.past.models)
    lanes = [_replayed(ahead, known, hist, everybody, ahead.level)]
    young = (known.usable < PRIOR_UNTIL_ANCHORS).nonzero()[0]
    if len(young):
        lanes.append(_prior(ahead, young, known.usable[young], ahead.level[young]))
    total = _total(lanes, ahead.past.models)
    periodic = np.flatnonzero([one.rho > 0.0 for one in ahead.learned])
    if len(periodic):
        lanes.append(_periodic(ahead, periodic, total))
        total = _total(lanes, ahead.past.models)
    rare = np.flatnonzero([bool(one.rare) for one in ahead.learned])
    if len(rare):
        lanes.append(_rare(ahead, rare))
        total = _total(lanes, ahead.past.models)
    lanes += _shifted(ahead, known, hist, shifted, total)
    return _under_ceiling(_joined(lanes, _total(lanes, ahead.past.models)), ahead), known


def _under_ceiling(of: Paths, ahead: Ahead) -> Paths:
    """The paths, each brought down until its mean is no more than the `_ceiling`, or the level that it goes on at.

    A rise is replayed from the level that it has led to: for ten minutes after all had risen together each was to rise
    as far again, and kept what another had too few of. Worlds of shapes, late % without and with: ten of joint rises
    2.8 and 2.2, six of dips 2.1 and 1.4, six of bursts 3.5 and 2.7, four of swaps 13.1 and 11.8; surges, three draws,
    on 24 GPUs 2.03 and 2.10, on 16 17.4 and 17.2; eighteen models 7.5 and 7.2 with a third fewer moves.
    """
    most = np.maximum(_ceiling(ahead)[of.model], of.level) * ahead.step_seconds
    mean = of.work.mean(axis=0, dtype=np.float64)
    beyond = np.flatnonzero(mean > most)
    of.work[:, beyond] *= (most[beyond] / mean[beyond]).astype(np.float32)  # made a moment ago, for nobody else
    return of


def _ceiling(ahead: Ahead) -> F64:
    """The most work that is foreseen without a shift, (models,), in replicas.

    It is that of the highest minute of the last hour, or of the busiest five of the last three, and as much more as
    that has grown within the time to the horizon, up to `GROWN_MOST`: a tide goes on to rise, a step is over.
    """
    minutes = np.nan_to_num(ahead.sums.mean(HOUR, MINUTE_SECONDS))
    back = min(len(minutes) - 1, -(-ahead.horizon_seconds // MINUTE_SECONDS))
    busiest = [one.busiest for one in ahead.learned]
    highest, before = (np.maximum(of.max(axis=0), busiest) for of in (minutes, minutes[back:]))
    grown = np.divide(highest, before, out=np.ones_like(highest), where=before > 0.0)
    most: F64 = highest * np.minimum(grown, GROWN_MOST)
    return most


def _shifted(
    ahead: Ahead, known: Replays, hist: tuple[F64, F64 | None], shifted: LevelShift, total: F64
) -> list[Paths]:
    """The same paths from the level since a shift, with its odds times the `total` weight of those from the old one.

    Of a model with too few replays they are those of chance.
    """
    moves = shifted.p >= SHIFT_LEAST
    replayed = (moves & (known.usable >= SHIFT_ANCHORS)).nonzero()[0]
    young = (moves & (known.usable < SHIFT_ANCHORS)).nonzero()[0]
    again = []
    if len(replayed):
        again.append(_replayed(ahead, known, hist, replayed, shifted.level[replayed]))
    if len(young):
        again.append(_prior(ahead, young, known.usable[young], shifted.level[young]))
    factor = shifted.p / (1.0 - shifted.p) * total
    share = _total(again, ahead.past.models)
    factor = np.divide(factor, share, out=np.zeros_like(factor), where=share > 0.0)
    return [replace(one, weight=one.weight * factor[one.model]) for one in again]


def _replayed(ahead: Ahead, known: Replays, hist: tuple[F64, F64 | None], models: I64, level_now: F64) -> Paths:
    """Work max(0, a w_then + (level - a level_then) dt), a = sqrt(level / level_then) x the dispersion's scale."""
    came, missing = hist
    then, weight = known.level[:, models].T, known.weight[:, models].T
    factor = np.sqrt(level_now[:, np.newaxis] / then) * known.scale[:, models].T
    offset = (level_now[:, np.newaxis] - factor * then) * ahead.step_seconds
    anchors = then.shape[1]
    work = np.empty((ahead.steps, len(models), anchors), dtype=np.float32)
    all_of_them = len(models) == ahead.past.models
    part = came if all_of_them else came[models]
    np.multiply(part.transpose(2, 0, 1), factor, out=work, casting="same_kind")
    if missing is not None:
        gaps = missing if all_of_them else missing[models]
        work += (gaps.transpose(2, 0, 1) * (factor * then)).astype(np.float32)
    work += offset.astype(np.float32)
    np.maximum(work, np.float32(0), out=work)
    lanes = Paths(
        work.reshape(ahead.steps, -1), np.repeat(models, anchors), weight.ravel(), np.repeat(level_now, anchors)
    )
    return lanes if lanes.weight.all() else _of_lanes(lanes, np.flatnonzero(lanes.weight))


def _prior(ahead: Ahead, models: I64, usable: I64, now: F64) -> Paths:
    """Six paths of a common dispersion around the level `now`, until the model has half an hour of its own."""
    steps = ahead.steps
    spread = np.sqrt(PRIOR_DISPERSION * now * ahead.step_seconds * ahead.each[models])
    z = normals(PRIOR_PATHS, steps).T
    work = np.maximum(0.0, now[:, np.newaxis] * ahead.step_seconds + spread[:, np.newaxis] * z[:, np.newaxis, :])
    weight = PRIOR_WEIGHT / np.maximum(usable, PRIOR_WEIGHT / 0.5)
    return Paths(
        work.reshape(steps, -1).astype(np.float32),
        np.repeat(models, PRIOR_PATHS),
        np.repeat(weight, PRIOR_PATHS),
        np.repeat(now, PRIOR_PATHS),
    )


def _periodic(ahead: Ahead, models: I64, total: F64) -> Paths:
    """Paths of the work one to four periods ago, give or take 20 s: together rho / (1 - rho) of the others' weight."""
    slack = np.array([-PERIOD_SLACK_SECONDS, 0, PERIOD_SLACK_SECONDS])
    begins = []
    for model in models.tolist():
        back = ahead.learned[model].period_seconds * np.arange(1, PERIODS_BACK + 1)
        begins.append((ahead.past.until - back[:, np.newaxis] + slack).ravel())
    rho = np.array([one.rho for one in ahead.learned])
    column, _, work = _after(ahead, models, begins)
    number = np.maximum(np.bincount(column, minlength=ahead.past.models), 1)
    weight = (rho / (1.0 - rho) * total / number)[column]
    return Paths(work, column, weight, ahead.level[column])


def _rare(ahead: Ahead, models: I64) -> Paths:
    """Paths of the work after the worst forecasts that are too old to be replayed; they weigh by their age.

    Without them GPUs that nobody needs stay with the model whose surge is still replayed.
    """
    begins = [np.array(ahead.learned[model].rare, dtype=np.int64) for model in models.tolist()]
    column, begin, work = _after(ahead, models, begins)
    weight = np.exp(-(ahead.past.until - ahead.horizon_seconds - begin) / PAST_SECONDS)
    return Paths(work, column, weight, ahead.level[column])


def _after(ahead: Ahead, models: I64, begins: Sequence[I64]) -> tuple[I64, I64, F32]:
    """Model, beginning and work (steps, lanes) of replays from given seconds, of those that are known and over."""
    past, horizon = ahead.past, ahead.horizon_seconds
    column, begin = np.repeat(models, [len(seconds) for seconds in begins]), np.concatenate(begins)
    there = (begin >= past.since[column] + YOUNGEST_SECONDS) & (begin + horizon <= past.until)
    column, begin = column[there], begin[there]
    then = level(base_of(past, column, begin), ahead.beta[column])[0]
    known = ~np.isnan(then)
    column, begin, then = column[known], begin[known], then[known]
    factor = np.sqrt(ahead.level[column] / then)
    work, missing = past.steps_of(column, begin, ahead.steps, ahead.step_seconds)
    if missing is not None:
        work = work + missing * then
    moved = np.maximum(0.0, factor * work + (ahead.level[column] - factor * then) * ahead.step_seconds)
    return column, begin, moved.astype(np.float32)


def _of_lanes(of: Paths, lanes: I64) -> Paths:
    return Paths(of.work[:, lanes], of.model[lanes], of.weight[lanes], of.level[lanes])


def _total(lanes: Sequence[Paths], models: int) -> F64:
    """Weight of each model's lanes."""
    total = np.zeros(models)
    for block in lanes:
        total += np.bincount(block.model, block.weight, models)
    return total


def _joined(lanes: Sequence[Paths], total: F64) -> Paths:
    """The paths side by side, those of one model together."""
    model = np.concatenate([block.model for block in lanes])
    weight = np.concatenate([block.weight for block in lanes]) / total[model]
    levels = np.concatenate([block.level for block in lanes])
    if len(lanes) == 1:
        return Paths(lanes[0].work, model, weight, levels)
    order = np.argsort(model, kind="stable")
    work = np.concatenate([block.work for block in lanes], axis=1)[:, order]
    return Paths(work, model[order], weight[order], levels[order])
