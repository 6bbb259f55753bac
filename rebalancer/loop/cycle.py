"""One cycle: look, decide, remember, write, explain. Reads like the service's table of contents."""

from typing import NamedTuple, Protocol

from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.planning import Memo, decide_apart


class CyclePorts(Protocol):
    """Everything that a cycle works with: the service's ports are real, the simulator's move a simulated cluster."""

    policy: Policy
    memory: Memory
    memo: Memo

    def look(self, now: float) -> Snapshot:
        """The world at `now`, with what became of our writes since the last cycle."""
        ...

    def remember(self, snapshot: Snapshot, before: Memory, memory: Memory) -> None:
        """Keep `memory` for the next cycle, before anything is written that it knows of; it was `before` till here."""
        ...

    async def carry_out(self, decision: Decision) -> tuple[Outcome, ...]:
        """Write the plan through the gate; its outcomes are in the next `look`. It is not explained yet."""
        ...

    def note(self, snapshot: Snapshot, decision: Decision) -> None:
        """Keep the decision with its explanation: a line in the journal, a plan to show."""
        ...


class CycleTurn(NamedTuple):
    """What came of a cycle.

    decision: what was decided and written.
    failures: what planning raised on families of pools, an exception for each of `Plan.unplanned`.
    unexplained: what making its sentences raised, an exception for each model or pool without them.
    """

    decision: Decision
    failures: tuple[Exception, ...] = ()
    unexplained: tuple[Exception, ...] = ()

    def whole(self) -> Decision:
        """The decision, where all pools were planned and all of it is explained; else it raises what failed first."""
        for failure in (*self.failures, *self.unexplained):
            raise failure
        return self.decision


async def cycle(now: float, ports: CyclePorts) -> CycleTurn:
    """Look, decide, remember, carry out, explain: no write waits for sentences and a journal line of some megabytes."""
    snapshot = ports.look(now)
    before = ports.memory
    decided = decide_apart(snapshot, ports.policy, before, ports.memo)
    ports.remember(snapshot, before, decided.orders.memory)
    await ports.carry_out(decided.orders)
    decision, unexplained = decided.explained()
    ports.note(snapshot, decision)
    return CycleTurn(decision, decided.failures, unexplained)
