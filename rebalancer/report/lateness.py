"""Plays recorded days again on the fluid path: late requests as it was, with each model alone, and by its autoscaler.

The physics are those of `rebalancer simulate` (`sim.fluid`): a model's work is a backlog that its Ready replicas wear
away; a request is late when it waits longer than its model's SLO. Each course gets the same recorded work, so their
difference is what the replicas did. As it was: the recorded Ready replicas. Alone: the model's entitlement, all the
time, whatever happened to nodes, which is in its favour. By its autoscaler: KEDA or an HPA at its default target within
the recorded bounds on all GPUs there were, each model while the policy names it; thresholds are in no journal. A
model's requests are 1 per replica-second of work where nobody counts them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rebalancer.domain.policy import Model, Policy
from rebalancer.report.days import ModelDay, RecordedDay
from rebalancer.report.fitting import fit
from rebalancer.sim import scenario
from rebalancer.sim.contest.one_pool import joined_nodes
from rebalancer.sim.contest.recorded import SLO_SECONDS
from rebalancer.sim.demand import F64
from rebalancer.sim.fluid.deferred import finished
from rebalancer.sim.fluid.fast import play
from rebalancer.sim.fluid.serving import serve
from rebalancer.sim.suite.names import Entry, contender
from rebalancer.state.outlooks import PATIENCE_SECONDS

LATE_SHARE = 0.01  # of an hour's requests: with more of them late a model is short (`planning.explanation.lateness`)
MOST_SEARCHED = 4096  # replicas


class ModelHour(NamedTuple):
    """One model's hour, played again.

    hour: hours since the epoch.
    model: its id.
    seen_seconds: seconds of which the replicas are known.
    work: replica-seconds of work that came.
    requests: requests that came; None where nobody counts them.
    late: what was late as it was, in requests, or in replica-seconds of work where nobody counts them.
    late_alone: the same with its entitlement only; None of a model that owns nothing.
    late_by_autoscaler: the same under its autoscaler; None where that was not played.
    needed: the smallest constant number of replicas with which at most 1 % would have been late; 0 without work.
    counted_work: replica-seconds of work whose requests were counted.
    """

    hour: int
    model: str
    seen_seconds: int
    work: float
    requests: float | None
    late: float
    late_alone: float | None
    late_by_autoscaler: float | None
    needed: int
    counted_work: float


class AutoscalerCourse(NamedTuple):
    """What an autoscaler makes of one model's day, by second; nothing while the policy does not name the model."""

    late: F64
    ready: NDArray[np.int32]


def played(
    day: RecordedDay, autoscaler_from: dict[str, int] | None, hear: Callable[[int, F64], None] = lambda _, __: None
) -> list[ModelHour]:
    """Every hour of the day, by model; `hear` hears the day's first second and late requests by second, where counted.

    `autoscaler_from`: replicas by model with which the autoscaler's course begins, and after it those with which it
    ended; None where that course is the recorded one, because nothing was written.
    """
    models = {name: served(of, day) for name, of in sorted(day.models.items())}
    by_autoscaler = None if autoscaler_from is None else by_its_autoscaler(day, autoscaler_from)
    hours = day.hours
    begins = np.flatnonzero(np.diff(hours, prepend=hours[0] - 1))
    rows: list[ModelHour] = []
    for name, model in models.items():
        recorded = day.models[name]
        own = recorded.entry.entitlement
        was = late_with(model, recorded.ready[: day.seconds])
        alone = late_with(model, np.full(day.seconds, own, np.int32)) if own else None
        counted = recorded.requests[: day.seconds]
        if counted.any():
            hear(day.since, was)
        late, work, requests, counted_work = (
            np.add.reduceat(of, begins) for of in (was, model.work, counted, np.where(counted > 0.0, model.work, 0.0))
        )
        late_alone = None if alone is None else np.add.reduceat(alone, begins)
        late_auto = None if by_autoscaler is None else np.add.reduceat(by_autoscaler[name].late, begins)
        seen = np.add.reduceat((recorded.ready[: day.seconds] > 0) | (model.work > 0.0), begins)
        for at, begin in enumerate(begins):
            end = begins[at + 1] if at + 1 < len(begins) else day.seconds
            rows.append(
                ModelHour(
                    int(hours[begin]),
                    name,
                    int(seen[at]),
                    float(work[at]),
                    float(requests[at]) if requests.any() else None,
                    float(late[at]),
                    None if late_alone is None else float(late_alone[at]),
                    None if late_auto is None else float(late_auto[at]),
                    needed(model, int(begin), int(end)),
                    float(counted_work[at]),
                )
            )
    return rows


def late_with(model: scenario.ScenarioModel, ready: NDArray[np.int32]) -> F64:
    """(seconds,) late requests of each second's arrivals, with so many Ready replicas in each second."""
    seconds = len(ready)
    wait, late, lost, busy, left = (np.zeros(seconds) for _ in range(5))
    changes = np.flatnonzero(np.diff(ready)) + 1
    backlog = 0.0
    for begin, end in zip((0, *changes), (*changes, seconds), strict=True):
        backlog = _serve(model, int(begin), int(end), backlog, int(ready[begin]), (wait, late, lost, busy, left))
    return finished(model, busy, lost).late if model.deferred else late


def needed(model: scenario.ScenarioModel, begin: int, end: int) -> int:
    """The smallest constant number of replicas with which at most 1 % of what came in that time is late.

    Where nobody counted requests for some of the time, that is 1 % of its work.
    """
    work = model.work[begin:end]
    if not work.any():
        return 0
    if not model.requests[begin:end][work > 0.0].all():
        model = replace(model, requests=model.work)
    low, high = 0, max(1, int(np.ceil(work.mean())))
    while high < MOST_SEARCHED and _too_late(model, begin, end, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _too_late(model, begin, end, middle) else (low, middle)
    return high


def _too_late(model: scenario.ScenarioModel, begin: int, end: int, replicas: int) -> bool:
    rows = tuple(np.zeros(end) for _ in range(5))
    left = _serve(model, begin, end, 0.0, replicas, rows)  # type: ignore[arg-type]  # five rows
    if model.deferred:
        return left > replicas * model.slo_wait_seconds
    return float(rows[1][begin:].sum()) > LATE_SHARE * float(model.requests[begin:end].sum())


_Rows = tuple[F64, F64, F64, F64, F64]


def _serve(  # noqa: PLR0913  # what the kernel takes
    model: scenario.ScenarioModel, begin: int, end: int, backlog: float, ready: int, rows: _Rows
) -> float:
    wait, late, lost, busy, left = rows
    after: float = serve(
        model.work,
        model.requests,
        begin,
        end,
        backlog,
        ready,
        model.slo_wait_seconds,
        model.headroom_seconds,
        model.patience_seconds,
        model.queue_base,
        model.queue_per_replica,
        wait,
        late,
        lost,
        busy,
        left,
    )
    return after


def served(of: ModelDay, day: RecordedDay) -> scenario.ScenarioModel:
    """The recorded day as the fluid path takes a model; work counts as requests where nobody counts those."""
    entry, policy = of.entry, day.policy
    work, requests = of.work[: day.seconds], of.requests[: day.seconds]
    deadline = policy.deferral.deadline_seconds(entry)
    return scenario.ScenarioModel(
        name=entry.id,
        work=work,
        requests=requests if requests.any() else work,
        first=of.first,
        floor=of.bounds[0],
        most=max(1, of.bounds[1]),
        gpus=entry.gpus_per_replica,
        priority=float(entry.priority),
        start_seconds=round(entry.load_seconds),
        slo_wait_seconds=deadline or promised_seconds(entry),
        patience_seconds=PATIENCE_SECONDS if deadline is None else float(day.seconds),
        deferred=deadline is not None,
    )


def promised_seconds(entry: Model) -> float:
    """How long a request may wait."""
    return entry.slo.latency_seconds if entry.slo else SLO_SECONDS


def autoscaler_of(days: Sequence[ModelDay]) -> str:
    """Which peer stands for the autoscalers that were recorded: keda, hpa, or static where there are none."""
    kinds = {kind for day in days for kind in day.autoscalers}
    return "keda" if "ScaledObject" in kinds else "hpa" if kinds else "static"


def by_its_autoscaler(day: RecordedDay, begin: dict[str, int]) -> dict[str, AutoscalerCourse]:
    """Each model's course of the day under its autoscaler alone.

    begin: replicas of each model at the start of the day; overwritten by those at its end. A renamed model goes on with
        the replicas that it had under the old name.
    """
    courses = {name: AutoscalerCourse(np.zeros(day.seconds), np.zeros(day.seconds, np.int32)) for name in day.models}
    entry = contender(autoscaler_of(list(day.models.values())))
    if not isinstance(entry, Entry):
        raise TypeError("an autoscaler is a peer")
    before: Policy | None = None
    for part in day.stretches():
        names = {} if before is None else fit(before, part.policy).names
        begin.update({new: begin[old] for old, new in names.items() if old in begin})
        before = part.policy
        models = [served(of, part) for _, of in sorted(part.models.items())]
        if not models:
            continue
        from_before = tuple(replace(model, first=begin.get(model.name, model.first)) for model in models)
        world = scenario.Scenario("recorded", "", from_before, joined_nodes(part.nodes, part.policy), part.seconds)
        record = play(world, entry.peer.make(entry.tuning), entry.name)
        where = slice(part.since - day.since, part.since - day.since + part.seconds)
        for model, late, ready in zip(models, record.late, record.ready, strict=True):
            courses[model.name].late[where], courses[model.name].ready[where] = late, ready
            begin[model.name] = int(ready[-1])
    return courses
