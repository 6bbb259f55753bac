"""The recorded work of each model second by second, a UTC day at a time: what the fluid path needs to play it again.

Between two looks the work is what the later one tells (it tells of the time before it), replicas are those of the
earlier one. Seconds of which nothing is known carry no work and are not counted as seen.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.readings import ModelLoad, Reading, keeps
from rebalancer.domain.snapshot import Snapshot, TargetView
from rebalancer.ledger.inventory import LOOKED_AT
from rebalancer.obs.journal_reading import RecordedTurn
from rebalancer.sim.demand import F64

LATENCY_AGE_SECONDS = 60.0  # of a reading that still tells of the seconds between two looks
DAY = 86_400  # seconds: a day of 20 models is 55 MB


@dataclass(slots=True)
class ModelDay:
    """One model's day; arrays of shape (seconds,).

    entry: the model as the day's last policy has it.
    first: replicas that it had at the day's first look.
    bounds: least and most replicas that its own autoscalers allow, all targets together: their bounds from before the
        first write of ours; where none has, the replicas that its targets asked for at first.
    work: replica-seconds of work that arrive in each second.
    requests: requests that arrive in each second; where nobody counts them, none.
    ready: Ready replicas.
    latency: p95 of the latency that users saw, in seconds; inf where it was above the SLO, nobody knows how far, NaN
        where nobody told it.
    """

    entry: Model
    first: int
    bounds: tuple[int, int]
    autoscalers: frozenset[str] = frozenset()
    work: F64 = field(default_factory=lambda: np.zeros(DAY))
    requests: F64 = field(default_factory=lambda: np.zeros(DAY))
    ready: NDArray[np.int32] = field(default_factory=lambda: np.zeros(DAY, np.int32))
    latency: F64 = field(default_factory=lambda: np.full(DAY, np.nan))


@dataclass(slots=True)
class RecordedDay:
    """What a journal has of one UTC day.

    since: its first second, in epoch seconds.
    seconds: how many there are.
    policy: the last policy in force.
    models: by id.
    nodes: GPUs of each node, from the look at which there were the most.
    """

    since: int
    policy: Policy
    seconds: int = 0
    models: dict[str, ModelDay] = field(default_factory=dict)
    nodes: tuple[int, ...] = ()

    @property
    def hours(self) -> NDArray[np.int64]:
        """The hour since the epoch of each second, shape (seconds,)."""
        return (self.since + np.arange(self.seconds)) // 3600


class Days:
    """Gathers looks into days; `closed` takes each day when it is over, and the last one at `end`."""

    def __init__(self, closed: Callable[[RecordedDay], None]) -> None:
        self._closed = closed
        self._day: RecordedDay | None = None
        self._before: Snapshot | None = None

    def see(self, turn: RecordedTurn, patience: float) -> None:
        """The next cycle; what came before it counts if that is at most `patience` seconds ago."""
        now, before = turn.snapshot, self._before
        if LOOKED_AT & {*now.sync.missing, *now.sync.stale}:
            self._before = None
            return
        self._before = now
        if self._day is None or int(now.at) // DAY != self._day.since // DAY:
            self.end()
            self._day = RecordedDay(int(now.at), turn.policy)
        day = self._day
        day.policy = turn.policy
        nodes = tuple(node.gpus for view in now.pools for node in view.nodes if node.gpus and node.ready)
        day.nodes = max(day.nodes, nodes, key=sum)
        _introduce(day, now)
        known = before is not None and not turn.after_loss and 0.0 < now.at - before.at <= patience
        begin = max(day.seconds, int(before.at) - day.since, 0) if known and before is not None else None
        end = int(now.at) - day.since
        if begin is not None and before is not None and end > begin:
            _fill(day, before, now, slice(begin, end))
        day.seconds = max(day.seconds, end)

    def end(self) -> None:
        """No cycle follows in this day."""
        if self._day is not None and self._day.seconds:
            self._closed(self._day)
        self._day = None


def work_of(load: ModelLoad) -> float | None:
    """Replicas of work that are offered, by the shortest window that is known; None while that is unknown."""
    return load.work.newest


def work_of_one(load: ModelLoad) -> float | None:
    """Replica-seconds of one request, as the look-ahead learnt them; None where nobody counts requests."""
    outlook = load.outlook
    counted = outlook is not None and not outlook.by_minute and outlook.work_of_one not in {0.0, 1.0}
    return outlook.work_of_one if outlook is not None and counted else None


def ready_replicas(targets: tuple[TargetView, ...]) -> int:
    """Ready replicas of a model."""
    return sum(pod.phase == "ready" for target in targets for pod in target.pods)


def _introduce(day: RecordedDay, now: Snapshot) -> None:
    entries: Mapping[str, Model] = {model.id: model for model in day.policy.models}
    for view in now.models:
        if view.id not in entries:
            continue
        known = day.models.get(view.id)
        if known is None:
            bounds, kinds = _bounds(view.targets)
            day.models[view.id] = ModelDay(entries[view.id], ready_replicas(view.targets), bounds, kinds)
        else:
            known.entry = entries[view.id]


def _bounds(targets: tuple[TargetView, ...]) -> tuple[tuple[int, int], frozenset[str]]:
    least = most = 0
    kinds = set()
    for target in targets:
        autoscaler = target.autoscaler
        if autoscaler is None:
            least, most = least + target.replicas, most + target.replicas
            continue
        kinds.add(autoscaler.kind)
        own = autoscaler.originals
        low = autoscaler.minimum if own is None or own.minimum is None else own.minimum
        high = autoscaler.maximum if own is None or own.maximum is None else own.maximum
        least, most = least + low, most + high
    return (least, most), frozenset(kinds)


def _seconds(latency: Reading, entry: Model) -> float:
    if not latency.above:
        return latency.value
    late = entry.slo is not None and keeps(latency.value, entry.slo.latency_seconds, above=True) is False
    return inf if late else nan


def _fill(day: RecordedDay, before: Snapshot, now: Snapshot, where: slice) -> None:
    loads = {load.model: load for load in now.loads}
    for view in before.models:
        model = day.models.get(view.id)
        if model is None:
            continue
        model.ready[where] = ready_replicas(view.targets)
        load = loads.get(view.id)
        latency = None if load is None else load.signals.get("latency")
        if isinstance(latency, Reading) and now.at - latency.at <= LATENCY_AGE_SECONDS:
            model.latency[where] = _seconds(latency, model.entry)
        work = None if load is None else work_of(load)
        if load is None or work is None:
            continue
        model.work[where] = work
        one = work_of_one(load)
        if one is not None:
            model.requests[where] = work / one
