"""Why a model has what it has, and what becomes of a node under notice."""

from msgspec import Struct

from rebalancer.domain.account import NoticeAccount
from rebalancer.domain.instant import Instant
from rebalancer.domain.plan import Change, DrainChange, ModelDecision, Refusal, Unmet
from rebalancer.domain.snapshot import NoticeView


class Explanation(Struct, frozen=True):
    """Why a model has what it has, at the instant of one plan.

    at: instant of the plan.
    cycle: number of the cycle that made it.
    model: what it decides about the model.
    refusals: moves of the model that guards declined.
    unmet: what the model is short of, at most one entry; empty where it is not short.
    changes: writes to the model's targets.
    explanation: the lines that `rebalancer explain` prints.
    """

    at: Instant
    cycle: int
    model: ModelDecision
    refusals: tuple[Refusal, ...] = ()
    unmet: tuple[Unmet, ...] = ()
    changes: tuple[Change, ...] = ()
    explanation: tuple[str, ...] = ()


class NodeExplanation(Struct, frozen=True):
    """What becomes of a node under notice, at the instant of the last plan.

    at: instant of the plan.
    cycle: number of the cycle that made it.
    node: name of the node.
    notice: the notice about it, None where none stands any more.
    accounts: accounts of this notice and of those about the node that ended in the last hour, oldest first.
    drains: writes of the plan to the node and to replicas on it.
    explanation: the lines that `rebalancer explain --node` prints.
    """

    at: Instant
    cycle: int
    node: str
    notice: NoticeView | None = None
    accounts: tuple[NoticeAccount, ...] = ()
    drains: tuple[DrainChange, ...] = ()
    explanation: tuple[str, ...] = ()
