"""`rebalancer explain MODEL`: why the model has what it has, stage by stage, each with its numbers."""

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec import UNSET

from rebalancer.api.ports.past_refusals import SAME_SECONDS, PastRefusal
from rebalancer.api.text.words import UNKNOWN, clock, counted, goes, known, printable, some, span, when
from rebalancer.domain.arithmetic import ready_by
from rebalancer.domain.owners import claims, refusing, written
from rebalancer.domain.plan import ModelDecision, Plan, Refusal, Unmet
from rebalancer.domain.quota_view import PodRank, holding
from rebalancer.domain.snapshot import ModelView, PodView, Snapshot
from rebalancer.domain.starts import ENOUGH, NOT_SET_UP, SAID, SET_UP_SECONDS
from rebalancer.domain.target_kinds import UNSAID
from rebalancer.domain.words import figure
from rebalancer.planning.overrides.rulings import IN_FORCE, Ruling

WIDTH = 7  # of the first column: `refused` and the like
LABELS = {
    "readings": "votes",
    "allocation": "alloc",
    "doomed": "",
    "guard": "",
}  # of planning's steps; "" = told by another line
MOST_PODS = 3  # that say why they do not run
MOST_BEFORE = 5  # refusals that are over
SOON_SECONDS = 60.0  # a refusal that ends sooner is over before a person has typed
# Guards that an override passes for the model it names. All others yield to nobody, floor only to `allowBelowFloor`.
YIELDING = {"step", "fleet", "shift", "agree", "blind", "plausible", "sudden", "loss", "start"}


def render_explain(plan: Plan, snapshot: Snapshot, model: str, past: Iterable[PastRefusal] = ()) -> str:
    """The explanation of `model`; `past`: refusals of the minutes before. Raises KeyError without such a model."""
    decision = {each.model: each for each in plan.models}[model]
    view = {each.id: each for each in snapshot.models}.get(model, ModelView(id=model, targets=()))
    lacks = next((each for each in plan.unmet if each.model == model), None)
    refusals = concerning(plan, snapshot, view, decision)
    lines = [
        _head(decision, view, lacks, plan.at),
        *_rows("late", iter([lacks.lateness] if lacks is not None and lacks.lateness else [])),
        *_stages(decision, view, snapshot, _borrowers(view, plan, snapshot)),
        *_rows("moved", _moved(view, refusals)),
        *_rows("owner", (str(claim) for target in view.targets for claim in claims(target) if not claim.refused)),
        *_rows("pods", _troubles(view, plan.at)),
        *_rows("quota", _quotas(view, snapshot)),
        *_rows("beside", _beside(view, snapshot)),
        *_rows("nodes", _nodes(view, plan)),
        *_rows("preempt", _preemption(view, snapshot)),
        *_rows("refused", (f"{_lacks(model, each, 'lacks')}{each}" for each in refusals)),
        *_rows("before", _before(model, past, plan)),
        *_rows("notice", _ahead(view, snapshot)),
        *_rows("starts", _starts(view, plan.at)),
        *_rows("memory", _loaded(view)),
        *_rows("change", (str(each) for each in plan.changes if each.model == model)),
        *_rows("override", _overrides(plan, snapshot, model)),
        *_rows("or now", _ways([each for each in refusals if lacks or each.subject == model], lacks, plan.at)),
    ]
    return "\n".join(printable(line) for line in lines)


def concerning(plan: Plan, snapshot: Snapshot, view: ModelView, decision: ModelDecision) -> list[Refusal]:
    """Refusals of this model's moves; where it lacks GPUs also of releases by those who share a pool with it.

    It lacks some where it is short, and where the plan asks for fewer replicas than the allocation before guards.
    """
    lacks = decision.allocation > decision.granted or any(each.model == view.id for each in plan.unmet)
    pools = {target.pool for target in view.targets}
    neighbours = {each.id for each in snapshot.models if pools & {target.pool for target in each.targets}}
    return [
        each
        for each in plan.refusals
        if each.subject == view.id or (lacks and each.subject in neighbours and each.replicas_to < each.replicas_from)
    ]


def _head(decision: ModelDecision, view: ModelView, lacks: Unmet | None, plan_at: float) -> str:
    if lacks is None:
        return f"{decision.model}: {decision.why}"
    each = max((target.gpus_per_pod * target.pods_per_replica for target in view.targets), default=0)
    gpus = each * lacks.replicas
    size = f" ({counted(gpus, 'GPU')})" if gpus else ""
    short = f"is short of {counted(lacks.replicas, 'replica')}{size} since {when(lacks.since, plan_at)}"
    return f"{decision.model} {short}: {lacks.why}"


def _stages(decision: ModelDecision, view: ModelView, snapshot: Snapshot, borrowers: list[str]) -> Iterator[str]:
    """The steps in planning's order; what the model has stands after its demand."""
    demand_shown = False
    for step in decision.steps:
        label = LABELS.get(step.stage, step.stage)
        if step.stage == "demand":
            yield _row("demand", f"{known(decision.demand)}: {step.said}")
            yield _row("has", _has(decision, view, snapshot, borrowers))
            demand_shown = True
        elif label:
            yield _row(label, step.said)
    if not demand_shown:
        yield _row("demand", known(decision.demand))
        yield _row("has", _has(decision, view, snapshot, borrowers))


def _has(decision: ModelDecision, view: ModelView, snapshot: Snapshot, borrowers: list[str]) -> str:
    due = {notice.node for notice in snapshot.notices if notice.counts(snapshot.at)}
    pods = _pods(view)
    loading = f" + {decision.loading} loading{_expected(view)}" if decision.loading else ""
    nodes = sorted(due.intersection(node for pod in pods for node in pod.nodes))
    doomed = f"; {decision.doomed} doomed on {some(nodes) or UNKNOWN}" if decision.doomed else ""
    floor = f"floor {decision.floor}{_raised(view.id, snapshot)}"
    return f"{decision.ready} ready{loading}{doomed}; {floor}{_loans(decision, borrowers)}"


def _raised(model: str, snapshot: Snapshot) -> str:
    """`, at least 4 by alice's override until 04:47:00`: what raises the floor; "" where none does, or is outranked."""
    standing = {
        each.kind: each
        for each in sorted(snapshot.overrides, key=lambda each: (each.created_at, each.name))  # the newest counts
        if each.subject == model and each.expires_at > snapshot.at and each.phase == IN_FORCE
    }
    ruling = Ruling(
        paused=standing.get("pause"),
        frozen=standing.get("freeze"),
        pin=standing.get("pin"),
        cap=standing.get("cap"),
        floor=standing.get("floor"),
    )
    if ruling.floor is None or ruling.over("floor") is not None:
        return ""
    until = when(ruling.floor.expires_at, snapshot.at)
    return f", at least {ruling.floor.value} by an override of {ruling.floor.actor} until {until}"


def _moved(view: ModelView, refusals: Iterable[Refusal]) -> Iterator[str]:
    """By which numbers each target is moved, or that it is not."""
    differing = [str(each) for each in refusals if each.guard == "gpus" and each.subject == view.id]
    for target in view.targets:
        where = f" in pool {target.pool}" if len(view.targets) > 1 else ""
        if refusing(target) is not None:
            yield f"not at all{where}: guard owner"
        elif any(f" {target.name} in pool {target.pool}:" in each for each in differing):
            yield f"not at all{where}: guard gpus"
        elif not target.missing:
            yield (
                f"by the rebalancer, through {written(target)}{where}"
                if target.victims
                else f"not at all{where}: {UNSAID}"
            )


def _quotas(view: ModelView, snapshot: Snapshot) -> Iterator[str]:
    """Each quota on which the model draws, with what is used of it and by whom."""
    for quota in snapshot.quotas:
        amounts = [draw.amount for draw in quota.draws if draw.model == view.id]
        if amounts:
            yield quota.text(max(amounts))


def _beside(view: ModelView, snapshot: Snapshot) -> Iterator[str]:
    """Who holds GPUs of the model's pools besides the models."""
    pools = {target.pool for target in view.targets}
    for pool in snapshot.pools:
        if pool.name in pools and pool.others:
            yield f"of pool {pool.name} {holding(pool.others)}"


def _nodes(view: ModelView, plan: Plan) -> Iterator[str]:
    """What is known of who brings nodes to the model's pools and removes them, and of the GPUs kept warm there."""
    pools = {target.pool for target in view.targets}
    for pool in plan.pools:
        if pool.pool in pools:
            yield from (f"of pool {pool.pool}: {sentence}" for sentence in pool.nodes)


def _preemption(view: ModelView, snapshot: Snapshot) -> Iterator[str]:
    """Whom the scheduler would end for the model's pods, and for whom it would end those, where a node is full."""
    ranks = {(rank.model, rank.pool): rank for rank in snapshot.ranks}
    for pool in [target.pool for target in view.targets] if ranks else ():
        here = [each.id for each in snapshot.models if any(target.pool == pool for target in each.targets)]
        there = {name: ranks.get((name, pool), PodRank(name, pool, "", 0)) for name in here}
        own = there[view.id]
        below = [rank.model for rank in there.values() if own.preempts and rank.value < own.value]
        above = [rank.model for rank in there.values() if rank.preempts and rank.value > own.value]
        pods = f"its pods in {pool} ({own.name or 'no PriorityClass'}, {own.value})"
        if below:
            yield f"{pods} take the place of those of {some(below)} where a node is full, whatever their floors"
        if above:
            yield f"{pods} give way to those of {some(above)} where a node is full, whatever its floor"


def _pods(view: ModelView) -> list[PodView]:
    return [pod for target in view.targets for pod in target.pods]


def _ahead(view: ModelView, snapshot: Snapshot) -> Iterator[str]:
    """Notices whose time has not come: what runs there counts until then, and nothing new goes there."""
    on = Counter(node for pod in _pods(view) for node in {*pod.nodes})
    for notice in snapshot.notices:
        if on[notice.node] and not notice.counts(snapshot.at):
            yield f"{goes(notice, snapshot.at)}: {counted(on[notice.node], 'replica')}"


def _borrowers(view: ModelView, plan: Plan, snapshot: Snapshot) -> list[str]:
    """Other models with replicas on borrowed GPUs of its pools."""
    pools = {target.pool for target in view.targets}
    there = {each.id for each in snapshot.models if pools & {target.pool for target in each.targets}} - {view.id}
    return [each.model for each in plan.models if each.model in there and each.borrowed > each.unowned]


def _loans(decision: ModelDecision, borrowers: list[str]) -> str:
    whose = borrowers[0] if len(borrowers) == 1 else "others" + (f" ({some(borrowers)})" if borrowers else "")
    lent = f"; lends GPUs to {counted(decision.lent, 'replica')} of {whose}" if decision.lent else ""
    borrowed, unowned = decision.borrowed - decision.unowned, decision.unowned
    lent += f"; {counted(borrowed, 'replica')} on borrowed GPUs" if borrowed else ""
    return lent + (f"; {counted(unowned, 'replica')} in use on GPUs that nobody owns" if unowned else "")


def _expected(view: ModelView) -> str:
    """The time at which the last loading pod should be Ready, as ` (~03:12:07)`; "" where no start was measured yet."""
    at = expected_at(view)
    return "" if at is None else f" (~{clock(at)})"


def expected_at(view: ModelView) -> float | None:
    """The instant at which the last loading pod should be Ready; None: none loads, or no start was measured yet."""
    starting = (pod for target in view.targets for pod in target.pods if pod.phase in {"pending", "loading"})
    load = view.load_seconds
    return None if load is None else max((ready_by(pod, load) for pod in starting), default=None)


def _troubles(view: ModelView, now: float) -> Iterator[str]:
    """What the oldest of those that do not serve yet say of themselves, as kubelet or the scheduler put it."""
    speaking = (pod for pod in _pods(view) if pod.trouble and not _just_placed(pod, now))
    waiting = sorted(speaking, key=lambda pod: (pod.created_at, pod.name))
    for pod in waiting[:MOST_PODS]:
        yield f"{pod.name}, {pod.phase} since {when(pod.since, now)}: {pod.trouble}"
    if len(waiting) > MOST_PODS:
        yield f"and {counted(len(waiting) - MOST_PODS, 'pod')} more that say why"


def _just_placed(pod: PodView, now: float) -> bool:
    """Whether it says no more than that its node gets it ready, and has not for long."""
    placed_at = pod.created_at if pod.placed_at is UNSET else pod.placed_at
    return pod.trouble == NOT_SET_UP and now - placed_at < SET_UP_SECONDS


def _starts(view: ModelView, now: float) -> Iterator[str]:
    """What was measured of its starts, what is planned with, and wakes that do not end."""
    for each in view.starts:
        half, slow = span(each.median_seconds), span(each.slow_seconds)
        yield f"{each.count} in {each.pool}, half within {half}, 9 of 10 within {slow}: {SAID[each.kind]}"
    if view.load_seconds is not None and view.slow_load_seconds is not None:
        half, slow = span(view.load_seconds), span(view.slow_load_seconds)
        yield f"planned with {half} from placed to Ready; {slow} where a deadline must be met"
    elif view.starts:
        yield f"planned with the policy's loadSeconds until {ENOUGH} starts were seen (woken engines are none)"
    for wake in view.failed_wakes:
        since, counted_at = when(wake.since, now), when(wake.told_at, now)
        engine = f"the engine of {wake.pod} in {wake.launcher}"
        yield f"{engine} wakes since {since}, counted as a cold start at {counted_at}"


def _loaded(view: ModelView) -> Iterator[str]:
    """What its replicas took of GPU memory once loaded, and what that means for where it is started."""
    if view.loaded is None:
        return
    gib, share = figure(view.loaded.gib), view.loaded.reserved
    yield f"{gib} GiB of GPU memory in use once loaded, the least of {counted(view.loaded.replicas, 'replica')}"
    if share is None:
        yield "where the policy gives no gpuMemory it is started on no GPUs that have less"
    else:
        yield f"its engine reserves {share:.0%} whatever it needs: only the policy's gpuMemory says where it fits"


def _overrides(plan: Plan, snapshot: Snapshot, model: str) -> Iterator[str]:
    states = {state.uid: state for state in plan.overrides}
    for each in snapshot.overrides:
        if model != each.named_model or each.expires_at <= plan.at:
            continue
        value = "" if each.value is None else f" {each.value}"
        subject = "" if each.subject == model else f" {each.subject_kind} {each.subject}"
        state = f" ({states[each.uid].phase}: {states[each.uid].message})" if each.uid in states else ""
        until = when(each.expires_at, plan.at)
        yield f"{each.kind}{value}{subject} by {each.actor} until {until}: {each.reason}{state}"


def _lacks(model: str, refusal: Refusal, lacks: str) -> str:
    """`chat lacks GPUs: ` before what a guard declined of another model: why it stands in an answer about chat."""
    another = refusal.subject != model and refusal.replicas_to < refusal.replicas_from
    return f"{model} {lacks} GPUs: " if another else ""


def _before(model: str, past: Iterable[PastRefusal], plan: Plan) -> Iterator[str]:
    """Refusals that are over, the newest first: `08:00:00 to 08:00:30 b keeps 2 replicas ...: guard step, ...`."""
    now = {(each.guard, each.subject) for each in plan.refusals}
    over = [
        each
        for each in past
        if each.concerns(model)
        and each.until < plan.at
        and not ((each.refusal.guard, each.refusal.subject) in now and plan.at - each.until <= SAME_SECONDS)
    ][::-1]
    for each in over[:MOST_BEFORE]:
        begin, end = clock(each.at), clock(each.until)
        times = begin if begin == end else f"{begin} to {end}"
        yield f"{times} {_lacks(model, each.refusal, 'lacked')}{each.refusal}"
    if len(over) > MOST_BEFORE:
        yield f"and {len(over) - MOST_BEFORE} more in the ten minutes before"


def _ways(refusals: list[Refusal], lacks: Unmet | None, at: float) -> Iterator[str]:
    """What a person may decide instead of waiting; no cap for who is short itself, nor for what soon passes."""
    for each in refusals:
        if each.guard in YIELDING and each.replicas_to != each.replicas_from:
            kind = "cap" if each.replicas_to < each.replicas_from else "floor"
            soon = each.until is not None and each.until - at < SOON_SECONDS
            if kind == "cap" and (soon or (lacks is not None and each.subject == lacks.model)):
                continue
            yield f"rebalancer override add {kind} {each.subject} {each.replicas_to} --for 30m --reason ..."


def _rows(label: str, texts: Iterator[str]) -> Iterator[str]:
    return (_row(label, text) for text in texts)


def _row(label: str, text: str) -> str:
    return f"{label:<{WIDTH}} {text}"
