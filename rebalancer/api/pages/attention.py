"""NEEDS YOU: what a person should look at, the soonest first."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from rebalancer.api.pages.blockers import Blockers
from rebalancer.api.pages.gpu_tiles import pods_of
from rebalancer.api.pages.values.overview import AttentionItem, WayOut
from rebalancer.api.pages.ways_out import DOCTOR, explained, hand_back, held_by, of_model, of_node, of_short
from rebalancer.api.ports.page_data import PageData
from rebalancer.api.ports.status import LEASE, UNPLANNED
from rebalancer.api.text.pinned import said_pinned
from rebalancer.api.text.policy_file import kept_of
from rebalancer.api.text.words import clock, counted, goes, printable, some
from rebalancer.domain.owners import claims
from rebalancer.domain.plan import ModelDecision, Plan, Unmet
from rebalancer.domain.snapshot import NoticeView, Snapshot
from rebalancer.domain.words import CLOCK_IS_OFF

CRITICAL, WARNING = "critical", "warning"
MOST = 50  # needs shown one by one: who has more looks at the pools, not at lines
MOST_NAMED = 5  # models of one need
UNMOVED = {
    "plan": "nothing moves until a cycle plans",
    "leading": "nothing moves until it does",
    LEASE: "this replica does not know who leads",
}
COMING_SECONDS = 300.0  # what was granted is on its way for at least this long before anybody is called


def attention_items(data: PageData, blockers: Blockers) -> tuple[AttentionItem, ...]:
    """What is wrong now, then by the instant at which it comes or ends, then what is open and can wait."""
    plan = data.status.plan
    items = [*_service(data), *_notices(data.snapshot, plan)]
    if plan is not None and data.status.sync.sees_replicas:
        items += [*_models(plan, blockers, data.status.at), *_foreign(plan), *_claims(data.snapshot)]
    items.sort(key=lambda item: (_due(item), item.severity, item.text))
    if len(items) > MOST:
        rest = items[MOST - 1 :]
        worst = min(item.severity for item in rest)
        items[MOST - 1 :] = [AttentionItem(worst, f"and {counted(len(rest), 'more need')} of a person")]
    return tuple(items)


def _due(item: AttentionItem) -> float:
    if item.until is not None:
        return item.until
    return 0.0 if item.severity == CRITICAL else float("inf")


def _service(data: PageData) -> Iterator[AttentionItem]:
    status = data.status
    if status.sync.missing:
        yield AttentionItem(
            CRITICAL,
            f"not read yet: {some(status.sync.missing)}; nothing is taken from a model until they are",
            way_out=DOCTOR,
        )
    if status.sync.silent:
        yield AttentionItem(
            CRITICAL,
            f"silent: {some(status.sync.silent)}; nothing is taken from a model while they are",
            way_out=DOCTOR,
        )
    if status.sync.clock_is_off:
        yield AttentionItem(CRITICAL, f"{CLOCK_IS_OFF}; nothing is taken from a model while they do", way_out=DOCTOR)
    for row in status.unready:
        if row.what in UNMOVED:
            text = f"{row.detail}; {UNMOVED[row.what]}"
            yield AttentionItem(CRITICAL, printable(text), since=row.since, way_out=DOCTOR)
        elif row.what.startswith(f"{UNPLANNED} "):
            yield AttentionItem(CRITICAL, printable(row.detail), since=row.since, way_out=DOCTOR)
    for pinned in said_pinned(status):
        yield AttentionItem(WARNING, f"{pinned.what}; {pinned.todo}", way_out=hand_back(pinned.todo))
    if status.policy_problems:
        more = len(status.policy_problems) - 1
        rest = f" (and {more} more)" if more else ""
        text = f"the policy file is not good, {kept_of(status)}: {status.policy_problems[0]}{rest}"
        yield AttentionItem(
            WARNING, printable(text), way_out=WayOut("see what is wrong", "rebalancer config check FILE")
        )


def _notices(snapshot: Snapshot, plan: Plan | None) -> Iterator[AttentionItem]:
    """Nodes that go, and which models lose how many replicas there. Whoever replaces its own node loses nobody's."""
    losses: dict[str, Counter[str]] = defaultdict(Counter)
    noticed = {notice.node for notice in snapshot.notices}
    for model, _, pod in pods_of(snapshot.models):
        for node in noticed.intersection(pod.nodes) if pod.phase != "terminating" else ():
            losses[node][model.id] += 1
    pools = {node.name: pool.name for pool in snapshot.pools for node in pool.nodes}
    decisions = {each.model: each for each in plan.models} if plan is not None else {}
    for notice in snapshot.notices:
        lost = losses[notice.node]
        if lost or not (notice.voluntary or notice.kind == "gone"):
            item = _notice(notice, lost, pools.get(notice.node), snapshot.at)
            staying = _staying(decisions[model] for model in sorted(lost) if model in decisions)
            yield replace(item, impact=printable(staying)) if notice.counts(snapshot.at) else item


def _notice(notice: NoticeView, lost: Counter[str], pool: str | None, at: float) -> AttentionItem:
    who = some([f"{model} {count}" for model, count in sorted(lost.items())]) or "nothing of ours runs there"
    severity = CRITICAL if lost and not notice.voluntary and notice.counts(at) else WARNING
    text = f"{goes(notice, at)}: {who}"
    return AttentionItem(
        severity,
        printable(text),
        until=notice.deadline,
        pool=pool,
        node=printable(notice.node),
        since=notice.since,
        way_out=of_node(notice.node),
    )


def _staying(decisions: Iterable[ModelDecision]) -> str:
    """`without it: llama-70b 5 Ready, 1 loading of 7 needed`: what is left to those who lose replicas."""
    losers = [
        f"{each.model} {each.ready} Ready{f', {each.loading} loading' if each.loading else ''} of {each.demand} needed"
        for each in decisions
        if each.demand is not None
    ]
    others = "; and others" if len(losers) > MOST_NAMED else ""
    return f"without it: {'; '.join(losers[:MOST_NAMED])}{others}" if losers else ""


def _models(plan: Plan, blockers: Blockers, at: float) -> Iterator[AttentionItem]:
    unplanned = {name for each in plan.unplanned or () for name in each.models}  # told once, with their pools
    for decision in plan.models:
        row = blockers.unmet.get(decision.model)
        short = _short(row, blockers) if row is not None else ""
        if decision.ready < decision.floor:
            text = f"{decision.model} is under its floor: {decision.ready} of {decision.floor} replicas are Ready"
            yield replace(
                _of_model(f"{text}, {short}" if short else text, decision.model, row),
                severity=CRITICAL,
                until=blockers.next_at(decision.model),
                way_out=held_by(row) if row is not None else explained(decision.model),
            )
        elif row is not None and _needs_somebody(row, blockers, at):
            gate = blockers.gate(row.model)
            until = gate.until if gate is not None else None
            yield replace(
                _of_model(f"{row.model} is {short}", row.model, row),
                until=until,
                way_out=of_short(row, gate, blockers.donor(row)),
            )
        elif decision.demand is None and decision.model not in unplanned:
            text = f"{decision.model} is not seen and keeps what it has: {_unseen(decision)}"
            pin = of_model("pin it if you know better", "pin", decision.model, decision.granted)
            yield replace(_of_model(text, decision.model, None), way_out=pin)


def _of_model(text: str, model: str, row: Unmet | None) -> AttentionItem:
    """What is wrong with a model; of one that is short also how late that makes its requests, and since when."""
    if row is None:
        return AttentionItem(WARNING, printable(text), model=model)
    return AttentionItem(WARNING, printable(text), model=model, impact=printable(row.lateness), since=row.since)


def _unseen(decision: ModelDecision) -> str:
    return decision.why.removeprefix("its demand is unknown: ") or "no usable vote"


def _needs_somebody(row: Unmet, blockers: Blockers, at: float) -> bool:
    """What only waits for its pods comes by itself, unless it takes far longer than it should."""
    if row.constraint != "waiting":
        return True
    view = blockers.views.get(row.model)
    return at - row.since > max(COMING_SECONDS, 2 * (view.load_seconds or 0.0) if view else 0.0)


def _short(row: Unmet, blockers: Blockers) -> str:
    """`short of 1 replica (4 GPUs): guard step ...; qwen-32b may shrink, not before 03:14:40`."""
    gpus = blockers.gpus(row.model) * row.replicas
    size = f"short of {counted(row.replicas, 'replica')}" + (f" ({counted(gpus, 'GPU')})" if gpus else "")
    gate = blockers.gate(row.model)
    if gate is None or gate.until is None:
        return f"{size}: {row.why}"
    moves = "shrink" if gate.replicas_to < gate.replicas_from else "grow"
    return f"{size}; {gate.subject} may {moves}, not before {clock(gate.until)}"


def _foreign(plan: Plan) -> Iterator[AttentionItem]:
    """Somebody else writes what we write, or policy and cluster differ: they must agree on one."""
    models = {decision.model for decision in plan.models}
    for refusal in plan.refusals:
        if refusal.guard in {"foreign", "gpus", "owner"}:
            model = refusal.subject if refusal.subject in models else None
            fought = refusal.guard == "foreign" and model is not None
            way_out = of_model("stand up", "standUp", refusal.subject) if fought else explained(refusal.subject)
            yield AttentionItem(WARNING, printable(str(refusal)), model=model, way_out=way_out if model else DOCTOR)


def _claims(snapshot: Snapshot) -> Iterator[AttentionItem]:
    """Who may write what we write: told before anything was fought over."""
    for model in snapshot.models:
        for claim in (claim for target in model.targets for claim in claims(target) if not claim.refused):
            text = printable(f"{model.id}: {claim}")
            yield AttentionItem(WARNING, text, model=model.id, way_out=explained(model.id))
