"""`rebalancer status`: is it alive and writing, where are the GPUs, who lacks what."""

from collections import Counter
from collections.abc import Iterator

from rebalancer.api.ports.status import Status
from rebalancer.api.text.pinned import said_pinned
from rebalancer.api.text.words import UNKNOWN, clock, columns, counted, counts_from, known, printable, some, span, when
from rebalancer.domain.plan import ModelDecision, Plan, PoolDecision
from rebalancer.domain.quota_view import holding
from rebalancer.domain.snapshot import NoticeView
from rebalancer.domain.sync import Sync
from rebalancer.domain.words import CLOCK_IS_OFF, sentences

LIVE_SECONDS = 10  # or one planning period, where that is longer
LATE_SECONDS = 30  # or three
TOLD = {"not listed yet", "silent", "nothing is decided yet"}  # other lines say it already
MOST_REFUSED = 4  # sentences about models that others own: the doctor has all of them
HEADER = ("MODEL", "DEMAND", "ALLOC", "READY", "LOAD", "DOOM", "FLOOR", "WHY")


WIDE_HEADER = (*HEADER[:2], "GRANTED", *HEADER[2:7], "LENT", "BORROWED", "UNOWNED", "SURGE", "WHY")


def render_status(status: Status, *, wide: bool = False) -> str:
    """The whole picture of one instant, trouble first."""
    lines = [_head(status), *_warnings(status)]
    lines += status.off.values() if wide else []
    if status.plan is None:
        lines.append("Reading state: nothing is decided yet")
    else:
        lines += columns([_pool(pool, pool.pool in status.elastic) for pool in status.plan.pools], "<<")
        row, header, align = (_wide_model, WIDE_HEADER, "<>>>>>>>>>>><") if wide else (_model, HEADER, "<>>>>>><")
        lines += columns([header, *(row(model) for model in _trouble_first(status.plan))], align)
        lines += _schedules(status.plan) if wide else []
    lines.append(_foot(status))
    return "\n".join(printable(line) for line in lines if line)


def _head(status: Status) -> str:
    if status.writes_stopped is not None:
        writing = "WRITES STOPPED"
    else:
        writing = "writing" if status.write_mode == "act" else "observing" if status.off else "shadow"
    parts = (status.cluster or status.instance, f"{clock(status.at)} UTC", status.led, writing, _age(status))
    return "  ".join(part for part in parts if part)


def _age(status: Status) -> str:
    """How old the plan is by the service's own clock."""
    if status.plan is None:
        return ""
    age, period = status.at - status.plan.at, status.plan_every_seconds
    if int(age) <= max(LIVE_SECONDS, period):
        return f"{span(age)} ago"
    late = age <= max(LATE_SECONDS, 3 * period)
    return f"LATE {span(age)}" if late else f"NOT LIVE since {when(status.plan.at, status.at)}"


def _warnings(status: Status) -> list[str]:
    lines = []
    if status.leader and status.instance and status.leader != status.instance:
        lines.append(f"Reading standby {status.instance}; leader is {status.leader}.")
    if (stop := status.writes_stopped) is not None:
        lines.append(
            f"Writes stopped by {stop.actor or UNKNOWN} {when(stop.created_at, status.at)}: {stop.reason or UNKNOWN}"
        )
    elif status.off:
        lines.append(f"Observing: nothing is written, and nothing could be. Off: {some(list(status.off))}.")
    elif status.write_mode != "act":
        lines.append("Shadow: nothing is written.")
    lines += _unsynced(status.sync)
    lines += [
        f"Not good since {when(each.since, status.at)}: {each.what}: {each.detail}"
        for each in status.unready
        if each.detail not in TOLD
    ]
    if status.unknown_signs:
        signs = some([f"{sign} on {counted(nodes, 'node')}" for sign, nodes in sorted(status.unknown_signs.items())])
        lines.append(f"Unknown signs on nodes: {signs}; name them in the policy's nodes.signs.")
    lines += [f"{pinned.what[0].upper()}{pinned.what[1:]}; {pinned.todo}." for pinned in said_pinned(status)]
    lines += _refused(status.plan)
    pools = status.plan.pools if status.plan else ()
    lines += [f"Not counted in pool {pool.pool}: {why}." for pool in pools for why in pool.uncounted[:MOST_REFUSED]]
    if status.policy_problems:
        more = len(status.policy_problems) - 1
        force = "is" if status.policy_refused else "stays"
        lines.append(f"Policy {status.policy_digest or UNKNOWN} {force} in force; the file is not good: ")
        lines[-1] += status.policy_problems[0] + (f" (and {more} more)" if more else "")
    if status.policy_refused:
        lines.append(f"Of the policy file {some(status.policy_refused)}.")
    return lines


def _unsynced(sync: Sync) -> Iterator[str]:
    """Why nothing is taken from a model."""
    if sync.missing:
        yield f"Not read yet: {some(sync.missing)}. Nothing is taken from a model until they are."
    if sync.silent:
        yield f"Silent: {some(sync.silent)}. Nothing is taken from a model while they are."
    if sync.clock_is_off:
        yield f"{CLOCK_IS_OFF[0].upper()}{CLOCK_IS_OFF[1:]}. Nothing is taken from a model while they do."


def _refused(plan: Plan | None) -> list[str]:
    """Models whose numbers others own, each with the way out: nothing is written to them however long one waits."""
    sentences = [
        f"Not written: {row.subject}: {row.why}." for row in (plan.refusals if plan else ()) if row.guard == "owner"
    ]
    more = len(sentences) - MOST_REFUSED
    return sentences if more <= 0 else [*sentences[:MOST_REFUSED], f"And {counted(more, 'more target')} of others."]


def _pool(pool: PoolDecision, unowned: bool) -> tuple[str, str]:
    parts = {
        "owned": pool.owned,
        "in use" if unowned else "lent": pool.lent,
        "loading": pool.loading,
        "doomed": pool.doomed,
        "other": pool.foreign,
        "closed": pool.closed,
        "free": pool.free,
    }
    others = sentences(holding(pool.others), f"{pool.preemptible} preemptible" if pool.preemptible else "")
    besides = {
        "other": f" ({others})" if others else "",
        "free": f" ({pool.warm} kept warm)" if pool.warm else "",
    }
    total = f"{sum(parts.values())} GPUs" if pool.budget is not None else f"{UNKNOWN} GPUs"
    return pool.pool, "  ".join(
        [total, *(f"{name} {count}{besides.get(name, '')}" for name, count in parts.items() if count)]
    )


def _trouble_first(plan: Plan) -> list[ModelDecision]:
    """Models that lack something, then those a guard holds, then the rest, by id."""
    short = {row.model for row in plan.unmet}
    held = {row.subject for row in plan.refusals}
    return sorted(plan.models, key=lambda each: (each.model not in short, each.model not in held, each.model))


def _model(model: ModelDecision) -> tuple[str, ...]:
    numbers = (model.allocation, model.ready, model.loading, model.doomed, model.floor)
    return (model.model, known(model.demand), *(str(number) for number in numbers), model.why)


def _wide_model(model: ModelDecision) -> tuple[str, ...]:
    name, demand, *counts, why = _model(model)
    loans = (model.lent, model.borrowed - model.unowned, model.unowned)
    return (name, demand, str(model.granted), *counts, *map(str, loans), "yes" if model.surge else "no", why)


def _schedules(plan: Plan) -> list[str]:
    """What schedules say now and next, a line per model that has some."""
    return [
        f"SCHEDULE {model.model}: {step.said}"
        for model in plan.models
        for step in model.steps
        if step.stage == "schedule"
    ]


def _foot(status: Status) -> str:
    notices = sorted(status.notices, key=lambda notice: (notice.deadline, notice.node))
    parts = []
    if notices:
        parts.append(f"NOTICE {some([_notice(notice, status.at) for notice in notices])}")
    running = [one for one in status.overrides if one.expires_at > status.at]
    if running:
        states = {each.uid: each.phase for each in status.plan.overrides} if status.plan is not None else {}
        phases = [states.get(one.uid, one.phase) for one in running]  # a plan is silent on what was refused before
        idle = Counter(phase.lower() for phase in phases if phase in {"Refused", "Superseded"})
        besides = "".join(f", {count} {phase}" for phase, count in sorted(idle.items()))
        parts.append(f"OVERRIDES {len(running) - idle.total()}{besides}")
    return "  ".join(parts)


def _notice(notice: NoticeView, at: float) -> str:
    left = notice.deadline - at
    if notice.kind == "drain":  # its deadline is when it was asked for
        return f"{notice.node} to be emptied, asked {span(-left)} ago"
    if left < 0:
        return f"{notice.node} {'went' if notice.kind == 'gone' else 'was due'} {span(-left)} ago"
    return f"{notice.node} in {span(left)}{counts_from(notice, at)}"
