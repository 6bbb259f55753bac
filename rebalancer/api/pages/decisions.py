"""What was decided: the cycles in memory, and single ones from the journal."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from rebalancer.api.pages.values.decisions import DecisionPage, Decisions, ModelBeside
from rebalancer.api.ports.page_data import RecordedCycle
from rebalancer.api.ports.timeline import DecisionRow, TimelineEvent
from rebalancer.api.text.triggers import triggers
from rebalancer.api.text.words import printable
from rebalancer.domain.plan import Plan
from rebalancer.domain.snapshot import Snapshot

KINDS = ("shift", "release", "grant", "notice", "refusal", "override", "stop", "node")
LIMIT, MOST = 50, 200


class DecisionsQuery(Struct, frozen=True):
    """Which cycles, and which of their events; a parameter that is left out leaves nothing out.

    model: only what happened to this model
    kind: only happenings of this kind
    before: only cycles before this one
    limit: cycles on one page
    around: the page that has this cycle in its middle
    """

    model: Annotated[str, Meta(max_length=63, description="only what happened to this model")] = ""
    kind: Annotated[str, Meta(description="only happenings of this kind", extra_json_schema={"enum": ["", *KINDS]})] = (
        ""
    )
    before: Annotated[int, Meta(ge=0, le=10**15, description="only cycles before this one")] | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST, description="cycles on one page")] = LIMIT
    around: Annotated[int, Meta(ge=0, le=10**15, description="the page that has this cycle in its middle")] | None = (
        None
    )

    def of(self, row: DecisionRow) -> DecisionRow | None:
        """What of `row` is asked for, None when nothing is."""
        if self.before is not None and row.cycle >= self.before:
            return None
        if not self.model and not self.kind:
            return row
        wanted = tuple(each for each in row.timeline if self._is_asked(each))
        return replace(row, timeline=wanted) if wanted else None

    def _is_asked(self, each: TimelineEvent) -> bool:
        """Whether the event is of the kind and model that were asked for.

        A shift is an event of every model that it moves, a refusal of every model that waits. The kind `shift` has
        releases and grants.
        """
        kinds = {"", each.kind, "shift"} if each.shift is not None else {"", each.kind}
        models = {"", each.model or "", *(step.model for step in each.steps), *each.waiting}
        return self.kind in kinds and self.model in models


class DecisionQuery(Struct, frozen=True):
    """The query of a decision: the one model to show; empty for all models."""

    model: Annotated[str, Meta(max_length=63, description="that model's part alone")] = ""


def decisions(rows: tuple[DecisionRow, ...], query: DecisionsQuery) -> Decisions:
    """A page of `rows` (oldest first), the newest first."""
    matching = [each for row in reversed(rows) if (each := query.of(row)) is not None]
    first = 0
    if query.around is not None:
        newer = sum(row.cycle > query.around for row in matching)
        first = max(0, newer - query.limit // 2)
    page = matching[first : first + query.limit]
    more = len(matching) > first + query.limit
    oldest = rows[0].at if rows else None
    return Decisions(
        tuple(page), page[-1].cycle if more else None, newest=first == 0 and query.before is None, oldest_at=oldest
    )


def decision_page(recorded: RecordedCycle, before: RecordedCycle | None = None, model: str = "") -> DecisionPage:
    """One cycle, and what was new since the one `before` it (None: not recorded); of `model` alone when it is named."""
    plan, inputs, outcomes = recorded.plan, recorded.snapshot, recorded.outcomes
    news = None if before is None else triggers(before, recorded)
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
        beside=tuple(_beside(plan, inputs)),
        triggers=news,
    )


def _beside(plan: Plan, inputs: Snapshot) -> Iterator[ModelBeside]:
    """What changes first, the most replicas first; the rest by name."""
    by_model = {
        view.id: sum(target.replicas or 0 for target in view.targets)
        for view in inputs.models
        if any(target.replicas is not None for target in view.targets)
    }
    moved: Counter[str] = Counter()
    for change in plan.changes:
        moved[change.model] += change.replicas_to - change.replicas_from
    for each in sorted(plan.models, key=lambda one: (-abs(moved[one.model]), one.model)):
        held = by_model.get(each.model)
        after = None if held is None else held + moved[each.model]
        yield ModelBeside(printable(each.model), held, after, each.demand, printable(each.why))


def _plan_of(plan: Plan, model: str) -> Plan:
    pools: Iterable[str] = {change.target.pool for change in plan.changes if change.model == model}
    return replace(
        plan,
        changes=tuple(each for each in plan.changes if each.model == model),
        node_pools=tuple(each for each in plan.node_pools if each.pool in pools),
        drains=tuple(each for each in plan.drains if each.model == model),
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
