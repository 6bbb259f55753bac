"""Why a model has what it has, now or as it was then, and what becomes of a node under notice."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from rebalancer.api.pages.values.explanation import Explanation, NodeExplanation
from rebalancer.api.ports.page_data import PageData
from rebalancer.api.ports.past_refusals import PastRefusal
from rebalancer.api.text.explain import render_explain
from rebalancer.api.text.explain_node import render_node
from rebalancer.api.text.printed import printed
from rebalancer.domain.instant import Instant
from rebalancer.domain.plan import Plan
from rebalancer.domain.snapshot import Snapshot


class ExplanationQuery(Struct, frozen=True):
    """The query of an explanation: the instant to explain; None: now."""

    at: Annotated[Instant | None, Meta(description="as it was then, from the journal")] = None


def explained(plan: Plan, snapshot: Snapshot, model: str, past: Iterable[PastRefusal] = ()) -> Explanation:
    """The explanation of `model`; `past`: refusals of the minutes before. Raises KeyError without such a model."""
    decision = {each.model: each for each in plan.models}[model]
    explanation = Explanation(
        at=plan.at,
        cycle=plan.cycle,
        model=decision,
        refusals=tuple(each for each in plan.refusals if each.subject == model),
        unmet=tuple(each for each in plan.unmet if each.model == model),
        changes=tuple(each for each in plan.changes if each.model == model),
        explanation=tuple(render_explain(plan, snapshot, model, past).splitlines()),
    )
    return printed(explanation)


def explained_node(data: PageData, plan: Plan, node: str) -> NodeExplanation | None:
    """What becomes of `node`; None where no notice about it stands, and none with replicas ended in the last hour."""
    notice = next((each for each in data.snapshot.notices if each.node == node), None)
    accounts = tuple(each for each in data.accounts if each.node == node)
    if notice is None and not accounts:
        return None
    drains = tuple(each for each in plan.drains if each.node == node)
    explanation = NodeExplanation(
        at=plan.at,
        cycle=plan.cycle,
        node=node,
        notice=notice,
        accounts=accounts,
        drains=drains,
        explanation=tuple(render_node(node, notice, accounts, drains, plan.at)),
    )
    return printed(explanation)
