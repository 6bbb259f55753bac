"""The look-ahead rule given the true future: what planning could reach if it knew what arrives.

A frozen reference, versioned: gap closure is measured against it, so it takes nothing from planning and does not
change when planning does. What was left open was settled by the cells of S2:

- the future is the single scenario, at a step of 2 s (1 s where the SLO is shorter than 1 s), over start + 90 s;
- the level of the terminal term is the past one (60, 300 and 1,200 s at .1, .5, .4), without learnt corrections: the
  future's own mean misses the cells by up to 14 %, this one by 3 %;
- starting replicas serve from the second they are due; shrinking cancels starting ones first, the latest first;
- on several nodes a replica that still waits when all that ended has gone fits nowhere: it is withdrawn, and its
  model grows no further for 300 s;
- work per request is that of the last 600 s, of the whole run where nobody asked in them;
- an unfilled step at the end of the data holds no work.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rebalancer.sim.controller import Seen
from rebalancer.sim.demand import F64
from rebalancer.sim.limits.lookahead import allocate, values
from rebalancer.sim.requests.scenarios import OWN_SECONDS, SLO_SECONDS
from rebalancer.sim.scenario import ScenarioModel

FORESIGHT_VERSION = 2  # 2: a request of Faro's takes OWN_SECONDS by itself; 1 took .16 s

DWELL_SECONDS = 90
RANGE = 6
SWITCHING_REPLICA_SECONDS = 2.0
LEVEL_WINDOWS = ((60, 0.1), (300, 0.5), (1200, 0.4))
LEAST_LEVEL = 0.001
REQUEST_WINDOW_SECONDS = 600
BARRED_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Utility:
    """Faro's objective: a minute is worth min(1, slo / slowest latency), latency being wait + `service_seconds`."""

    slo_seconds: float = SLO_SECONDS
    service_seconds: float = OWN_SECONDS


@dataclass(slots=True)
class PerfectForesight:
    """One run's controller; a new one for each run. Lists by model are empty before the first decision.

    utility: the objective whose lost utility it minimises; None: it minimises late work.
    every_seconds: seconds from one decision to the next.
    _due: seconds in which starting replicas will serve, by model; ascending.
    _last: second of its latest decision, 0 before the first.
    _none_waited: second of the last decision at which no replica waited for a node, by model.
    _barred_until: second until which a model grows no further because a replica fits nowhere, by model; 0: it may.
    _work: running sums of the work that arrives, from 0; the shape is (models, seconds + 1).
    _requests: the same of requests.
    """

    utility: Utility | None = None
    every_seconds: int = 10
    _due: list[list[int]] = field(default_factory=list)
    _last: int = 0
    _none_waited: list[int] = field(default_factory=list)  # by model: when last nobody waited
    _barred_until: list[int] = field(default_factory=list)
    _work: F64 = field(default_factory=lambda: np.zeros((0, 0)))
    _requests: F64 = field(default_factory=lambda: np.zeros((0, 0)))

    def decide(self, seen: Seen) -> Sequence[int]:
        """The cheapest counts that fit the budget; where not even the least fit, the least."""
        models = seen.scenario.models
        if not self._due:
            self._due = [[] for _ in models]
            self._none_waited, self._barred_until = [0] * len(models), [0] * len(models)
            self._work, self._requests = _sums(seen.work), _sums(seen.requests)
        self._follow(seen)
        current = np.array([seen.ready[i] + len(due) for i, due in enumerate(self._due)])
        most = np.array([min(self._fitting(seen, i), model.most, current[i] + RANGE) for i, model in enumerate(models)])
        least = np.array([max(model.floor, now - RANGE) for model, now in zip(models, current, strict=True)])
        least = np.minimum(least, most)
        costs = np.full((len(models), int((most - least).max()) + 1), np.inf)
        for i in range(len(models)):
            costs[i, : most[i] - least[i] + 1] = self._costs(seen, i, int(least[i]), int(most[i]))
        gpus = np.array([model.gpus for model in models])
        chosen = allocate(costs, least, most, gpus, seen.scenario.gpus)
        plan = [int(m) for m in (chosen if len(chosen) else least)]
        for due, now, then in zip(self._due, current, plan, strict=True):
            del due[max(0, len(due) - max(0, int(now) - then)) :]
        self._last = seen.now
        return plan

    def _follow(self, seen: Seen) -> None:
        """Works out from the counts when starting replicas will serve: new ones were asked for in the turn before."""
        for i, model in enumerate(seen.scenario.models):
            starting = seen.loading[i] + seen.waiting[i]
            due = self._due[i]
            del due[: max(0, len(due) - starting)]
            starts_serving = self._last + model.start_seconds
            due += [starts_serving] * (starting - len(due) - seen.waiting[i])
            due += [starts_serving + model.release_seconds] * (starting - len(due))
            self._due[i] = sorted(max(at, seen.now + 1) for at in due)

    def _fitting(self, seen: Seen, i: int) -> int:
        """Replicas of a model that the nodes have room for, as far as waiting ones tell."""
        models = seen.scenario.models
        if not seen.waiting[i]:
            self._none_waited[i] = seen.now
        elif seen.now - self._none_waited[i] > self.every_seconds + max(model.release_seconds for model in models):
            self._barred_until[i] = seen.now + BARRED_SECONDS
        if len(seen.scenario.nodes) == 1 or seen.now >= self._barred_until[i]:
            return models[i].most
        return max(models[i].floor, seen.ready[i] + seen.loading[i])

    def _costs(self, seen: Seen, i: int, least: int, most: int) -> F64:
        model, now = seen.scenario.models[i], seen.now
        work = self._work[i]
        level = max(LEAST_LEVEL, sum(share * _mean(work, now - window, now) for window, share in LEVEL_WINDOWS))
        past = max(0, now - REQUEST_WINDOW_SECONDS)
        each = _each(work[now] - work[past], self._requests[i, now] - self._requests[i, past])
        each = each or _each(work[-1], self._requests[i, -1])
        cold = model.start_seconds + model.release_seconds
        costs: F64 = values(
            seen.work[i],
            now,
            cold + DWELL_SECONDS,
            2 if model.slo_wait_seconds >= 1.0 else 1,
            cold,
            seen.ready[i],
            np.array(self._due[i], np.int64),
            float(seen.left[i, now - 1]) if now else 0.0,
            level,
            self._weight(model, level, each),
            SWITCHING_REPLICA_SECONDS,
            model.slo_wait_seconds,
            model.headroom_seconds,
            model.patience_seconds,
            model.queue_base * each if each else np.inf,
            model.queue_per_replica * each,
            self.utility.slo_seconds if self.utility else 0.0,
            self.utility.service_seconds if self.utility else 0.0,
            least,
            most,
        )
        return costs

    def _weight(self, model: ScenarioModel, level: float, each: float) -> float:
        """Per late replica-second: one request's priority; with `utility` every model counts alike."""
        if self.utility:
            return model.priority / max(level, each / 2)
        return model.priority / each if each else 0.0


def _sums(of: F64) -> F64:
    """Running sums from 0, shape (models, seconds + 1)."""
    return np.concatenate([np.zeros((len(of), 1)), np.cumsum(of, axis=1)], axis=1)


def _each(work: float, requests: float) -> float:
    """Work per request; 0 where there is none."""
    return float(work / requests) if requests > 0.0 else 0.0


def _mean(sums: F64, begin: int, end: int) -> float:
    begin = max(0, begin)
    return float(sums[end] - sums[begin]) / (end - begin) if end > begin else 0.0
