"""The ports of the service's cycles: those of `loop.gate_ports`, whose work is shown in metrics and history too."""

from collections.abc import Callable

from rebalancer.app.history import History
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.ledger.books import ALL_TIME, Books, patience_seconds
from rebalancer.ledger.inventory import prices
from rebalancer.ledger.looks import look
from rebalancer.loop.gate_ports import GatePorts, PlanWriter
from rebalancer.obs.clock import Clock
from rebalancer.obs.metrics import Metrics
from rebalancer.obs.recorder import Recorder
from rebalancer.state import ClusterState


class ServicePorts(GatePorts):
    """Tells metrics and history what was decided and done; `books`: the GPU-seconds since this replica leads."""

    def __init__(  # noqa: PLR0913  # the parts it holds together
        self,
        policy: Policy,
        memory: Memory,
        state: ClusterState,
        recorder: Recorder,
        gate: PlanWriter,
        metrics: Metrics,
        clock: Clock,
        again: Callable[[], None],
        first_cycle: int,
        history: History,
    ) -> None:
        super().__init__(policy, memory, state, recorder, gate, clock, again, first_cycle)
        self._metrics = metrics
        self._history = history
        self._ledger = recorder.ledger
        self._written: tuple[Outcome, ...] = ()  # of the cycle under way
        self.books = Books(ALL_TIME)

    def note(self, snapshot: Snapshot, decision: Decision) -> None:
        """Kept as it is for every cycle, and in the history: the decision, then what became of its changes."""
        super().note(snapshot, decision)
        self._history.cycle(snapshot, decision, self.policy)
        self._history.wrote(self._written)
        if self._acts:  # who stands by sees the same notices and GPUs: they count once
            self._metrics.accounts(decision.plan)
            seen = look(snapshot, self.policy)
            usd = prices(seen.inventory.capacity, self.policy)
            self.books.see(seen.inventory, patience_seconds(self.policy), usd)
            if self._ledger is not None:
                self._ledger.see(seen, self.policy)

    def recover(self, now: float) -> None:
        """Readers of pages hear of it, too: what is shown of people's decisions waits for no plan then."""
        super().recover(now)
        self._history.failed()

    def skip(self, outcome: Outcome, why: str) -> None:
        """Told and counted."""
        super().skip(outcome, why)
        self._metrics.count("rebalancer_skipped_outcomes_total")

    async def carry_out(self, decision: Decision) -> tuple[Outcome, ...]:
        """Through the gate; outcomes are counted, and told with the decision."""
        self._written = ()
        self._written = await super().carry_out(decision)
        self._metrics.outcomes(self._written)
        return self._written
