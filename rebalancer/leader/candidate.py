"""Who may act, as a value: what one replica knows of the Lease, what it may write to it, and until when it may act.

Pure: instants are arguments. Two replicas never may act at once, since a leader counts from the beginning of a renewal,
whoever stands by from the end of the look that showed it, and the former wait less long than the latter. What nobody
knows is how long ago a renewal happened that one only sees; so no instant of another replica's clock is ever compared.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

from rebalancer.leader.timing import TIMING, LeaseTiming

LONGEST_LEASE_SECONDS: Final = 60.0
"""A duration beyond it was written by hand, and would keep everybody waiting."""

UNKNOWN: Final = "unknown"
"""Holder of a Lease that was just made where there was none: somebody may lead whose Lease was deleted.

To make one gives nobody the right to act, so one that arrives late does no harm. Only a write at a version that was
seen does: by its leader at once, by others when they have waited.
"""


@dataclass(frozen=True, slots=True)
class Lease:
    """What a Lease says.

    version: its resourceVersion, which changes with each write.
    holder: identity of the replica that took it; "": nobody holds it.
    epoch: number of its holder's term; 0 where none can be read.
    lease_seconds: how long its holder asks others to wait after a renewal.
    created_at: when it was made, by the API server's clock, in whole UTC epoch seconds; 0 where none can be read.
    """

    version: str
    holder: str
    epoch: int
    lease_seconds: float
    created_at: int = 0


@dataclass(frozen=True, slots=True)
class LeaseClaim:
    """A write to the Lease, which must still be at `version`.

    version: the resourceVersion it was seen at; None: there is none, so one is made that nobody holds yet.
    holder: identity to be written; "" gives it back, UNKNOWN for one that is made.
    epoch: term to be written.
    lease_seconds: duration to be written.
    """

    version: str | None
    holder: str
    epoch: int
    lease_seconds: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """One replica: it stands by, then leads for one term, then is over, for a process leads at most once.

    identity: name no other process has.
    timing: how long things last.
    lease: the Lease as it was seen or written last; None: there was none.
    looked: whether it was looked for at all.
    seen_monotonic: end of the look that first showed it as it is, by this replica's clock.
    highest_epoch: highest that was ever seen on it, should somebody delete it.
    epoch: number of the own term, None before it.
    until_monotonic: when the right to act ends.
    over: the own term has ended.
    """

    identity: str
    timing: LeaseTiming = TIMING
    lease: Lease | None = None
    looked: bool = False
    seen_monotonic: float = 0.0
    highest_epoch: int = 0
    epoch: int | None = None
    until_monotonic: float = 0.0
    over: bool = False

    def may_act(self, now_monotonic: float) -> bool:
        """Whether a write may begin now."""
        return self.epoch is not None and not self.over and now_monotonic < self.until_monotonic

    def lapsed(self, now_monotonic: float) -> bool:
        """Whether the own term has ended, told or not."""
        return self.over or (self.epoch is not None and now_monotonic >= self.until_monotonic)

    def leader(self, now_monotonic: float) -> str:
        """Identity of who may act by the Lease, as far as is known; "": nobody.

        A holder that was not seen to renew it for as long as it lasts may act no more, though nobody has taken it.
        """
        holder = self.lease.holder if self.lease is not None else ""
        if holder == self.identity:
            return holder if self.may_act(now_monotonic) else ""
        return "" if holder == UNKNOWN or self._free(now_monotonic) else holder

    def saw(self, lease: Lease | None, ended_monotonic: float) -> Self:
        """The Lease as a look showed it (None: there is none) that ended then."""
        if self.looked and lease == self.lease:
            return self
        ours = lease is None or lease.holder == UNKNOWN or (lease.holder, lease.epoch) == (self.identity, self.epoch)
        return replace(
            self,
            lease=lease,
            looked=True,
            seen_monotonic=ended_monotonic,
            highest_epoch=max(self.highest_epoch, lease.epoch if lease is not None else 0),
            until_monotonic=self.until_monotonic if ours else min(self.until_monotonic, ended_monotonic),
            over=self.over or (self.epoch is not None and not ours),
        )

    def claim(self, now_monotonic: float) -> LeaseClaim | None:
        """What to write now: a Lease where there is none, a renewal while it leads, a new term where nobody does.

        A new term has the highest epoch seen and one more, and at least the second at which the Lease was made: should
        an older Lease and all who knew it be gone, the next epoch is still above those on the objects, for a term
        lasts longer than a second. The second is the API server's own: a replica's clock may be hours ahead.
        """
        if not self.looked or self.lapsed(now_monotonic):
            return None
        if self.lease is None:
            return LeaseClaim(None, UNKNOWN, self.highest_epoch, self.timing.lease_seconds)
        if self.epoch is not None:
            return self._claim(self.epoch)
        return self._claim(max(self.highest_epoch + 1, self.lease.created_at)) if self._free(now_monotonic) else None

    def release(self) -> LeaseClaim | None:
        """What to write when it stops acting of its own will; None: it does not hold the Lease."""
        if self.epoch is None or self.over or self.lease is None:
            return None
        return replace(self._claim(self.epoch), holder="")

    def wrote(self, claim: LeaseClaim, version: str, began_monotonic: float) -> Self:
        """The API server took `claim` on a Lease that was there, and stored it as `version`; the call began then."""
        created_at = self.lease.created_at if self.lease is not None else 0
        lease = Lease(version, claim.holder, claim.epoch, claim.lease_seconds, created_at)
        mine = claim.holder == self.identity
        return replace(
            self,
            lease=lease,
            seen_monotonic=began_monotonic,
            highest_epoch=claim.epoch,
            epoch=claim.epoch,
            until_monotonic=began_monotonic + self.timing.renew_seconds if mine else began_monotonic,
            over=self.over or not mine,
        )

    def resigned(self) -> Self:
        """Acts no more, whatever becomes of the Lease."""
        return replace(self, over=True)

    def _claim(self, epoch: int) -> LeaseClaim:
        return LeaseClaim(
            self.lease.version if self.lease is not None else None, self.identity, epoch, self.timing.lease_seconds
        )

    def _free(self, now_monotonic: float) -> bool:
        """Whether nobody may act: given back, or not renewed for as long as its holder asked."""
        if self.lease is None:
            return False
        if self.lease.holder in {"", self.identity}:
            return True
        asked_seconds = min(self.lease.lease_seconds, LONGEST_LEASE_SECONDS)
        return now_monotonic - self.seen_monotonic >= max(asked_seconds, self.timing.lease_seconds)
