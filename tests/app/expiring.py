"""An API server behind TLS whose logins end by the clock."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer

from rebalancer.loop.clock import RealClock
from tests.real.api_proxy import ApiProxy
from tests.testbed.place import Access

_SHUTDOWN_SECONDS = 0.1


@dataclass
class Gate(ApiProxy):
    """The API server behind TLS. `ends`: until when each login is good (epoch seconds); one that it lacks is none."""

    ends: dict[str, float] = field(default_factory=dict)
    tls: ssl.SSLContext = field(default_factory=lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    _open: set[asyncio.BaseTransport] = field(default_factory=set)

    @classmethod
    @asynccontextmanager
    async def before_plain(cls, server: str, certificate: Path) -> AsyncIterator["Gate"]:
        """Until the context ends, with this certificate."""
        timeout = aiohttp.ClientTimeout(total=None, connect=10)
        async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session:
            gate = cls(Access(server, "", ""), session)
            gate.tls.load_cert_chain(certificate)
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", gate.handle)
            listening = TestServer(app)
            await listening.start_server(ssl=gate.tls, shutdown_timeout=_SHUTDOWN_SECONDS)
            async with listening:
                gate.url = f"https://127.0.0.1:{listening.port}"
                yield gate

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """As the API server answers whom it does not know, or no longer."""
        if request.transport is not None:
            self._open.add(request.transport)
        login = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not self.knows(login):
            status = {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}
            return web.Response(status=401, body=msgspec.json.encode(status), content_type="application/json")
        return await super().handle(request)

    def lets_in(self, login: str, seconds: float) -> None:
        """From now on, for so long."""
        self.ends[login] = RealClock().now() + seconds

    def knows(self, login: str) -> bool:
        """Whether it is good now."""
        return RealClock().now() <= self.ends.get(login, 0.0)

    def cut(self) -> None:
        """Every connection ends: the next ones begin with a handshake."""
        for transport in self._open:
            transport.close()
        self._open.clear()

    async def handshake(self, trusted: Path) -> str:
        """What somebody who trusts that CA has to say of the certificate shown now; empty: nothing."""
        try:
            context = await asyncio.to_thread(ssl.create_default_context, cafile=str(trusted))
            _, writer = await asyncio.open_connection("127.0.0.1", int(self.url.rpartition(":")[2]), ssl=context)
        except ssl.SSLError as error:
            return str(error)
        writer.close()
        return ""
