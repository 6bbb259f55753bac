"""What was decided: the cycles in memory, and single ones from the journal."""

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from rebalancer.api.look import Recorded
from rebalancer.api.pages import DecisionPage, DecisionRow, Decisions
from rebalancer.domain.plan import Plan
from rebalancer.domain.snapshot import Snapshot

KINDS = ("release", "grant", "notice", "refusal", "override", "stop", "node")
LIMIT, MOST = 50, 200


@dataclass(frozen=True, slots=True)
class Filter:
    """Which cycles, and which of their happenings: of `model`, of `kind`; older than cycle `before`."""

    model: str = ""
    kind: str = ""
    before: int | None = None
    limit: int = LIMIT

    def of(self, row: DecisionRow) -> DecisionRow | None:
        """What of `row` is asked for, None when nothing is."""
        if self.before is not None and row.cycle >= self.before:
            return None
        if not self.model and not self.kind:
            return row
        wanted = tuple(
            each for each in row.happenings if self.model in {"", each.model or ""} and self.kind in {"", each.kind}
        )
        return replace(row, happenings=wanted) if wanted else None


def decisions(rows: tuple[DecisionRow, ...], wanted: Filter) -> Decisions:
    """A page of `rows` (oldest first), the newest first."""
    found: list[DecisionRow] = []
    for row in reversed(rows):
        kept = wanted.of(row)
        if kept is None:
            continue
        if len(found) == wanted.limit:
            return Decisions(tuple(found), next_before=found[-1].cycle)
        found.append(kept)
    return Decisions(tuple(found))


def decision_page(recorded: Recorded, model: str = "") -> DecisionPage:
    """One cycle; of `model` alone when it is named."""
    plan, inputs, outcomes = recorded.plan, recorded.snapshot, recorded.outcomes
    if model:
        plan, inputs = _plan_of(plan, model), _inputs_of(inputs, model)
        outcomes = tuple(each for each in outcomes if each.intent.subject == model)
    return DecisionPage(
        cycle=plan.cycle,
        at=plan.at,
        policy_digest=recorded.policy_digest,
        code_digest=recorded.code_digest,
        plan=plan,
        inputs=inputs,
        outcomes=outcomes,
    )


def _plan_of(plan: Plan, model: str) -> Plan:
    pools: Iterable[str] = {change.target.pool for change in plan.changes if change.model == model}
    return replace(
        plan,
        changes=tuple(each for each in plan.changes if each.model == model),
        node_pools=tuple(each for each in plan.node_pools if each.pool in pools),
        refusals=tuple(each for each in plan.refusals if each.subject == model),
        unmet=tuple(each for each in plan.unmet if each.model == model),
        models=tuple(each for each in plan.models if each.model == model),
    )


def _inputs_of(snapshot: Snapshot, model: str) -> Snapshot:
    views = tuple(each for each in snapshot.models if each.id == model)
    pools = {target.pool for view in views for target in view.targets}
    return replace(
        snapshot,
        pools=tuple(each for each in snapshot.pools if each.name in pools),
        models=views,
        loads=tuple(each for each in snapshot.loads if each.model == model),
        outcomes=tuple(each for each in snapshot.outcomes if each.intent.subject == model),
    )
