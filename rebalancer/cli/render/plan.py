"""`rebalancer plan`: what is to change, what was refused; the unchanged is not shown."""

from collections import Counter

from rebalancer.api.text.words import UNKNOWN, clock, columns, counted, printable, some
from rebalancer.domain.plan import Change, NodePoolChange, Plan, Refusal

MARKS = {"release": "-", "settle": "-", "withdraw": "-", "grant": "+", "replace": "+", "bounds": "="}
SHIFT, NODE, REFUSED = ">", "~", "!"
KINDS = {
    "drain": "drain",
    "release": "release",
    "settle": "settling",
    "withdraw": "withdrawal",
    "grant": "grant",
    "replace": "replacement",
    "bounds": "change of bounds",
}
PLURALS = {"bounds": "changes of bounds"}


def render_plan(plan: Plan, *, wide: bool = False) -> str:
    """One line per change and refusal in the order of writing, and how many there are; `wide`: target, pool, guards."""
    models = {model.model for model in plan.models}
    rows = [_wide_change(change) if wide else _change(change) for change in plan.changes]
    rows += [_node_pool(change) for change in plan.node_pools]
    rows += [_refusal(refusal, models) for refusal in plan.refusals]
    lines = columns(rows, "<<<") or ["Nothing to change."]
    return "\n".join(printable(line) for line in (*lines, _count(plan)))


def _change(change: Change) -> tuple[str, str, str]:
    mark = SHIFT if change.shift else MARKS.get(change.kind, UNKNOWN)
    numbers = f"{change.replicas_from} -> {change.replicas_to}"
    if change.kind == "bounds":
        numbers = f"{change.replicas_to}, min {change.minimum}"
    return mark, change.model, f"{numbers}  {change.reason}"


def _wide_change(change: Change) -> tuple[str, str, str]:
    mark, model, said = _change(change)
    more = [f"{change.target.kind.lower()}/{change.target.name} in {change.target.pool}", f"min {change.minimum}"]
    if change.passes:
        more.append(f"passes guards: {change.passes}")
    if change.victim_names:
        more.append(f"goes: {some(change.victim_names)}")
    return mark, model, f"{said}  ({'; '.join(more)})"


def _node_pool(change: NodePoolChange) -> tuple[str, str, str]:
    if change.kind in {"limit", "restore-limit"}:
        numbers = f"{_limit(change.limit_from)} -> {_limit(change.limit_to)} GPU limit"
    else:
        numbers = {"hold": "consolidation held", "end-hold": "consolidation free again"}.get(change.kind, change.kind)
    return NODE, f"nodepool/{change.name}", f"{numbers}; {change.reason}"


def _limit(limit: int | None) -> str:
    return "no" if limit is None else str(limit)


def _refusal(refusal: Refusal, models: set[str]) -> tuple[str, str, str]:
    subject = refusal.subject if refusal.subject in models else f"nodepool/{refusal.subject}"
    reason = f": {refusal.why}" if refusal.until is None else f" until {clock(refusal.until)}"
    moved = f"{refusal.replicas_from} -> {refusal.replicas_to}"
    return REFUSED, subject, f"{moved}  refused by {refusal.guard}{reason}"


def _count(plan: Plan) -> str:
    """`2 drains, 1 node change; 1 refused, 1 unmet`; zeros are left out."""
    kinds = Counter("drain" if (each.passes or "").startswith("drain") else each.kind for each in plan.changes)
    moves = [counted(kinds[kind], one, PLURALS.get(kind, "")) for kind, one in KINDS.items() if kinds[kind]]
    if plan.node_pools:
        moves.append(counted(len(plan.node_pools), "node change"))
    short = [f"{len(rows)} {word}" for rows, word in ((plan.refusals, "refused"), (plan.unmet, "unmet")) if rows]
    return "; ".join(", ".join(part) for part in (moves or ["0 changes"], short) if part)
