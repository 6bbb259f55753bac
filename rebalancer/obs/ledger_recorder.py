"""Writes the ledger's looks beside the journal: what `rebalancer report` reads once the journal had to forget.

A file is an hour, and is packed when the hour is over: 20 models are some 3 MB a day, where their journal is 830.
"""

from rebalancer.domain.policy import Policy
from rebalancer.ledger.look_lines import NOTHING, look_line
from rebalancer.ledger.looks import LedgerLook
from rebalancer.obs import journal
from rebalancer.obs.journal_files import JournalFiles

FILE_SECONDS = 3600.0


class LedgerRecorder:
    """One ledger. A whole look is written each `whole_seconds`, and where the policy changes: a reader starts there."""

    def __init__(self, files: JournalFiles, whole_seconds: float) -> None:
        self._files = files
        self._whole_seconds = whole_seconds
        self._before = NOTHING
        self._policy: Policy | None = None
        self._number = 0
        self._file_at: float | None = None
        self._whole_at = 0.0

    @property
    def trouble(self) -> str | None:
        """Why the ledger cannot be written, None when it can."""
        return self._files.trouble

    def start(self) -> None:
        """Begin."""
        self._files.start()

    def see(self, look: LedgerLook, policy: Policy) -> None:
        """The next cycle."""
        is_new_file = self._file_at is None or not 0 <= look.at - self._file_at < FILE_SECONDS or self._files.full
        if is_new_file:
            self._files.rotate()
            self._file_at = look.at // FILE_SECONDS * FILE_SECONDS
        if is_new_file or policy is not self._policy:
            self._files.append(journal.encode(journal.policy_line(policy, look.at, "")))
        is_whole = is_new_file or policy is not self._policy or not 0 <= look.at - self._whole_at < self._whole_seconds
        if is_whole:
            self._before, self._number, self._whole_at = NOTHING, 0, look.at
        self._files.append(journal.encode(look_line(self._before, look, self._number)))
        self._before, self._policy = look, policy
        self._number += 1

    async def close(self) -> None:
        """Everything queued is on disk."""
        await self._files.close()
