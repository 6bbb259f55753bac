"""The models table: one row per model, searched, sorted and paged here so that no reader gets a thousand rows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

from rebalancer.api.pages.blockers import Blockers
from rebalancer.api.pages.gpu_tiles import BeyondOwn
from rebalancer.api.pages.values.overview import ModelRow
from rebalancer.api.pages.values.paging import PageNumber
from rebalancer.api.text.words import printable
from rebalancer.domain.plan import ModelDecision, Plan
from rebalancer.domain.policy import Model, Policy

PAGE = 100


@dataclass(frozen=True, slots=True)
class _Entry:
    """A decision with what else sorting and searching look at."""

    decision: ModelDecision
    model: Model | None
    unmet: int
    held: bool

    @property
    def under_floor(self) -> bool:
        return self.decision.ready < self.decision.floor

    def trouble(self) -> tuple[bool | str, ...]:
        """Sorts what needs somebody first: under the floor, short, unseen, held by a guard; then by id."""
        decision = self.decision
        return (not self.under_floor, not self.unmet, decision.demand is not None, not self.held, decision.model)


STATES: dict[str, Callable[[_Entry], bool]] = {
    "floor": lambda each: each.under_floor,
    "short": lambda each: each.unmet > 0,
    "headroom": lambda each: each.decision.headroom > 0,
    "blind": lambda each: each.decision.demand is None,
    "held": lambda each: each.held,
    "surge": lambda each: each.decision.surge,
    "doomed": lambda each: each.decision.doomed > 0,
    "loading": lambda each: each.decision.loading > 0,
    "lending": lambda each: each.decision.lent > 0,
    "borrowing": lambda each: each.decision.borrowed > 0,
}
_NUMBERS: dict[str, Callable[[_Entry], int]] = {
    "demand": lambda each: -1 if each.decision.demand is None else each.decision.demand,
    "allocation": lambda each: each.decision.allocation,
    "ready": lambda each: each.decision.ready,
    "loading": lambda each: each.decision.loading,
    "doomed": lambda each: each.decision.doomed,
    "unmet": lambda each: each.unmet,
    "priority": lambda each: each.model.priority if each.model else 0,
}
SORTS = ("trouble", "model", *_NUMBERS)


class ModelsQuery(Struct, frozen=True):
    """Which rows of the models table, in which order, and which page of them; an empty text leaves nothing out.

    q: part of a model's id, namespace or team
    state: only models in this state
    sort: order of the models
    page: which page, from 1
    """

    q: Annotated[str, Meta(max_length=63, description="part of a model's id, namespace or team")] = ""
    state: Annotated[str, Meta(description="only models in this state", extra_json_schema={"enum": ["", *STATES]})] = ""
    sort: Annotated[str, Meta(description="order of the models", extra_json_schema={"enum": [*SORTS]})] = "trouble"
    page: PageNumber = 1


def models_table(
    plan: Plan, policy: Policy, blockers: Blockers, query: ModelsQuery, on_loan: BeyondOwn
) -> tuple[tuple[ModelRow, ...], int]:
    """(rows of the page asked for, how many rows match). `on_loan`: as in `gpu_tiles`."""
    models = {model.id: model for model in policy.models}
    entries = [_entry(decision, models.get(decision.model), blockers) for decision in plan.models]
    matching = _sorted([each for each in entries if _matches(each, query)], query.sort)
    first = (max(1, query.page) - 1) * PAGE
    return tuple(_row(each, blockers, on_loan) for each in matching[first : first + PAGE]), len(matching)


def _entry(decision: ModelDecision, model: Model | None, blockers: Blockers) -> _Entry:
    lacks = blockers.unmet.get(decision.model)
    return _Entry(decision, model, lacks.replicas if lacks else 0, decision.model in blockers.refused)


def _matches(entry: _Entry, query: ModelsQuery) -> bool:
    if query.state and not STATES[query.state](entry):
        return False
    wanted = query.q.casefold()
    if not wanted:
        return True
    model = entry.model
    known = (entry.decision.model, model.namespace, model.team) if model else (entry.decision.model,)
    return any(wanted in each.casefold() for each in known)


def _sorted(entries: Iterable[_Entry], sort: str) -> list[_Entry]:
    """Numbers from the highest down, ties by id."""
    number = _NUMBERS.get(sort)
    if number is not None:
        return sorted(entries, key=lambda each: (-number(each), each.decision.model))
    if sort == "model":
        return sorted(entries, key=lambda each: each.decision.model)
    return sorted(entries, key=_Entry.trouble)


def _row(entry: _Entry, blockers: Blockers, on_loan: BeyondOwn) -> ModelRow:
    decision, model = entry.decision, entry.model
    return ModelRow(
        model=printable(decision.model),
        demand=decision.demand,
        allocation=decision.allocation,
        ready=decision.ready,
        loading=decision.loading,
        doomed=decision.doomed,
        floor=decision.floor,
        lent=decision.lent,
        borrowed=decision.borrowed,
        unmet=entry.unmet,
        why=printable(decision.why),
        surge=decision.surge,
        next_at=blockers.next_at(decision.model),
        workload_class=model.workload_class if model else "",
        namespace=model.namespace if model else "",
        on_loan=on_loan.replicas[decision.model],
        unowned=on_loan.unowned[decision.model],
        headroom=decision.headroom,
        most=model.max_replicas if model else None,
    )
