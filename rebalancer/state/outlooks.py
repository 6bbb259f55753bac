"""The outlook of every model, with all that the look-ahead needs for it from views, loads and the policy.

A model counts with the replicas that its targets converge to: Ready pods that are not doomed now, loading ones once a
start is over, and replicas without a pod or without a node after a whole start from now.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from rebalancer.domain.arithmetic import converging, doomed_pods, ready_by
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.readings import ModelLoad, Reading
from rebalancer.domain.snapshot import ModelView
from rebalancer.state.outlook.cache import Group, OutlookCache
from rebalancer.state.outlook.outlook import ModelTerms, Terms
from rebalancer.state.outlook.past import I64, ROW_SECONDS
from rebalancer.state.outlook.rule import KEPT_SECONDS, step_seconds
from rebalancer.state.outlook.value import Serving, Standing
from rebalancer.state.rings import Rings

PATIENCE_SECONDS = 30.0  # after which a client has gone, as most clients' timeouts are set
HEADROOM_SHARE = 0.25  # of the promised wait: a batch takes newcomers on before it has finished the others
WAIT_SECONDS = {"realtime": 0.5, "interactive": 2.0, "batch": 30.0}  # by class, where the policy promises nothing
# Metrics up to so coarse need no roughening: at 5 s it changed nothing where three language models share GPUs, and took
# 0.2 points from two models that surge.
FINE_SECONDS = 5.0
CARRIED = 0.05  # what a replica carries changed by more: dispersion and errors are of other replicas
COLD_STEPS_SECONDS = ((300, 10), (3600, 60), (86_400, 600))  # starts up to so long share a horizon in steps of so much


class _Held(NamedTuple):
    """One model's replicas while its view is the same.

    view: the model's targets, as the snapshot has them.
    doomed: names of doomed nodes.
    ready: Ready replicas that stay.
    due_at: when each loading replica is expected to serve, ascending.
    unplaced: replicas asked for that have no node.
    """

    view: ModelView
    doomed: frozenset[str]
    ready: int
    due_at: tuple[float, ...]
    unplaced: int


class _Rules(NamedTuple):
    """The policy for one model, as the look-ahead needs it.

    model: its entry in the policy.
    column: its column in the rings.
    wait_seconds: seconds of wait beyond which a request is late.
    step_seconds: seconds per step of the look-ahead.
    deadline_seconds: seconds after which a request is due, None of a model without a deadline.
    """

    model: Model
    column: int
    wait_seconds: float
    step_seconds: int
    deadline_seconds: float | None


class Outlooks:
    """Keeps each model's curve until what it was made from changes."""

    def __init__(self, policy: Policy, columns: Mapping[str, int]) -> None:
        self._cache = OutlookCache(0)
        self._rules: dict[str, _Rules] = {}
        self._held: dict[str, _Held] = {}
        self._carried: dict[str, float] = {}
        self._onto: dict[str, tuple[ModelLoad, Outlook | None, ModelLoad]] = {}
        self._services: dict[tuple[int, ...], tuple[I64, ModelTerms]] = {}  # by horizon and columns, one policy's
        self._before: tuple[Sequence[ModelLoad], Sequence[ModelView], frozenset[str], float] | None = None
        self.set_policy(policy, columns)

    def set_policy(self, policy: Policy, columns: Mapping[str, int]) -> None:
        """Take over models; `columns`: theirs in the rings. Who gets the column of one that left begins anew."""
        self._every_seconds = max(1, round(policy.plan_every_seconds))
        self._wanted = policy.look_ahead
        for name, rules in self._rules.items():
            if columns.get(name) != rules.column:
                self._cache.forget(rules.column)
        self._cache.widen(max(columns.values(), default=-1) + 1)
        self._rules = {}
        self._services = {}
        for model in policy.models:
            deadline = policy.deferral.deadline_seconds(model)
            wait = model.slo.latency_seconds if model.slo else WAIT_SECONDS[model.workload_class]
            wait = wait if deadline is None else deadline
            self._rules[model.id] = _Rules(model, columns[model.id], wait, step_seconds(wait), deadline)
        self._held = {name: held for name, held in self._held.items() if name in self._rules}
        self._carried = {name: carried for name, carried in self._carried.items() if name in self._rules}
        self._onto = {name: onto for name, onto in self._onto.items() if name in self._rules}

    def resume(
        self,
        loads: Sequence[ModelLoad],
        views: Sequence[ModelView],
        doomed: Collection[str],
        rings: Rings,
        at: float,
    ) -> None:
        """Go on from the outlooks that the last cycle of before a start saw, at `at`.

        `loads`: as each of them was made from it; `rings`: restored.
        """
        known = [load for load in loads if load.model in self._rules]
        made = {self._rules[load.model].column: load.outlook for load in known if load.outlook is not None}
        self._cache.restore(rings, made)
        self._before = known, views, frozenset(doomed), at

    def _caught_up(self, rings: Rings, now: float) -> bool:
        """Whether the rings have what the outlooks of before a start were made from, or will not have it in time."""
        if self._before is None:
            return True
        loads, views, doomed, at = self._before
        loads = [load for load in loads if load.model in self._rules]  # a policy may have come since
        newest = max((load.outlook.at for load in loads if load.outlook is not None), default=0.0)
        caught_up = (rings.head or 0) >= newest
        if not caught_up and now - at < KEPT_SECONDS:
            return False
        self._before = None
        if caught_up:
            for group in self._groups(loads, {view.id: view for view in views}, doomed, int(newest), at):
                self._cache.resume(rings, group)
        return True

    def look(
        self, loads: Sequence[ModelLoad], views: Sequence[ModelView], doomed: Collection[str], rings: Rings, now: float
    ) -> None:
        """Renew the outlooks that no longer stand; where the policy wants none there are none."""
        if not self._wanted or not self._caught_up(rings, now):
            return
        self._begin_anew(loads)
        groups = self._groups(loads, {view.id: view for view in views}, frozenset(doomed), rings.head, now)
        self._cache.look(rings, groups, self._every_seconds)

    def _begin_anew(self, loads: Sequence[ModelLoad]) -> None:
        """Learn again what was learnt of a model in replicas that carry something else."""
        for load in loads:
            carries = 0.0 if load.carries is None else load.carries.learnt
            before = self._carried.get(load.model)
            if before is None or abs(carries - before) > CARRIED * before:
                if before:
                    self._cache.forget(self._rules[load.model].column)
                self._carried[load.model] = carries

    def onto(self, loads: Sequence[ModelLoad]) -> tuple[ModelLoad, ...]:
        """The loads with each model's outlook; the same values as last time where both are."""
        return tuple(self._with(load) for load in loads)

    def _with(self, load: ModelLoad) -> ModelLoad:
        outlook = self._cache.outlooks[self._rules[load.model].column] if self._wanted else None
        before = self._onto.get(load.model)
        if before is None or before[0] is not load or (before[1] is not outlook and before[1] != outlook):
            self._onto[load.model] = before = (load, outlook, replace(load, outlook=outlook))
        return before[2]

    def _groups(
        self,
        loads: Sequence[ModelLoad],
        views: Mapping[str, ModelView],
        doomed: frozenset[str],
        head: int | None,
        now: float,
    ) -> list[Group]:
        """Models that share a start, the step, how coarse and how late their metrics are, each with how it stands."""
        members: dict[tuple[int, int, int, int], list[tuple[_Rules, _Held, ModelLoad]]] = {}
        for load in loads:
            rules, view = self._rules[load.model], views.get(load.model)
            if view is not None:
                held = self._holding(view, doomed, rules)
                cold = cold_seconds(start_seconds(rules.model, view))
                shared = cold, rules.step_seconds, coarseness(load.work.resolution_seconds), behind(load, head)
                members.setdefault(shared, []).append((rules, held, load))
        groups = []
        services, self._services = self._services, {}  # only those of groups that there are
        for (cold, step, interval, late), some in sorted(members.items()):
            some.sort(key=lambda member: member[0].column)
            terms = Terms(cold, step, interval)
            known = terms.horizon_seconds, *(rules.column for rules, _, _ in some)
            service_of_group = services.get(known) or (
                np.array(known[1:], dtype=np.int64),
                _service([rules for rules, _, _ in some], terms.horizon_seconds),
            )
            columns, service = self._services[known] = service_of_group
            standing = _standing(some, cold, self._cache.work_of_one(columns).tolist(), now)
            groups.append(Group(columns, standing, service, terms, head and head - late))
        return groups

    def _holding(self, view: ModelView, doomed: frozenset[str], rules: _Rules) -> _Held:
        known = self._held.get(view.id)
        if known is None or known.view is not view or known.doomed != doomed:
            known = self._held[view.id] = _holding(view, doomed, start_seconds(rules.model, view))
        return known


def start_seconds(model: Model, view: ModelView) -> float:
    """From having a node to Ready: the middle of what was measured, the policy's figure until that is known."""
    return model.load_seconds if view.load_seconds is None else view.load_seconds


def coarseness(resolution_seconds: float) -> int:
    """Seconds of the metrics whose smoothing replays must undo; 1 where they are fine enough."""
    return round(resolution_seconds) if resolution_seconds > FINE_SECONDS else 1


def behind(load: ModelLoad, head: int | None) -> int:
    """Seconds, in whole rows, from where knowledge of a model ends to the rings' `head`: others may be less late.

    Read up to the head, the last minute of a model that is a minute late would be unobserved, and no rise ever seen.
    """
    if head is None or load.known_until is None:
        return 0
    return int(max(0.0, head - load.known_until) // ROW_SECONDS) * ROW_SECONDS


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
        alive = [pod for pod in target.pods if pod.phase != "terminating" and not pod.on(doomed)]
        serving = min(left, sum(pod.phase == "ready" for pod in alive))
        loading = sorted(ready_by(pod, start) for pod in alive if pod.phase == "loading")[: left - serving]
        ready += serving
        due_at += loading
        unplaced += left - serving - len(loading)
    return _Held(view, doomed, ready, tuple(sorted(due_at)), unplaced)


def _service(group: Sequence[_Rules], horizon_seconds: int) -> ModelTerms:
    models = [rules.model for rules in group]
    wait = np.array([rules.wait_seconds for rules in group])
    many = np.ones(len(group))
    deadline = np.array([np.nan if rules.deadline_seconds is None else rules.deadline_seconds for rules in group])
    deferred = deadline > horizon_seconds
    by_minute = np.array([model.slo is not None and model.slo.budgeting_method == "timeslices" for model in models])
    patience = np.where(np.isnan(deadline), PATIENCE_SECONDS, np.inf)  # who has a deadline does not leave before it
    return ModelTerms(
        Serving(wait, HEADROOM_SHARE * wait, patience, np.inf * many, 0.0 * many, by_minute & ~deferred, deferred),
        _whole(model.min_replicas for model in models),
        _whole(model.max_replicas for model in models),
        np.array([model.priority / 100 for model in models]),
    )


def _standing(
    members: Sequence[tuple[_Rules, _Held, ModelLoad]], cold_seconds: int, each: Sequence[float], now: float
) -> Standing:
    due = np.full((len(members), max(len(held.due_at) + held.unplaced for _, held, _ in members)), np.inf)
    for row, (_, held, _) in zip(due, members, strict=True):
        loading = len(held.due_at)
        if loading or held.unplaced:
            row[:loading] = [max(1.0, at - now) for at in held.due_at]
            row[loading : loading + held.unplaced] = max([cold_seconds, *row[:loading].tolist()])
    return Standing(
        _whole(held.ready for _, held, _ in members),
        due,
        np.array([_waiting(load) * one for (_, _, load), one in zip(members, each, strict=True)]),
    )


def _waiting(load: ModelLoad) -> float:
    """Requests that wait; none where nobody counts them: then the look-ahead begins with empty queues."""
    queue = load.signals.get("queue")
    return queue.value if isinstance(queue, Reading) else 0.0


def _whole(of: Iterable[int]) -> I64:
    return np.array(list(of), dtype=np.int64)
