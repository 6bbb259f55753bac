"""Reads the looks out of a journal's files, one after the other: a line at a time, whatever their size.

Files are `journal-*.jsonl` of a folder or single ones, plain or gzipped (`.gz`). A line that was cut off or damaged
costs what follows it up to the next keyframe, and no more.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from pydantic import ValidationError

from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.obs import journal
from rebalancer.obs.journal_files import PATTERN


class NoJournal(Exception):
    """There is nothing to read; the text says where it was looked for and what to do."""


class RecordedTurn(NamedTuple):
    """One recorded cycle.

    snapshot: what was seen.
    policy: the policy in force.
    after_loss: why cycles before it are missing, "" where none are known to be.
    """

    snapshot: Snapshot
    policy: Policy
    after_loss: str


@dataclass(slots=True)
class JournalRead:
    """What was read.

    lines: number of lines.
    size: bytes of them, unpacked.
    cycles: number of cycles that were understood.
    damaged: sentences about lines and files that could not be read.
    writes: number of writes that were carried out.
    """

    lines: int = 0
    size: int = 0
    cycles: int = 0
    damaged: list[str] = field(default_factory=list)
    writes: int = 0


def journal_files(place: Path) -> tuple[Path, ...]:
    """The files of a journal, oldest first: a folder's, or the one file. Raises NoJournal."""
    if place.is_file():
        return (place,)
    found = sorted([*place.glob(PATTERN), *place.glob(f"{PATTERN}.gz")], key=lambda path: path.name)
    if not found:
        raise NoJournal(
            f"no journal in {place}: give the service's folder (REBALANCER_JOURNAL_DIR) or a file as --journal"
        )
    return tuple(found)


def last_instant(files: Sequence[Path]) -> float:
    """When the last recorded cycle was. Raises NoJournal."""
    for path in reversed(files):
        latest = None
        for raw in lines_of(path, []):
            mark = journal.MARK.match(raw[: journal.MARK_BYTES])
            latest = float(mark[2]) if mark is not None else latest
        if latest is not None:
            return latest
    raise NoJournal(f"{files[-1]} has no cycle yet: let the service run for a minute")


def within(files: Sequence[Path], since: float) -> tuple[Path, ...]:
    """The files that may tell of what was from `since` on: all but those that end before."""
    begins = [(path, _first_instant(path)) for path in files]
    kept = list(files)
    for (path, _), (_, begin) in pairwise(begins):
        if begin is not None and begin <= since:
            kept.remove(path)
    return tuple(kept)


def turns(
    files: Sequence[Path], tally: JournalRead, heard: Callable[[int], None] = lambda _: None
) -> Iterator[RecordedTurn]:
    """Every cycle of the files that can be re-made; `heard` is told the bytes read so far, file by file of them."""
    reader = _Reader(tally)
    for path in files:
        if path is not files[0]:
            reader.next_file()
        for number, raw in enumerate(lines_of(path, tally.damaged), 1):
            tally.lines += 1
            tally.size += len(raw)
            if path is files[-1] and not raw.endswith(b"\n"):
                break  # it is being written
            turn = reader.line(raw, path, number)
            if turn is not None:
                tally.cycles += 1
                yield turn
        heard(tally.size)


class _Reader:
    """Where it is in the journal: the policy in force and the snapshot to which the next difference applies."""

    def __init__(self, tally: JournalRead) -> None:
        self._tally = tally
        self._policy: Policy | None = None
        self._digest = ""
        self._snapshot = journal.EMPTY
        self._parts_left: int | None = None  # of a keyframe; None: none has begun
        self._loss = ""

    def next_file(self) -> None:
        """A file begins with a policy and a keyframe, so nothing is carried over but the last loss."""
        self._parts_left = None

    def line(self, raw: bytes, path: Path, number: int) -> RecordedTurn | None:
        """The cycle that this line ends, None for all other lines."""
        if raw.startswith((b'{"intent"', b'{"line":"intent"')):
            return None
        if not raw.endswith(b"\n"):
            self._lose(f"line {number} of {path.name} is cut off: the process was killed while it wrote")
            return None
        try:
            return self._taken(journal.decode(raw))
        except (msgspec.DecodeError, ValidationError, UnicodeDecodeError) as error:
            said = str(error).splitlines()[0]
            self._lose(f"line {number} of {path.name} is not a journal's ({said})")
            return None

    def _taken(self, line: journal.Line) -> RecordedTurn | None:
        if isinstance(line, journal.PolicyLine):
            if line.digest != self._digest:
                self._policy = Policy.model_validate(line.policy, strict=False)
                self._digest = line.digest
        elif isinstance(line, journal.FrameLine):
            if line.part == 0:
                self._snapshot, self._parts_left = journal.EMPTY, line.parts
            if self._parts_left is not None:
                self._snapshot = journal.apply(self._snapshot, line.delta)
                self._parts_left -= 1
        elif isinstance(line, journal.OutcomeLine):
            self._tally.writes += line.outcome.status == "written"
        elif isinstance(line, journal.CycleLine) and self._parts_left == 0 and self._policy is not None:
            self._snapshot = journal.apply(self._snapshot, line.delta)
            loss, self._loss = self._loss, ""
            return RecordedTurn(self._snapshot, self._policy, loss)
        return None

    def _lose(self, why: str) -> None:
        self._tally.damaged.append(why)
        self._parts_left = None
        self._loss = self._loss or "a line of the journal is damaged"


def lines_of(path: Path, trouble: list[str]) -> Iterator[bytes]:
    """The lines of a file; one whose packed end is missing ends early, which is told in `trouble`."""
    try:
        with closing(_opened(path)) as handle:
            yield from handle
    except (OSError, EOFError, zlib.error) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        trouble.append(f"{path.name} cannot be read to its end ({why})")


def _opened(path: Path) -> BinaryIO:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]  # a GzipFile reads as one


def _first_instant(path: Path) -> float | None:
    for raw in lines_of(path, []):
        mark = journal.MARK.match(raw[: journal.MARK_BYTES])
        if mark is not None:
            return float(mark[2])
    return None
