"""The ports of a running service: by them a cycle looks at the state, remembers its plan, and writes through the gate.

The service and the simulator turn the loop with the same ports; they are connected to different worlds. The outcomes
that a cycle was given are remembered even where the cycle fails: guards' windows rest on them.
"""

from collections.abc import Callable
from typing import Protocol

import structlog

from rebalancer.act import recorder as act
from rebalancer.domain.arithmetic import bounding
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Outcome
from rebalancer.domain.plan import Change, Decision, Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.stepped import stepped
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.obs.clock import Clock
from rebalancer.planning import Memo
from rebalancer.planning.memory.outcomes import recall, stranger
from rebalancer.state import ClusterState

log = structlog.get_logger()


class CycleRecorder(act.WriteRecorder, Protocol):
    """Keeps decisions as well as intents and outcomes."""

    def begin(self, snapshot: Snapshot, memory_before: Memory) -> None:
        """A cycle's inputs, before what it writes is recorded."""
        ...

    def cycle(self, decision: Decision) -> None:
        """The decision made from the inputs of the last `begin`."""
        ...

    def begin_anew(self) -> None:
        """Memory changed outside a cycle: the next one is recorded with all that goes into it."""
        ...


class PlanWriter(Protocol):
    """Carries a plan out: the gate, or `act.shadow.Shadow`."""

    async def apply(self, plan: Plan, policy: Policy, memory: Memory) -> tuple[Outcome, ...]:
        """One outcome per change; one change never costs another."""
        ...


class GatePorts:
    """Implements `loop.cycle.CyclePorts` over state and gate; `again` asks the runner for another cycle soon.

    `leads`: whether this replica acts, asked once in each cycle.
    """

    def __init__(  # noqa: PLR0913  # the parts it holds together
        self,
        policy: Policy,
        memory: Memory,
        state: ClusterState,
        recorder: CycleRecorder,
        gate: PlanWriter,
        clock: Clock,
        again: Callable[[], None],
        first_cycle: int,
    ) -> None:
        self.policy = policy
        self.memory = memory
        self.memo = Memo()
        self.next_cycle = first_cycle
        self.last_plan: Plan | None = None
        self.leads: Callable[[], bool] = lambda: True
        self._acts = True  # in the cycle under way
        self._state = state
        self._recorder = recorder
        self._gate = gate
        self._clock = clock
        self._again = again

    def look(self, now: float) -> Snapshot:
        """The world as the state knows it, with the outcomes since the last look."""
        self._state.take_wakes()
        return self._state.snapshot(now, self.next_cycle)

    def remember(self, snapshot: Snapshot, before: Memory, memory: Memory) -> None:
        """Memory, and what the decision was made from; the next cycle has the next number."""
        models = {model.id for model in self.policy.models}
        for outcome in snapshot.outcomes:
            why = stranger(outcome.intent, models)
            if why is not None:
                self.skip(outcome, why)
        self.memory = memory
        self.next_cycle = snapshot.cycle + 1
        self._acts = self.leads()
        if self._acts:
            self._recorder.begin(snapshot, before)

    def note(self, snapshot: Snapshot, decision: Decision) -> None:  # noqa: ARG002  # the service shows it
        """The journal, and the plan to show."""
        self.last_plan = decision.plan
        if self._acts:
            self._recorder.cycle(decision)

    def recover(self, now: float) -> None:
        """After a cycle that decided nothing: remember its outcomes one by one, so that no other cycle gets them.

        One that cannot be understood is lost alone.
        """
        outcomes = self._state.outcomes(self.next_cycle)
        for outcome in outcomes:
            try:
                self.memory = recall(self.memory, (outcome,), self.policy, now)
            except Exception as error:  # noqa: BLE001  whatever it is, the others count
                self.skip(outcome, f"{type(error).__name__}: {error}")
        self._recorder.begin_anew()  # a number is left out: memory is made again from unbroken ones alone
        self.memo = Memo()  # what it had made so far may be what it failed on
        self.next_cycle += 1

    def succeed(self, memory: Memory, first_cycle: int) -> None:
        """From the next cycle on this replica leads: with what the leader before it remembered.

        What it made while it stood by stands where it was made from equal values: 0.15 s of 0.3 s at 1,000 models.
        """
        self.memory = memory
        self.next_cycle = max(first_cycle, self.next_cycle)  # no number twice, for outcomes are handed out by it
        self._recorder.begin_anew()

    def stepped(self, seconds: float) -> None:
        """The clock was set by so many seconds: cooldowns and guards' windows have lasted as long as they have."""
        self.memory = stepped(self.memory, seconds)
        self._recorder.begin_anew()
        self.memo = Memo()

    def skip(self, outcome: Outcome, why: str) -> None:
        """`outcome` is not remembered."""
        log.error("what became of a write is ignored", intent=outcome.intent.id, status=outcome.status, why=why)

    async def carry_out(self, decision: Decision) -> tuple[Outcome, ...]:
        """Through the gate; what was written asks for another look soon: a shift or a drain has a next step.

        Who stands by thinks along: it decides, remembers what it would do, and neither writes nor tells.
        """
        if not self._acts:
            return ()
        outcomes = await self._gate.apply(decision.plan, self.policy, decision.memory)
        for outcome in outcomes:
            self._state.note(outcome, self._clock.now())
        if any(outcome.status == WRITTEN for outcome in outcomes):
            self._again()
        return outcomes


def mark_unconfirmed(state: ClusterState) -> Callable[[Change, int, float], None]:
    """A gate's `on_written`: an acknowledged write counts in `state` until a watch shows it."""

    def note_write(change: Change, replicas: int, at: float) -> None:
        ref = WorkloadRef(change.target.namespace, change.target.kind, change.target.name)
        state.note_write(change.model, ref, replicas, at, minimum=change.minimum if bounding(change.target) else None)

    return note_write
