"""The watches of one process: lists once, then hears what changes, as far as its link to the API server lets it."""

import asyncio
from collections.abc import Callable
from typing import NoReturn

from rebalancer.domain.cluster import SOURCES, ClusterObject
from rebalancer.domain.events import Event, ObjectsListed, SourceState
from rebalancer.obs.clock import Clock
from rebalancer.world import World
from rebalancer.world.values import value
from tests.schedules.api import ApiServer
from tests.schedules.links import ApiLink
from tests.schedules.told import Told

SILENT_SECONDS = 75.0  # without a byte a watch is dead, and everything is listed anew
BOOKMARK_SECONDS = 60.0
AGAIN_SECONDS = 2.0

Sink = Callable[[list[Event]], None]


BOOKMARKS = tuple(Told(source, None) for source in SOURCES)


class Watching:
    """`tell` is the server's side, each second; `run` is the process's own.

    `seen` is called whenever the process has heard all that there is. Silence counts from the last second at which it
    could have spoken: where nothing happened before, the reflector lists anew up to a minute sooner.
    """

    def __init__(self, world: World, server: ApiServer, link: ApiLink, seen: Callable[[], None]) -> None:
        self._world, self._server, self._link, self._seen = world, server, link, seen
        self._pending: list[tuple[float, Told]] = []  # with the loop's time at which it arrives
        self._news = asyncio.Event()
        self._broken = True  # nothing is listed, or something was missed
        self._missing = False
        self._spoke_at = self._bookmarked_at = asyncio.get_running_loop().time()

    def tell(self, told: list[Told]) -> None:
        """These have changed in the last second, or nothing has."""
        now, link = asyncio.get_running_loop().time(), self._link
        if link.away:
            self._broken = True
        elif link.watches_silent or link.silent:
            self._missing = True
            self._broken = self._broken or now - self._spoke_at >= SILENT_SECONDS
        else:
            self._broken = self._broken or self._missing  # what was said meanwhile is gone
            self._spoke_at = now
            if now - self._bookmarked_at >= BOOKMARK_SECONDS:
                self._bookmarked_at = now
                told = [*told, *BOOKMARKS]
            last = self._pending[-1][0] if self._pending else now  # a watch never overtakes itself
            self._pending += [(max(last, now + link.watch_seconds), one) for one in told]
        if self._broken or not self._missing:
            self._news.set()

    @property
    def behind(self) -> bool:
        """Whether some of what was told has not arrived, be the way quick again or not."""
        return bool(self._pending) and self._pending[-1][0] > asyncio.get_running_loop().time()

    async def run(self, sink: Sink, clock: Clock) -> NoReturn:
        """Until cancelled."""
        while True:
            if self._broken and not await self._list(sink, clock):
                continue
            self._news.clear()
            self._hear(sink, clock)
            await self._news.wait()

    def _hear(self, sink: Sink, clock: Clock) -> None:
        now = asyncio.get_running_loop().time()
        arrived = [one for due, one in self._pending if due <= now]
        self._pending = self._pending[len(arrived) :]
        if arrived:
            sink([one.event(clock.now()) for one in arrived])
        if not self._pending and not self._missing:
            self._seen()

    async def _list(self, sink: Sink, clock: Clock) -> bool:
        """Everything, or why not."""
        if self._link.away or self._link.silent:
            why = "connection refused" if self._link.away else "no answer"
            sink([SourceState(source, clock.now(), why) for source in SOURCES])
            await clock.sleep(AGAIN_SECONDS)
            return False
        await clock.sleep(self._link.seconds)
        listed = everything(self._world)
        listed["writestops"] += self._server.stops.values()
        listed["overrides"] += self._server.overrides.values()
        self._pending.clear()
        self._broken = self._missing = False
        self._spoke_at = asyncio.get_running_loop().time()
        now = clock.now()
        sink([ObjectsListed(source, now, tuple(each)) for source, each in listed.items()])
        sink([SourceState(source, now) for source in SOURCES])
        return True


def everything(world: World) -> dict[str, list[ClusterObject]]:
    """All objects by source."""
    listed: dict[str, list[ClusterObject]] = {source: [] for source in SOURCES}
    things: list[object] = [*world.nodes.values(), *world.pods.values(), *world.deployments.values()]
    things += [*world.hpas.values(), *world.scaled_objects.values()]
    things += [*world.node_pools.values(), *world.node_claims.values()]
    for thing in things:
        source, seen = value(thing, world.revision(thing))
        listed[source].append(seen)
    return listed
