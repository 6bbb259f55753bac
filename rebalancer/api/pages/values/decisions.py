"""What was decided: cycles in memory, a page at a time, and one cycle from the journal."""

from msgspec import Struct

from rebalancer.api.ports.timeline import DecisionRow
from rebalancer.domain.instant import Instant
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Plan
from rebalancer.domain.snapshot import Snapshot


class Decisions(Struct, frozen=True):
    """One page of the cycles in memory that did or refused something new.

    decisions: the cycles, newest first.
    next_before: number to send as `before` for the next page, None where memory has no older cycle that matches.
    newest: whether nothing that was asked for is newer.
    oldest_at: instant of the oldest cycle in memory, None where memory is empty.
    instance: name of the replica of the service that answers. One that stands by has none of the writes.
    leader: name of the replica of the service that acts; "" where none does, or it is not known yet.
    """

    decisions: tuple[DecisionRow, ...]
    next_before: int | None = None
    newest: bool = True
    oldest_at: Instant | None = None
    instance: str = ""
    leader: str = ""


class ModelBeside(Struct, frozen=True):
    """A model before and after one decision.

    model: id of the model.
    before: replicas that its targets asked for before it, None where no target is seen.
    after: replicas that they ask for once the plan is written, None where no target is seen.
    demand: replicas that the model needed then, None where that was unknown.
    why: the one thing to know about it, as a clause.
    """

    model: str
    before: int | None
    after: int | None
    demand: int | None
    why: str


class DecisionPage(Struct, frozen=True):
    """One cycle from the journal. With `?model=` plan, inputs, outcomes and what is beside are that model's alone.

    cycle: number of the cycle.
    at: instant of its snapshot.
    policy_digest: digest of the policy by which it decided.
    code_digest: digest of the source by which it decided, "" where the journal does not say.
    plan: what it decided.
    inputs: what it saw.
    outcomes: what became of its writes.
    beside: every model of the plan before and after it; what changed most first, the rest by name.
    triggers: what was new since the cycle before, a sentence each; empty where nothing was; None where that cycle is
        not recorded.
    """

    cycle: int
    at: Instant
    policy_digest: str
    code_digest: str
    plan: Plan
    inputs: Snapshot
    outcomes: tuple[Outcome, ...] = ()
    beside: tuple[ModelBeside, ...] = ()
    triggers: tuple[str, ...] | None = None
