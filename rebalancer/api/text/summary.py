"""A model in one sentence, and what would change it: what people want to know before they want numbers."""

from collections import Counter
from collections.abc import Iterable, Iterator

from rebalancer.api.text.explain import expected_at
from rebalancer.api.text.words import clock, counted, goes, printable, when
from rebalancer.domain.memory import Loan
from rebalancer.domain.people import Override
from rebalancer.domain.plan import ModelDecision, Refusal, Unmet
from rebalancer.domain.policy import Model
from rebalancer.domain.readings import ModelLoad
from rebalancer.domain.snapshot import ModelView, Snapshot
from rebalancer.domain.words import figure, seconds
from rebalancer.planning.demand.at_work import work_now
from rebalancer.planning.demand.demand import level_for, need_of
from rebalancer.planning.demand.votes import Ballot
from rebalancer.planning.explanation.steps import BRIEF
from rebalancer.planning.explanation.unclaimed import COUNTS_AT, STAGE

# Steps that may know when, by which number.
COMES_AT = {"schedule": "nextAt", "deferral": "turnAt", "idle": "offeredAt", STAGE: COUNTS_AT}
ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def summary(  # noqa: PLR0913  # one clause each
    model: Model, decision: ModelDecision, load: ModelLoad, ballot: Ballot, lacks: Unmet | None, at: float
) -> str:
    """`2 replicas with 1.5 of work, latency 0.1 s of 2 s: fine`; `at` is now, for instants on another day."""
    latency = next((vote for vote in ballot.votes if vote.signal == "latency" and vote.value is not None), None)
    slo = model.slo.latency_seconds if model.slo is not None else None
    parts, late = [_has_at_work(decision, load, ballot)], False
    if latency is not None and slo is not None:
        parts.append(f"latency {latency.in_seconds} of {seconds(slo)}")
        late = latency.keeps(slo) is False
    return printable(f"{', '.join(parts)}: {_verdict(model, decision, lacks, at, late=late)}")


def _has_at_work(decision: ModelDecision, load: ModelLoad, ballot: Ballot) -> str:
    """`2 replicas with 1.5 of work`, `5 replicas, 1 loading, 1 more on nodes that go, with 6.6 of work`.

    Of work that is seen for too short a time it is the level by which the model is decided about.
    """
    loading = f", {decision.loading} loading" if decision.loading else ""
    doomed = f", {decision.doomed} more on nodes that go" if decision.doomed else ""
    has = f"{counted(decision.ready, 'replica')}{loading}{doomed}"
    work = work_now(load.work, surge=decision.surge)
    believed = None if ballot.blind else load.outlook
    if work is not None:
        clause = f"with {figure(work)} of work" if work else "without work"
    elif believed is not None:
        clause = f"at a level of {figure(believed.expected_level)} of work"
    else:
        return f"{has}, their work is {BRIEF if load.work.source else 'unknown'}"
    return f"{has}{',' if loading or doomed else ''} {clause}"


def _verdict(model: Model, decision: ModelDecision, lacks: Unmet | None, at: float, *, late: bool) -> str:
    if lacks is not None:
        return f"short of {counted(lacks.replicas, 'replica')} since {when(lacks.since, at)}"
    if decision.ready < decision.floor:
        return f"under its floor of {decision.floor}"
    if decision.demand is None:
        return "not seen, so it keeps what it has"
    if late:
        most = decision.granted >= model.max_replicas
        return (
            f"late with all that its policy allows ({model.max_replicas})" if most else "late with all that it asks for"
        )
    own = next((step.numbers for step in decision.steps if step.stage == STAGE), None)
    if own is not None:
        return f"lacks {own['lacks']} of its own until its votes count, at {when(_number(own[COUNTS_AT]), at)}"
    return f"fine, and would use {decision.headroom} more" if decision.headroom else "fine"


def _number(value: float | str | None) -> float:
    return value if isinstance(value, (int, float)) else 0.0


def changes_when(  # noqa: PLR0913  # what each sentence is made of
    model: Model,
    decision: ModelDecision,
    snapshot: Snapshot,
    decisions: Iterable[ModelDecision],
    loans: Iterable[Loan],
    refusals: Iterable[Refusal],
    overrides: Iterable[Override],
) -> Iterator[str]:
    """What would change the sentence above, as far as planning knows: the soonest first, then by how much work."""
    views = {view.id: view for view in snapshot.models}
    loads = {load.model: load for load in snapshot.loads}
    granted = {each.model: each.granted for each in decisions}
    view = views.get(model.id, ModelView(id=model.id, targets=()))
    yield from _dated(view, decision, snapshot, refusals, overrides)
    yield from (
        f"{step.stage}: {step.said}"
        for step in decision.steps
        if step.stage == "shift" or step.numbers.get(COMES_AT.get(step.stage, "")) is not None
    )
    yield from _by_work(model, decision, loads.get(model.id, ModelLoad(model=model.id)))
    yield from _loans(model.id, granted, loads, loans)


def _dated(
    view: ModelView,
    decision: ModelDecision,
    snapshot: Snapshot,
    refusals: Iterable[Refusal],
    overrides: Iterable[Override],
) -> Iterator[str]:
    ready_at = expected_at(view)
    if decision.loading and ready_at is not None:
        yield f"{counted(decision.loading, 'replica')} more from about {clock(ready_at)} on"
    for refusal in refusals:
        if refusal.until is not None and refusal.replicas_from != refusal.replicas_to:
            moves = "shrink" if refusal.replicas_to < refusal.replicas_from else "grow"
            until = when(refusal.until, snapshot.at)
            yield f"{refusal.subject} may {moves} to {refusal.replicas_to}, not before {until} (guard {refusal.guard})"
    on = Counter(node for target in view.targets for pod in target.pods for node in {*pod.nodes})
    for notice in snapshot.notices:
        if on[notice.node]:
            yield f"{goes(notice, snapshot.at)}, with {counted(on[notice.node], 'replica')} of it"
    for one in (each for each in overrides if each.phase != "Refused"):
        value = "" if one.value is None else f" {one.value}"
        ends = when(one.expires_at, snapshot.at)
        yield f"{one.kind}{value} by {one.actor or 'somebody'} ends at {ends}: what it needs counts again"


def _by_work(model: Model, decision: ModelDecision, load: ModelLoad) -> Iterator[str]:
    """The work at which it needs another number, where a level of work decides that and no vote or person."""
    outlook, demand = load.outlook, decision.demand
    if outlook is None or demand is None or outlook.deferred:
        return
    level = outlook.expected_level
    by_level = max(model.min_replicas, min(need_of(level), model.max_replicas))
    if by_level < demand <= model.entitlement and all(step.stage != "schedule" for step in decision.steps):
        yield f"it needs {by_level} when its work and its votes of now claim no more of the {model.entitlement} it owns"
    if demand != by_level:
        return
    counts = load.work.source == "arrivals" and not outlook.by_minute and outlook.work_of_one > 0.0
    one, unit = (outlook.work_of_one, " requests/s arrive") if counts else (1.0, " replicas of work come")
    here = f"({figure(level / one)} expected now)"
    more = max(demand, decision.granted)
    if more < model.max_replicas:
        yield f"its {_nth(more + 1)} replica when more than {figure(level_for(more) / one)}{unit} {here}"
    else:
        yield f"no more whatever comes: the policy's most is {model.max_replicas}"
    if model.min_replicas < demand == need_of(level):
        yield f"it needs {demand - 1} when fewer than {figure(level_for(demand - 1) / one)}{unit} {here}"


def _nth(count: int) -> str:
    teens = count % 100 in {11, 12, 13}
    return f"{count}{'th' if teens else ENDINGS.get(count % 10, 'th')}"


def _loans(name: str, granted: dict[str, int], loads: dict[str, ModelLoad], loans: Iterable[Loan]) -> Iterator[str]:
    """Who claims what back, and when: the room for bursts is nobody's own, what an owner's work keeps busy is."""
    borrowed = Counter(loan.owner for loan in loans if loan.borrower == name)
    lent = Counter(loan.borrower for loan in loans if loan.owner == name)
    for owner, count in sorted(borrowed.items(), key=lambda each: each[0] or ""):
        if owner is None:
            yield f"{counted(count, 'replica')} on GPUs that nobody owns: they go to whoever gains more by them"
        else:
            yield f"{owner} claims {count} of them back when {_owner_works(owner, granted, loads)}"
    for borrower, count in sorted(lent.items()):
        home = f"the GPUs of {counted(count, 'replica')} come home from {borrower}"
        yield f"{home} when {_owner_works(name, granted, loads)}"


def _owner_works(owner: str, granted: dict[str, int], loads: dict[str, ModelLoad]) -> str:
    work = loads[owner].work.last_60s if owner in loads else None
    now = "unknown now" if work is None else f"{figure(work)} now"
    return f"its own work keeps more than {counted(granted.get(owner, 0), 'replica')} busy ({now})"
