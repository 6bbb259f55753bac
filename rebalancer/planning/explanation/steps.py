"""The steps of one model's explanation, stage by stage, each with its numbers."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rebalancer.domain.couples import ANY, couples
from rebalancer.domain.instant import clock
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.plan import Refusal, Step
from rebalancer.domain.readings import NOT_LEARNT, TOLD_LAG_SECONDS, Carries, Work
from rebalancer.domain.words import counted, figure, replicas, work_of
from rebalancer.planning.demand.at_work import work_now
from rebalancer.planning.demand.demand import Demand
from rebalancer.planning.demand.votes import Ballot, Vote, abstention
from rebalancer.planning.explanation.deferred import deferral_steps
from rebalancer.planning.explanation.patience import patience_steps
from rebalancer.planning.explanation.unclaimed import own_step
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.memory import outages
from rebalancer.planning.shares.share import ModelShare

_RATIOS = frozenset({"kvCache", "utilisation"})
_UNITS = {"concurrency": " requests in flight", "queue": " requests waiting"}
_SHOWS_WORK = frozenset({"concurrency", "utilisation"})
BRIEF = "seen for less than half of the last minute"
LEARNS = (
    ": it takes one full replica, or ten minutes at work within the SLO "
    "(without a queue where none is set); to set it now: signals.concurrency.perReplica"
)
IN_SURGE = "; it is in surge"
UNSEEN = ", which ends once its work has been unknown for leaveAfterSeconds and for its cooldown"
NEAR = 2  # counts about the share whose cost is told


class StepResults(NamedTuple):
    """Results that the steps show: replicas allocated and after the plan, and what the model's grants wait for."""

    allocation: int
    after: int
    waiting: Sequence[str]


def steps_of(
    model: ModelShare, results: StepResults, refusals: list[Refusal], scene: Scene[ModelShare]
) -> tuple[Step, ...]:
    """From readings to the plan; a stage that had nothing to do with the model is left out."""
    load, outlook = model.load, None if model.share is None else model.load.outlook
    memo, name = scene.memo, model.entry.id
    needs = (model.demand, model.needed, model.floor, model.entry.entitlement, model.cost, model.need_now)
    came = (model.staying_replicas, model.committed_replicas, model.doomed, results.allocation, results.after)
    readings = _readings(memo.of(name, _ballot_words, model.ballot), scene.now)
    seen = any(vote.signal in _SHOWS_WORK for vote in model.ballot.votes)
    measured = load.work, load.carries, round(load.lag_seconds), seen
    share = _Shared(model.share or 0, model.entry.priority, model.cost, model.used, model.part)
    stages = memo.of(name, _stages, measured, needs, outlook, share, came)
    apart = (
        *_schedule(model),
        *own_step(model),
        *deferral_steps(model),
        *_outage(model, scene),
        *patience_steps(model),
        *_ratio(model, scene),
        *_idle(model, scene),
    )
    if not apart and not results.waiting and not refusals:
        return (readings, *stages)
    waits = [_waits(why, many) for why, many in Counter(results.waiting).items()]
    waiting = Step("shift", "; ".join(waits), {"waiting": len(results.waiting)})
    guards = [Step("guard", str(refusal), dict(refusal.numbers)) for refusal in refusals]
    shift = [waiting] if results.waiting else []
    work, demand, *placed, granted = stages
    return (readings, work, demand, *apart, *placed, *shift, *guards, granted)


def _waits(why: str, many: int) -> str:
    return f"{replicas(many)} {'waits' if many == 1 else 'wait'} for {why}"


def _stages(
    measured: tuple[Work, Carries | None, int, bool],
    needs: tuple[Demand, int, int, int, float, int | None],
    outlook: Outlook | None,
    share: "_Shared",
    came: tuple[int, int, int, int, int],
) -> tuple[Step, ...]:
    """The steps that depend neither on the instant nor on other models: demand, worth and share."""
    shared = () if outlook is None else (_outlook(outlook), _share(outlook, share))
    return (_work(*measured, surge=needs[0].surge), _demand(measured[0], *needs), *shared, *_placed(*came))


def _placed(staying: int, has: int, doomed: int, allocation: int, granted: int) -> Iterator[Step]:
    if doomed:
        yield Step("doomed", f"{replicas(doomed)} doomed", {"doomed": doomed, "unreplaced": has - staying})
    to = (
        f"stays at {staying}"
        if staying == allocation
        else f"goes from {staying} to {replicas(allocation)} before guards"
    )
    yield Step("allocation", to, {"held": staying, "allocation": allocation})
    when = "as now" if granted == staying else "once this plan is written"
    yield Step("plan", f"{replicas(granted)}, {when}", {"granted": granted})


class _Shared(NamedTuple):
    """A share, and what it is: `used` in use, or a `part` that suffices; see `ModelShare`."""

    replicas: int
    priority: int
    cost: float
    used: int
    part: int


class _BallotWords(NamedTuple):
    """A ballot in words that lack the votes' ages, with the instants they were seen at, and in numbers."""

    votes: tuple[tuple[str, float], ...]
    abstained: tuple[str, ...]
    numbers: dict[str, float | int | str | None]


def _readings(ballot: _BallotWords, now: float) -> Step:
    words = [f"{vote}, {max(0.0, now - at):.0f} s ago)" for vote, at in ballot.votes]
    return Step("readings", "; ".join([*words, *ballot.abstained]) or "no signal is configured", ballot.numbers)


def _ballot_words(ballot: Ballot) -> _BallotWords:
    numbers: dict[str, float | int | str | None] = {vote.signal: vote.replicas for vote in ballot.votes}
    numbers.update((signal, None) for signal, _ in ballot.abstained)
    return _BallotWords(
        tuple((f"{vote.signal} asks for {vote.replicas} ({_value(vote)}", vote.at) for vote in ballot.votes),
        tuple(f"{abstention(signal, why)}, so it has no vote" for signal, why in ballot.abstained),
        numbers,
    )


def _value(vote: Vote) -> str:
    """The reading with its unit: `36 requests in flight`, `more than 30 s`, `71%`; `idle` where nobody asked."""
    if vote.value is None:
        return "idle"
    if vote.signal in _RATIOS:
        return f"{vote.value:.0%}"
    if vote.signal == "latency":
        return vote.in_seconds
    return f"{figure(vote.value)}{_UNITS.get(vote.signal, '')}"


def _work(work: Work, carries: Carries | None, late: int, seen: bool, *, surge: bool) -> Step:  # noqa: FBT001  one of what is measured
    """The step of offered work: its source, why not a better one, its lag, and what a replica carries.

    The mean over the short window stands first where all other sentences speak of it: in a surge, and after one.
    `seen`: whether samples show it by now, though it may be for too short a time.
    """
    no_mean = BRIEF if seen else "no sample tells what is asked of the model"
    text = f"unknown: {work.why_not_better or no_mean}"
    if work.why_not_better == NOT_LEARNT:
        text += LEARNS
    if work.source:
        known = f"unknown: {BRIEF}" if work.last_60s is None else f"{work_of(work.last_60s)} in the last minute"
        now = work_now(work, surge=surge)
        if now is not None and now != work.last_60s:
            known = f"{work_of(now)} just now{', as it is in surge' if surge else ''}; {known}"
        why = f" ({work.why_not_better})" if work.why_not_better else ""
        text = f"{known}, by {work.source} every {figure(work.resolution_seconds)} s{why}"
    numbers: dict[str, float | int | str | None] = {
        "source": work.source or None,
        "resolutionSeconds": work.resolution_seconds,
        "work": work.last_60s,
    }
    if late >= TOLD_LAG_SECONDS:
        text += f"; samples come {late} s late, so a rise is answered that much later"
        numbers["lagSeconds"] = late
    if carries is not None:
        text += f"; {_carried(carries)}"
        numbers |= {
            "carries": carries.learnt,
            "carriesLow": carries.low,
            "carriesHigh": carries.high,
            "carriesPolicy": carries.prior,
            "carriesCached": carries.cached,
            "readings": carries.readings,
        }
    return Step("work", text, numbers)


def _carried(carries: Carries) -> str:
    """The requests that a replica carries, by how much evidence, and the policy's figure, in words."""
    policy = "the policy says nothing" if carries.prior is None else f"the policy says {carries.prior:g}"
    if carries.cached is not None and (carries.prior is None or figure(carries.cached) != figure(carries.prior)):
        policy += f", but its cache holds {figure(carries.cached)}"
    if not carries.readings:
        return f"a replica is taken to carry {figure(carries.learnt)} requests: {policy}"
    low = figure(carries.learnt if carries.low is None else carries.low)
    span = f"{low} or more" if carries.high is None else f"{low} to {figure(carries.high)}"
    by = f"by {counted(carries.readings, 'reading')}"
    if carries.prior is not None and carries.low is not None and carries.prior < carries.low:
        policy += ", yet more was carried"
    elif carries.prior is not None and carries.high is not None and carries.prior > carries.high:
        policy += ", yet it was full, or broke the SLO, with fewer"
    return f"a replica carries about {figure(carries.learnt)} requests ({span} {by}; {policy})"


def _demand(  # noqa: PLR0913  # one thing each
    work: Work, demand: Demand, need: int, floor: int, entitlement: int, cost: float, present: int | None
) -> Step:
    gain = "less than it costs" if cost else "nothing"
    why = demand.why if need >= demand.replicas else f"{demand.why}; more than {need} would gain {gain}"
    return Step(
        "demand",
        why + (IN_SURGE if demand.surge else "") + (UNSEEN if demand.surge and work.short is None else ""),
        {
            "demand": None if demand.unknown else need,
            "floor": floor,
            "entitlement": entitlement,
            "workShort": work.short,
            "workLong": work.long,
            "workSlow": work.slow,
            "presentNeed": present,
        },
    )


def _schedule(model: ModelShare) -> tuple[Step, ...]:
    """The step of the model's schedules, now and next, and of an override that stands above them."""
    scheduled, ruling = model.ruling.scheduled, model.ruling
    text = "" if scheduled is None else scheduled.words
    if scheduled is None or not text:
        return ()
    over = ruling.paused or ruling.frozen or ruling.pin or ruling.cap
    value = "" if over is None or over.value is None else f" {over.value}"
    above = f"; {over.kind}{value} by override {over.name} stands above it" if over is not None else ""
    numbers: dict[str, float | int | str | None] = {
        "floor": scheduled.standing.floor,
        "cap": scheduled.standing.cap,
        "nextAt": None if scheduled.turn is None else scheduled.turn.at,
    }
    return (Step("schedule", text + above, numbers),)


def _outage(model: ModelShare, scene: Scene[ModelShare]) -> tuple[Step, ...]:
    """Why the fall of a model that fell together with others is not taken for an outage; one that is, is refused."""
    rule = scene.policy.guards.sudden
    outage_and_silent = outages.silence(scene.memory.outages, model.entry.id, model.load.work, rule, scene.now)
    if outage_and_silent is None or outage_and_silent[0].against is None:
        return ()
    outage, rose = outage_and_silent[0], outage_and_silent[0].against
    numbers: dict[str, float | int | str | None] = {
        "since": outage.since,
        "fell": outage.fell,
        "of": outage.of,
        "source": outage.source or None,
        "rose": rose.model,
        "roseTo": rose.work,
        "roseFrom": rose.usual,
    }
    return (Step("outage", outages.outage_words(outage, model.entry.id, rule), numbers),)


def _idle(model: ModelShare, scene: Scene[ModelShare]) -> tuple[Step, ...]:
    """The step that says since when more GPUs are idle than a model with `takesIdle` has, and when they are offered."""
    since = model.remembered.higher_since
    if not model.entry.takes_idle or since is None:
        return ()
    at = since + scene.policy.classes.batch.cooldown_seconds
    offers = "was offered then" if at <= scene.now else f"is offered at {clock(at)}"
    return (Step("idle", f"more is idle since {clock(since)} and {offers}", {"since": since, "offeredAt": at}),)


def _ratio(model: ModelShare, scene: Scene[ModelShare]) -> tuple[Step, ...]:
    """The step of a role: how many replicas the other one bears now, and what it would have by itself."""
    name = model.entry.id
    couple = scene.memo.of("", couples, scene.policy).get(name)
    if couple is None:
        return ()
    others = scene.models[couple.other(name)].staying_replicas
    least, most = couple.span(name, others)
    here = f"{least} to {most} here" if most >= least else "no whole number of its own keeps it"
    text = f"{couple.words(name, others)}: {here if most < ANY else f'{least} or more here'}"
    if model.alone is not None:
        text += f"; by itself it would be to have {model.alone}, with the other {model.aim}"
    numbers: dict[str, float | int | str | None] = {"least": couple.least, "most": couple.most}
    return (Step("ratio", text, {**numbers, "other": couple.other(name), "others": others, "alone": model.alone}),)


def _outlook(outlook: Outlook) -> Step:
    """The step of the outlook: the level, a shift of it, how far it looks back and on, and its own error."""
    text = f"a level of {work_of(outlook.level)}; the next {outlook.horizon_seconds} s are foreseen"
    text += f" by {counted(outlook.replays, 'replay')} of its past"
    if outlook.rho:
        text += f" ({outlook.rho:.0%} of their weight is on those of whole periods of {outlook.period_seconds} s ago)"
    if outlook.shift:
        text += f"; with a chance of {outlook.shift:.0%} the level has moved to {figure(outlook.shifted)}"
        text += f", so {figure(outlook.expected_level)} is expected"
    if outlook.error is not None and outlook.plain_error is not None:
        error, plain = figure(outlook.error), figure(outlook.plain_error)
        text += f"; in the last hour it was off by {error}, where a plain slow mean was off by {plain}"
        if outlook.error > outlook.plain_error:
            text += " and is used"
    return Step(
        "outlook",
        text,
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
            "weight": outlook.weight,
            "error": outlook.error,
            "plainError": outlook.plain_error,
        },
    )


def _share(outlook: Outlook, of: _Shared) -> Step:
    """The step of the share: with counts about it what is late until the horizon, and what that costs.

    Late is what comes until then and is not in time, as every sentence counts it. The cost is what shares are compared
    by: late, what waits at the horizon, times priority. The cost of one is what a replica must save of it where a node
    would have to bring it. Replicas in use are told where the share is just these, a part where that suffices.
    """
    share, priority, cost = of.replicas, of.priority, of.cost
    counts = [
        count for count in range(share - NEAR, share + NEAR + 1) if 0 <= count - outlook.least < len(outlook.late)
    ]
    costs = {count: outlook.late[count - outlook.least] for count in counts}
    late = {count: outlook.late_with(count, priority) for count in counts}
    numbers: dict[str, float | int | str | None] = {"share": share, "current": outlook.current}
    numbers.update((f"lateAt{count}", number) for count, number in late.items())
    numbers.update((f"costAt{count}", number) for count, number in costs.items())
    what = "seconds" if outlook.by_minute else "requests"
    bought = f"; a replica for which a node comes or stays must save {figure(cost)}" if cost else ""
    if cost:
        numbers["costOfOne"] = cost
    text = f"late {what} in the next {outlook.horizon_seconds} s: {_with_each(late)}"
    if not outlook.deferred:
        text += f"; cost, with what waits then, times the priority: {_with_each(costs)}"
    which = " of the GPUs there are"
    if of.part:
        which = f", its part, while {outlook.enough} would have kept the last hours in time but for a start's length"
        numbers["enough"] = outlook.enough
    elif 0 < of.used == share:
        which = ", those in use now; a replica in use is not taken for a need that has not come yet"
        numbers["inUse"] = of.used
    return Step("share", f"{replicas(share)}{which}; {text}{bought}", numbers)


def _with_each(numbers: Mapping[int, float | None]) -> str:
    """`292 with 2, 182 with 3`."""
    return ", ".join(f"{figure(number)} with {count}" for count, number in numbers.items() if number is not None)
