"""Reads the cycles out of a journal's files, one after the other: a line at a time, whatever their size.

A line that was cut off or damaged costs what follows it up to the next keyframe, and no more.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
from pydantic import ValidationError

from rebalancer import __version__
from rebalancer.domain.memory import Memory
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.obs import journal
from rebalancer.obs.journal_lines import lines_of
from rebalancer.obs.journal_snapshot import JournalSnapshot


class RecordedTurn(NamedTuple):
    """One recorded cycle.

    snapshot: what was seen.
    policy: the policy in force.
    after_loss: why cycles before it are missing, "" where none are known to be.
    memory: its memory where a keyframe has it; None: what the cycle before left.
    plan: the recorded plan as bytes.
    memory_digest: digest of the recorded memory after it.
    line: line of its file, from 1.
    """

    snapshot: Snapshot
    policy: Policy
    after_loss: str
    memory: Memory | None = None
    plan: bytes = b""
    memory_digest: str = ""
    line: int = 0


@dataclass(slots=True)
class JournalRead:
    """What was read.

    lines: number of lines.
    size: bytes of them, unpacked.
    cycles: number of cycles that were understood.
    damaged: sentences about lines and files that could not be read.
    cut_off: how many of these are of a last line that a kill cut short, which is no fault.
    writes: number of writes that were carried out.
    skipped: number of cycles that cannot be made again, because the keyframe before them is missing.
    code: digest of the source that decided the last cycle, "" before the first policy.
    version: version of the rebalancer that recorded the last policy; before the first, this one.
    """

    lines: int = 0
    size: int = 0
    cycles: int = 0
    damaged: list[str] = field(default_factory=list)
    writes: int = 0
    skipped: int = 0
    code: str = ""
    version: str = __version__
    cut_off: int = 0


def turns(
    files: Sequence[Path], tally: JournalRead, heard: Callable[[int], None] = lambda _: None
) -> Iterator[RecordedTurn]:
    """Every cycle of the files that can be re-made; `heard` is told the bytes read so far, file by file of them."""
    reader = _Reader(tally)
    for path in files:
        lines = lines_of(path, reader.lose)
        yield from reader.cycles(lines, f" of {path.name}", is_last=path is files[-1])
        heard(tally.size)


def turns_in(lines: Iterable[bytes], tally: JournalRead) -> Iterator[RecordedTurn]:
    """The same of lines that are at hand."""
    return _Reader(tally).cycles(lines, "", is_last=True)


class _Reader:
    """Where it is in the journal: the policy in force and the snapshot to which the next difference applies."""

    def __init__(self, tally: JournalRead) -> None:
        self._tally = tally
        self._policy: Policy | None = None
        self._digest = ""
        self._seen = JournalSnapshot()
        self._memory: Memory | None = None
        self._loss = ""

    def cycles(self, lines: Iterable[bytes], of: str, *, is_last: bool) -> Iterator[RecordedTurn]:
        """The cycles of one file; the last one of a journal may be in the middle of a line."""
        for number, raw in enumerate(lines, 1):
            self._tally.lines += 1
            self._tally.size += len(raw)
            if is_last and not raw.endswith(b"\n"):
                break  # it is being written
            turn = self._line(raw, of, number)
            if turn is not None:
                self._tally.cycles += 1
                yield turn._replace(line=number)

    def lose(self, why: str) -> None:
        """Nothing is believed until the next keyframe; `why` is a sentence."""
        self._tally.damaged.append(why)
        self._seen.lose()
        self._loss = self._loss or "a line of the journal is damaged"

    def _line(self, raw: bytes, of: str, number: int) -> RecordedTurn | None:
        """The cycle that this line ends, None for all other lines."""
        if raw.startswith((b'{"intent"', b'{"line":"intent"')):
            return None
        if not raw.endswith(b"\n"):
            self._tally.cut_off += 1
            self.lose(f"line {number}{of} is cut off: the process was killed while it wrote")
            return None
        try:
            return self._taken(journal.decode(raw), f"line {number}{of}")
        except ValidationError:
            self.lose(f"line {number}{of} is not a journal's (a policy that is none here{self._by_whom()})")
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.lose(f"line {number}{of} is not a journal's ({str(error).splitlines()[0]}{self._by_whom()})")
        return None

    def _by_whom(self) -> str:
        """Whether another version wrote it, and what to do then."""
        by = self._tally.version
        return (
            f"; rebalancer {by} wrote it and this is {__version__}: read it with that one" if by != __version__ else ""
        )

    def _taken(self, line: journal.Line, where: str) -> RecordedTurn | None:
        if isinstance(line, journal.PolicyLine):
            self._tally.code, self._tally.version = line.code, line.version
            if line.digest != self._digest:
                self._policy, self._digest = None, line.digest
                self._policy = Policy.model_validate(line.policy, strict=False)
        elif isinstance(line, journal.FrameLine):
            if line.part == 0:
                self._memory = line.memory
            self._seen.frame(line)
        elif isinstance(line, journal.OutcomeLine):
            self._tally.writes += line.outcome.status == "written"
        elif isinstance(line, journal.CycleLine):
            return self._decided(line, where)
        return None

    def _decided(self, line: journal.CycleLine, where: str) -> RecordedTurn | None:
        if self._seen.whole and not line.follows(self._seen.now):
            last = self._seen.now.cycle
            self.lose(f"{where} is of cycle {line.delta.cycle}: cycles from {last + 1} on are missing")
        if self._policy is None or not self._seen.cycle(line):
            self._tally.skipped += 1
            return None
        (loss, self._loss), (memory, self._memory) = (self._loss, ""), (self._memory, None)
        return RecordedTurn(self._seen.now, self._policy, loss, memory, bytes(line.plan), line.memory)
