"""Writes the journal: keyframes and cycles, intents before a write, outcomes after it; to local files and `decisions`.

A decrease's intent must be acknowledged by Kafka before the write goes out, so that no guard's window forgets it over
a crash or a fail-over; drains and overrides content themselves with the local file while Kafka is away.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Intent, Outcome
from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.obs import journal
from rebalancer.obs.journal_files import JournalFiles
from rebalancer.obs.ledger_recorder import LedgerRecorder

Publish = Callable[[bytes, bytes], Awaitable[bool]]  # (key, value) -> acknowledged
Tell = Callable[[bytes, bytes], None]  # (key, value), not waited for


@dataclass(frozen=True, slots=True)
class _Begun:
    """The inputs of a cycle that is under way, the snapshot `before` it, and the policy by its digest."""

    before: Snapshot
    snapshot: Snapshot
    policy_digest: str


class Recorder:
    """One journal. `publish` sends to `decisions` and says whether Kafka acknowledged; `tell` sends without waiting.

    `code`: digest of the source that decides (`journal.code_digest`, which reads files), set before the first policy.
    `ledger`: what is written beside it and kept longer; the demo's journal has none.
    """

    def __init__(
        self,
        files: JournalFiles,
        publish: Publish,
        tell: Tell,
        keyframe_seconds: float = 300.0,
        ledger: LedgerRecorder | None = None,
    ) -> None:
        self.ledger = ledger
        self._files = files
        self._publish = publish
        self._tell = tell
        self._keyframe_seconds = keyframe_seconds
        self._policy: journal.PolicyLine | None = None
        self._before = journal.EMPTY
        self._begun = _Begun(journal.EMPTY, journal.EMPTY, "")
        self._sending: set[asyncio.Future[bool]] = set()  # intents that are acknowledged later, maybe
        self._undecided = False  # a cycle has begun, and what it decided is not recorded
        self._keyframe_at: float | None = None
        self._untold: tuple[Outcome, ...] = ()
        self._journaled: Collection[tuple[str, float]] = ()
        self.code = ""

    def start(self) -> None:
        """Begin; nothing is written before."""
        self._files.start()
        if self.ledger is not None:
            self.ledger.start()

    @property
    def trouble(self) -> str | None:
        """Why the local journal, or the ledger beside it, cannot be written, None when they can."""
        return self._files.trouble or (self.ledger.trouble if self.ledger is not None else None)

    @property
    def policy_digest(self) -> str:
        """Digest of the policy in force, as journal lines carry it."""
        return self._policy.digest if self._policy else ""

    def policy(self, policy: Policy, now: float) -> None:
        """`policy` is in force from the next cycle on; that cycle begins with a keyframe."""
        self._policy = journal.policy_line(policy, now, self.code)
        self.begin_anew()

    def begin_anew(self) -> None:
        """The next cycle begins with a keyframe: its memory is not what the one before it left."""
        self._keyframe_at = None

    def succeed(self, untold: tuple[Outcome, ...], journaled: Collection[tuple[str, float]] = ()) -> None:
        """Record these, which the leader before us did not, with the next cycle: a file begins with its keyframe.

        Those whose identity is in `journaled` stand in our own journal already, from before we were killed: Kafka alone
        is told of them, since the timeline and the report count a line for a write.
        """
        self._untold = untold
        self._journaled = journaled
        self.begin_anew()

    def begin(self, snapshot: Snapshot, memory_before: Memory) -> None:
        """A cycle's inputs, at times a keyframe. What changes from here on, the policy too, is the next cycle's."""
        if self._undecided:  # the cycle before failed: its inputs and the memory that it left are in no line
            self.begin_anew()
        due = self._keyframe_at is None or not 0 <= snapshot.at - self._keyframe_at < self._keyframe_seconds
        if due or self._files.full:
            self._keyframe(snapshot, memory_before)
            for outcome in self._untold:
                line = journal.OutcomeLine(outcome)
                if outcome.intent.identity in self._journaled:
                    self._tell(b"outcome", journal.encode(line))
                else:
                    self._write(line, b"outcome")
            self._untold = ()
        self._begun = _Begun(self._before, snapshot, self.policy_digest)
        self._before = snapshot
        self._undecided = True

    def cycle(self, decision: Decision) -> None:
        """The decision made from the inputs of the last `begin`."""
        begun = self._begun
        self._write(journal.cycle_line(begun.before, begun.snapshot, decision, begun.policy_digest), b"cycle")
        self._undecided = False

    def _keyframe(self, snapshot: Snapshot, memory_before: Memory) -> None:
        if self._files.full or self._before is journal.EMPTY:
            self._files.rotate()
        if self._policy is not None:
            self._write(self._policy, b"policy")
        for line in journal.keyframe(snapshot, memory_before):
            self._write(line, b"frame")
        self._before = snapshot
        self._keyframe_at = snapshot.at

    async def intent(self, intent: Intent, *, wait_seconds: float) -> bool:
        """Record what is about to be written; whether Kafka acknowledged it within so long.

        It is sent on after that, as long as `publish` tries. Where it is not acknowledged it is on the local disk.
        """
        line = journal.encode(journal.IntentLine(intent))
        self._files.append(line)
        if wait_seconds <= 0:
            self._tell(b"intent", line)
        else:
            sending = asyncio.ensure_future(self._publish(b"intent", line))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)
            await asyncio.wait({sending}, timeout=wait_seconds)
            if sending.done() and sending.result():
                return True
        await self._files.flushed()
        return False

    async def outcome(self, outcome: Outcome) -> None:
        """Record what became of it."""
        self._write(journal.OutcomeLine(outcome), b"outcome")

    def _write(self, line: journal.Line, key: bytes) -> None:
        encoded = journal.encode(line)
        self._files.append(encoded)
        self._tell(key, encoded)

    async def close(self) -> None:
        """Everything queued is on disk."""
        await self._files.close()
        if self.ledger is not None:
            await self.ledger.close()
