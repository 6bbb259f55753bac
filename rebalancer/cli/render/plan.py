"""`rebalancer plan`: what is to change, what was refused; the unchanged is not shown."""

from collections import Counter

from rebalancer.api.text.words import UNKNOWN, columns, counted, printable, some, when
from rebalancer.domain.plan import Change, DrainChange, NodePoolChange, Plan, Refusal, Unmet
from rebalancer.domain.words import sentences

MARKS = {"release": "-", "settle": "-", "withdraw": "-", "grant": "+", "replace": "+", "bounds": "="}
SHIFT, NODE, REFUSED, SHORT = ">", "~", "!", "*"
KINDS = {
    "shift": "shift begun",
    "shifted": "shift completed",
    "drain": "drain",
    "release": "release",
    "settle": "settling",
    "withdraw": "withdrawal",
    "grant": "grant",
    "replace": "replacement",
    "bounds": "change of bounds",
}
PLURALS = {"bounds": "changes of bounds", "shift": "shifts begun", "shifted": "shifts completed"}


def render_plan(plan: Plan, *, wide: bool = False) -> str:
    """A sentence per change in the order of writing, per refusal and per model that stays short; then how many.

    `wide`: target, pool and guards of each change.
    """
    models = {model.model for model in plan.models}
    rows = [_wide_change(change) if wide else _change(change) for change in plan.changes]
    rows += [_node_pool(change) for change in plan.node_pools]
    rows += [_drain(change) for change in plan.drains]
    rows += [_refusal(refusal, models) for refusal in plan.refusals]
    rows += [_unmet(row, plan.at) for row in plan.unmet]
    rows += [
        (REFUSED, f"pool/{pool}", f"is left as it is: {one.why}") for one in plan.unplanned or () for pool in one.pools
    ]
    lines = columns(rows, "<<<")
    if plan.empty:
        lines.insert(0, "Nothing to change.")
    return "\n".join(printable(line) for line in (*lines, _count(plan)))


def _change(change: Change) -> tuple[str, str, str]:
    mark = SHIFT if change.shift else MARKS.get(change.kind, UNKNOWN)
    return mark, change.model, change.sentence


def _wide_change(change: Change) -> tuple[str, str, str]:
    mark, model, change_text = _change(change)
    more = [f"{change.target.kind.lower()}/{change.target.name} in {change.target.pool}", f"min {change.minimum}"]
    if change.passes:
        more.append(f"passes guards: {change.passes}")
    if change.victim_names:
        more.append(f"goes: {some(change.victim_names)}")
    return mark, model, f"{change_text}  ({'; '.join(more)})"


def _node_pool(change: NodePoolChange) -> tuple[str, str, str]:
    return NODE, f"nodepool/{change.name}", change.sentence


def _drain(change: DrainChange) -> tuple[str, str, str]:
    return NODE, f"pod/{change.pod}" if change.pod else f"node/{change.node}", change.sentence


def _refusal(refusal: Refusal, models: set[str]) -> tuple[str, str, str]:
    if refusal.subject in models:
        return REFUSED, refusal.subject, refusal.sentence
    return REFUSED, refusal.about, f"is left as it is: guard {refusal.guard}, {refusal.why}"


def _unmet(row: Unmet, at: float) -> tuple[str, str, str]:
    return SHORT, row.model, f"is short of {counted(row.replicas, 'replica')} since {when(row.since, at)}: {row.why}"


def _count(plan: Plan) -> str:
    """`2 drains, 1 node change; 1 refused; short: chat 2`; zeros are left out."""
    kinds = Counter(_kind(each) for each in plan.changes)
    moves = [counted(kinds[kind], one, PLURALS.get(kind, "")) for kind, one in KINDS.items() if kinds[kind]]
    if plan.node_pools:
        moves.append(counted(len(plan.node_pools), "node change"))
    evicted = sum(bool(change.pod) for change in plan.drains)
    if evicted:
        moves.append(counted(evicted, "eviction"))
    if len(plan.drains) > evicted:
        moves.append(counted(len(plan.drains) - evicted, "cordon"))
    refused = f"{len(plan.refusals)} refused" if plan.refusals else ""
    short = f"short: {some([f'{row.model} {row.replicas}' for row in plan.unmet])}" if plan.unmet else ""
    return sentences(", ".join(moves or ["0 changes"]), refused, short)


def _kind(change: Change) -> str:
    """What a change counts as: a release and its grant are two ends of one shift."""
    if (change.passes or "").startswith("drain"):
        return "drain"
    if change.shift:
        return "shift" if change.kind == "release" else "shifted"
    return change.kind
