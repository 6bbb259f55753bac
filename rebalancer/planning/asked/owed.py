"""What an owner is owed: how many of its own replicas a model may claim before anybody gains.

Work that hovers at a replica's capacity would move GPUs to and fro with every crossing. So what is owed changes only
when chance does not explain the crossing, or votes have stood for it: it rises with what the last minute kept busy
beyond its error, or votes have asked for throughout `OWED_AFTER_SECONDS`, and falls after the class's cooldown. A surge
and a step of more than one replica are no hovering: they are owed at once.
"""

import math

from typing import NamedTuple

from msgspec.structs import replace

from rebalancer.domain.memory import Owed
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.readings import Work

OWED_AFTER_SECONDS = 20.0  # of votes for it: bursts are shorter, an owner's users who are back are not
ERRORS = 2.0  # standard errors that work must have crossed a replica's capacity by
BINS_OF_MINUTE, BINS_OF_LEVEL = 6.0, 54.0  # bins of 10 s, as dispersion counts them, whose mean has as much error


class Crossed(NamedTuple):
    """Replicas that work keeps `busy`, that it does beyond chance (`surely`), and that are `enough` in spite of it."""

    busy: int
    surely: int
    enough: int

    def of(self, own: int) -> "Crossed":
        """No more of each than are its own."""
        return Crossed(*(min(own, count) for count in self))


def crossed(outlook: Outlook, work: Work, owed: Owed | None, *, surge: bool) -> Crossed:
    """By the level and the last minute. A surge, and more than one replica beyond what is `owed`, are no chance."""
    level, minute = level_of(outlook), work.last_60s or 0.0
    busy = math.ceil(max(level, minute))
    noise = ERRORS * math.sqrt(max(0.0, outlook.dispersion * level))
    of_level, of_minute = noise / math.sqrt(BINS_OF_LEVEL), noise / math.sqrt(BINS_OF_MINUTE)
    surely = math.ceil(max(level - of_level, minute - of_minute))
    at_once = surge or owed is None or busy > owed.replicas + 1
    return Crossed(busy, busy if at_once else surely, math.ceil(max(level + of_level, minute)))


def level_of(outlook: Outlook) -> float:
    """Replicas of work: the level, and as much of a shift as is likely."""
    return outlook.level + outlook.shift * (outlook.shifted - outlook.level)


def owed(before: Owed | None, work: Crossed, asked: int, patience_seconds: float, now: float) -> Owed:
    """What is owed at `now`. `before`: what was in the plan before; `asked`: its own replicas that votes ask for."""
    if before is None:
        return _higher(Owed(work.busy), asked, now)
    if work.surely > before.replicas:
        return _higher(Owed(work.surely, before.higher_since, before.least), asked, now)
    if asked >= before.replicas:
        return _higher(before, asked, now)
    return _lower(before, work.enough, patience_seconds, now)


def waits(owed: Owed | None) -> bool:
    """Whether time alone would change it."""
    return owed is not None and (owed.higher_since is not None or owed.lower_since is not None)


def _higher(owed: Owed, asked: int, now: float) -> Owed:
    """Votes that asked for more all the time are followed: to the fewest that they asked for."""
    if asked <= owed.replicas:
        return Owed(owed.replicas) if waits(owed) else owed
    if owed.higher_since is None or owed.least <= owed.replicas:
        return Owed(owed.replicas, now, asked)
    least = min(owed.least, asked)
    if now - owed.higher_since < OWED_AFTER_SECONDS:
        return Owed(owed.replicas, owed.higher_since, least)
    return _higher(Owed(least), asked, now)


def _lower(owed: Owed, enough: int, patience_seconds: float, now: float) -> Owed:
    """What is more than one replica beyond `enough` is none of it; the last one only after patience."""
    if enough >= owed.replicas:
        return Owed(owed.replicas) if waits(owed) else owed
    if enough + 1 < owed.replicas or owed.lower_since is None:
        return Owed(enough + 1, lower_since=now)
    return owed if now - owed.lower_since < patience_seconds else Owed(enough)
