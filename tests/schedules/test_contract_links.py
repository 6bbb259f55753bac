"""What lies between a replica and the API server does in memory what a proxy before the embedded one does."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import looptime
import pytest
from aiohttp import ClientSession, web

from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.sandbox.api import EmbeddedKubernetes
from rebalancer.world import World
from rebalancer.world.port import WorldPort
from tests.kube.server import LoopClock
from tests.sandbox.shapes import deployment
from tests.schedules.api import ApiServer, ApiWay
from tests.schedules.links import ANSWERS, LATE_SECONDS, Answer, ApiLink
from tests.schedules.test_contracts import MISSING, TARGET, Seen, replicas_of, said, version_of, with_chat
from tests.schedules.virtual import START, Host, VirtualLoop
from tests.testbed.process import free_port


class Hand(Protocol):
    """On what lies between. `link`: what it does to calls that come through."""

    link: ApiLink

    async def refuse(self) -> None:
        """No connection is left, and none is taken."""

    async def accept(self) -> None:
        """That is over."""


Play = Callable[[Any, Hand], Awaitable[Seen]]
LONGEST_SECONDS = 1.0  # that a call takes which is refused: a read asks three times within 0.6 s


@dataclass
class InMemory:
    """The link says it all."""

    link: ApiLink

    async def refuse(self) -> None:
        self.link.away = True

    async def accept(self) -> None:
        self.link.away = False


class Between:
    """A proxy on `port` that misbehaves as its link says; `url` is the API server's."""

    def __init__(self, url: str) -> None:
        self.link = ApiLink()
        self.port = free_port()
        self._url = url
        self._runner: web.AppRunner | None = None

    async def accept(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def refuse(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Pass the request on, or not, and answer."""
        if self.link.silent:
            await asyncio.Event().wait()
        answers = self.link.answers
        how = answers.popleft() if answers and request.method != "GET" else None
        if how in {"503", "504 unread"}:
            return _failure(int(how[:3]))
        await request.read()  # before whoever sent it gives up and is gone
        if how == "late":
            await asyncio.sleep(LATE_SECONDS)
        reply = await self._passed_on(request)
        match how:
            case "page":
                return web.Response(status=502, text="<html>", content_type="text/html")
            case "504":
                return _failure(504)
            case "409":
                return await self._passed_on(request)
            case _:
                return reply

    async def _passed_on(self, request: web.Request) -> web.Response:
        kept = {"Authorization", "Content-Type", "Accept"}
        headers = {name: text for name, text in request.headers.items() if name in kept}
        body = await request.read()
        async with (
            ClientSession() as session,
            session.request(request.method, self._url + request.path_qs, data=body, headers=headers) as reply,
        ):
            return web.Response(status=reply.status, body=await reply.read(), content_type=reply.content_type)


def _failure(code: int) -> web.Response:
    return web.json_response({"kind": "Status", "code": code}, status=code)


def in_memory(play: Play) -> Seen:
    """On the ports of schedules."""

    async def played() -> Seen:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        link = ApiLink()
        port = WorldPort(with_chat(World(START)))
        way = ApiWay(ApiServer(lambda: START), port, link, Host("a"), loop, lambda _call: nullcontext())
        return await play(way, InMemory(link))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(played())


def embedded(play: Play) -> Seen:
    """By the client that the service has, through a proxy, or where nothing listens."""

    async def played() -> Seen:
        async with EmbeddedKubernetes(LoopClock()) as server:
            server.store.put(deployment("chat", 3, "serving"))
            between = Between(server.url)
            await between.accept()
            access = Access(f"http://127.0.0.1:{between.port}", "Bearer sandbox-rebalancer")
            async with KubeClient(access, LoopClock(), random.Random(1)) as kube:
                seen = await play(kube, between)
            await between.refuse()
            return seen

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        return runner.run(played())


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_write_that_is_not_answered_well_is_answered_and_applied_as_a_proxy_does_it(answer: Answer) -> None:
    async def play(kube: Any, hand: Hand) -> Seen:  # noqa: ANN401  # either way to an API server
        version = await version_of(kube, TARGET)
        hand.link.answers.append(answer)
        began = asyncio.get_running_loop().time()
        seen = [await said(kube.put_scale(TARGET, 4, version))]
        seen += [f"{asyncio.get_running_loop().time() - began:.0f} s", await replicas_of(kube)]
        await asyncio.sleep(LATE_SECONDS)
        return [*seen, await replicas_of(kube), await said(kube.put_scale(TARGET, 5, version))]

    assert in_memory(play) == embedded(play)


def test_a_way_through_which_nothing_comes_ends_each_call_by_its_deadline_and_applies_nothing() -> None:
    async def play(kube: Any, hand: Hand) -> Seen:  # noqa: ANN401  # either way to an API server
        version, loop = await version_of(kube, TARGET), asyncio.get_running_loop()
        hand.link.silent = True
        began, seen = loop.time(), [await said(kube.get_scale(TARGET))]
        seen += [f"{loop.time() - began:.0f} s", await said(kube.put_scale(TARGET, 4, version))]
        seen += [f"{loop.time() - began:.0f} s"]
        hand.link.silent = False
        return [*seen, await replicas_of(kube)]

    assert in_memory(play) == embedded(play)


def test_a_refused_connection_fails_each_call_at_once_and_writes_nothing() -> None:
    async def play(kube: Any, hand: Hand) -> Seen:  # noqa: ANN401  # either way to an API server
        version, loop = await version_of(kube, TARGET), asyncio.get_running_loop()
        await hand.refuse()
        began = loop.time()
        seen = [await said(kube.get_scale(TARGET)), await said(kube.put_scale(TARGET, 4, version))]
        seen += [await said(kube.evict(MISSING, "1")), await said(kube.delete(MISSING, uid="1"))]
        seen += ["at once" if loop.time() - began < LONGEST_SECONDS else f"{loop.time() - began:.1f} s"]
        await hand.accept()
        seen += [await replicas_of(kube), await said(kube.put_scale(TARGET, 4, version)), await replicas_of(kube)]
        return seen

    assert in_memory(play) == embedded(play)
