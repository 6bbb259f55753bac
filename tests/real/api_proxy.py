"""A door in front of the real API server: it can answer writes with 503, or let nothing through and say nothing."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.testbed.place import Access

_HOP_BY_HOP = {"host", "connection", "transfer-encoding", "content-length", "content-encoding", "accept-encoding"}
_UNAVAILABLE = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503, "message": "the test says so"}
# Watches that go through do not end by themselves: aiohttp waits for them twice, a minute each unless told otherwise.
_SHUTDOWN_SECONDS = 0.1


@dataclass
class ApiProxy:
    """`refuses_writes`: whatever is no GET is answered 503, and counted in `refused` by its path.

    `swallow()`: from now on nothing arrives, in either direction, and no connection ends; with a word only requests
    whose path has it.
    """

    access: Access
    session: aiohttp.ClientSession
    refuses_writes: bool = False
    refused: list[str] = field(default_factory=list)
    url: str = ""
    swallows: str | None = None

    def swallow(self, word: str = "") -> None:
        """The network is gone, at least for requests with that word in their path."""
        self.swallows = word

    async def _passes(self, request: web.Request) -> None:
        if self.swallows is not None and self.swallows in request.path:
            await asyncio.Event().wait()

    @classmethod
    @asynccontextmanager
    async def before(cls, access: Access) -> AsyncIterator[Self]:
        """Listens on loopback until the context ends."""
        trusted = ssl.create_default_context(cadata=access.ca) if access.ca else True
        timeout = aiohttp.ClientTimeout(total=None, connect=10)
        connector = aiohttp.TCPConnector(ssl=trusted, limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:
            proxy = cls(access, session)
            app = web.Application(client_max_size=16 * 1024 * 1024)
            app.router.add_route("*", "/{path:.*}", proxy.handle)
            server = TestServer(app)
            await server.start_server(shutdown_timeout=_SHUTDOWN_SECONDS)
            async with server:
                proxy.url = str(server.make_url("")).rstrip("/")
                yield proxy

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass one request on, or refuse it."""
        await self._passes(request)
        if self.refuses_writes and request.method != "GET":
            self.refused.append(request.path)
            return web.json_response(_UNAVAILABLE, status=503)
        return await self.forward(request)

    async def answered(self, request: web.Request, answer: aiohttp.ClientResponse) -> None:
        """The server has answered, and nobody knows yet."""

    async def chunk(self, request: web.Request, chunk: bytes) -> bytes:
        """What is passed on of a piece of an answer."""
        return chunk

    async def forward(self, request: web.Request, body: bytes | None = None) -> web.StreamResponse:
        """Pass one request on, with another `body` where one is given, and its answer back."""
        data = await request.read() if body is None else body
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        headers["Accept-Encoding"] = "identity"  # a list beyond 128 KiB would come as gzip, and lose its label here
        url = f"{self.access.server}{request.raw_path}"
        async with self.session.request(request.method, url, headers=headers, data=data) as answer:
            await self.answered(request, answer)
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await self._passes(request)
                await response.write(await self.chunk(request, chunk))
            await response.write_eof()
            return response
