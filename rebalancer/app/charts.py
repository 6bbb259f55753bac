"""Every model's last day in steps of a minute, and who held the GPUs of each pool.

35 KB a model and 6 KB for each pool in which it has a target: 46 MB at 1,000 models with two each, and no more.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rebalancer.api.ports.day import FIGURES, STEP_SECONDS, STEPS, Day, Figures
from rebalancer.api.ports.timeline import Point
from rebalancer.domain.plan import ModelDecision, Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.readings import ModelLoad, Reading
from rebalancer.domain.snapshot import Snapshot

POINTS = 60
DEMAND, ALLOCATION, READY = (FIGURES.index(each) for each in ("demand", "allocation", "ready"))
NAN = float("nan")

Key = TypeVar("Key")


class Charts:
    """Rings of `STEPS` minutes; a minute shows what its last cycle saw and decided, and unknown where there was none.

    Who left the policy is kept until the last minute that knows it is a day old.
    """

    def __init__(self) -> None:
        self._minutes = np.full(STEPS, -1, dtype=np.int64)
        self._models: dict[str, Figures] = {}
        self._gpus: dict[tuple[str, str], Figures] = {}

    def note(self, snapshot: Snapshot, plan: Plan, policy: Policy) -> None:
        """What a cycle saw and decided."""
        minute = int(snapshot.at // STEP_SECONDS)
        place = minute % STEPS
        if self._minutes[place] != minute:
            self._turn(place, {decision.model for decision in plan.models})
            self._minutes[place] = minute
        loads = {load.model: load for load in snapshot.loads}
        specs = {model.id: model for model in policy.models}
        short = {each.model for each in plan.unmet}
        for decision in plan.models:
            ring = self._models.get(decision.model)
            if ring is None:
                ring = self._models[decision.model] = np.full((STEPS, len(FIGURES)), np.nan, dtype=np.float32)
            spec, load = specs.get(decision.model), loads.get(decision.model)
            latency = NAN if load is None else _latency_seconds(load, policy, snapshot.at)
            over = spec is not None and spec.slo is not None and latency > spec.slo.latency_seconds
            late = NAN
            if load is not None and spec is not None:
                late = _late_per_minute(load, decision, spec.priority, late=over or decision.model in short)
            ring[place] = (
                NAN if load is None or load.work.last_60s is None else load.work.last_60s,
                NAN if decision.demand is None else decision.demand,
                decision.allocation,
                decision.ready,
                latency,
                late,
            )
        for key, gpus in _held(snapshot):
            if key not in self._gpus:
                self._gpus[key] = np.full(STEPS, np.nan, dtype=np.float32)
            self._gpus[key][place] = gpus

    def _turn(self, place: int, current: Collection[str]) -> None:
        """What stands at `place` is a day old; who is not `current` and known in no other minute goes."""
        for ring in (*self._models.values(), *self._gpus.values()):
            ring[place] = np.nan
        for model in [each for each in self._models if each not in current]:
            if np.isnan(self._models[model]).all():
                del self._models[model]
        for key in [each for each in self._gpus if each[1] not in current]:
            if np.isnan(self._gpus[key]).all():
                del self._gpus[key]

    def put_before(self, older: "Charts") -> None:
        """Take what `older`, made from the journal, knows of minutes that no cycle here has noted."""
        mine = np.flatnonzero(self._minutes >= 0)
        self._minutes = np.where(self._minutes >= 0, self._minutes, older._minutes)  # noqa: SLF001  # of one class
        self._models = _joined(self._models, older._models, mine)  # noqa: SLF001  # of one class
        self._gpus = _joined(self._gpus, older._gpus, mine)  # noqa: SLF001  # of one class

    def day(self) -> Day:
        """The last day of everything."""
        return Day(self._minutes.copy(), dict(self._models), dict(self._gpus))

    def points(self, model: str, now: float) -> tuple[Point, ...]:
        """The last hour of `model`, oldest first, from the first minute in which anything was decided."""
        ring = self._models.get(model)
        if ring is None:
            return ()
        last = int(now // STEP_SECONDS)
        minutes = [each for each in range(last - POINTS + 1, last + 1) if self._minutes[each % STEPS] == each]
        return tuple(self._point(ring, each) for each in range(minutes[0], minutes[-1] + 1)) if minutes else ()

    def _point(self, ring: Figures, minute: int) -> Point:
        place = minute % STEPS
        at = float(minute * STEP_SECONDS)
        if self._minutes[place] != minute:
            return Point(at, None, None, None)
        figures = (float(ring[place, each]) for each in (DEMAND, ALLOCATION, READY))
        return Point(at, *(None if np.isnan(each) else int(each) for each in figures))


def _joined(newer: Mapping[Key, Figures], older: Mapping[Key, Figures], mine: NDArray[np.intp]) -> dict[Key, Figures]:
    """The rings of both; those that both have with `newer` at the places `mine`."""
    joined = {**newer, **older}
    for key in older.keys() & newer.keys():
        joined[key][mine] = newer[key][mine]
    for key in older.keys() - newer.keys():
        joined[key][mine] = np.nan
    return joined


def _latency_seconds(load: ModelLoad, policy: Policy, now: float) -> float:
    """The p95; NaN where there is none, as without requests, or it is older than the policy's `blind` allows."""
    reading = load.signals.get("latency")
    if not isinstance(reading, Reading) or now - reading.at > policy.guards.blind.stale_seconds:
        return NAN
    return reading.value


def _late_per_minute(load: ModelLoad, decision: ModelDecision, priority: int, *, late: bool) -> float:
    """Requests that are late a minute with what serves and loads, as far as the outlook's replays can say.

    `late`: whether the latency is over its SLO, or the plan calls the model short. Else none are: the outlook's mean
    holds surges of its past, by which a model at ease would have hundreds. NaN where nobody counts requests.
    """
    outlook = load.outlook
    if outlook is None or outlook.deferred or outlook.by_minute:
        return NAN
    if not late:
        return 0.0
    requests = outlook.late_with(decision.ready + decision.loading, priority)
    requests = outlook.expected_requests if requests is None else requests  # fewer than were played: all of them
    return requests * 60.0 / outlook.horizon_seconds


def _held(snapshot: Snapshot) -> Iterator[tuple[tuple[str, str], int]]:
    """(pool, model) -> GPUs under its pods, as tiles draw them; model "": those of the pool's nodes."""
    nodes = {pool.name: {node.name for node in pool.nodes} for pool in snapshot.pools}
    for pool in snapshot.pools:
        yield (pool.name, ""), sum(node.gpus for node in pool.nodes)
    for model in snapshot.models:
        for target in model.targets:
            known = nodes.get(target.pool, set())
            pods = sum(node in known for pod in target.pods for node in pod.nodes)
            yield (target.pool, model.id), pods * target.gpus_per_pod
