"""The end of the local journal, read at a start: what was written while Kafka was away is known nowhere else."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from rebalancer.obs import journal

_WRITES = (b'{"intent":', b'{"line":"outcome"')  # how their lines begin, keys being sorted


class Tail:
    """Intents and outcomes since an instant. `instants`: of frames and cycles; `last_cycle`: of the last of them.

    `whole`: the lines, as they are, of the newest keyframe and of all cycles since then.
    """

    def __init__(self) -> None:
        self.writes: list[journal.IntentLine | journal.OutcomeLine] = []
        self.instants: list[float] = []
        self.last_cycle = 0
        self.whole: list[bytes] = []

    def decided(self) -> Iterator[journal.Line]:
        """What `whole` says; a line that cannot be read says nothing."""
        for raw in self.whole:
            try:
                yield journal.decode(raw)
            except (msgspec.DecodeError, msgspec.ValidationError):
                continue


def read_tail(paths: Sequence[Path], since: float) -> Tail:
    """What the files, oldest first, say of writes at `since` or later. It blocks for as long as that takes.

    A line that cannot be read, as the last one after a kill, is skipped; so is a file that cannot be, or is none: a
    device has no end.
    """
    tail = Tail()
    for path in reversed([path for path in paths if path.is_file()]):
        try:
            with path.open("rb") as lines:
                _read(lines, since, tail)
        except OSError:
            continue
        if tail.instants and min(tail.instants) < since:
            break
    return tail


def _read(lines: Iterable[bytes], since: float, tail: Tail) -> None:
    newest, after_frame = not tail.whole, False  # a file begins with a keyframe, and files come newest first
    for raw in lines:
        mark = journal.MARK.match(raw[: journal.MARK_BYTES])
        if mark is not None:
            tail.instants.append(float(mark[2]))
            tail.last_cycle = max(tail.last_cycle, int(mark[3]))
            frame = mark[1] is not None
            if newest:
                if frame and not after_frame:
                    tail.whole.clear()
                tail.whole.append(raw)
            after_frame = frame
        elif raw.startswith(_WRITES) and raw.endswith(b"\n"):
            try:
                line = journal.decode(raw)
            except (msgspec.DecodeError, msgspec.ValidationError):
                continue
            if isinstance(line, journal.IntentLine | journal.OutcomeLine) and _at(line) >= since:
                tail.writes.append(line)


def _at(line: journal.IntentLine | journal.OutcomeLine) -> float:
    return line.intent.at if isinstance(line, journal.IntentLine) else line.outcome.at
