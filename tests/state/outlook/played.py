"""The look-ahead as a controller of the fast world: every 10 s from what is seen to counts of replicas.

It sees work and requests up to now exactly, and what is left of them. No guards: what is measured is the rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rebalancer.planning.shares.curves import Curve, share_out
from rebalancer.sim.controller import Seen
from rebalancer.sim.scenario import BY_MINUTE
from rebalancer.state.outlook import (
    Learned,
    ModelTerms,
    Outlook,
    Past,
    Serving,
    Standing,
    Terms,
    learn,
    outlooks,
)
from rebalancer.state.outlook.changepoint import shift, usual_of
from rebalancer.state.outlook.level import base, level
from rebalancer.state.outlook.past import F64, I64, NOW
from rebalancer.state.outlook.rule import HOUR_SECONDS, LEARN_EVERY_SECONDS, WORK_OF_ONE_SECONDS, step_seconds
from rebalancer.state.outlook.staleness import Glance, stale
from rebalancer.state.rings import SPAN_SECONDS


@dataclass(frozen=True, slots=True)
class Limit:
    """A model gives at most max(1, share of what it holds) replicas per window; `spared`: only below its need.

    What it holds above need = ceil(l + 1.5 sqrt(l)), l the higher of level and last minute, may go at once.
    """

    share: float = 0.2
    seconds: int = 300
    spared: bool = True


@dataclass(slots=True)
class Played:
    """One run's controller; a new one for each run."""

    every_seconds: int = 10
    interval_seconds: int = 1  # of the metrics, which come an interval late
    rough: bool = True  # replays get back what metrics smoothed away
    keeps: bool = False  # curves stand until what they were made from changes
    last: tuple[Outlook | None, ...] = ()
    made: int = 0  # curves
    limit: Limit | None = None
    _given: list[tuple[int, int, int]] = field(default_factory=list)  # when, model, replicas
    _then: Glance | None = None
    _due: list[list[int]] = field(default_factory=list)
    _last: int = 0
    _learned: tuple[Learned, ...] = ()
    _past: Past | None = None

    def decide(self, seen: Seen) -> Sequence[int]:
        """The cheapest counts that fit the budget."""
        models = seen.scenario.models
        if self._past is None:
            self._past = _whole(seen, self.interval_seconds)
            self._due = [[] for _ in models]
            self._learned = (Learned(),) * len(models)
            self.last = (None,) * len(models)
        past = _until(self._past, seen, self.interval_seconds)
        self._follow(seen)
        found = list(self.last)
        for (cold, step), columns in _batches(seen).items():
            terms = Terms(cold, step, self.interval_seconds if self.rough else 1)
            self._learn(seen.now, past if len(columns) == len(models) else past.of(columns), columns, terms)
        wanted = self._stale(seen, past)
        for (cold, step), batch in _batches(seen).items():
            columns = batch[wanted[batch]]
            if len(columns):
                part = past if len(columns) == len(models) else past.of(columns)
                terms = Terms(cold, step, self.interval_seconds if self.rough else 1)
                learned = [self._learned[i] for i in columns]
                told = outlooks(part, learned, self._standing(seen, columns), _service(seen, part, columns), terms)
                self.made += len(columns)
                for i, one in zip(columns.tolist(), told, strict=True):
                    found[i] = one
        self.last = tuple(found)
        curves = [
            Curve(model.floor, (0.0,), model.gpus) if one is None else Curve(one.least, one.values, model.gpus)
            for model, one in zip(models, self.last, strict=True)
        ]
        if self.limit:
            curves = [self._held(curve, i, seen) for i, curve in enumerate(curves)]
        plan = list(share_out(tuple(curves), seen.scenario.gpus).counts)
        for i, then in enumerate(plan):
            self._given += [(seen.now, i, seen.desired[i] - then)] if then < seen.desired[i] else []
        for due, ready, then in zip(self._due, seen.ready, plan, strict=True):
            del due[max(0, then - ready) :]
        self._last = seen.now
        return plan

    def _held(self, curve: Curve, i: int, seen: Seen) -> Curve:
        """The curve above what a limit lets the model give."""
        if self.limit is None:
            return curve
        has, one = seen.desired[i], self.last[i]
        given = sum(n for at, model, n in self._given if model == i and at > seen.now - self.limit.seconds)
        may = max(1, int(self.limit.share * has)) - given
        least = has - max(0, may)
        if self.limit.spared and one is not None:
            load = max(one.level, seen.rate(i, 60) or 0.0)
            least = min(least, int(np.ceil(load + 1.5 * np.sqrt(load))))
        least = min(max(curve.least, least), curve.least + len(curve.values) - 1)
        return Curve(least, curve.values[least - curve.least :], curve.gpus)

    def _stale(self, seen: Seen, past: Past) -> NDArray[np.bool_]:
        """Models that want a new curve."""
        count = past.models
        if not self.keeps:
            return np.ones(count, dtype=np.bool_)
        sums = past.running_sums(HOUR_SECONDS)
        beta = np.array([one.beta for one in self._learned])
        now = level(base(sums, NOW), beta)[0]
        standing = self._standing(seen, np.arange(count))
        p = shift(sums, now, self._learned, usual_of(self._learned, sums, past.each)).p
        glance = Glance(standing.ready, standing.starting, standing.backlog, now, p, np.full(count, seen.now))
        if self._then is None:
            self._then = glance
            return np.ones(count, dtype=np.bool_)
        wanted = stale(self._then, glance, np.arange(count), self.every_seconds)
        self._then = Glance(*(np.where(wanted, new, old) for old, new in zip(self._then, glance, strict=True)))
        return wanted

    def _learn(self, now: int, past: Past, columns: I64, terms: Terms) -> None:
        if now % LEARN_EVERY_SECONDS >= self.every_seconds:
            return
        new = list(self._learned)
        for i, one in zip(columns.tolist(), learn(past, terms.cold_seconds, terms.horizon_seconds), strict=True):
            new[i] = one
        self._learned = tuple(new)

    def _follow(self, seen: Seen) -> None:
        """When starting replicas will serve, from the counts: those that are new were asked for last time."""
        for i, model in enumerate(seen.scenario.models):
            starting = seen.loading[i] + seen.waiting[i]
            due = self._due[i]
            del due[: max(0, len(due) - starting)]
            asked = self._last + model.start_seconds
            due += [asked] * (starting - len(due) - seen.waiting[i])
            due += [asked + model.release_seconds] * (starting - len(due))
            self._due[i] = sorted(max(at, seen.now + 1) for at in due)

    def _standing(self, seen: Seen, columns: I64) -> Standing:
        most = max(len(self._due[i]) for i in columns)
        due = np.full((len(columns), most), np.inf)
        for row, i in zip(due, columns, strict=True):
            row[: len(self._due[i])] = np.array(self._due[i]) - seen.now
        left: F64 = seen.left[columns, seen.now - 1]
        return Standing(np.array(seen.ready)[columns], due, left)


def _batches(seen: Seen) -> dict[tuple[int, int], I64]:
    """Models that share start and step."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i, model in enumerate(seen.scenario.models):
        key = model.start_seconds + model.release_seconds, step_seconds(model.slo_wait_seconds)
        groups.setdefault(key, []).append(i)
    return {key: np.array(columns) for key, columns in groups.items()}


def _whole(seen: Seen, interval_seconds: int) -> Past:
    """All of the run, spread evenly over each interval; what lies after now is cut off before anybody looks."""
    models, seconds = seen.work.shape
    sums = np.concatenate([np.zeros((1, models)), np.cumsum(seen.work.T, axis=0)])
    ends = np.unique(np.append(np.arange(0, seconds + 1, interval_seconds), seconds))
    at = np.arange(seconds + 1, dtype=np.int64)
    work = np.stack([np.interp(at, ends, of[ends]) for of in sums.T], axis=1)
    return Past(at, work, np.zeros(models, dtype=np.int64), np.zeros(models))


def _until(past: Past, seen: Seen, interval_seconds: int) -> Past:
    """As far back as rings remember, up to the last sample that has come."""
    late = 0 if interval_seconds == 1 else interval_seconds
    now = max(1, seen.now // interval_seconds * interval_seconds - late)
    kept = slice(max(0, now - SPAN_SECONDS), now + 1)
    since = np.full(past.models, kept.start, dtype=np.int64)
    begin = max(0, now - WORK_OF_ONE_SECONDS)
    asked = seen.requests[:, begin:now].sum(axis=1)
    ever = np.zeros(past.models)
    if not asked.all():
        ever = past.work[now] / np.maximum(seen.requests[:, :now].sum(axis=1), 1e-9)
    each = np.where(asked > 0.0, (past.work[now] - past.work[begin]) / np.maximum(asked, 1e-9), ever)
    return Past(past.edges[kept], past.work[kept], since, each)


def _service(seen: Seen, past: Past, columns: I64) -> ModelTerms:
    models = [seen.scenario.models[i] for i in columns]
    each = past.each
    base = np.array([model.queue_base for model in models])
    return ModelTerms(
        Serving(
            np.array([model.slo_wait_seconds for model in models]),
            np.array([model.headroom_seconds for model in models]),
            np.array([model.patience_seconds for model in models]),
            np.where(np.isfinite(base), np.where(np.isfinite(base), base, 0.0) * each, np.inf),
            np.array([model.queue_per_replica for model in models]) * each,
            np.full(len(models), seen.scenario.name in BY_MINUTE),
            np.zeros(len(models), dtype=np.bool_),
        ),
        np.array([model.floor for model in models]),
        np.array([model.most for model in models]),
        np.array([model.priority for model in models]),
    )
