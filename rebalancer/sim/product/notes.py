"""What the product writes down while it is simulated: nothing, or the journal that `rebalancer replay` re-runs."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Intent, Outcome
from rebalancer.domain.plan import Decision, Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.loop.gate_ports import CycleRecorder
from rebalancer.obs import recorder
from rebalancer.obs.journal_files import JournalFiles

KEYFRAME_SECONDS = 3600.0

Notes = Path | Callable[[Plan], None]  # a journal's file, or who takes each explained plan


class Unwritten:
    """Acknowledges every intent, as a healthy Kafka does, and writes nothing; each plan goes to `keep`."""

    def __init__(self, keep: Callable[[Plan], None] | None = None) -> None:
        self._keep = keep

    def begin(self, snapshot: Snapshot, memory_before: Memory) -> None:
        """Forget it."""

    def cycle(self, decision: Decision) -> None:
        """Hand its plan on where somebody wants it."""
        if self._keep is not None:
            self._keep(decision.plan)

    def begin_anew(self) -> None:
        """Does nothing: no file is kept."""

    async def intent(self, intent: Intent, *, wait_seconds: float) -> bool:  # noqa: ARG002  # all alike
        """Acknowledged."""
        return True

    async def outcome(self, outcome: Outcome) -> None:
        """Forget it."""


@asynccontextmanager
async def notes(to: Notes | None, policy: Policy, code: str, started_at: float) -> AsyncIterator[CycleRecorder]:
    """Production's recorder over one file, complete on leaving; without a file one that writes nothing.

    `code`: digest of the source that decides. Raises OSError when the file could not be written.
    """
    if not isinstance(to, Path):
        yield Unwritten(to)
        return
    files = JournalFiles(to.parent, 0, single=to)
    files.start()
    journal = recorder.Recorder(files, _acknowledged, lambda _key, _line: None, KEYFRAME_SECONDS)
    journal.code = code
    journal.policy(policy, started_at)
    try:
        yield journal
    finally:
        await journal.close()
    if journal.trouble is not None:
        raise OSError(journal.trouble)


async def _acknowledged(_key: bytes, _line: bytes) -> bool:
    return True
