"""The last hours of a journal: from a keyframe on, without what cannot be read."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rebalancer.obs import journal
from rebalancer.obs.journal_lines import journal_files, last_instant, lines_of, within


def excerpt(place: Path, last_seconds: float) -> tuple[list[bytes], list[str]]:
    """(lines from the last keyframe before that time on, what could not be read). Raises NoJournal."""
    files = journal_files(place)
    since = last_instant(files) - last_seconds
    trouble: list[str] = []
    lines: list[bytes] = []
    policy: bytes | None = None
    broken = False
    for raw in _whole(within(files, since), trouble):
        try:
            line = journal.decode(raw)
        except msgspec.DecodeError as error:
            trouble.append(f"a line is not a journal's ({error}); the cycles up to the next keyframe are left out")
            broken = True
            continue
        if isinstance(line, journal.PolicyLine):
            policy = raw
        if isinstance(line, journal.FrameLine) and line.part == 0:
            broken = False
            if line.delta.at <= since and policy is not None:
                lines = [policy]
        if not broken:
            lines.append(raw)
    return lines, trouble


def _whole(files: Sequence[Path], trouble: list[str]) -> Iterator[bytes]:
    """Every line that ends; the one that is being written does not."""
    for path in files:
        for raw in lines_of(path, trouble.append):
            if raw.endswith(b"\n"):
                yield raw
