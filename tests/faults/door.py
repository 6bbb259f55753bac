"""The link between the service and the API server, with a hand on it: whatever HTTP can do to a client."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web

from tests.real.api_proxy import ApiProxy

# None: the request goes on as if nobody had looked at it.
Meddle = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
Filter = Callable[[web.Request, bytes], Awaitable[bytes]]


class Lost(ConnectionError):
    """The connection was cut by us."""


@dataclass
class Door(ApiProxy):
    """`calls` has every request: (when, method, path). What is not set lets everything through.

    `meddle` answers in the server's place, `lose_reply` says whose answer is lost after the server gave it, `pieces`
    changes what comes back piece by piece, as a watch tells it.
    """

    meddle: Meddle | None = None
    lose_reply: Callable[[web.Request], bool] | None = None
    pieces: Filter | None = None
    calls: list[tuple[float, str, str]] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)
    _watches: dict[int, web.Request] = field(default_factory=dict)

    def heal(self) -> None:
        """Nothing is in the way any more."""
        self.meddle = self.lose_reply = self.pieces = None

    @asynccontextmanager
    async def meddling(
        self,
        meddle: Meddle | None = None,
        *,
        lose_reply: Callable[[web.Request], bool] | None = None,
        pieces: Filter | None = None,
    ) -> AsyncIterator[None]:
        """A fault on the link until the context ends."""
        self.meddle, self.lose_reply, self.pieces = meddle, lose_reply, pieces
        try:
            yield
        finally:
            self.heal()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass one request on, or do to it what was asked for."""
        self.calls.append((time.time(), request.method, request.path))
        if self.meddle is not None and (answer := await self.meddle(request)) is not None:
            self.met["meddled"] += 1
            return answer
        if watches(request):
            self._watches[id(request)] = request
        try:
            return await super().handle(request)
        except aiohttp.ClientConnectionError as error:
            cut(request)  # nobody there, or gone in the middle: the client sees as much
            raise Lost from error
        finally:
            self._watches.pop(id(request), None)

    def end_watches(self) -> None:
        """Cut all connections on which somebody watches."""
        for request in list(self._watches.values()):
            cut(request)

    async def answered(self, request: web.Request, answer: aiohttp.ClientResponse) -> None:
        """Lose the answer where that was asked for."""
        if self.lose_reply is not None and self.lose_reply(request):
            self.met["reply lost"] += 1
            cut(request)
            raise Lost

    async def chunk(self, request: web.Request, chunk: bytes) -> bytes:
        """Meddle with a piece of the answer where that was asked for."""
        return chunk if self.pieces is None else await self.pieces(request, chunk)


def cut(request: web.Request) -> None:
    """Reset the connection on which this request came."""
    if request.transport is not None:
        request.transport.abort()


def writes(request: web.Request) -> bool:
    """Whether it writes to somebody's workload: what leads and what people are told are left alone."""
    return request.method != "GET" and "/scale" in request.path


def watches(request: web.Request) -> bool:
    """Whether it is a watch."""
    return "watch" in request.query


def answering(status: int, body: str | bytes, content_type: str = "application/json", **headers: str) -> Meddle:
    """Everything is answered so."""

    async def meddle(request: web.Request) -> web.StreamResponse:
        raw = body.encode() if isinstance(body, str) else body
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, body=raw, content_type=content_type, headers=named)

    return meddle


def after(seconds: float) -> Meddle:
    """Everything takes so much longer."""

    async def meddle(request: web.Request) -> None:
        await asyncio.sleep(seconds)

    return meddle


async def silence(request: web.Request) -> web.StreamResponse:
    """Never answer, and let nobody know."""
    await asyncio.Event().wait()
    raise AssertionError


async def reset(request: web.Request) -> web.StreamResponse:
    """Cut every connection on which somebody asks."""
    cut(request)
    raise Lost


async def spoiled(request: web.Request, chunk: bytes) -> bytes:
    """A byte in the middle of each piece of an answer is another one; its length and headers are as they were."""
    middle = len(chunk) // 2
    return chunk[:middle] + bytes(byte ^ 0xFF for byte in chunk[middle : middle + 1]) + chunk[middle + 1 :]


def reordered() -> Filter:
    """Behind every second event of a watch comes the one before it: so tells a stale server behind a load balancer."""
    before: dict[str, bytes] = {}

    async def pieces(request: web.Request, chunk: bytes) -> bytes:
        if not watches(request) or not chunk.endswith(b"\n"):
            return chunk
        older = before.pop(request.path, None)
        if older is None:
            before[request.path] = chunk
            return chunk
        return chunk + older

    return pieces
