"""Writes that an admission webhook denies, or changes on their way, are not repeated as if nothing had been said.

A webhook's answer is the same a planning period later, and one replica more is no other question to it: what rests is
a direction, raises or decreases of one target, or its bounds; of a drain the cordon of one node, or the eviction of one
pod; of a NodePool one kind of change. A denied write stores nothing, so it is tried once a minute: somebody may have
changed the webhook, or given the right. A changed one is a write each time, and with the webhook a fight, so it rests
as long as two foreign changes count.
"""

from typing import NamedTuple

from rebalancer.act.driver import Ask, Refused
from rebalancer.domain.plan import Change, DrainChange, NodePoolChange
from rebalancer.obs.clock import Clock

TRIES = 2  # one answer may be chance
DENIED_SECONDS = 60.0
CHANGED_SECONDS = 600.0

_Write = Change | DrainChange | NodePoolChange
_Key = tuple[str, int | str]  # a target's UID and a direction; a pod's UID, else a node's name, and what is done to it


class _Answered(NamedTuple):
    times: int
    until_monotonic: float
    forgotten_monotonic: float
    why: str


class Rests:
    """By what is written: how often the server's answer was not what was asked for, and until when that rests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answered: dict[_Key, _Answered] = {}

    def ask(self, change: _Write) -> None:
        """Raise Refused while this rests."""
        now, rest = self._clock.monotonic(), self._answered.get(_key(change))
        if rest is not None and rest.times >= TRIES and now < rest.until_monotonic:
            wait_seconds = rest.until_monotonic - now
            raise Refused("webhook", f"{rest.why}; it is tried again in {wait_seconds:.0f} s")

    def denied(self, change: _Write, why: str) -> None:
        """The server stored nothing and said why."""
        self._note(change, DENIED_SECONDS, f"the server denies it: {why}")

    def taken(self, change: _Write) -> None:
        """The server took the write as it was asked for."""
        self._answered.pop(_key(change), None)

    def stored(self, change: Change, wanted: Ask, stored: Ask) -> None:
        """The server took the write: as it was asked for, or as other numbers.

        A raise that was stored with another minimum is a raise all the same: only new bounds rest for their minimum.
        """
        if stored == wanted or (_direction(change) != 0 and stored.replicas == wanted.replicas):
            self.taken(change)
        else:
            self._note(change, CHANGED_SECONDS, f"an admission webhook stores {stored} where {wanted} is asked for")

    def _note(self, change: _Write, seconds: float, why: str) -> None:
        now = self._clock.monotonic()
        self._answered = {key: one for key, one in self._answered.items() if one.forgotten_monotonic > now}
        before = self._answered.get(_key(change))
        times = 1 if before is None else before.times + 1
        self._answered[_key(change)] = _Answered(times, now + seconds, now + 2 * seconds, why)


def _key(change: _Write) -> _Key:
    if isinstance(change, DrainChange):
        return change.uid or change.node, change.kind
    if isinstance(change, NodePoolChange):
        return change.uid, change.kind
    return change.target.uid, _direction(change)


def _direction(change: Change) -> int:
    """Whether the target's number rises (1), falls (-1) or stays (0, new bounds)."""
    more = change.replicas_to - change.replicas_from
    return (more > 0) - (more < 0)
