"""Whether this replica acts: alone from the start, or by a Lease and once it knows what the leader before it did."""

import socket
from collections.abc import Callable

from rebalancer.kube.client import KubeClient
from rebalancer.leader.elector import UNREAD, Elector
from rebalancer.leader.lease import LeaseObject
from rebalancer.leader.right import Alone, Right
from rebalancer.leader.watchdog import Watchdog, end_process
from rebalancer.obs.clock import Clock
from rebalancer.settings.service import ServiceSettings


class Leadership:
    """Implements `leader.right.Right`. `instance`: our name. `elector`: none without a Lease, and before `stand`.

    `succeeded`: set when the past of the leader before us is known, which nothing is written before. `end`: called from
    a thread where our right has ended and the process has not.
    """

    def __init__(self, settings: ServiceSettings, clock: Clock, end: Callable[[], None] = end_process) -> None:
        self.instance = settings.instance or socket.gethostname()
        self.elector: Elector | None = None
        self.succeeded = False
        self._settings = settings
        self._clock = clock
        self._end = end
        self._watchdog: Watchdog | None = None

    def stand(self, kube: KubeClient) -> Elector | None:
        """The elector to be run, which a thread watches from now on; None where this is the only replica."""
        settings = self._settings
        if not settings.lease_name:
            return None
        lease = LeaseObject(kube, settings.own_namespace, settings.lease_name, self._clock)
        self.elector = Elector(lease, self._clock, self.instance)
        self._watchdog = Watchdog(self.elector.ended_seconds, self._end)
        self._watchdog.start()
        return self.elector

    @property
    def _right(self) -> Right | None:
        return self.elector if self._settings.lease_name else Alone()

    @property
    def epoch(self) -> int | None:
        """Number of our term; None before it, and without a Lease."""
        return self.elector.epoch if self.elector is not None else None

    def why_not(self) -> str | None:
        """Why nothing may be written now."""
        right = self._right
        if right is None:
            return UNREAD
        why_not = right.why_not()
        if why_not is None and self.elector is not None and not self.succeeded:
            return "this replica leads, and still reads what the leader before it did"
        return why_not

    def seconds_left(self) -> float:
        """By when a write that begins now must have ended."""
        return self._right.seconds_left() if self._right is not None else 0.0

    def leads(self) -> bool:
        """Whether this replica acts."""
        return self.why_not() is None

    def leader(self) -> str:
        """Name of the replica that acts; "": nobody does, or it is not known yet.

        Of another one all that can be seen is that it holds the Lease.
        """
        if not self._settings.lease_name:
            return self.instance
        if self.elector is None or (self.elector.epoch is not None and not self.succeeded):
            return ""
        return self.elector.leader

    @property
    def trouble(self) -> str | None:
        """Why nobody is known to lead: the Lease was not read yet, or cannot be read or written."""
        if self.elector is None:
            return UNREAD if self._settings.lease_name else None
        return self.elector.why_unknown()

    async def release(self) -> None:
        """Let another replica lead at once."""
        if self.elector is not None:
            await self.elector.release()

    def close(self) -> None:
        """No thread ends the process any more."""
        if self._watchdog is not None:
            self._watchdog.stop()
