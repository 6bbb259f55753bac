"""How many of its own replicas a model may claim before anybody gains.

Work that hovers at a replica's capacity would move GPUs to and fro with every crossing. So one replica more is owed
when work has crossed beyond chance, or votes have asked for it throughout `OWED_AFTER_SECONDS`, and one less when it
would have been enough for the whole cooldown of the class. More than one replica, up or down, and a surge are no
hovering: they count at once.
"""

import math
from typing import NamedTuple

from rebalancer.domain.memory import AskedSince, Owed
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
        """The same, each number at most `own`."""
        return Crossed(*(min(own, count) for count in self))


def crossed(outlook: Outlook, work: Work, owed: Owed | None, *, surge: bool) -> Crossed:
    """Where work stands against the replicas owed, by the level and the last minute.

    A surge, and work of more than one replica beyond `owed`, are no chance: then `surely` is `busy`.
    """
    level, minute = outlook.expected_level, work.last_60s or 0.0
    busy = math.ceil(max(level, minute))
    noise = ERRORS * math.sqrt(max(0.0, outlook.dispersion * level))
    of_level, of_minute = noise / math.sqrt(BINS_OF_LEVEL), noise / math.sqrt(BINS_OF_MINUTE)
    surely = math.ceil(max(level - of_level, minute - of_minute))
    at_once = surge or owed is None or busy > owed.replicas + 1
    return Crossed(busy, busy if at_once else surely, math.ceil(max(level + of_level, minute)))


def voted(votes: int, before: Owed, *, surge: bool) -> Crossed:
    """The same where nothing but votes tells of the work: none is given up here, since demand falls slowly by itself.

    The first replica of a model that has none of its own is no chance either.
    """
    at_once = surge or not before.replicas or votes > before.replicas + 1
    return Crossed(votes, votes if at_once else 0, max(votes, before.replicas))


def owed(before: Owed | None, work: Crossed, votes: int, patience_seconds: float, now: float) -> Owed:
    """Replicas owed at `now`; `before`: in the plan before, `votes`: of its own replicas as votes ask for."""
    before = before or Owed(work.busy)
    replicas = max(before.replicas, work.surely)
    asks = _stood(before.asks, votes, now)
    stood = max([ask.replicas for ask in asks if now - ask.since >= OWED_AFTER_SECONDS], default=0)
    if max(votes, work.enough) >= replicas:
        replicas = max(replicas, stood)
        return Owed(replicas, tuple([ask for ask in asks if ask.replicas > replicas]))
    return _lower(before, work.enough, patience_seconds, now)


def waits(owed: Owed | None) -> bool:
    """Whether the number owed would change by time alone."""
    return owed is not None and (bool(owed.asks) or owed.lower_since is not None)


def _stood(asks: tuple[AskedSince, ...], votes: int, now: float) -> tuple[AskedSince, ...]:
    """For each number of replicas, since when votes have asked for no fewer; ascending in both."""
    more = [ask.since for ask in asks if ask.replicas >= votes]
    return (*(ask for ask in asks if ask.replicas < votes), AskedSince(more[0] if more else now, votes))


def _lower(before: Owed, enough: int, patience_seconds: float, now: float) -> Owed:
    """A lower number owed: down to one more than `enough` at once, by the last one after `patience_seconds`."""
    if enough + 1 < before.replicas or before.lower_since is None:
        return Owed(enough + 1, lower_since=now)
    return before if now - before.lower_since < patience_seconds else Owed(enough)
