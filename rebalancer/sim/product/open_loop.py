"""A journal's inputs, fed to the cycle that the simulator turns: whether it decides what was decided then.

Open loop: what the cycle decides now moves nothing, the next inputs are the recorded ones.
"""

from collections.abc import Iterable

from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.loop.cycle import cycle
from rebalancer.loop.replay import Replay, compare
from rebalancer.obs.journal_reading import JournalRead, RecordedTurn, turns_in
from rebalancer.planning import Memo
from rebalancer.sim.product.clock import still


class RecordedPorts:
    """Implements `loop.cycle.CyclePorts`: looks at recorded snapshots, writes nothing, compares what is decided."""

    def __init__(self, policy: Policy, into: Replay) -> None:
        self.policy = policy
        self.memory = Memory()
        self.memo = Memo()
        self._into = into
        self._turn: RecordedTurn | None = None

    def take(self, turn: RecordedTurn) -> None:
        """What the next look shows, and what it is decided by."""
        self._turn = turn
        self.policy = turn.policy
        if turn.memory is not None:
            self.memory = turn.memory

    def look(self, now: float) -> Snapshot:
        """The recorded snapshot. Raises ValueError when there is none of that instant."""
        if self._turn is None or self._turn.snapshot.at != now:
            raise ValueError(f"no recorded snapshot at {now}")
        return self._turn.snapshot

    def remember(self, snapshot: Snapshot, before: Memory, memory: Memory) -> None:  # noqa: ARG002  # as the wheel has it
        """For the next turn."""
        self.memory = memory

    def note(self, snapshot: Snapshot, decision: Decision) -> None:  # noqa: ARG002  # as the wheel has it
        """Compare with what was decided then."""
        if self._turn is not None:
            compare(self._turn, decision, self._into)

    async def carry_out(self, decision: Decision) -> tuple[Outcome, ...]:  # noqa: ARG002  # open loop
        """Nothing is written."""
        return ()


def feed(lines: Iterable[bytes]) -> Replay:
    """Turn the cycle on a journal's inputs. Raises ValueError naming the line that is not a journal's."""
    again, tally = Replay(), JournalRead()
    ports: RecordedPorts | None = None
    with still() as runner:
        for turn in turns_in(lines, tally):
            ports = ports or RecordedPorts(turn.policy, again)
            ports.take(turn)
            runner.run(cycle(turn.snapshot.at, ports))
    if tally.damaged:
        raise ValueError(tally.damaged[0])
    again.skipped = tally.skipped
    return again
