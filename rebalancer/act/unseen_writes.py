"""The gate's own writes of the last 10 s, until the watches show them: floor and budget must hold in between.

A watch shows a write some milliseconds later, and a lost reply leaves open whether there was one. So until 10 s after
the end of a write its target counts with the least it may have been asked for where a floor is summed, with the most
where a budget is.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from msgspec.structs import replace

from rebalancer.act.driver import Ask, Refused
from rebalancer.domain import arithmetic
from rebalancer.domain.arithmetic import assured, bounding, least_grant, peak_replicas
from rebalancer.domain.plan import Change
from rebalancer.domain.snapshot import TargetView
from rebalancer.kube.errors import Conflict, KubeError
from rebalancer.obs.clock import Clock

KEEP_SECONDS = 10.0

Key = tuple[str, str, str]


class UnseenWrite(NamedTuple):
    """The least and the most that one target may be asked for since `at`; infinity while the write is under way."""

    least: Ask
    most: int
    at: float


class UnseenWrites:
    """One entry per target that is written to, or was in the last 10 s."""

    def __init__(self) -> None:
        self._entries: dict[Key, UnseenWrite] = {}

    def least(self, target: TargetView) -> Ask:
        """The least this target may be asked for by now, and the least that its autoscaler may leave it."""
        replicas, minimum = converging(target).replicas, assured(target)
        entry = self._entries.get(_key(target))
        if entry is None:
            return Ask(replicas, minimum)
        return Ask(min(replicas, entry.least.replicas), min(minimum, entry.least.minimum))

    def with_most(self, target: TargetView) -> TargetView:
        """The target as asked for the most it may be by now."""
        entry = self._entries.get(_key(target))
        return target if entry is None else replace(target, unconfirmed_replicas=max(entry.most, peak_replicas(target)))

    def enter(self, key: Key, entry: UnseenWrite) -> None:
        """Note that one target may have been asked for other numbers."""
        self._entries[key] = entry

    def forget(self, now: float) -> None:
        """Drop what the watches have had 10 s to show."""
        self._entries = {key: entry for key, entry in self._entries.items() if now - entry.at < KEEP_SECONDS}

    def stepped(self, seconds: float) -> None:
        """The clock was set by so many seconds: entries are as old as before."""
        self._entries = {key: entry._replace(at=entry.at + seconds) for key, entry in self._entries.items()}

    @contextmanager
    def booked(self, change: Change, clock: Clock) -> Iterator["Booking"]:
        """Count `change` as asked for wherever that is the worse. Refused and KubeError say that it was not written.

        Left without a word, the booking says that it may have been. So does a Conflict: a proxy that sends a call twice
        answers the second one, which meets what the first one wrote.
        """
        key = _key(change.target)
        earlier = self._entries.get(key)
        least, most = self.least(change.target), peak_replicas(self.with_most(change.target))
        after = asking(change)
        least = Ask(min(least.replicas, after.replicas), min(least.minimum, after.minimum))
        self._entries[key] = UnseenWrite(least, max(most, after.replicas), math.inf)
        try:
            yield Booking(self, key)
        except Conflict:
            raise
        except (Refused, KubeError):
            self._entries.pop(key, None)
            if earlier is not None:
                self._entries[key] = earlier
            raise
        finally:
            ended = self._entries.get(key)
            if ended is not None and math.isinf(ended.at):
                self._entries[key] = ended._replace(at=clock.now())


class Booking:
    """One write under way."""

    def __init__(self, unseen: UnseenWrites, key: Key) -> None:
        self._unseen = unseen
        self._key = key

    def written(self, ask: Ask, at: float) -> None:
        """The write happened, and that is what the target asks for."""
        self._unseen.enter(self._key, UnseenWrite(ask, ask.replicas, at))


def asking(change: Change) -> Ask:
    """The replicas and minimum asked for after `change`; an autoscaler is asked for the least grant at least."""
    if bounding(change.target) is not None:
        return Ask(max(least_grant(change.target), change.replicas_to), change.minimum)
    return Ask(change.replicas_to, change.replicas_to)


def converging(target: TargetView) -> Ask:
    """The replicas to which the target goes without another write; our maximum counts before the HPA shows it.

    `arithmetic.peak_replicas` holds on to the old number until the HPA shows the new one: right for a budget only.
    """
    replicas = arithmetic.converging(target)
    autoscaler = bounding(target)
    return Ask(replicas, replicas if autoscaler is None else autoscaler.minimum)


def _key(target: TargetView) -> Key:
    return target.namespace, target.kind, target.name
