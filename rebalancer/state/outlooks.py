"""The outlook of every model: what the look-ahead has to know of each, gathered from views, loads and the policy.

What is asked of a model's target stands for what it will have; of that the pods on nodes without a notice count, Ready
ones now, loading ones when a start is over, and what is no pod yet, or has no node, a whole start from now.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from rebalancer.domain.arithmetic import converging, doomed_pods
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.readings import MOST_LAG_SECONDS, ModelLoad, Reading
from rebalancer.domain.snapshot import ModelView
from rebalancer.state.outlook.book import Book, Group
from rebalancer.state.outlook.outlook import Service, Terms
from rebalancer.state.outlook.past import I64, RUNG_SECONDS
from rebalancer.state.outlook.rule import step_seconds
from rebalancer.state.outlook.value import Serving, Standing
from rebalancer.state.rings import Rings

PATIENCE_SECONDS = 30.0  # after which a client has gone, as most clients' timeouts are set
HEADROOM_SHARE = 0.25  # of the promised wait: a batch takes newcomers on before it has finished the others
WAIT_SECONDS = {"realtime": 0.5, "interactive": 2.0, "batch": 30.0}  # by class, where the policy promises nothing
# Metrics up to so coarse need no roughening: at 5 s it changed nothing where three language models share GPUs, and took
# 0.2 points from two models that surge.
FINE_SECONDS = 5.0
COLD_STEPS_SECONDS = ((300, 10), (3600, 60), (86_400, 600))  # starts up to so long share a horizon in steps of so much


class _Held(NamedTuple):
    """One model's replicas while its view is the same. `due_at`: of those that load; `unplaced`: what has no node."""

    view: ModelView
    doomed: frozenset[str]
    ready: int
    due_at: tuple[float, ...]
    unplaced: int


class _Rules(NamedTuple):
    """What the policy says of one model, and where it is in the rings."""

    model: Model
    column: int
    wait_seconds: float
    step_seconds: int


class _Member(NamedTuple):
    """A model of a group. `served`: replicas in each step from where knowledge ends until now."""

    rules: _Rules
    held: _Held
    load: ModelLoad
    served: list[int]


class Outlooks:
    """Keeps each model's curve until what it was made from changes."""

    def __init__(self, policy: Policy, columns: Mapping[str, int]) -> None:
        self._book = Book(0)
        self._rules: dict[str, _Rules] = {}
        self._held: dict[str, _Held] = {}
        self._served: dict[str, deque[tuple[float, int]]] = {}  # since when so many replicas of a model served
        self._onto: dict[str, tuple[ModelLoad, Outlook | None, ModelLoad]] = {}
        self._services: dict[tuple[int, ...], tuple[I64, Service]] = {}  # by columns, while the policy is the same
        self.set_policy(policy, columns)

    def set_policy(self, policy: Policy, columns: Mapping[str, int]) -> None:
        """Take over models; `columns`: theirs in the rings. One that has another's column now begins anew."""
        self._every_seconds = max(1, round(policy.plan_every_seconds))
        self._wanted = policy.look_ahead
        before = {rules.column: name for name, rules in self._rules.items()}
        self._book.widen(max(columns.values(), default=-1) + 1)
        self._rules = {}
        self._services = {}
        for model in policy.models:
            column = columns[model.id]
            if before.get(column, model.id) != model.id:
                self._book.forget(column)
            wait = model.slo.latency_seconds if model.slo else WAIT_SECONDS[model.workload_class]
            self._rules[model.id] = _Rules(model, column, wait, step_seconds(wait))
        self._held = {name: held for name, held in self._held.items() if name in self._rules}
        self._served = {name: served for name, served in self._served.items() if name in self._rules}
        self._onto = {name: onto for name, onto in self._onto.items() if name in self._rules}

    def look(
        self, loads: Sequence[ModelLoad], views: Sequence[ModelView], doomed: Collection[str], rings: Rings, now: float
    ) -> None:
        """Renew the outlooks that no longer stand; where the policy wants none there are none."""
        if not self._wanted:
            return
        groups = self._groups(loads, {view.id: view for view in views}, frozenset(doomed), now)
        self._book.look(rings, groups, self._every_seconds)

    def onto(self, loads: Sequence[ModelLoad]) -> tuple[ModelLoad, ...]:
        """The loads with each model's outlook; the same values as last time where both are."""
        return tuple(self._with(load) for load in loads)

    def _with(self, load: ModelLoad) -> ModelLoad:
        outlook = self._book.outlooks[self._rules[load.model].column] if self._wanted else None
        before = self._onto.get(load.model)
        if before is None or before[0] is not load or (before[1] is not outlook and before[1] != outlook):
            self._onto[load.model] = before = (load, outlook, replace(load, outlook=outlook))
        return before[2]

    def _groups(
        self, loads: Sequence[ModelLoad], views: Mapping[str, ModelView], doomed: frozenset[str], now: float
    ) -> list[Group]:
        """Models that share a start, the step, how coarse and how late their metrics are, each with how it stands."""
        members: dict[tuple[int, int, int, int], list[_Member]] = {}
        for load in loads:
            rules, view = self._rules[load.model], views.get(load.model)
            if view is not None:
                held = self._holding(view, doomed, rules)
                cold = cold_seconds(start_seconds(rules.model, view))
                lag = lag_seconds(load, now)
                terms = cold, rules.step_seconds, coarseness(load.work.resolution_seconds), lag
                served = self._since(view.id, held.ready, now, lag, rules.step_seconds)
                members.setdefault(terms, []).append(_Member(rules, held, load, served))
        groups = []
        services, self._services = self._services, {}  # only those of groups that there are
        for (cold, step, interval, lag), some in sorted(members.items()):
            some.sort(key=lambda member: member.rules.column)
            key = tuple(member.rules.column for member in some)
            found = services.get(key) or (np.array(key, dtype=np.int64), _service([member.rules for member in some]))
            columns, service = self._services[key] = found
            terms = Terms(cold, step, interval, lag)
            standing = _standing(some, terms, self._book.work_of_one(columns).tolist(), now)
            groups.append(Group(columns, standing, service, terms, int(now) - lag if lag else None))
        return groups

    def _since(self, model: str, ready: int, now: float, lag: int, step: int) -> list[int]:
        """Replicas that served in each step of the last `lag` seconds, as they were seen at each look."""
        past = self._served.setdefault(model, deque([(-inf, ready)]))
        if past[-1][1] != ready:
            past.append((now, ready))
        while len(past) > 1 and past[1][0] <= now - MOST_LAG_SECONDS:
            past.popleft()
        if len(past) == 1:
            return [ready] * (lag // step)
        begins = [at for at, _ in past]
        return [past[bisect_right(begins, now - lag + after) - 1][1] for after in range(0, lag, step)]

    def _holding(self, view: ModelView, doomed: frozenset[str], rules: _Rules) -> _Held:
        known = self._held.get(view.id)
        if known is None or known.view is not view or known.doomed != doomed:
            known = self._held[view.id] = _holding(view, doomed, start_seconds(rules.model, view))
        return known


def start_seconds(model: Model, view: ModelView) -> float:
    """From a pod's creation to Ready: as measured, the policy's figure until then."""
    return model.load_seconds if view.load_seconds is None else view.load_seconds


def lag_seconds(load: ModelLoad, now: float) -> int:
    """From where knowledge of a model ends until now, in whole rungs; less than one is within what a sample covers."""
    lag = 0.0 if load.known_until is None else min(MOST_LAG_SECONDS, max(0.0, now - load.known_until))
    return int(lag // RUNG_SECONDS) * RUNG_SECONDS


def coarseness(resolution_seconds: float) -> int:
    """Seconds of the metrics whose smoothing replays must undo; 1 where they are fine enough."""
    return round(resolution_seconds) if resolution_seconds > FINE_SECONDS else 1


def cold_seconds(start: float) -> int:
    """A start on the grid of lengths that share a horizon."""
    step = next((step for most, step in COLD_STEPS_SECONDS if start <= most), COLD_STEPS_SECONDS[-1][1])
    return max(step, round(start / step) * step)


def _holding(view: ModelView, doomed: frozenset[str], start: float) -> _Held:
    ready, unplaced, due_at = 0, 0, []
    for target in view.targets:
        if target.missing:
            continue
        left = max(0, converging(target) - len(doomed_pods(target, doomed)))
        alive = [pod for pod in target.pods if pod.phase != "terminating" and pod.node not in doomed]
        serving = min(left, sum(pod.phase == "ready" for pod in alive))
        loading = sorted(pod.created_at + start for pod in alive if pod.phase == "loading")[: left - serving]
        ready += serving
        due_at += loading
        unplaced += left - serving - len(loading)
    return _Held(view, doomed, ready, tuple(sorted(due_at)), unplaced)


def _service(group: Sequence[_Rules]) -> Service:
    models = [rules.model for rules in group]
    wait = np.array([rules.wait_seconds for rules in group])
    many = np.ones(len(group))
    by_minute = np.array([model.slo is not None and model.slo.budgeting_method == "timeslices" for model in models])
    return Service(
        Serving(wait, HEADROOM_SHARE * wait, PATIENCE_SECONDS * many, np.inf * many, 0.0 * many, by_minute),
        _whole(model.min_replicas for model in models),
        _whole(model.max_replicas for model in models),
        np.array([model.priority / 100 for model in models]),
    )


def _standing(members: Sequence[_Member], terms: Terms, each: Sequence[float], now: float) -> Standing:
    due = np.full((len(members), max(len(held.due_at) + held.unplaced for _, held, _, _ in members)), np.inf)
    for row, (_, held, _, _) in zip(due, members, strict=True):
        loading = len(held.due_at)
        if loading or held.unplaced:
            row[:loading] = [terms.lag_seconds + max(1.0, at - now) for at in held.due_at]
            row[loading : loading + held.unplaced] = max([terms.answer_seconds, *row[:loading].tolist()])
    return Standing(
        _whole(member.held.ready for member in members),
        due,
        np.array([_waiting(member.load) * one for member, one in zip(members, each, strict=True)]),
        np.array([member.served for member in members], dtype=np.int64).T if terms.lag_seconds else None,
    )


def _waiting(load: ModelLoad) -> float:
    """Requests that wait; none where nobody counts them: then the look-ahead begins with empty queues."""
    queue = load.signals.get("queue")
    return queue.value if isinstance(queue, Reading) else 0.0


def _whole(of: Iterable[int]) -> I64:
    return np.array(list(of), dtype=np.int64)
