"""The last hours: who held the GPUs of each pool, how late requests were, and of one model what it needed and had.

Pure and made in a thread; a page has at most 360 steps, so that of 24 hours each step is 4 minutes.
"""

from collections.abc import Collection, Iterable
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct, field

from rebalancer.api.pages.badges import Badge, badges_of
from rebalancer.api.ports.day import FIGURES, STEP_SECONDS, STEPS, Day, Figures
from rebalancer.api.ports.timeline import DecisionRow, TimelineEvent
from rebalancer.api.text.printed import printed
from rebalancer.domain.instant import Instant
from rebalancer.domain.policy import Model, Policy

STRIDES = {"1": 1, "6": 1, "24": 4}  # hours -> minutes in a step
MOST_MARKS = 200
PEAKS = frozenset({"work", "latency_seconds", "late_per_minute"})  # of several minutes the largest is shown

Counts = tuple[int | None, ...]
Amounts = tuple[float | None, ...]


class HistoryQuery(Struct, frozen=True):
    """Which hours, and of what."""

    model: Annotated[str, Meta(max_length=63, description="that model's figures too, and its marks alone")] = ""
    hours: Annotated[str, Meta(description="how far back", extra_json_schema={"enum": [*STRIDES]})] = "6"
    most: Annotated[int, Meta(ge=1, le=50, description="models in a pool; what others hold is summed as ''")] = 12


class ModelGpus(Struct, frozen=True):
    """GPUs under the pods of `model` by step; of several models together where `model` is ""."""

    model: str
    gpus: Counts


class PoolHistory(Struct, frozen=True):
    """GPUs of a pool by step, and who held them.

    pool: name of the pool.
    kind: primary or elastic, "" where the policy has no such pool any more.
    gpus: GPUs of its nodes by step, None where that is unknown.
    models: who held them, the most first; models beyond the number asked for are summed in a last entry.
    """

    pool: str
    kind: str
    gpus: Counts
    models: tuple[ModelGpus, ...]


class ModelHistory(Struct, frozen=True):
    """One model by step, None in each step of which nothing is known.

    Of a minute `work` and `late_per_minute` are the mean of all its cycles, `latency_seconds` is the highest, and the
    others are those of its last cycle. Of four minutes in a step the largest work, latency and lateness count, and the
    last of the others.

    model: id of the model.
    slo_seconds: latency that the policy in force promises, in seconds; None where it promises none.
    work: offered work, in replicas.
    demand: replicas that it needed.
    allocation: replicas that it was to have before guards.
    ready: Ready replicas.
    latency_seconds: p95 latency of its requests, in seconds.
    late_per_minute: requests a minute that came while the p95 was over the SLO; where nobody tells the latency, those
        that the outlook expects to be late while the model is short.
    """

    model: str
    slo_seconds: float | None
    work: Amounts
    demand: Counts
    allocation: Counts
    ready: Counts
    latency_seconds: Amounts
    late_per_minute: Amounts


class HistoryPage(Struct, frozen=True):
    """The last hours in steps of equal length; what is unknown is None, as while the service was down.

    at: the service's clock when the page was made.
    first_at: when the first step begins.
    step_seconds: seconds of each step.
    steps: number of steps.
    pools: pools in the policy's order, then those that left the policy; where a model is asked for, only pools in which
        it held GPUs.
    late_per_minute: late requests a minute of all models together, by step.
    late: ids of the models that had late requests, the most first; at most 200.
    models: the model asked for; empty where none is, or nothing is known of it.
    timeline: shifts, notices and decisions of people, oldest first; the newest 200.
    badges: the badges of the models on this page, by model id.
    """

    at: Instant
    first_at: Instant
    step_seconds: int
    steps: int
    pools: tuple[PoolHistory, ...]
    late_per_minute: Amounts
    late: tuple[str, ...] = ()
    models: tuple[ModelHistory, ...] = ()
    timeline: tuple[TimelineEvent, ...] = field(default=(), name="happenings")
    badges: dict[str, Badge] = {}


class _Window:
    """The steps of one page in the rings of a day."""

    def __init__(self, day: Day, hours: str, now: float) -> None:
        self.day = day
        self.stride = STRIDES[hours]
        self.steps = int(hours) * 60 // self.stride
        last = int(now // STEP_SECONDS)
        if day.minutes[last % STEPS] != last:
            last -= 1  # it has just begun: no cycle has told of it yet
        self.first = (last // self.stride - self.steps + 1) * self.stride  # steps stand still

    @property
    def first_at(self) -> float:
        return float(self.first * STEP_SECONDS)

    def of(self, ring: Figures, *, most: bool = False) -> Figures:
        return self.day.window(ring, self.first, self.steps, stride=self.stride, most=most)


def history_page(day: Day, policy: Policy, rows: Iterable[DecisionRow], query: HistoryQuery, now: float) -> HistoryPage:
    """The page of `query`; `rows`: the cycles in memory, oldest first."""
    window = _Window(day, query.hours, now)
    known = {pool.name: pool.kind for pool in policy.pools}
    seen = {pool for pool, model in day.gpus if not model}
    pools = [_pool(window, pool, known.get(pool, ""), query) for pool in (*known, *sorted(seen - known.keys()))]
    late, late_models = _late(window)
    specs = [model for model in policy.models if model.id == query.model]
    shown = {each.model for pool in pools for each in pool.models if each.model} | set(late_models) | {query.model}
    badges = badges_of(policy, (model for model in shown if model))
    return HistoryPage(
        at=now,
        first_at=window.first_at,
        step_seconds=window.stride * STEP_SECONDS,
        steps=window.steps,
        pools=tuple(pool for pool in pools if pool.models or not query.model),
        late_per_minute=_amounts(late),
        late=late_models,
        models=tuple(_model(window, spec) for spec in specs if spec.id in day.models),
        timeline=_marks(rows, window.first_at, query.model),
        badges={model: badges[model] for model in sorted(shown) if model},
    )


def _pool(window: _Window, pool: str, kind: str, query: HistoryQuery) -> PoolHistory:
    gpus = window.day.gpus.get((pool, ""))
    whole = _counts(np.full(window.steps, np.nan, np.float32) if gpus is None else window.of(gpus))
    held = {model: window.of(ring) for (of, model), ring in window.day.gpus.items() if of == pool and model}
    if query.model:
        held = {model: gpus for model, gpus in held.items() if model == query.model}
    most = sorted((each for each in held if np.nansum(held[each]) > 0), key=lambda each: (-np.nansum(held[each]), each))
    named, others = most[: query.most], most[query.most :]
    models = [ModelGpus(model, _counts(held[model])) for model in named]
    if others:
        models.append(ModelGpus("", _counts(_sum([held[model] for model in others], window.steps))))
    return PoolHistory(pool, kind, whole, tuple(models))


def _model(window: _Window, spec: Model) -> ModelHistory:
    ring = window.day.models[spec.id]
    figures = {name: window.of(ring[:, each], most=name in PEAKS) for each, name in enumerate(FIGURES)}
    return ModelHistory(
        spec.id,
        None if spec.slo is None else spec.slo.latency_seconds,
        work=_amounts(figures["work"]),
        demand=_counts(figures["demand"]),
        allocation=_counts(figures["allocation"]),
        ready=_counts(figures["ready"]),
        latency_seconds=_amounts(figures["latency_seconds"]),
        late_per_minute=_amounts(figures["late_per_minute"]),
    )


def _late(window: _Window) -> tuple[Figures, tuple[str, ...]]:
    """Late requests of all models a minute, and who had at least one."""
    place = FIGURES.index("late_per_minute")
    late = {model: window.of(ring[:, place], most=True) for model, ring in window.day.models.items()}
    sums = {model: float(np.nansum(values)) for model, values in late.items()}
    return _sum(late.values(), window.steps), tuple(
        sorted((model for model in sums if sums[model] >= 1.0), key=lambda model: (-sums[model], model))[:MOST_MARKS]
    )


def _sum(values: Collection[Figures], steps: int) -> Figures:
    """Step by step what is known of it; NaN where nothing is."""
    if not values:
        return np.full(steps, np.nan, np.float32)
    rows = np.array([*values])
    total: Figures = np.where(np.isnan(rows).all(axis=0), np.float32(np.nan), np.nansum(rows, axis=0))
    return total


def _counts(values: Figures) -> Counts:
    return tuple(None if each != each else int(each) for each in values.tolist())  # noqa: PLR0124  # NaN is not itself


def _amounts(values: Figures) -> Amounts:
    return tuple(None if each != each else round(each, 2) for each in values.tolist())  # noqa: PLR0124  # as above


def _marks(rows: Iterable[DecisionRow], since: float, model: str) -> tuple[TimelineEvent, ...]:
    """Shifts that ended or wait, notices, and what people decided; of `model` alone, and all notices."""
    marks = [each for row in rows for each in row.timeline if each.at >= since and _is_mark(each, model)]
    return printed(tuple(marks[-MOST_MARKS:]))


def _is_mark(each: TimelineEvent, model: str) -> bool:
    if each.kind in {"notice", "stop"}:
        return True
    of = {each.model, *(step.model for step in each.steps)}
    return (each.shift is not None or each.kind == "override") and (not model or model in of)
