"""What a process hears of the API server in memory comes at the second at which the service's reflector tells it."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

import looptime
from aiohttp import web

from rebalancer.domain.cluster import Workload
from rebalancer.domain.events import Event, ObjectChanged, ObjectsListed
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.kube.pace import WatchPace
from rebalancer.kube.reflector import Reflector, Trouble
from rebalancer.kube.resources import PODS, Object, Resource
from rebalancer.world import World
from rebalancer.world.values import value
from tests.kube.server import ApiServer, LoopClock, a_client
from tests.schedules.api import ApiServer as InMemory
from tests.schedules.links import ApiLink
from tests.schedules.told import Told
from tests.schedules.virtual import START, MachineClock, VirtualLoop
from tests.schedules.watching import Watching

CHAT = WorkloadRef("serving", "Deployment", "chat")
FIRST = 3
CHANGES = {10: 4, 20: 5, 30: 6}  # replicas by second
LAST_WORD = 20  # of the watch, which stays open
END = 100

Heard = list[tuple[int, str]]


async def falls_silent(server: ApiServer, request: web.Request) -> web.StreamResponse:
    """A watch that tells of the changes until its last word, and then never says a word more."""
    await server.watch_until(request, lambda sent: sent == sum(at <= LAST_WORD for at in CHANGES))
    await asyncio.Event().wait()
    raise AssertionError


class Timeline:
    """The reflector's sink: what is told of one object's replicas, and when."""

    def __init__(self) -> None:
        self.heard: Heard = []

    def _hear(self, what: str) -> None:
        self.heard.append((round(asyncio.get_running_loop().time()), what))

    def relisted(self, _resource: Resource, items: Sequence[Object], _version: str, _now: float) -> None:
        self._hear(f"listed with {items[0]['metadata']['labels']['replicas']}")

    def changed(self, _resource: Resource, obj: Object, _now: float) -> None:
        self._hear(f"changed to {obj['metadata']['labels']['replicas']}")

    def gone(self, _resource: Resource, _obj: Object, _now: float) -> None:
        self._hear("gone")

    def alive(self, *_: object) -> None:
        """Beside each change."""

    def trouble(self, _resource: Resource, reason: Trouble, _now: float) -> None:
        """Silence is told as one, too, and over in the same instant, by the list."""
        if reason.kind != "silent":
            self._hear(str(reason))

    def take(self, events: list[Event]) -> None:
        """As the process in memory is told."""
        for event in events:
            match event:
                case ObjectsListed("deployments", _, (Workload(replicas=replicas),)):
                    self._hear(f"listed with {replicas}")
                case ObjectChanged("deployments", _, Workload(replicas=replicas)):
                    self._hear(f"changed to {replicas}")


async def by_the_reflector() -> Heard:
    timeline = Timeline()
    async with ApiServer() as server, a_client(server.access) as kube:
        server.pods.put("chat", replicas=str(FIRST))
        server.on_watch.append(falls_silent)
        pace = WatchPace(resync_seconds=None)
        reflector = Reflector(kube, PODS, timeline, LoopClock(), random.Random(1), pace=pace)
        task = asyncio.create_task(reflector.run())
        for at, replicas in CHANGES.items():
            await asyncio.sleep(at - asyncio.get_running_loop().time())
            server.pods.put("chat", replicas=str(replicas))
        await asyncio.sleep(END - asyncio.get_running_loop().time())
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    return timeline.heard


async def in_memory() -> Heard:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    timeline, world, link = Timeline(), World(START), ApiLink()
    world.add_deployment("chat", CHAT, FIRST, 1, node_selector={"pool": "x"}, load_seconds=1.0)
    world.take_changes()
    watching = Watching(world, InMemory(lambda: START), link, lambda: None)
    task = asyncio.create_task(watching.run(timeline.take, MachineClock(loop)))
    for second in range(1, END + 1):
        await asyncio.sleep(1.0)
        world.advance(START + loop.time())
        if second in CHANGES:
            world.scale(CHAT, CHANGES[second])
        watching.tell([Told(*value(thing, second), gone=gone) for thing, gone in world.take_changes()])
        link.watches_silent = second >= LAST_WORD
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return timeline.heard


def test_a_list_a_change_and_the_list_after_75_s_of_silence_come_when_the_reflector_tells_them() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as memory:
        ours = memory.run(in_memory())
    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        assert runner.run(by_the_reflector()) == ours
    assert [at for at, _ in ours] == [0, 10, 20, LAST_WORD + 75]
