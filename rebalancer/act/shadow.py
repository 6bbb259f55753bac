"""Stands in the gate's place where nothing is written: it records what would have been, and has no way to write."""

from rebalancer.act.intents import AnyChange, changes_of, intent_of
from rebalancer.act.recorder import WriteRecorder
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import SHADOW, Outcome
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.obs.clock import Clock


class Shadow:
    """Implements `loop.gate_ports.PlanWriter`."""

    def __init__(self, clock: Clock, recorder: WriteRecorder) -> None:
        self._clock = clock
        self._recorder = recorder

    async def apply(self, plan: Plan, policy: Policy, memory: Memory) -> tuple[Outcome, ...]:  # noqa: ARG002  part of the protocol
        """One outcome per change: it was decided, and not written."""
        return tuple([await self._record(change, plan.cycle) for change in changes_of(plan)])

    async def _record(self, change: AnyChange, cycle: int) -> Outcome:
        now = self._clock.now()
        outcome = Outcome(intent_of(change, cycle, now), now, SHADOW, "writeMode is shadow")
        await self._recorder.outcome(outcome)
        return outcome
