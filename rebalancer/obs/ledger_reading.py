"""Reads looks out of a ledger's files, and out of a journal's: a line at a time, whatever their size.

A line that was cut off or damaged costs what follows it up to the next whole look, and no more.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from pydantic import ValidationError

from rebalancer.domain.policy import Policy
from rebalancer.ledger.look_lines import NOTHING, look_of
from rebalancer.ledger.looks import LedgerLook, look
from rebalancer.obs import journal
from rebalancer.obs.journal_files import LEDGER_PATTERN, PACKED
from rebalancer.obs.journal_lines import lines_of
from rebalancer.obs.journal_reading import JournalRead, RecordedTurn

MARK = re.compile(rb'^\{"at":([-+.0-9e]+),')  # how all of its lines begin, keys being sorted


class RecordedLook(NamedTuple):
    """One recorded cycle as the ledger keeps it.

    look: what was seen.
    policy: the policy in force.
    after_loss: why cycles before it are missing, "" where none are known to be.
    """

    look: LedgerLook
    policy: Policy
    after_loss: str = ""


def looked(turn: RecordedTurn) -> RecordedLook:
    """What the ledger keeps of a cycle of the journal."""
    return RecordedLook(look(turn.snapshot, turn.policy), turn.policy, turn.after_loss)


def ledger_files(folder: Path) -> tuple[Path, ...]:
    """The ledger's files in a journal's folder, or the one that it is, oldest first; none where there are none."""
    if folder.is_file():
        return (folder,) if folder.match(LEDGER_PATTERN) or folder.match(f"{LEDGER_PATTERN}{PACKED}") else ()
    packed = {path.name.removesuffix(PACKED): path for path in folder.glob(f"{LEDGER_PATTERN}{PACKED}")}
    plain = {path.name: path for path in folder.glob(LEDGER_PATTERN)}
    by_name = plain | packed  # where both are there, they say the same
    return tuple(by_name[name] for name in sorted(by_name))


def ledger_looks(
    files: Sequence[Path], tally: JournalRead, heard: Callable[[int], None] = lambda _: None
) -> Iterator[RecordedLook]:
    """Every look of the files that can be made again; `heard` is told how many files are read."""
    reader = _LookReader(tally)
    for number, path in enumerate(files, 1):
        yield from reader.looks(path, is_last=path is files[-1])
        heard(number)


def instants(path: Path) -> Iterator[float]:
    """The instants of the looks in a ledger's file, without decoding them."""
    for raw in lines_of(_there(path)):
        mark = MARK.match(raw)
        if mark is not None and raw.endswith(b"\n"):
            yield float(mark[1])


class _LookReader:
    """Where it is in the ledger: the policy in force and the look to which the next line applies."""

    def __init__(self, tally: JournalRead) -> None:
        self._tally = tally
        self._policy: Policy | None = None
        self._digest = ""
        self._look = NOTHING
        self._next: int | None = None  # number of the line that may follow; None: nothing but a whole one
        self._loss = ""

    def looks(self, path: Path, *, is_last: bool) -> Iterator[RecordedLook]:
        """Those of one file; the ledger's last file may be in the middle of a line."""
        for number, raw in enumerate(lines_of(_there(path), self._lose), 1):
            self._tally.lines += 1
            self._tally.size += len(raw)
            if not raw.endswith(b"\n"):
                if not is_last:
                    self._tally.cut_off += 1
                    self._lose(f"line {number} of {path.name} is cut off: the process was killed while it wrote")
                break
            try:
                recorded = self._taken(raw)
            except (msgspec.DecodeError, ValidationError, UnicodeDecodeError, TypeError, OverflowError) as error:
                self._lose(f"line {number} of {path.name} is not a ledger's ({str(error).splitlines()[0]})")
                continue
            if recorded is not None:
                self._tally.cycles += 1
                yield recorded

    def _taken(self, raw: bytes) -> RecordedLook | None:
        line = journal.decode_ledger(raw)
        if isinstance(line, journal.PolicyLine):
            if line.digest != self._digest:
                self._policy, self._digest = None, line.digest
                self._policy = Policy.model_validate(line.policy, strict=False)
            return None
        if line.number and line.number != self._next:
            self._lose(f"the ledger lacks lines before {line.at:.0f}" if self._next is not None else "")
        if (line.number and self._next is None) or self._policy is None:
            self._tally.skipped += 1
            return None
        self._look, self._next = look_of(self._look, line), line.number + 1
        self._tally.writes += line.writes
        loss, self._loss = self._loss, ""
        return RecordedLook(self._look, self._policy, loss)

    def _lose(self, why: str) -> None:
        """Nothing is believed until the next whole look; `why` is a sentence, "" where it was told before."""
        if why:
            self._tally.damaged.append(why)
        self._next = None
        self._loss = self._loss or "a line of the ledger is damaged"


def _there(path: Path) -> Path:
    """The file as it is by now: it may have been packed since it was listed."""
    packed = path.with_name(path.name + PACKED)
    return packed if not path.exists() and packed.exists() else path
