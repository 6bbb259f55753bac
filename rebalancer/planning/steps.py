"""The steps of one model's explanation, stage by stage, each with its numbers."""

from rebalancer.domain.arithmetic import figure
from rebalancer.domain.instant import clock
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.plan import Refusal, Step
from rebalancer.domain.readings import ModelLoad
from rebalancer.planning.moves import Moves
from rebalancer.planning.scene import Holder
from rebalancer.planning.shares import needed
from rebalancer.planning.votes import Ballot

NEAR = 2  # counts about the share whose cost is told


def steps_of(holder: Holder, allocation: int, after: int, moves: Moves, refusals: list[Refusal]) -> tuple[Step, ...]:
    """From readings to the plan; a stage that had nothing to do with the model is left out."""
    steps = [_readings(holder.ballot), _work(holder.load), _demand(holder), *_schedule(holder), *_deferral(holder)]
    if holder.share is not None and holder.load.outlook is not None:
        steps += [_outlook(holder.load.outlook), _share(holder.load.outlook, holder.share, holder.cost)]
    if holder.doomed:
        steps.append(
            Step("doomed", f"{holder.doomed} doomed", {"doomed": holder.doomed, "unreplaced": holder.has - holder.held})
        )
    steps.append(Step("allocation", f"{holder.held} -> {allocation}", {"held": holder.held, "allocation": allocation}))
    name = holder.model.id
    if name in moves.waiting:
        steps.append(
            Step("shift", "waits for " + "; ".join(moves.waiting[name]), {"waiting": len(moves.waiting[name])})
        )
    steps += [Step("guard", str(refusal), dict(refusal.numbers)) for refusal in refusals]
    steps.append(Step("plan", f"granted {after}", {"granted": after}))
    return tuple(steps)


def _readings(ballot: Ballot) -> Step:
    said = [
        f"{vote.signal} {'idle' if vote.value is None else figure(vote.value)} votes {vote.replicas} "
        f"({vote.age_seconds:.0f} s)"
        for vote in ballot.votes
    ]
    said += [f"{signal} abstains ({why})" for signal, why in ballot.abstained]
    numbers: dict[str, float | int | str | None] = {vote.signal: vote.replicas for vote in ballot.votes}
    numbers.update((signal, None) for signal, _ in ballot.abstained)
    return Step("readings", "; ".join(said) or "no signal configured", numbers)


def _work(load: ModelLoad) -> Step:
    """By which path offered work is known, why by no better one, and what a replica is taken to carry."""
    work, carries = load.work, load.carries
    said = "unknown: no sample tells what is asked of the model"
    if work.source:
        known = "unknown" if work.last_60s is None else figure(work.last_60s)
        why = f" ({work.why_not_better})" if work.why_not_better else ""
        said = f"{known} replicas kept busy, by {work.source} every {figure(work.resolution_seconds)} s{why}"
    numbers: dict[str, float | int | str | None] = {
        "source": work.source or None,
        "resolutionSeconds": work.resolution_seconds,
        "work": work.last_60s,
    }
    if carries is not None:
        said += f"; a replica carries {figure(carries.learnt)} requests"
        said += f" (policy {figure(carries.prior)}, {carries.readings} readings under load)"
        numbers |= {"carries": carries.learnt, "carriesPolicy": carries.prior, "readings": carries.readings}
    return Step("work", said, numbers)


def _demand(holder: Holder) -> Step:
    work = holder.load.work
    demand, need = holder.demand, needed(holder)
    said = demand.why if need == demand.replicas else f"{demand.why}; more than {need} gain nothing"
    return Step(
        "demand",
        said + (", in surge" if demand.surge else ""),
        {
            "demand": None if demand.unknown else need,
            "floor": holder.floor,
            "entitlement": holder.model.entitlement,
            "workShort": work.short,
            "workLong": work.long,
            "workSlow": work.slow,
            "presentNeed": holder.need_now,
        },
    )


def _schedule(holder: Holder) -> tuple[Step, ...]:
    """What the model's schedules say now and next, and which override stands above them."""
    scheduled, ruling = holder.ruling.scheduled, holder.ruling
    said = "" if scheduled is None else scheduled.told
    if scheduled is None or not said:
        return ()
    over = ruling.paused or ruling.frozen or ruling.pin or ruling.cap
    value = "" if over is None or over.value is None else f" {over.value}"
    above = f"; {over.kind}{value} by override {over.name} stands above it" if over is not None else ""
    numbers: dict[str, float | int | str | None] = {
        "floor": scheduled.standing.floor,
        "cap": scheduled.standing.cap,
        "nextAt": None if scheduled.turn is None else scheduled.turn.at,
    }
    return (Step("schedule", said + above, numbers),)


def _deferral(holder: Holder) -> tuple[Step, ...]:
    """How far a batch model stands back, and when its turn is."""
    found = holder.deferral
    if found.weight >= 1.0 and found.since is None:
        return ()
    said = f"yields: a request counts {figure(found.weight)} of its priority"
    if found.due and found.until is not None:
        said = f"its turn until {clock(found.until)}: {found.due} come before what anybody gains"
    elif found.since is not None and found.turn_at is not None:
        said += f"; deferred since {clock(found.since)}, its turn is at {clock(found.turn_at)}"
    numbers: dict[str, float | int | str | None] = {
        "weight": found.weight,
        "deferredSince": found.since,
        "turnAt": found.turn_at,
        "due": found.due,
    }
    return (Step("deferral", said, numbers),)


def _outlook(outlook: Outlook) -> Step:
    """What the look-ahead knows: the level, a shift of it, how far it looks back and on, and its own error."""
    said = f"level {figure(outlook.level)}, {outlook.replays} replays of {outlook.horizon_seconds} s"
    if outlook.shift:
        said += f"; {outlook.shift:.0%} a shift to {figure(outlook.shifted)}"
    if outlook.rho:
        said += f"; {outlook.rho:.0%} a period of {outlook.period_seconds} s"
    if outlook.error is not None and outlook.plain_error is not None:
        said += f"; error {figure(outlook.error)} (a plain slow mean: {figure(outlook.plain_error)})"
    return Step(
        "outlook",
        said,
        {
            "level": outlook.level,
            "slowMean": outlook.base,
            "dispersion": outlook.dispersion,
            "shift": outlook.shift,
            "shifted": outlook.shifted,
            "timesUsual": outlook.excess,
            "replays": outlook.replays,
            "horizonSeconds": outlook.horizon_seconds,
            "periodSeconds": outlook.period_seconds,
            "periodShare": outlook.rho,
            "workOfOne": outlook.work_of_one,
            "error": outlook.error,
            "plainError": outlook.plain_error,
        },
    )


def _share(outlook: Outlook, share: int, cost: float) -> Step:
    """What the counts about the share would cost, in late requests to the horizon (times priority).

    `cost`: what a replica must keep from being late there where a node would have to bring it.
    """
    costs = {
        count: outlook.late[count - outlook.least]
        for count in range(share - NEAR, share + NEAR + 1)
        if 0 <= count - outlook.least < len(outlook.late)
    }
    said = ", ".join(f"{count}: {figure(late)}" for count, late in costs.items())
    numbers: dict[str, float | int | str | None] = {"share": share, "current": outlook.current}
    numbers.update((f"lateAt{count}", late) for count, late in costs.items())
    bought = f"; one on a node that comes or could go must save {figure(cost)}" if cost else ""
    if cost:
        numbers["costOfOne"] = cost
    return Step("share", f"{share} of the GPUs there are; late to the horizon with {said}{bought}", numbers)
