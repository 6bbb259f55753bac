"""The service's hands: the cycle looks through the state, remembers in memory and journal, and writes by the gate."""

from collections.abc import Callable

from rebalancer.act.gate import Gate
from rebalancer.app.history import History
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Outcome
from rebalancer.domain.plan import Decision, Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.obs.clock import Clock
from rebalancer.obs.metrics import Metrics
from rebalancer.obs.recorder import Recorder
from rebalancer.state import ClusterState


class ServiceHands:
    """Implements `loop.cycle.Hands` over the real parts. `again` asks the runner for another turn soon."""

    def __init__(  # noqa: PLR0913  # the parts it holds together
        self,
        policy: Policy,
        memory: Memory,
        state: ClusterState,
        recorder: Recorder,
        gate: Gate,
        metrics: Metrics,
        clock: Clock,
        again: Callable[[], None],
        first_cycle: int,
        history: History,
    ) -> None:
        self.policy = policy
        self.memory = memory
        self.next_cycle = first_cycle
        self.last_plan: Plan | None = None
        self._state = state
        self._recorder = recorder
        self._gate = gate
        self._metrics = metrics
        self._clock = clock
        self._again = again
        self._history = history

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
        self._history.cycle(snapshot, decision)

    async def carry_out(self, decision: Decision) -> tuple[Outcome, ...]:
        """Through the gate; what was written asks for another look soon: a shift or a drain has a next step."""
        outcomes = await self._gate.apply(decision.plan, self.policy, decision.memory)
        for outcome in outcomes:
            self._state.note(outcome, self._clock.now())
            self._metrics.outcome(outcome)
        self._history.wrote(outcomes)
        if any(outcome.status == WRITTEN for outcome in outcomes):
            self._again()
        return outcomes
