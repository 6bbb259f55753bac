"""`rebalancer events check`: a line per record, what was understood or why not, and how many at the end."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rebalancer.api.text.words import counted, printable
from rebalancer.ingest.understood import Understood


def render_events(told: Sequence[Understood]) -> str:
    """Each record with its readings by pod and what was dropped of it, then the summary."""
    lines = [line for one in told for line in _lines(one)]
    return "\n".join(printable(line) for line in (*lines, _sentence(told)))


def summary(told: Sequence[Understood]) -> dict[str, int]:
    """Numbers of records and of what was in them."""
    return {
        "records": len(told),
        "understood": sum(1 for one in told if one.readings or one.notices),
        "readings": sum(len(one.readings) for one in told),
        "notices": sum(len(one.notices) for one in told),
        "subjects": len({reading.of for one in told for reading in one.readings}),
        "dropped": sum(len(one.dropped) for one in told),
        "unmapped": sum(one.unmapped for one in told),
    }


def _lines(one: Understood) -> Iterator[str]:
    yield f"{one.where}:" + ("" if one.readings or one.notices or one.dropped else " nothing that is asked for")
    for subject, readings in groupby(one.readings, key=lambda reading: reading.of):
        yield f"  + {subject}: " + ", ".join(f"{each.gauge} {each.value:g}" for each in readings)
    yield from (f"  + {notice}" for notice in one.notices)
    yield from (f"  ! {why}" for why in one.dropped)
    if one.unmapped:
        yield f"    {counted(one.unmapped, 'series', 'series')} with names that no row has"


def _sentence(told: Sequence[Understood]) -> str:
    found = summary(told)
    if not told:
        return "No record at all."
    parts = (
        [f"{counted(found['readings'], 'reading')} of {counted(found['subjects'], 'subject')}"]
        if found["readings"]
        else []
    )
    parts += [counted(found["notices"], "notice")] if found["notices"] else []
    what = f" ({', '.join(parts)})" if parts else ""
    dropped = f"{found['dropped']} dropped" if found["dropped"] else "nothing dropped"
    return f"{counted(found['records'], 'record')}: {found['understood']} understood{what}, {dropped}."
