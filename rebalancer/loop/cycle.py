"""One cycle: look at the cluster, plan, remember the plan, write it. Reads like the service's table of contents."""

from typing import Protocol

from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.planning import Memo, plan


class CyclePorts(Protocol):
    """Everything that a cycle works with: the service's ports are real, the simulator's move a simulated cluster."""

    policy: Policy
    memory: Memory
    memo: Memo

    def look(self, now: float) -> Snapshot:
        """The world at `now`, with what became of our writes since the last cycle."""
        ...

    def note(self, snapshot: Snapshot, before: Memory, decision: Decision) -> None:
        """Keep the decision: memory for the next cycle, a line in the journal, a plan to show."""
        ...

    async def carry_out(self, decision: Decision) -> tuple[Outcome, ...]:
        """Write the plan through the gate; its outcomes are in the next `look`."""
        ...


async def cycle(now: float, ports: CyclePorts) -> Decision:
    """Look, decide, remember, carry out."""
    snapshot = ports.look(now)
    before = ports.memory
    decision = plan(snapshot, ports.policy, before, ports.memo)
    ports.note(snapshot, before, decision)
    await ports.carry_out(decision)
    return decision
