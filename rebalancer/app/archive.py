"""Reads single cycles out of the local journal, in a thread, within seconds: a person asks, the wheel turns on."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from rebalancer.api.http.json_codec import instant_text
from rebalancer.api.ports.page_data import NotRecorded, RecordedCycle, RecordsBusy
from rebalancer.api.ports.past_refusals import PastRefusals, RefusingPlan
from rebalancer.domain.codec import from_bytes
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Plan
from rebalancer.obs import journal
from rebalancer.obs.clock import Clock
from rebalancer.obs.journal_snapshot import JournalSnapshot

READ_SECONDS = 8.0  # a 32 MiB file (40 cycles of 1,000 models) takes 0.4 s of a processor; a busy machine has more
MOST_WAITING = 4  # people who ask at once; each read takes memory of its own


@dataclass(frozen=True, slots=True)
class _Mark:
    """A frame's or cycle's line: where it begins, whose it is."""

    offset: int
    frame: bool
    at: float
    cycle: int


class Archive:
    """`files`: the journal's files, oldest first. One reader at a time."""

    def __init__(self, files: Callable[[], Sequence[Path]], clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def recorded(self, *, cycle: int | None = None, at: float | None = None) -> RecordedCycle:
        """Cycle `cycle`, or the last one at `at` or before. Raises NotRecorded, RecordsBusy."""
        if self._waiting >= MOST_WAITING:
            raise RecordsBusy(f"{self._waiting} others read the journal")
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(self._read, _Wanted(cycle, at))
        finally:
            self._waiting -= 1

    def _read(self, wanted: "_Wanted") -> RecordedCycle:
        deadline = self._clock.monotonic() + READ_SECONDS

        def check() -> None:
            if self._clock.monotonic() > deadline:
                raise RecordsBusy(f"the journal was not read within {READ_SECONDS:g} s")

        oldest: float | None = None
        for path in reversed(self._files()):
            try:
                with path.open("rb") as handle:
                    first = next(_marks(handle, check), None)
                    if first is None:
                        continue
                    oldest = first.at
                    if not wanted.is_after(first):
                        return _recorded(handle, wanted, check, oldest)
            except FileNotFoundError:  # rotated away meanwhile
                continue
            except (msgspec.DecodeError, ValueError) as error:
                raise NotRecorded(f"{path.name} is damaged: {error}", oldest) from error
        raise NotRecorded(f"the journal does not reach back to {wanted}", oldest)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """By number or by instant."""

    cycle: int | None
    at: float | None

    def is_after(self, mark: _Mark) -> bool:
        """Whether `mark` is of a later cycle than the one wanted."""
        return mark.cycle > self.cycle if self.cycle is not None else mark.at > (self.at or 0.0)

    def __str__(self) -> str:
        return f"cycle {self.cycle}" if self.cycle is not None else instant_text(self.at or 0.0) or "then"


def _marks(handle: BinaryIO, check: Callable[[], None]) -> Iterator[_Mark]:
    """Frames and cycles of a file from where it stands; a line that is still being written ends it."""
    offset = handle.tell()
    for number, raw in enumerate(handle):
        if number % 64 == 0:
            check()
        if not raw.endswith(b"\n"):
            return
        mark = journal.MARK.match(raw[: journal.MARK_BYTES])
        if mark is not None:
            yield _Mark(offset, mark[1] is not None, float(mark[2]), int(mark[3]))
        offset += len(raw)


def _recorded(handle: BinaryIO, wanted: _Wanted, check: Callable[[], None], oldest: float) -> RecordedCycle:
    """The cycle wanted, re-made from the keyframe before it. Raises NotRecorded, DecodeError."""
    handle.seek(0)
    keyframe = target = None
    after_frame = False
    for mark in _marks(handle, check):
        if wanted.is_after(mark):
            break
        if mark.frame and not after_frame:
            keyframe = mark
        elif not mark.frame:
            target = mark
        after_frame = mark.frame
    if target is None or keyframe is None or (wanted.cycle is not None and target.cycle != wanted.cycle):
        raise NotRecorded(f"the journal does not have {wanted}", oldest)
    handle.seek(0)
    code = _code(handle, keyframe.offset)
    handle.seek(keyframe.offset)
    return _rebuilt(handle, target, code, check)


def _code(handle: BinaryIO, until: int) -> str:
    """By which source the cycles from `until` on were decided: the last policy line before it says."""
    code = ""
    while handle.tell() < until:
        raw = handle.readline()
        if raw.startswith(b'{"at":'):
            line = journal.decode(raw)
            code = line.code if isinstance(line, journal.PolicyLine) else code
    return code


def _rebuilt(handle: BinaryIO, target: _Mark, code: str, check: Callable[[], None]) -> RecordedCycle:
    seen = JournalSnapshot()
    decided: journal.CycleLine | None = None
    before: RecordedCycle | None = None
    outcomes: list[Outcome] = []
    past = PastRefusals()
    for number, raw in enumerate(handle):
        if number % 16 == 0:
            check()
        if (decided is not None and journal.MARK.match(raw[: journal.MARK_BYTES])) or not raw.endswith(b"\n"):
            break
        line = journal.decode(raw)
        if isinstance(line, journal.FrameLine):
            seen.frame(line)
        elif isinstance(line, journal.CycleLine) and seen.cycle(line):
            refusing = from_bytes(bytes(line.plan), RefusingPlan)
            past.hear(refusing.at, refusing.refusals, refusing.unmet)
            if line.delta.cycle == target.cycle:
                decided = line
            elif line.delta.cycle == target.cycle - 1:
                before = RecordedCycle(from_bytes(bytes(line.plan), Plan), seen.now, line.policy, code)
        elif isinstance(line, journal.OutcomeLine) and line.outcome.intent.cycle == target.cycle:
            outcomes.append(line.outcome)
    if decided is None:
        raise NotRecorded(f"the journal does not have cycle {target.cycle} whole")
    plan = from_bytes(bytes(decided.plan), Plan)
    return RecordedCycle(plan, seen.now, decided.policy, code, tuple(outcomes), before, past.recent(plan.at))
