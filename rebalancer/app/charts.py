"""Every model's last day in minutes, its last hour in tens of seconds, and who held the GPUs of each pool.

47 KB a model and 6 KB for each pool in which it has a target: 59 MB at 1,000 models with two each, and no more.
"""

from collections.abc import Iterator

import numpy as np

from rebalancer.api.ports.day import (
    FIGURES,
    FINE_FIGURES,
    FINE_SECONDS,
    FINE_STEPS,
    STEP_SECONDS,
    STEPS,
    Day,
    Figures,
)
from rebalancer.api.ports.timeline import Point
from rebalancer.app.step_rings import LAST, MEAN, MOST, StepRings
from rebalancer.domain.plan import ModelDecision, Plan
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.readings import ModelLoad, Reading, keeps
from rebalancer.domain.snapshot import Snapshot

POINTS = 60
DEMAND, ALLOCATION, READY = (FIGURES.index(each) for each in ("demand", "allocation", "ready"))
MADE = tuple({"work": MEAN, "latency_seconds": MOST, "late_per_minute": MEAN}.get(each, LAST) for each in FIGURES)
NAN = float("nan")


class Charts:
    """Minutes of the last day and tens of seconds of the last hour, each made of all its cycles, as `Day` says how.

    One without a cycle is unknown. Who left the policy is kept until the last minute that knows it is a day old.
    """

    def __init__(self) -> None:
        self._models: StepRings[str] = StepRings(STEPS, MADE)
        self._fine: StepRings[str] = StepRings(FINE_STEPS, (MEAN,) * len(FINE_FIGURES))
        self._gpus: StepRings[tuple[str, str]] = StepRings(STEPS, (LAST,))

    def note(self, snapshot: Snapshot, plan: Plan, policy: Policy) -> None:
        """What a cycle saw and decided."""
        minute = int(snapshot.at // STEP_SECONDS)
        loads = {load.model: load for load in snapshot.loads}
        specs = {model.id: model for model in policy.models}
        short = {each.model for each in plan.unmet}
        figures: dict[str, tuple[float, ...]] = {}
        fine: dict[str, tuple[float, ...]] = {}
        for decision in plan.models:
            name = decision.model
            load, spec = loads.get(name, ModelLoad(name)), specs.get(name)
            seen, work = _latency(load, policy, snapshot.at), _known(load.work.newest)
            latency, over = NAN if seen is None else seen.value, _over(seen, spec)
            late = NAN if spec is None else _late_per_minute(load, decision, spec.priority, over, short=name in short)
            figures[name] = work, _known(decision.demand), decision.allocation, decision.ready, latency, late
            fine[name] = work, decision.ready, over
        self._models.note(minute, figures)
        self._fine.note(int(snapshot.at // FINE_SECONDS), fine)
        self._gpus.note(minute, {key: (gpus,) for key, gpus in _held_gpus(snapshot)})

    def put_before(self, older: "Charts") -> None:
        """Take what `older`, made from the journal, knows of cycles before our first."""
        self._models.put_before(older._models)  # noqa: SLF001  # of one class
        self._fine.put_before(older._fine)  # noqa: SLF001  # of one class
        self._gpus.put_before(older._gpus)  # noqa: SLF001  # of one class

    def day(self) -> Day:
        """The last day of everything."""
        gpus = {key: ring[:, 0] for key, ring in self._gpus.rings.items()}
        return Day(self._models.at.copy(), dict(self._models.rings), gpus, self._fine.at.copy(), dict(self._fine.rings))

    def points(self, model: str, now: float) -> tuple[Point, ...]:
        """The last hour of `model`, oldest first, from the first minute in which anything was decided."""
        ring, at = self._models.rings.get(model), self._models.at
        if ring is None:
            return ()
        last = int(now // STEP_SECONDS)
        minutes = [each for each in range(last - POINTS + 1, last + 1) if at[each % STEPS] == each]
        return tuple(self._point(ring, each) for each in range(minutes[0], minutes[-1] + 1)) if minutes else ()

    def _point(self, ring: Figures, minute: int) -> Point:
        place = minute % STEPS
        at = float(minute * STEP_SECONDS)
        if self._models.at[place] != minute:
            return Point(at, None, None, None)
        figures = (float(ring[place, each]) for each in (DEMAND, ALLOCATION, READY))
        return Point(at, *(None if np.isnan(each) else int(each) for each in figures))


def _known(figure: float | None) -> float:
    return NAN if figure is None else figure


def _latency(load: ModelLoad, policy: Policy, now: float) -> Reading | None:
    """The p95; None where there is none, as without requests, or it is older than the policy's `blind` allows."""
    reading = load.signals.get("latency")
    if not isinstance(reading, Reading) or now - reading.at > policy.guards.blind.stale_seconds:
        return None
    return reading


def _over(latency: Reading | None, spec: Model | None) -> float:
    """1 where the p95 is over the SLO, else 0; NaN where nobody knows."""
    if latency is None or spec is None or spec.slo is None:
        return NAN
    in_slo = keeps(latency.value, spec.slo.latency_seconds, above=latency.above)
    return NAN if in_slo is None else float(not in_slo)


def _late_per_minute(load: ModelLoad, decision: ModelDecision, priority: int, over: float, *, short: bool) -> float:
    """Requests that are late, as a rate a minute; NaN where nobody counts requests.

    Those that come while the p95 is over the SLO: what `rebalancer report` calls late as it came. Where nobody tells
    the latency, those that the outlook expects with what serves and loads while the plan calls the model short, and
    else none: its mean holds surges of the past, by which a model at ease would have hundreds.
    """
    outlook, work = load.outlook, load.work.newest
    if outlook is None or outlook.deferred or outlook.by_minute or not outlook.work_of_one:
        return NAN
    if not np.isnan(over):
        return 0.0 if not over else NAN if work is None else work * 60.0 / outlook.work_of_one
    if not short:
        return 0.0
    requests = outlook.late_with(decision.ready + decision.loading, priority)
    requests = outlook.expected_requests if requests is None else requests  # fewer than were played: all of them
    return requests * 60.0 / outlook.horizon_seconds


def _held_gpus(snapshot: Snapshot) -> Iterator[tuple[tuple[str, str], int]]:
    """(pool, model) -> GPUs under its pods, as tiles draw them; model "": those of the pool's nodes."""
    nodes = {pool.name: {node.name for node in pool.nodes} for pool in snapshot.pools}
    for pool in snapshot.pools:
        yield (pool.name, ""), sum(node.gpus for node in pool.nodes)
    for model in snapshot.models:
        for target in model.targets:
            known = nodes.get(target.pool, set())
            pods = sum(node in known for pod in target.pods for node in pod.nodes)
            yield (target.pool, model.id), pods * target.gpus_per_pod
