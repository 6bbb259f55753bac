"""The recorded work of each model second by second, a UTC day at a time: what the fluid path needs to play it again.

Between two looks the work is what the later one tells (it tells of the time before it), replicas are those of the
earlier one. Seconds of which nothing is known carry no work and are not counted as seen.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.readings import keeps
from rebalancer.ledger.books import patience_seconds
from rebalancer.ledger.looks import LedgerLook, ModelLook
from rebalancer.obs.ledger_reading import RecordedLook
from rebalancer.report.fitting import fit
from rebalancer.sim.demand import F64

DAY = 86_400  # seconds: a day of 20 models is 55 MB


@dataclass(slots=True)
class ModelDay:
    """One model's day; arrays of shape (seconds,).

    entry: the model as the day's last policy has it.
    first: Ready replicas that it had at the day's first look.
    bounds: least and most replicas that its own autoscalers allow, all targets together: their bounds from before the
        first write of ours; where none has, the replicas that its targets asked for at first.
    autoscalers: kinds of its own autoscalers, as `ScaledObject`; empty where it has none.
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

    def part(self, begin: int, end: int) -> "ModelDay":
        """The seconds from `begin` to `end` as a day of their own, which begins with what was Ready then."""
        where = slice(begin, end)
        return replace(
            self,
            first=int(self.ready[begin]) or self.first if begin else self.first,
            work=self.work[where],
            requests=self.requests[where],
            ready=self.ready[where],
            latency=self.latency[where],
        )


@dataclass(slots=True)
class RecordedDay:
    """What a journal has of one UTC day.

    since: its first second, in epoch seconds.
    seconds: how many there are.
    policy: the last policy in force.
    models: each model's day, by the model's id.
    nodes: GPUs of each node, from the look at which there were the most.
    earlier: policies of that day that named other models, in time, each with the second in which it ended.
    pool_gpus: by the name of a pool the most GPUs that it had at once.
    """

    since: int
    policy: Policy
    seconds: int = 0
    models: dict[str, ModelDay] = field(default_factory=dict)
    nodes: tuple[int, ...] = ()
    earlier: list[tuple[int, Policy]] = field(default_factory=list)
    pool_gpus: Counter[str] = field(default_factory=Counter)

    @property
    def hours(self) -> NDArray[np.int64]:
        """The hour since the epoch of each second, shape (seconds,)."""
        return (self.since + np.arange(self.seconds)) // 3600

    def stretches(self) -> Iterator["RecordedDay"]:
        """The day in parts in which policies named the same models, in time; each has these models and no others."""
        begin = 0
        for end, policy in (*self.earlier, (self.seconds, self.policy)):
            named = [model.id for model in policy.models if model.id in self.models]
            if end > begin:
                models = {name: self.models[name].part(begin, end) for name in named}
                yield RecordedDay(self.since + begin, policy, end - begin, models, self.nodes, pool_gpus=self.pool_gpus)
                begin = end


class Days:
    """Gathers looks into days; `closed` takes each day when it is over, and the last one at `end`."""

    def __init__(self, closed: Callable[[RecordedDay], None]) -> None:
        self._closed = closed
        self._day: RecordedDay | None = None
        self._before: LedgerLook | None = None

    def see(self, recorded: RecordedLook) -> None:
        """The next cycle; what came before it counts if that is not too long ago."""
        now, before = recorded.look, self._before
        if now.inventory.unknown:
            self._before = None
            return
        self._before = now
        if self._day is None or int(now.at) // DAY != self._day.since // DAY:
            self.end()
            self._day = RecordedDay(int(now.at), recorded.policy)
        day, end = self._day, int(now.at) - self._day.since
        names: Mapping[str, str] = {}
        if recorded.policy is not day.policy:
            names = fit(day.policy, recorded.policy).names
            if {model.id for model in recorded.policy.models} != {model.id for model in day.policy.models}:
                day.earlier.append((max(day.seconds, end), day.policy))
            day.policy = recorded.policy
        day.nodes = max(day.nodes, now.nodes, key=sum)
        day.pool_gpus |= _by_pool(now)  # of two counts the larger
        _introduce(day, now)
        patience = patience_seconds(recorded.policy)
        known = before is not None and not recorded.after_loss and 0.0 < now.at - before.at <= patience
        begin = max(day.seconds, int(before.at) - day.since, 0) if known and before is not None else None
        if begin is not None and before is not None and end > begin:
            _fill(day, before, now, slice(begin, end), names)
        day.seconds = max(day.seconds, end)

    def end(self) -> None:
        """No cycle follows in this day."""
        if self._day is not None and self._day.seconds:
            self._closed(self._day)
        self._day = None


def _by_pool(seen: LedgerLook) -> Counter[str]:
    gpus: Counter[str] = Counter()
    for shelf, there in seen.inventory.capacity.items():
        gpus[shelf.pool] += there
    return gpus


def _introduce(day: RecordedDay, now: LedgerLook) -> None:
    for entry in day.policy.models:
        bounds = now.bounds.get(entry.id)
        known = day.models.get(entry.id)
        if known is not None:
            known.entry = entry
        elif bounds is not None:
            between = bounds.minimum, bounds.maximum
            day.models[entry.id] = ModelDay(entry, now.models[entry.id].ready, between, frozenset(bounds.autoscalers))


def _seconds(seen: ModelLook, entry: Model) -> float:
    if seen.latency_seconds is None:
        return nan
    if not seen.latency_is_above:
        return seen.latency_seconds
    late = entry.slo is not None and keeps(seen.latency_seconds, entry.slo.latency_seconds, above=True) is False
    return inf if late else nan


def _fill(day: RecordedDay, before: LedgerLook, now: LedgerLook, where: slice, names: Mapping[str, str]) -> None:
    """`names`: what models of the look before are called now, where that may be another name."""
    for name, earlier in before.models.items():
        model, later = day.models.get(name), now.models.get(names.get(name, name))
        if model is None:
            continue
        model.ready[where] = earlier.ready
        if later is None:
            continue
        model.latency[where] = _seconds(later, model.entry)
        if later.work is not None:
            model.work[where] = later.work
            if later.work_of_one is not None:
                model.requests[where] = later.work / later.work_of_one
