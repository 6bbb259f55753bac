"""The hands of a running service: the cycle looks through the state, remembers, and writes by the gate.

The service and the simulator turn the wheel with the same ones; what they are connected to differs.
"""

from collections.abc import Callable
from typing import Protocol

from rebalancer.act import recorder as act
from rebalancer.act.gate import Gate
from rebalancer.domain.cluster import WorkloadRef
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Outcome
from rebalancer.domain.plan import Change, Decision, Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.obs.clock import Clock
from rebalancer.planning import Kept
from rebalancer.state import ClusterState


class Recorder(act.Recorder, Protocol):
    """Keeps decisions as well as intents and outcomes."""

    def cycle(self, snapshot: Snapshot, memory_before: Memory, decision: Decision) -> None:
        """One decision with its inputs."""
        ...


class GateHands:
    """Implements `loop.cycle.Hands` over state and gate. `again` asks whoever turns the wheel for another turn soon."""

    def __init__(  # noqa: PLR0913  # the parts it holds together
        self,
        policy: Policy,
        memory: Memory,
        state: ClusterState,
        recorder: Recorder,
        gate: Gate,
        clock: Clock,
        again: Callable[[], None],
        first_cycle: int,
    ) -> None:
        self.policy = policy
        self.memory = memory
        self.kept = Kept()
        self.next_cycle = first_cycle
        self.last_plan: Plan | None = None
        self._state = state
        self._recorder = recorder
        self._gate = gate
        self._clock = clock
        self._again = again

    def look(self, now: float) -> Snapshot:
        """The world as the state knows it, with the outcomes since the last look."""
        self._state.take_wakes()
        return self._state.snapshot(now, self.next_cycle)

    def note(self, snapshot: Snapshot, before: Memory, decision: Decision) -> None:
        """Memory, journal, the plan to show; the next cycle has the next number."""
        self.memory = decision.memory
        self.last_plan = decision.plan
        self.next_cycle = snapshot.cycle + 1
        self._recorder.cycle(snapshot, before, decision)

    async def carry_out(self, decision: Decision) -> tuple[Outcome, ...]:
        """Through the gate; what was written asks for another look soon: a shift or a drain has a next step."""
        outcomes = await self._gate.apply(decision.plan, self.policy, decision.memory)
        for outcome in outcomes:
            self._state.note(outcome, self._clock.now())
        if any(outcome.status == WRITTEN for outcome in outcomes):
            self._again()
        return outcomes


def asked_of(state: ClusterState) -> Callable[[Change, int, float], None]:
    """A gate's `on_written`: an acknowledged write counts in `state` until a watch shows it."""

    def asked(change: Change, replicas: int, at: float) -> None:
        ref = WorkloadRef(change.target.namespace, change.target.kind, change.target.name)
        state.asked(change.model, ref, replicas, at)

    return asked
