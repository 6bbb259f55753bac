"""An API server for pods that answers as Kubernetes does, until it is told to misbehave.

`pods` is its truth; `on_list`, `on_watch` and `on_call` hold faults, each used up by one request.
"""

import asyncio
import random
import socket
import ssl
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient

JSON = dict[str, Any]
Fault = Callable[["ApiServer", web.Request], Awaitable[web.StreamResponse]]

EPOCH = 1_800_000_000.0


class LoopClock:
    """UTC and monotonic time by the event loop's clock, which looptime makes virtual."""

    def now(self) -> float:
        return EPOCH + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class Pods:
    """What is true, each revision of it, and how far back a watch may start."""

    live: dict[str, JSON] = field(default_factory=dict)
    revision: int = 100
    history: list[tuple[int, str, JSON]] = field(default_factory=list)
    oldest: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, name: str, **labels: str) -> None:
        kind = "MODIFIED" if name in self.live else "ADDED"
        self._record(kind, {"metadata": {"name": name, "namespace": "serving", "labels": labels}})

    def delete(self, name: str) -> None:
        self._record("DELETED", self.live[name])

    def forget(self) -> None:
        """Compact: only the present revision can be watched from."""
        self.oldest = self.revision

    def _record(self, kind: str, obj: JSON) -> None:
        self.revision += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        self.history.append((self.revision, kind, obj))
        name = obj["metadata"]["name"]
        if kind == "DELETED":
            del self.live[name]
        else:
            self.live[name] = obj
        self.news.set()
        self.news = asyncio.Event()


@dataclass(frozen=True)
class Asked:
    """One request the server saw."""

    at: float
    method: str
    path: str
    query: Mapping[str, str]
    headers: CIMultiDict[str]
    body: Any

    @property
    def is_watch(self) -> bool:
        return "watch" in self.query


class ApiServer:
    """Serves on loopback; use as an async context manager."""

    bookmark_seconds = 60.0

    def __init__(self, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self._tls = tls
        self._port = port
        self.pods = Pods()
        self.asked: list[Asked] = []
        self.on_list: deque[Fault] = deque()
        self.on_watch: deque[Fault] = deque()
        self.on_call: deque[Fault] = deque()
        self.page_size = 500
        self._tokens: dict[str, list[JSON]] = {}

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.01)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=self._tls)
        await self._site.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self._runner.addresses[0][1]}"

    @property
    def access(self) -> Access:
        return Access(self.url)

    @property
    def watches(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.is_watch]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = msgspec.json.decode(raw) if raw else None
        asked = Asked(
            asyncio.get_running_loop().time(),
            request.method,
            request.path,
            dict(request.query),
            CIMultiDict(request.headers),
            body,
        )
        self.asked.append(asked)
        if request.method == "GET" and request.path.endswith("/pods"):
            faults = self.on_watch if asked.is_watch else self.on_list
            answer = self._watch if asked.is_watch else self.list_page
        else:
            faults, answer = self.on_call, self._call
        if faults:
            return await faults.popleft()(self, request)
        return await answer(request)

    async def _call(self, request: web.Request) -> web.StreamResponse:
        return as_json({"kind": "Echo", "path": request.path})

    async def list_page(self, request: web.Request) -> web.StreamResponse:
        token = request.query.get("continue", "")
        left = self._tokens.pop(token) if token else list(self.pods.live.values())
        limit = min(self.page_size, int(request.query.get("limit", "500")))
        metadata = {"resourceVersion": str(self.pods.revision)}
        if left[limit:]:
            metadata["continue"] = token = f"{self.pods.revision}-{len(left) - limit}"
            self._tokens[token] = left[limit:]
        return as_json({"kind": "PodList", "metadata": metadata, "items": left[:limit]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        return await self.watch_until(request, lambda _sent: False)

    async def watch_until(self, request: web.Request, stop: Callable[[int], bool]) -> web.StreamResponse:
        """Watch as Kubernetes does; end when `stop(events sent)` or at the time-out asked for."""
        reply = await opened(request)
        revision, sent = int(request.query["resourceVersion"]), 0
        if revision < self.pods.oldest:
            await reply.write(line("ERROR", status(410, "Expired", "too old resource version")))
            return reply
        loop = asyncio.get_running_loop()
        end = loop.time() + float(request.query["timeoutSeconds"])
        while not stop(sent) and loop.time() < end:
            news = self.pods.news
            for at, kind, obj in [event for event in self.pods.history if event[0] > revision]:
                await reply.write(line(kind, obj))
                revision, sent = at, sent + 1
                if stop(sent):
                    return reply
            try:
                async with asyncio.timeout(min(self.bookmark_seconds, end - loop.time())):
                    await news.wait()
            except TimeoutError:
                await reply.write(bookmark(self.pods.revision))
        return reply


def a_client(access: Access) -> KubeClient:
    return KubeClient(access, LoopClock(), random.Random(1))


def as_json(body: object, code: int = 200, **headers: str) -> web.Response:
    return web.Response(
        status=code,
        body=msgspec.json.encode(body),
        headers={"Content-Type": "application/json", **headers},
    )


def status(code: int, reason: str = "", message: str = "") -> JSON:
    return {"kind": "Status", "code": code, "reason": reason, "message": message}


def line(kind: str, obj: JSON) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def bookmark(revision: int) -> bytes:
    return line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(revision)}})


async def opened(request: web.Request) -> web.StreamResponse:
    reply = web.StreamResponse(headers={"Content-Type": "application/json"})
    await reply.prepare(request)
    return reply


def answers(code: int, reason: str = "", message: str = "", retry_after: str | None = None) -> Fault:
    """A Kubernetes Status."""

    async def fault(_server: ApiServer, _request: web.Request) -> web.StreamResponse:
        headers = {"Retry-After": retry_after} if retry_after else {}
        return as_json(status(code, reason, message), code, **headers)

    return fault


def says(code: int, text: str, content_type: str) -> Fault:
    """Anything else."""

    async def fault(_server: ApiServer, _request: web.Request) -> web.StreamResponse:
        return web.Response(status=code, text=text, content_type=content_type)

    return fault


html_502 = says(502, "<html>bad gateway</html>\n", "text/html")
html_200 = says(200, "<html>log in here</html>\n", "text/html")
empty_200 = says(200, "", "application/json")
not_installed = says(404, "404 page not found\n", "text/plain")


async def closes_at_once(_server: ApiServer, request: web.Request) -> web.StreamResponse:
    return await opened(request)


async def hangs(_server: ApiServer, _request: web.Request) -> web.StreamResponse:
    """Take the request and never say a word."""
    await asyncio.Event().wait()
    raise AssertionError


async def silent(_server: ApiServer, request: web.Request) -> web.StreamResponse:
    """Open the watch and never say a word: what a half-open connection looks like from here."""
    await opened(request)
    await asyncio.Event().wait()
    raise AssertionError


async def resets(_server: ApiServer, request: web.Request) -> web.StreamResponse:
    reset(request)
    return web.Response()


async def resets_in_the_body(_server: ApiServer, request: web.Request) -> web.StreamResponse:
    reply = await opened(request)
    await reply.write(b'{"metadata": {"resourceVersion": "1"')
    reset(request)
    return reply


async def cuts_the_next_event(server: ApiServer, request: web.Request) -> web.StreamResponse:
    """Send half of the next event, then end the body as if it were whole."""
    reply = await opened(request)
    revision = int(request.query["resourceVersion"])
    for _at, kind, obj in [event for event in server.pods.history if event[0] > revision][:1]:
        whole = line(kind, obj)
        await reply.write(whole[: len(whole) // 2])
    return reply


async def expired(_server: ApiServer, request: web.Request) -> web.StreamResponse:
    """410 as an event of a watch."""
    reply = await opened(request)
    await reply.write(line("ERROR", status(410, "Expired", "too old resource version")))
    return reply


async def garbles(_server: ApiServer, request: web.Request) -> web.StreamResponse:
    reply = await opened(request)
    await reply.write(b'{"type": "ADDED", "object": {"metadata"}}\n')
    return reply


def ends_after(events: int) -> Fault:
    """A watch that ends well after so many events."""

    async def fault(server: ApiServer, request: web.Request) -> web.StreamResponse:
        return await server.watch_until(request, lambda sent: sent >= events)

    return fault


def breaks_after(events: int) -> Fault:
    """A watch whose connection is reset after so many events."""

    async def fault(server: ApiServer, request: web.Request) -> web.StreamResponse:
        reply = await server.watch_until(request, lambda sent: sent >= events)
        reset(request)
        return reply

    return fault


def reset(request: web.Request) -> None:
    """End the connection by RST: lingering for no time makes close() do that."""
    transport = request.transport
    if transport is None:
        return
    raw = transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
