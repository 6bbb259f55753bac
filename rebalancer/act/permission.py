"""Whether we may write at all: leadership, the write stop, and whether we see the cluster."""

import asyncio
from collections.abc import Collection

from rebalancer.act.driver import Refused
from rebalancer.act.port import Port
from rebalancer.act.recent import Recent
from rebalancer.domain.cluster import READINGS
from rebalancer.domain.snapshot import Snapshot
from rebalancer.kube.errors import KubeError, NotFound
from rebalancer.kube.resources import WRITESTOPS, Object
from rebalancer.leader.right import Right
from rebalancer.obs.clock import Clock

STOP_AGE_SECONDS = 1.0  # with one write's deadline this keeps the promise: stopped within 2 s where the API answers
STOP_READ_SECONDS = 2.0


class Permission:
    """Asked before each object is read, and once more just before it is written."""

    def __init__(self, kube: Port, clock: Clock, right: Right) -> None:
        self._kube = kube
        self._right = right
        self._stops = Recent(self._read_stops, clock, STOP_AGE_SECONDS)

    async def ask(self) -> None:
        """Raise Refused unless we lead and no write stop is in force, read live at most a second ago."""
        try:
            stops = await self._stops.get()
        except NotFound as error:
            raise Refused("write-stop", "its CRD is not installed, so nobody could stop us; install it") from error
        except KubeError as error:
            raise Refused("write-stop", f"cannot be read, so nothing is written: {error}") from error
        seconds = self._stops.asked_seconds_ago()
        if seconds > STOP_READ_SECONDS:  # a process that stood still may find its answer before its deadline rings
            raise Refused("write-stop", f"cannot be read, so nothing is written: the answer is {seconds:.1f} s old")
        if stops:
            raise Refused("write-stop", _stop_words(stops[0]))
        why_not = self._right.why_not()  # last, and without waiting: it is true now
        if why_not is not None:
            raise Refused("leadership", why_not)

    async def _read_stops(self) -> list[Object]:
        try:
            async with asyncio.timeout(STOP_READ_SECONDS):
                return (await self._kube.list(WRITESTOPS)).items
        except TimeoutError as error:
            raise KubeError(f"no answer within {STOP_READ_SECONDS:g} s") from error


def sees_the_cluster(snapshot: Snapshot, pools: Collection[str]) -> None:
    """Raise Refused while a source of the snapshot is not listed yet, or silent, or a write stop is seen.

    So it does where one of `pools`, which a write concerns, or a model there could not be looked at: its view is old.
    Readings are no sight of the cluster: while they may be missing planning takes nothing, and may give.
    """
    if snapshot.write_stop is not None:
        raise Refused("write-stop", f"{snapshot.write_stop.name} by {snapshot.write_stop.actor or 'somebody'}")
    if snapshot.sync.missing:
        raise Refused("unsynced", f"not listed yet: {', '.join(snapshot.sync.missing)}")
    silent = [source for source in snapshot.sync.silent if source != READINGS]
    if silent:
        raise Refused("unsynced", f"silent: {', '.join(silent)}")
    for unseen in snapshot.unseen:
        if not set(pools).isdisjoint(unseen.pools):
            raise Refused("unsynced", f"{unseen.kind} {unseen.name} cannot be looked at: {unseen.why}")


def _stop_words(stop: Object) -> str:
    spec = stop.get("spec", {})
    return f"{stop['metadata']['name']} by {spec.get('actor', 'somebody')}: {spec.get('reason', 'no reason given')}"
