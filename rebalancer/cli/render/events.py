"""`rebalancer events check`: a line per record, what was understood or why not, and how many at the end."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import inf

from rebalancer.api.text.words import counted, printable, some, span
from rebalancer.ingest.understood import Understood


def render_events(records: Sequence[Understood]) -> str:
    """Each record with its readings by pod and what was dropped of it, whose are all too old, then the summary."""
    lines = [line for one in records for line in _lines(one)]
    return "\n".join(printable(line) for line in (*lines, *_too_old(records), _sentence(records)))


def summary(records: Sequence[Understood]) -> dict[str, int]:
    """Numbers of records and of what was in them."""
    return {
        "records": len(records),
        "understood": sum(1 for one in records if one.readings or one.notices),
        "readings": sum(len(one.readings) for one in records),
        "notices": sum(len(one.notices) for one in records),
        "subjects": len({reading.of for one in records for reading in one.readings}),
        "dropped": sum(len(one.dropped) for one in records),
        "unmapped": sum(one.unmapped for one in records),
    }


def _lines(one: Understood) -> Iterator[str]:
    if one.tombstone:
        yield f"{one.where}: a tombstone, which has no value and counts for nothing"
        return
    yield f"{one.where}:" + ("" if one.readings or one.notices or one.dropped else " nothing that is asked for")
    for subject, readings in groupby(one.readings, key=lambda reading: reading.of):
        yield f"  + {subject}: " + ", ".join(f"{each.gauge} {each.value:g}" for each in readings)
    yield from (f"  + {notice}" for notice in one.notices)
    yield from (f"  ! {why}" for why in one.dropped)
    if one.unmapped:
        yield f"    {counted(one.unmapped, 'series', 'series')} with names that no row has"


def _too_old(records: Sequence[Understood]) -> Iterator[str]:
    """A warning that names the subjects whose newest reading is too old to count; a topic also has older records."""
    newest: dict[str, float] = {}
    for reading in (each for one in records for each in one.readings):
        newest[reading.of] = min(newest.get(reading.of, inf), reading.old_seconds or 0.0)
    old = {subject: seconds for subject, seconds in newest.items() if seconds > 0.0}
    if old:
        yield (
            f"! At least {span(min(old.values()))} old, and counts for nothing: {some(sorted(old))}."
            " Look at the producer's clock; old records need --at."
        )


def _sentence(records: Sequence[Understood]) -> str:
    counts = summary(records)
    if not records:
        return "No record at all."
    parts = (
        [f"{counted(counts['readings'], 'reading')} of {counted(counts['subjects'], 'subject')}"]
        if counts["readings"]
        else []
    )
    parts += [counted(counts["notices"], "notice")] if counts["notices"] else []
    what = f" ({', '.join(parts)})" if parts else ""
    dropped = f"{counts['dropped']} dropped" if counts["dropped"] else "nothing dropped"
    return f"{counted(counts['records'], 'record')}: {counts['understood']} understood{what}, {dropped}."
