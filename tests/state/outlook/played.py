"""The look-ahead as a controller of the fast world: every 10 s from what is seen to counts of replicas.

It sees work and requests up to now exactly, and what is left of them. No guards: what is measured is the rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rebalancer.planning.curves import Curve, share_out
from rebalancer.sim.controller import Seen
from rebalancer.state.outlook import Latency, Learned, Outlook, Past, Service, Serving, Standing, Terms, learn, outlooks
from rebalancer.state.outlook.past import F64, I64
from rebalancer.state.outlook.rule import LEARN_EVERY_SECONDS, WORK_OF_ONE_SECONDS, step_seconds


@dataclass(slots=True)
class Played:
    """One run's controller; a new one for each run."""

    latency: Latency | None = None
    every_seconds: int = 10
    last: tuple[Outlook | None, ...] = ()
    _due: list[list[int]] = field(default_factory=list)
    _last: int = 0
    _learned: tuple[Learned, ...] = ()
    _past: Past | None = None

    def decide(self, seen: Seen) -> Sequence[int]:
        """The cheapest counts that fit the budget."""
        models = seen.scenario.models
        if self._past is None:
            self._past = _whole(seen)
            self._due = [[] for _ in models]
            self._learned = (Learned(),) * len(models)
        past = _until(self._past, seen.now)
        self._follow(seen)
        curves: list[Curve | None] = [None] * len(models)
        found: list[Outlook | None] = [None] * len(models)
        for (cold, step), columns in _batches(seen).items():
            terms = Terms(cold, step, self.latency)
            part = past if len(columns) == len(models) else past.of(columns)
            self._learn(seen.now, part, columns, terms)
            learned = [self._learned[i] for i in columns]
            told = outlooks(part, learned, self._standing(seen, columns), _service(seen, part, columns), terms)
            for i, one in zip(columns.tolist(), told, strict=True):
                found[i] = one
                if one is not None:
                    curves[i] = Curve(one.least, one.values, models[i].gpus)
        self.last = tuple(found)
        counts = share_out([curve for curve in curves if curve is not None], seen.scenario.gpus).counts
        plan = list(counts)
        for due, ready, then in zip(self._due, seen.ready, plan, strict=True):
            del due[max(0, then - ready) :]
        self._last = seen.now
        return plan

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


def _whole(seen: Seen) -> Past:
    """All of the run; what lies after now is cut off before anybody looks."""
    models, seconds = seen.work.shape
    zero = np.zeros((1, models))
    work, requests = (np.concatenate([zero, np.cumsum(of.T, axis=0)]) for of in (seen.work, seen.requests))
    return Past(np.arange(seconds + 1, dtype=np.int64), work, requests, np.zeros(models, dtype=np.int64))


def _until(past: Past, now: int) -> Past:
    return Past(past.edges[: now + 1], past.work[: now + 1], past.requests[: now + 1], past.since)


def _service(seen: Seen, past: Past, columns: I64) -> Service:
    models = [seen.scenario.models[i] for i in columns]
    each = past.work_of_one(WORK_OF_ONE_SECONDS)
    base = np.array([model.queue_base for model in models])
    return Service(
        Serving(
            np.array([model.slo_wait_seconds for model in models]),
            np.array([model.headroom_seconds for model in models]),
            np.array([model.patience_seconds for model in models]),
            np.where(np.isfinite(base), np.where(np.isfinite(base), base, 0.0) * each, np.inf),
            np.array([model.queue_per_replica for model in models]) * each,
        ),
        np.array([model.floor for model in models]),
        np.array([model.most for model in models]),
        np.array([model.priority for model in models]),
    )
