"""Would more GPUs help a model, and which: now by its outlook, in the last hour by playing it again. Pure."""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from rebalancer.api.ports.day import FIGURES, FINE_SECONDS, STEP_SECONDS, Day, Figures
from rebalancer.api.ports.page_data import PageData
from rebalancer.api.text.explain import expected_at
from rebalancer.api.text.printed import printed
from rebalancer.api.text.words import clock, counted
from rebalancer.domain.gpu_memory import GpuMemory, LoadedMemory
from rebalancer.domain.instant import Instant
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.plan import ModelDecision, Plan, Unmet
from rebalancer.domain.policy import Model, Pool
from rebalancer.domain.pool_view import PoolView
from rebalancer.domain.snapshot import ModelView, TargetView
from rebalancer.domain.words import figure, replicas
from rebalancer.planning.actions.bringers import NODES
from rebalancer.planning.facts.holdings import needed_memory
from rebalancer.planning.facts.landing import bars, may_land
from rebalancer.planning.facts.scene import PodPlacement
from rebalancer.planning.guards.guards import GUARDS
from rebalancer.state.outlooks import PATIENCE_SECONDS, WAIT_SECONDS

REPLICAS = (1, 2, 4)  # more than it has: what is asked about
HOUR = 60  # minutes
LEAST_MINUTES = 5  # of the last hour: of fewer nothing is said
FINE_STEPS = STEP_SECONDS // FINE_SECONDS  # in a minute
# Constraints that more GPUs lift: who waits for what a guard keeps with another model would not wait for that guard.
FOR_WANT_OF_GPUS = frozenset({"budget", "fit", NODES, *GUARDS})
LATE_SHARE = 0.01  # of the requests: with fewer of them late nobody is called, and no GPU is worth its price
LATE = FIGURES.index("late_per_minute")


class WithMore(Struct, frozen=True):
    """What is late with so many GPUs more.

    gpus: GPUs more; 0: as it is.
    replicas: replicas that they carry, as far as the policy's maxReplicas lets it have them.
    late_soon: requests that will be late until the horizon, of those that come until then; None where nobody knows.
    late_last_hour: requests that are late when the last hour, or what is known of it, is played again; None where
        nobody knows.
    """

    gpus: int
    replicas: int
    late_soon: float | None
    late_last_hour: float | None


class PoolFit(Struct, frozen=True):
    """A pool as a place for more replicas of a model.

    pool: name of the pool.
    fits: whether the model's pods may land on its nodes as they are; where it has none, on one that is added.
    why: clause that says why not, or how many GPUs it has and how more would come.
    usd_per_gpu_hour: USD for a GPU-hour there, None where no price is known.
    """

    pool: str
    fits: bool
    why: str
    usd_per_gpu_hour: float | None = None


class MoreGpus(Struct, frozen=True):
    """The answer to whether more GPUs would help one model.

    at: the service's clock when it was answered.
    model: id of the model.
    helps: whether they would, None where nobody can tell.
    why: clause that says why.
    horizon_seconds: seconds that the count of late requests ahead looks ahead; None where there is no outlook, or the
        work stands back, so that nothing of it is counted.
    with_more: what would be late with no GPUs more, and with those of 1, 2 and 4 replicas more.
    pools: each pool of the policy as a place for more replicas.
    lines: the lines that `rebalancer more-gpus` prints.
    late_last_hour: requests that were late in the last hour, as the console draws them; None where nobody knows.
    """

    at: Instant
    model: str
    helps: bool | None
    why: str
    horizon_seconds: int | None = None
    with_more: tuple[WithMore, ...] = ()
    pools: tuple[PoolFit, ...] = ()
    lines: tuple[str, ...] = ()
    late_last_hour: float | None = None


def more_gpus(data: PageData, plan: Plan, model: Model, decision: ModelDecision, day: Day) -> MoreGpus:
    """The answer for `model`, of which `plan` holds `decision`."""
    view = next((each for each in data.snapshot.models if each.id == model.id), ModelView(id=model.id, targets=()))
    load = next((each for each in data.snapshot.loads if each.model == model.id), None)
    outlook = None if load is None else load.outlook
    ahead = None if outlook is None or outlook.deferred else outlook  # of work that stands back nothing is counted
    lacks = next((row for row in plan.unmet if row.model == model.id), None)
    if lacks is not None and lacks.constraint in GUARDS:
        lacks = replace(lacks, why=f"others hold what it waits for: {lacks.why}")
    minute = int(data.status.at // STEP_SECONDS) - HOUR
    hour = day.fine_window(model.id, minute * FINE_STEPS, HOUR * FINE_STEPS)
    rows, minutes = tuple(_rows(model, decision, ahead, hour)), int(np.isfinite(hour[:, 0]).sum()) // FINE_STEPS
    helps, why = _verdict(model, decision, lacks, view, rows, outlook)
    pools = tuple(_fit(model, pool, view, data.snapshot.pools) for pool in data.policy.pools)
    horizon = None if ahead is None else ahead.horizon_seconds
    late = _late(day, model, minute)
    answer = MoreGpus(data.status.at, model.id, helps, why, horizon, rows, pools, late_last_hour=late)
    lines = _lines(answer, ahead, minutes, short=lacks is not None)
    return printed(replace(answer, lines=tuple(lines)))


# --- how much


def _rows(model: Model, decision: ModelDecision, outlook: Outlook | None, hour: Figures) -> Iterator[WithMore]:
    has, most = decision.ready + decision.loading, model.max_replicas
    for more in (0, *REPLICAS):
        can = min(more, max(0, most - has))
        soon = None if outlook is None or outlook.by_minute else outlook.late_with(has + can, model.priority)
        yield WithMore(more * model.gpus_per_replica, can, soon, _played(model, outlook, hour, more))


def _late(day: Day, model: Model, minute: int) -> float | None:
    """Requests that were late in the hour from `minute` on; None where nothing of it is known."""
    ring = day.models.get(model.id)
    late = np.empty(0) if ring is None else day.window(ring[:, LATE], minute, HOUR)
    return float(np.nansum(late)) if np.isfinite(late).any() else None


def _played(model: Model, outlook: Outlook | None, hour: Figures, more: int) -> float | None:
    """Late requests of `hour` with `more` replicas at any time; None where too little of it is known.

    A model's work is a backlog that its Ready replicas wear away, evenly within ten seconds; who waits longer than the
    SLO is late, and who would wait beyond `PATIENCE_SECONDS` gives up. Where the p95 was within the SLO all the while,
    no backlog was longer than the SLO: replicas carry a little more than they are reckoned with, and a model that is
    just full would be late for minutes in which nobody was.
    """
    least = LEAST_MINUTES * FINE_STEPS
    if outlook is None or outlook.by_minute or not outlook.work_of_one or np.isfinite(hour[:, 0]).sum() < least:
        return None
    may_wait = WAIT_SECONDS[model.workload_class] if model.slo is None else model.slo.latency_seconds
    backlog = late = 0.0
    for came, serving, over in hour.tolist():
        if not (np.isfinite(came) and np.isfinite(serving)):
            backlog = 0.0
            continue
        serves = max(serving, min(serving + more, float(model.max_replicas)))
        patience = may_wait if over == 0.0 else PATIENCE_SECONDS
        backlog = min(backlog, serves * patience)
        then = min(max(0.0, backlog + (came - serves) * FINE_SECONDS), serves * patience)
        share = _beyond(backlog, then, serves * may_wait) if serves else 1.0
        late += share * came * FINE_SECONDS / outlook.work_of_one
        backlog = then
    return late


def _beyond(begin: float, end: float, most: float) -> float:
    """The share of a stretch, from `begin` to `end` along a line, that is above `most`."""
    low, high = sorted((begin, end))
    if high <= most:
        return 0.0
    return 1.0 if low >= most else (high - most) / (high - low)


# --- whether


def _verdict(  # noqa: PLR0911, PLR0913  # one sentence for each reason, and what they are made of
    model: Model,
    decision: ModelDecision,
    lacks: Unmet | None,
    view: ModelView,
    rows: Sequence[WithMore],
    outlook: Outlook | None,
) -> tuple[bool | None, str]:
    has = decision.ready + decision.loading
    if lacks is not None and lacks.constraint == "maximum":
        return False, f"it has all that its maxReplicas of {model.max_replicas} allows: raise that first"
    if lacks is not None and lacks.constraint == "waiting":
        ready_at = expected_at(view)
        ready = "" if ready_at is None else f", Ready about {clock(ready_at)}"
        comes = f"{replicas(decision.loading)} on the way{ready}" if decision.loading else lacks.why
        return False, f"it is late for want of time, not of GPUs: {comes}"
    if lacks is not None and lacks.constraint not in FOR_WANT_OF_GPUS:
        return False, f"GPUs are not what it waits for: {lacks.why}"
    if outlook is None or rows[0].late_soon is None:
        return (True, lacks.why) if lacks is not None else _uncounted(decision, outlook)
    spared = rows[0].late_soon - min(row.late_soon or 0.0 for row in rows)
    past = _spared_last_hour(rows)
    if has >= model.max_replicas and past is not None and past >= 1.0:
        all_of = f"it has all that its maxReplicas of {model.max_replicas} allows"
        return True, f"in the last hour, with fewer replicas at times, they would have; now {all_of}"
    if has >= model.max_replicas:
        return False, f"it has all that its maxReplicas of {model.max_replicas} allows, and its requests are in time"
    if lacks is not None:
        if spared > LATE_SHARE * outlook.expected_requests:
            return True, lacks.why
        return False, "even with four replicas more as many requests would be late"
    if past is not None and past >= 1.0:
        return True, f"in the last hour they would have; now, with {replicas(has)}, it is in time"
    return False, f"its requests are in time with the {replicas(has)} that it has"


def _uncounted(decision: ModelDecision, outlook: Outlook | None) -> tuple[bool | None, str]:
    """The answer for who lacks nothing, and of whom no late requests are counted ahead: as `explain` has it."""
    if outlook is None:
        return None, "no outlook is there yet: its work is unknown, or was not seen for long enough"
    if outlook.deferred:
        stands_back = next((step.said for step in decision.steps if step.stage == "deferral"), "it stands back")
        return False, f"it is batch work, and nothing of it is late with what it has: {stands_back}"
    if outlook.by_minute:
        return None, "its work is known by the minute alone, so nobody can count its late requests"
    return None, "it has fewer replicas than were played"


def _spared_last_hour(rows: Sequence[WithMore]) -> float | None:
    known = [row.late_last_hour for row in rows if row.late_last_hour is not None]
    return known[0] - min(known) if known else None


# --- where


def _fit(model: Model, pool: Pool, view: ModelView, pools: Sequence[PoolView]) -> PoolFit:
    """Whether its pods may land on a node of the pool, as it is now."""
    usd = pool.price_per_gpu_hour or None
    target = next((each for each in view.targets if each.pool == pool.name and not each.missing), None)
    if target is None:
        return PoolFit(
            pool.name,
            fits=False,
            why=f"{model.id} has no target there (models.{model.id}.targets)",
            usd_per_gpu_hour=usd,
        )
    there = next((each for each in pools if each.name == pool.name), PoolView(pool.name))
    landing = _landing(model, target, needed_memory(model, view))
    fitting = [node for node in there.nodes if may_land(landing, node)]
    if there.nodes and not fitting:
        return PoolFit(
            pool.name,
            fits=False,
            why=f"none of its nodes takes such a pod: {bars(landing, there.nodes)}",
            usd_per_gpu_hour=usd,
        )
    largest = max([node.gpus for node in fitting], default=pool.gpus_per_node)
    if largest < target.gpus_per_pod:
        return PoolFit(
            pool.name,
            fits=False,
            why=f"a pod needs {target.gpus_per_pod} GPUs, its nodes have {largest}",
            usd_per_gpu_hour=usd,
        )
    has = sum(node.gpus for node in there.nodes)
    room = pool.gpu_limit - has
    grown = f"gpuLimit {pool.gpu_limit}, so up to {room} more may come" if room > 0 else f"gpuLimit {pool.gpu_limit}"
    higher = "" if room > 0 else f" and a higher gpuLimit (now {pool.gpu_limit})"
    how = grown if pool.brings_nodes and room > 0 else f"needs more nodes{higher}"
    return PoolFit(pool.name, fits=True, why=f"it has {counted(has, 'GPU')} in all, {how}", usd_per_gpu_hour=usd)


def _landing(model: Model, target: TargetView, memory: GpuMemory | LoadedMemory | None) -> PodPlacement:
    return PodPlacement(
        target.pool,
        tuple(sorted(target.node_selector.items())),
        target.tolerations,
        target.placement.terms,
        memory,
        0 if memory is None else model.gpus_per_replica,
    )


# --- in words


def _lines(answer: MoreGpus, outlook: Outlook | None, minutes: int, *, short: bool) -> Iterator[str]:
    """`minutes`: known of the last hour. Of who is not `short` the outlook's mean is of surges that may come again."""
    verdict = {True: "yes", False: "no", None: "unknown"}[answer.helps]
    yield f"{answer.model}: would more GPUs help? {verdict}: {answer.why}"
    soon = [(row.gpus, row.late_soon) for row in answer.with_more if row.late_soon is not None]
    if soon and outlook is not None:
        of = counted(round(outlook.expected_requests), "request")
        if short:
            yield f"{'now':<6} late of {of} in the next {outlook.horizon_seconds} s: {_each(soon)}"
        else:
            yield f"{'surge':<6} it is in time; late of {of}, in the mean over surges of its past: {_each(soon)}"
    hour = [(row.gpus, row.late_last_hour) for row in answer.with_more if row.late_last_hour is not None]
    if hour:
        known = "" if minutes == HOUR else f" ({counted(minutes, 'minute')} of it known)"
        late = answer.late_last_hour
        was = "late in the last hour" if late is None else f"{_many(late)} came late in the last hour, by its p95"
        yield f"{'hour':<6} {was}{known}{',' if late is None else ';'} played again: {_each(hour)}"
    for fit in answer.pools:
        price = "no price known (pricePerGpuHour)" if fit.usd_per_gpu_hour is None else f"{fit.usd_per_gpu_hour:g} USD"
        per = "" if fit.usd_per_gpu_hour is None else " a GPU-hour"
        yield f"{'where':<6} {fit.pool}: " + (f"fits, {fit.why}; {price}{per}" if fit.fits else f"no: {fit.why}")


def _each(late: Sequence[tuple[int, float]]) -> str:
    """`140 as it is, 60 with 2 GPUs more, 12 with 4`."""
    parts: list[str] = []
    for gpus, number in late:
        more = f"with {gpus}{'' if parts[1:] else ' GPUs more'}"
        parts.append(f"{_many(number)} {more if gpus else 'as it is'}")
    return ", ".join(parts)


def _many(requests: float) -> str:
    return "none" if figure(requests) == "0" else figure(requests)
