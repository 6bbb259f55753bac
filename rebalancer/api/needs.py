"""NEEDS YOU: what a person should look at, the soonest first."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from rebalancer.api.look import Look
from rebalancer.api.pages import Need
from rebalancer.api.text.pinned import said_pinned
from rebalancer.api.text.policy_file import kept_of
from rebalancer.api.text.words import clock, counted, goes, printable, some
from rebalancer.api.tiles import pods_of
from rebalancer.api.waits import Waits
from rebalancer.domain.plan import ModelDecision, Plan, Unmet
from rebalancer.domain.snapshot import NoticeView, Snapshot

CRITICAL, WARNING = "critical", "warning"
MOST = 50  # needs shown one by one: who has more looks at the pools, not at lines
COMING_SECONDS = 300.0  # what was granted is on its way for at least this long before anybody is called


def needs_of(look: Look, waits: Waits) -> tuple[Need, ...]:
    """What is wrong now, then by the instant at which it comes or ends, then what is open and can wait."""
    found = [*_service(look), *_notices(look.snapshot)]
    plan = look.status.plan
    if plan is not None:
        found += [*_models(plan, waits, look.status.at), *_foreign(plan)]
    found.sort(key=lambda need: (_due(need), need.severity, need.said))
    if len(found) > MOST:
        rest = found[MOST - 1 :]
        worst = min(need.severity for need in rest)
        found[MOST - 1 :] = [Need(worst, f"and {counted(len(rest), 'more need')} of a person")]
    return tuple(found)


def _due(need: Need) -> float:
    if need.until is not None:
        return need.until
    return 0.0 if need.severity == CRITICAL else float("inf")


def _service(look: Look) -> Iterator[Need]:
    status = look.status
    if status.sync.missing:
        yield Need(CRITICAL, f"not read yet: {some(status.sync.missing)}; nothing is taken from a model until they are")
    if status.sync.stale:
        yield Need(CRITICAL, f"silent: {some(status.sync.stale)}; nothing is taken from a model while they are")
    for pinned in said_pinned(status):
        yield Need(WARNING, f"{pinned.what}; {pinned.todo}")
    if status.policy_problems:
        more = len(status.policy_problems) - 1
        rest = f" (and {more} more)" if more else ""
        said = f"the policy file is not good, {kept_of(status)}: {status.policy_problems[0]}{rest}"
        yield Need(WARNING, printable(said))


def _notices(snapshot: Snapshot) -> Iterator[Need]:
    """Nodes that go, and which models lose how many replicas there. Whoever replaces its own node loses nobody's."""
    losses: dict[str, Counter[str]] = defaultdict(Counter)
    noticed = {notice.node for notice in snapshot.notices}
    for model, _, pod in pods_of(snapshot.models):
        if pod.node in noticed and pod.phase != "terminating":
            losses[pod.node or ""][model.id] += 1
    pools = {node.name: pool.name for pool in snapshot.pools for node in pool.nodes}
    for notice in snapshot.notices:
        lost = losses[notice.node]
        if lost or not (notice.voluntary or notice.kind == "gone"):
            yield _notice(notice, lost, pools.get(notice.node), snapshot.at)


def _notice(notice: NoticeView, lost: Counter[str], pool: str | None, at: float) -> Need:
    who = some([f"{model} {count}" for model, count in sorted(lost.items())]) or "nothing of ours runs there"
    severity = CRITICAL if lost and not notice.voluntary and notice.counts(at) else WARNING
    said = f"{goes(notice, at)}: {who}"
    return Need(severity, printable(said), until=notice.deadline, pool=pool, node=printable(notice.node))


def _models(plan: Plan, waits: Waits, at: float) -> Iterator[Need]:
    for decision in plan.models:
        row = waits.unmet.get(decision.model)
        if decision.ready < decision.floor:
            said = f"{decision.model} is under its floor: {decision.ready} of {decision.floor} replicas are Ready"
            said += f", {_short(row, waits)}" if row is not None else ""
            yield Need(CRITICAL, printable(said), until=waits.next_at(decision.model), model=decision.model)
        elif row is not None and _needs_somebody(row, waits, at):
            gate = waits.gate(row.model)
            until = gate.until if gate is not None else None
            yield Need(WARNING, printable(f"{row.model} is {_short(row, waits)}"), until=until, model=row.model)
        elif decision.demand is None:
            yield Need(
                WARNING,
                printable(f"{decision.model} is not seen and keeps what it has: {_unseen(decision)}"),
                model=decision.model,
            )


def _unseen(decision: ModelDecision) -> str:
    return decision.why.removeprefix("its demand is unknown: ") or "no usable vote"


def _needs_somebody(row: Unmet, waits: Waits, at: float) -> bool:
    """What only waits for its pods comes by itself, unless it takes far longer than it should."""
    if row.constraint != "waiting":
        return True
    view = waits.views.get(row.model)
    return at - row.since > max(COMING_SECONDS, 2 * (view.load_seconds or 0.0) if view else 0.0)


def _short(row: Unmet, waits: Waits) -> str:
    """`short of 1 replica (4 GPUs): guard step ...; qwen-32b may shrink 03:14:40`."""
    gpus = waits.gpus(row.model) * row.replicas
    size = f"short of {counted(row.replicas, 'replica')}" + (f" ({counted(gpus, 'GPU')})" if gpus else "")
    gate = waits.gate(row.model)
    if gate is None or gate.until is None:
        return f"{size}: {row.why}"
    moves = "shrink" if gate.replicas_to < gate.replicas_from else "grow"
    return f"{size}; {gate.subject} may {moves} at {clock(gate.until)}"


def _foreign(plan: Plan) -> Iterator[Need]:
    """Somebody else writes what we write, or policy and cluster differ: they must agree on one."""
    models = {decision.model for decision in plan.models}
    for refusal in plan.refusals:
        if refusal.guard in {"foreign", "gpus"}:
            end = f"; `rebalancer stand-up {refusal.subject}` ends this" if refusal.guard == "foreign" else ""
            said, model = printable(f"{refusal}{end}"), refusal.subject if refusal.subject in models else None
            yield Need(WARNING, said, model=model)
