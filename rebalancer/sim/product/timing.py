"""How long plans take while a day is simulated: by a clock of whoever plays it, for virtual time stands still."""

from collections.abc import Callable
from math import ceil

from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.loop.cycle import CyclePorts
from rebalancer.planning import Memo


class PlanTimes:
    """What each plan of a run took, in `seconds` of `clock` (anything that counts seconds). No decision hears of it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds: list[float] = []

    @property
    def p99_ms(self) -> float | None:
        """The least milliseconds that 99 % of the plans stay within; None without plans."""
        if not self.seconds:
            return None
        return sorted(self.seconds)[ceil(0.99 * len(self.seconds)) - 1] * 1e3


class TimedPorts:
    """Implements `loop.cycle.CyclePorts` by somebody else's: from a look until its memory is kept is the plan."""

    def __init__(self, ports: CyclePorts, times: PlanTimes) -> None:
        self._ports = ports
        self._times = times
        self._looked_at = 0.0

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._ports.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        """Put another policy in force."""
        self._ports.policy = policy

    @property
    def memory(self) -> Memory:
        """What the next plan remembers."""
        return self._ports.memory

    @memory.setter
    def memory(self, memory: Memory) -> None:
        """Keep what the next plan remembers."""
        self._ports.memory = memory

    @property
    def memo(self) -> Memo:
        """What stands from the plan before."""
        return self._ports.memo

    @memo.setter
    def memo(self, memo: Memo) -> None:
        """Keep what the next plan may take over."""
        self._ports.memo = memo

    def look(self, now: float) -> Snapshot:
        """The same, and from then on the plan is under way."""
        snapshot = self._ports.look(now)
        self._looked_at = self._times.clock()
        return snapshot

    def remember(self, snapshot: Snapshot, before: Memory, memory: Memory) -> None:
        """The same; the plan is made."""
        self._times.seconds.append(self._times.clock() - self._looked_at)
        self._ports.remember(snapshot, before, memory)

    async def carry_out(self, decision: Decision) -> tuple[Outcome, ...]:
        """The same."""
        return await self._ports.carry_out(decision)

    def note(self, snapshot: Snapshot, decision: Decision) -> None:
        """The same."""
        self._ports.note(snapshot, decision)
