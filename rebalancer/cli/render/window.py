"""`rebalancer observe`: what each model did with its GPUs over a window of the past."""

from collections.abc import Sequence

from rebalancer.api.text.words import UNKNOWN, columns, printable, span
from rebalancer.app.backfill import Backfilled
from rebalancer.ingest.past.together import PoolTogether
from rebalancer.ingest.past.use import WindowUse
from rebalancer.ingest.prometheus_session import QueryCost

HEADER = ("MODEL", "GPUS", "MOST", "BUSY", "P95", "LATE", "IDLE GPU-HOURS")
BY_REQUESTS = "~"
MOST_MISSING = 3
START_SECONDS = 600.0  # between the end of a window that is read and the first cycle


def render_window(past: Backfilled) -> str:
    """Models as a table, their sum below, and what is not known."""
    title = f"The last {span(past.end - past.begin)} in Prometheus:"
    if not any(use.hours for use in past.use):
        return f"{title} nothing of the policy's pods. Which series it has of them: rebalancer doctor --prometheus URL"
    seen = max(use.hours for use in past.use)
    lines = [title, "", *columns([HEADER, *map(_row, past.use), _total(past.use)], "<>>>>>>", gap=2), ""]
    lines.append("GPUS: held on the average.")
    lines.append("BUSY: of their time, on the average and in 95 of 100 steps at most.")
    lines.append("LATE: steps in which the latency was above the SLO.")
    if any(use.busy is not None and not use.by_gpus for use in past.use):
        lines.append(f"{BY_REQUESTS}: nobody tells how busy its GPUs were; a replica with a request in work counts.")
    if past.pools:
        lines.append("What sharing spares: GPUs with work at one time, in 95 of 100 steps at most.")
        lines += map(_together, past.pools)
    if seen * 3600 < 0.9 * (past.end - past.begin):
        lines.append(f"Prometheus has {span(seen * 3600)} of it.")
    unknown = [use.model for use in past.use if not use.hours]
    if unknown:
        lines.append(f"Nothing of {', '.join(unknown)}.")
    if past.cost.queries:
        lines.append(_cost(past.cost))
    lines += [f"Not read: {why}" for why in dict.fromkeys(past.missing[:MOST_MISSING])]
    return "\n".join(printable(line) for line in lines)


def window_before(past: Backfilled | None, since: float, until: float) -> list[str]:
    """Lines above a report of a young journal: what Prometheus had when the service last began to observe.

    `since`, `until`: of the report. No line where nobody observed, or only long before, or where the journal itself
    tells of a longer time.
    """
    if past is None or past.end < since - START_SECONDS or until - since >= past.end - past.begin:
        return []
    return [
        *render_window(past).splitlines(),
        "",
        "That was before `rebalancer observe` began. Since then, by its journal:",
        "",
    ]


def _together(pool: PoolTogether) -> str:
    text = f"  {pool.pool}: {pool.together:.1f} by all models together, {pool.alone:.1f} by each at its own busiest"
    if pool.idle_usd is not None:
        text += f"; GPUs without work cost {pool.idle_usd:,.0f} USD"
    return f"{text}; nobody tells of {', '.join(pool.unknown)}" if pool.unknown else text


def _cost(cost: QueryCost) -> str:
    looked = f", and it looked at {cost.samples / 1e6:,.1f} million samples" if cost.samples else ""
    seconds = cost.seconds / cost.queries
    return f"That took {cost.queries} questions to Prometheus of {seconds:.1f} s on the average{looked}."


def _row(use: WindowUse) -> tuple[str, ...]:
    mark = "" if use.by_gpus or use.busy is None else BY_REQUESTS
    return (
        use.model,
        _figure(use.gpus),
        UNKNOWN if use.gpus_most is None else str(use.gpus_most),
        mark + _share(use.busy),
        mark + _share(use.busy_p95),
        _share(use.late),
        _figure(use.idle_gpu_hours),
    )


def _total(uses: Sequence[WindowUse]) -> tuple[str, ...]:
    gpus = [use.gpus for use in uses if use.gpus is not None]
    idle = [use.idle_gpu_hours for use in uses if use.idle_gpu_hours is not None]
    return ("all", _figure(sum(gpus)), "", "", "", "", _figure(sum(idle) if idle else None))


def _figure(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f}"


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.0f} %"
