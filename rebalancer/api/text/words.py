"""Instants, spans, counts and columns in the words of every command."""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

from rebalancer.domain.instant import clock, when
from rebalancer.domain.snapshot import NoticeView
from rebalancer.domain.words import counted

__all__ = [
    "clock",
    "columns",
    "counted",
    "counts_from",
    "goes",
    "known",
    "known_names",
    "printable",
    "some",
    "span",
    "when",
]

UNKNOWN = "?"
MINUTE, HOUR, DAY = 60, 3600, 86_400


def counts_from(notice: NoticeView, now: float) -> str:
    """` (counts from 07:57:30)` where the pods of a node under notice still count, else nothing."""
    if notice.doubted:
        return f" (not believed: {notice.doubted})"
    if notice.confidence == "possible":
        return f" (possibly: {'replaced elsewhere, and ' if notice.prepared else ''}what runs there stays)"
    if notice.doomed_at is None or notice.counts(now):
        return ""
    return f" (counts from {when(notice.doomed_at, now)})"


def goes(notice: NoticeView, now: float) -> str:
    """`n1 goes 2027-01-29 08:00 (counts from 2027-01-29 07:57)`, `n1 is gone`, or of a person's drain what is asked."""
    if notice.kind == "gone":
        return f"{notice.node} is gone"
    if notice.kind == "drain":  # its deadline is when it was asked for
        return f"{notice.node} is to be emptied"
    return f"{notice.node} goes {when(notice.deadline, now)}{counts_from(notice, now)}"


def span(seconds: float) -> str:
    """A duration in its two largest units: 48 s, 1m33s, 2h47m, 3d4h."""
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE}m{whole % MINUTE}s"
    if whole < DAY:
        return f"{whole // HOUR}h{whole % HOUR // MINUTE}m"
    return f"{whole // DAY}d{whole % DAY // HOUR}h"


def known(value: int | None) -> str:
    """A number, or `?`."""
    return UNKNOWN if value is None else str(value)


def some(names: Sequence[str], most: int = 5) -> str:
    """Names separated by commas, the rest counted."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def known_names(what: str, given: str, known: Collection[str]) -> str:
    """`did you mean chat? models: chat, code`; without a name that is near only the list."""
    close = get_close_matches(given, sorted(known), n=1)
    return f"{f'did you mean {close[0]}? ' if close else ''}{what}: {some(sorted(known), 20) or 'none'}"


def columns(rows: Iterable[Sequence[str]], align: str, gap: int = 1) -> list[str]:
    """Rows as lines; `align` has `<` or `>` per column, the last column is as wide as it likes."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in cells) for at in range(len(align))] if cells else []
    lines = []
    for row in cells:
        padded = [f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)]
        lines.append((" " * gap).join(padded).rstrip())
    return lines


def printable(text: str) -> str:
    """`text` in one line without control characters: names and reasons come from elsewhere."""
    return "".join(each if each.isprintable() else " " for each in text)
