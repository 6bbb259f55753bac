"""Local time of the IANA zones, from the pinned tzdata package alone.

What the machine has under /usr/share/zoneinfo is never read: a slim container has nothing there, and a decision made
again elsewhere must come out the same, so the rules of the zones are part of the lock file like the code.
"""

from datetime import date, datetime, time
from functools import cache
from importlib.resources import files
from zoneinfo import ZoneInfo


@cache
def zone_names() -> frozenset[str]:
    """Names of all zones there are: Europe/Berlin, UTC, ..."""
    return frozenset((files("tzdata") / "zones").read_text(encoding="ascii").split())


@cache
def zone(name: str) -> ZoneInfo:
    """The zone `name`, one of `zone_names()`, read once per process. Raises ValueError for any other name."""
    if name not in zone_names():
        raise ValueError(f"{name} is no time zone of the IANA database")
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as rules:
        return ZoneInfo.from_file(rules, key=name)


def local(at: float, name: str) -> datetime:
    """The local time that clocks in zone `name` show at `at` (UTC epoch seconds)."""
    return datetime.fromtimestamp(at, zone(name))


def first_instant(day: date, of_day: time, name: str) -> float:
    """The first instant (UTC epoch seconds) at which clocks in zone `name` show `of_day` on `day`, or a later time.

    So a time that exists twice is the first of the two, and one that clocks skip is the instant of the jump: windows
    that touch on the clock touch in time on every day of the year.
    """
    wall = datetime.combine(day, of_day)
    # Where clocks skip `wall`, fold 0 counts with the offset before the jump and fold 1 with that after it.
    late = int(wall.replace(tzinfo=zone(name)).timestamp())
    if _shown(late, name) == wall:
        return float(late)
    early = int(wall.replace(tzinfo=zone(name), fold=1).timestamp())
    while late - early > 1:
        middle = (early + late) // 2
        early, late = (middle, late) if _shown(middle, name) < wall else (early, middle)
    return float(late)


def _shown(at: float, name: str) -> datetime:
    return local(at, name).replace(tzinfo=None)
