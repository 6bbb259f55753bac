"""Why a model has what it has: now, or as it was then."""

from typing import Annotated

from msgspec import Meta, Struct

from rebalancer.api.pages.values import Explanation
from rebalancer.api.text.explain import render_explain
from rebalancer.api.text.printed import printed
from rebalancer.domain.instant import Instant
from rebalancer.domain.plan import Plan
from rebalancer.domain.snapshot import Snapshot


class ExplanationQuery(Struct, frozen=True):
    """Of which instant the explanation is; None: of now."""

    at: Annotated[Instant | None, Meta(description="as it was then, from the journal")] = None


def explained(plan: Plan, snapshot: Snapshot, model: str) -> Explanation:
    """The explanation of `model`. Raises KeyError when the plan has no such model."""
    decision = {each.model: each for each in plan.models}[model]
    explanation = Explanation(
        at=plan.at,
        cycle=plan.cycle,
        model=decision,
        refusals=tuple(each for each in plan.refusals if each.subject == model),
        unmet=tuple(each for each in plan.unmet if each.model == model),
        changes=tuple(each for each in plan.changes if each.model == model),
        explanation=tuple(render_explain(plan, snapshot, model).splitlines()),
    )
    return printed(explanation)
