"""Why a model has what it has: now, or as it was then."""

from rebalancer.api.pages import Explanation
from rebalancer.api.text.explain import render_explain
from rebalancer.api.text.printed import printed
from rebalancer.domain.plan import Plan
from rebalancer.domain.snapshot import Snapshot


def explained(plan: Plan, snapshot: Snapshot, model: str) -> Explanation:
    """The explanation of `model`. Raises KeyError when the plan has no such model."""
    decision = {each.model: each for each in plan.models}[model]
    found = Explanation(
        at=plan.at,
        cycle=plan.cycle,
        model=decision,
        refusals=tuple(each for each in plan.refusals if each.subject == model),
        unmet=tuple(each for each in plan.unmet if each.model == model),
        changes=tuple(each for each in plan.changes if each.model == model),
        explanation=tuple(render_explain(plan, snapshot, model).splitlines()),
    )
    return printed(found)
