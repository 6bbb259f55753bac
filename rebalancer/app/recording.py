"""Where the service records what it sees and does: the local journal, and the ledger beside it."""

from pathlib import Path

from rebalancer.obs.journal_files import JournalFiles
from rebalancer.obs.ledger_recorder import LedgerRecorder
from rebalancer.settings.service import ServiceSettings

MIB = 1024 * 1024


def journal_of(settings: ServiceSettings, single: Path | None = None) -> JournalFiles:
    """The journal in its folder, or the one file `single`."""
    return JournalFiles(settings.journal_dir, settings.journal_max_mib * MIB, single)


def ledger_of(settings: ServiceSettings) -> LedgerRecorder:
    """The ledger in the journal's folder, with as many whole looks as the journal has keyframes."""
    files = JournalFiles(settings.journal_dir, settings.ledger_max_mib * MIB, name="ledger", packs=True)
    return LedgerRecorder(files, settings.keyframe_seconds)
