"""Stands by, takes the Lease, renews it, gives it back: the protocol of `candidate`, driven by the clock and the API.

Each call ends within its deadline, and whatever goes wrong in one counts as a renewal that failed.
"""

import asyncio
import uuid
from collections.abc import Awaitable
from typing import Final, NoReturn, Protocol, TypeVar

import structlog

from rebalancer.kube.errors import Conflict
from rebalancer.leader.candidate import UNKNOWN, Candidate, Lease, LeaseClaim
from rebalancer.leader.timing import TIMING, LeaseTiming
from rebalancer.obs.clock import Clock

T = TypeVar("T")

NO_ANSWER: Final = "no answer in time"
UNREAD: Final = "the Lease was not looked at yet"
AGAIN_SECONDS = 60.0  # between two log lines about one trouble

log = structlog.get_logger()


class Leases(Protocol):
    """The Lease: `lease.LeaseObject`."""

    async def read(self) -> Lease | None:
        """What it says; None where there is none."""
        ...

    async def write(self, claim: LeaseClaim) -> str:
        """Write it at the version that was seen; the version stored."""
        ...


class Elector:
    """Implements `right.Right`. Run `run()` as a task. `elected` is set when it leads.

    `identity`: name of this replica and something that no other process has. `lost` resolves, with the reason, when
    its term has ended unasked. `trouble`: what the last turn failed with, None when all its calls were answered.
    """

    def __init__(self, leases: Leases, clock: Clock, replica: str, timing: LeaseTiming = TIMING) -> None:
        self.identity = f"{replica}_{uuid.uuid4().hex[:12]}"
        self.elected = asyncio.Event()
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.trouble: str | None = None
        self._leases = leases
        self._clock = clock
        self._candidate = Candidate(self.identity, timing)
        self._doubts = True
        self._unread = False  # the last look failed
        self._released = False
        self._logged_monotonic: float | None = None  # when the present trouble was logged last
        self._writing = asyncio.Lock()  # one call at a time: a renewal under way would make a release a conflict

    # --- the right to act

    @property
    def epoch(self) -> int | None:
        """Number of our term; None before it."""
        return self._candidate.epoch

    def why_not(self) -> str | None:
        """Why nothing may be written at this moment."""
        if self._candidate.may_act(self._clock.monotonic()):
            return None
        if self._candidate.epoch is None or self._candidate.over:
            return f"{self.leader} leads" if self.leader else self.why_unknown() or "nobody leads yet"
        return "the lease was not renewed in time"

    def seconds_left(self) -> float:
        """Seconds until the right to act ends, as things are; 0 without one."""
        if self._candidate.epoch is None or self._candidate.over:
            return 0.0
        return self._candidate.until_monotonic - self._clock.monotonic()

    @property
    def leader(self) -> str:
        """Name of the replica that may act by the Lease; "" where none may, or it was not read for so long."""
        return replica_of(self._candidate.leader(self._clock.monotonic()))

    def why_unknown(self) -> str | None:
        """Why nobody is known to lead: no look at the Lease succeeded yet, or a call failed; and who held it last."""
        if self.leader:
            return None
        if self.trouble is None:
            return None if self._candidate.looked else UNREAD
        why = f"the Lease cannot be {'read' if self._unread else 'written'}: {self.trouble}"
        last, ago = self._candidate.lease, self._clock.monotonic() - self._candidate.seen_monotonic
        if last is None or last.holder in {"", UNKNOWN, self.identity}:
            return why
        return f"{why}; {replica_of(last.holder)} was last seen to renew it {ago:.0f} s ago"

    def ended_seconds(self) -> float:
        """How long ago a term of ours ended unasked, 0 where none did: asked by the watchdog, from its thread."""
        candidate, now = self._candidate, self._clock.monotonic()
        if self._released or not candidate.lapsed(now):
            return 0.0
        return now - candidate.until_monotonic

    # --- the Lease

    async def run(self) -> NoReturn:
        """Takes and renews the Lease until cancelled."""
        while True:
            began = self._clock.monotonic()
            async with self._writing:
                await self._step()
            self._tell()
            timing = self._candidate.timing
            every_seconds = timing.look_seconds if self._candidate.epoch is None else timing.retry_seconds
            await self._clock.sleep(began + every_seconds - self._clock.monotonic())

    async def release(self) -> None:
        """Act no more, and let another replica begin at once. Raises nothing; where it fails, others wait."""
        async with self._writing:
            claim = self._candidate.release()
            self._released = not self._candidate.lapsed(self._clock.monotonic())
            self._candidate = self._candidate.resigned()
            if claim is not None:
                await self._bounded(self._leases.write(claim))

    async def _step(self) -> None:
        """A write without an answer is tried again as it was: two that hung leave time for one call and no look.

        It is refused where the first one passed after all; then there is a look at once.
        """
        again = self.trouble == NO_ANSWER and not self._doubts
        await self._try()
        if again and self._doubts:
            await self._try()

    async def _try(self) -> None:
        """Look, unless what was written last is what stands there; write what is to be written."""
        if self._doubts and not await self._look():
            return
        claim = self._candidate.claim(self._clock.monotonic())
        self._doubts = claim is None or claim.version is None
        if claim is not None:
            began = self._clock.monotonic()
            version = await self._bounded(self._leases.write(claim))
            if version is None:
                self._doubts = self.trouble != NO_ANSWER
                return
            if claim.version is not None and not self._released:
                self._candidate = self._candidate.wrote(claim, version, began)
        self._answered()

    async def _look(self) -> bool:
        async def read() -> tuple[Lease | None]:
            return (await self._leases.read(),)

        lease = await self._bounded(read())
        self._unread = lease is None
        if lease is None:
            return False
        self._candidate = self._candidate.saw(lease[0], self._clock.monotonic())
        return True

    async def _bounded(self, call: Awaitable[T]) -> T | None:
        """What a call gives, None where it gives nothing in time."""
        try:
            async with asyncio.timeout(self._candidate.timing.call_seconds):
                answer = await call
        except Exception as error:  # noqa: BLE001  # whatever it is, it is no renewal
            self._failed(error)
            return None
        return answer

    def _failed(self, error: Exception) -> None:
        """Logged at first, then once a minute; to meet another replica's write is no trouble."""
        self.trouble = NO_ANSWER if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
        now, logged = self._clock.monotonic(), self._logged_monotonic
        if not isinstance(error, Conflict) and (logged is None or now - logged >= AGAIN_SECONDS):
            log.warning("the lease cannot be read or written", error=self.trouble)
            self._logged_monotonic = now

    def _answered(self) -> None:
        self.trouble = None
        if self._logged_monotonic is not None:
            log.info("the lease is read and written again")
            self._logged_monotonic = None

    def _tell(self) -> None:
        """Let others know, once, that the term began or ended."""
        if self._candidate.lapsed(self._clock.monotonic()):
            if not self._released and not self.lost.done():
                self.lost.set_result(self.why_not() or "the term ended")
        elif self._candidate.epoch is not None and not self.elected.is_set():
            log.info("leads", epoch=self._candidate.epoch, identity=self.identity)
            self.elected.set()


def replica_of(identity: str) -> str:
    """The replica's own name in an identity; of a stranger's all of it."""
    return identity.rpartition("_")[0] or identity
