"""Serves the two applications until told to stop."""

import asyncio
import logging
import socket

from aiohttp import web

from rebalancer.api.auth.authentication import Authentication
from rebalancer.api.auth.rate_limits import HEADER_BYTES
from rebalancer.api.http.responses import ApiError
from rebalancer.api.ports.status import StatusPort
from rebalancer.api.serving.middleware import set_headers
from rebalancer.api.serving.probes import probe_app
from rebalancer.api.serving.routes import Parts, api_app

SHUTDOWN_SECONDS = 2.0
IDLE_SECONDS = 30.0  # a connection on which no whole request comes is closed after this
LINGER_SECONDS = 1.0  # for the rest of a body that was refused
ALL_ADDRESSES = "::"

# What is no HTTP at all, aiohttp would log with a traceback: whoever reaches the port could fill a disk.
_quiet = logging.Logger("rebalancer.api.http", logging.CRITICAL)  # noqa: LOG001  alone on purpose: no parent


class _Connection(web.RequestHandler):
    """Says in our words what aiohttp says of bytes that are no HTTP, and does not repeat them."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 400,
        exc: BaseException | None = None,  # noqa: ARG002  aiohttp's signature
        message: str | None = None,  # noqa: ARG002  aiohttp's signature
    ) -> web.StreamResponse:
        """Answer and close the connection. Raises ConnectionError when an answer is under way already."""
        if request.writer.output_size:
            raise ConnectionResetError("an answer broke off")
        response = ApiError(status, "this is no HTTP request that can be read", "send HTTP/1.1, short lines").response()
        set_headers(response)
        response.force_close()
        return response


class Servers:
    """The API on `api`, probes on `probes`, each (host, port); port 0 takes a free one: `api_port`, `probe_port`.

    `parts`: what handlers find on their application besides the status port.
    """

    def __init__(
        self,
        status_port: StatusPort,
        authentication: Authentication,
        api: tuple[str, int],
        probes: tuple[str, int],
        parts: Parts | None = None,
    ) -> None:
        self._status_port = status_port
        self._authentication = authentication
        self._parts = parts
        self._api_host, self.api_port = api
        self._probe_host, self.probe_port = probes
        self._listeners: list[Listener] = []

    async def start(self) -> None:
        """Listen. Raises OSError when a port is taken."""
        self.probe_port = await self._serve(probe_app(self._status_port), self._probe_host, self.probe_port)
        # In a thread: it reads the console's files.
        app = await asyncio.to_thread(api_app, self._status_port, self._authentication, self._parts)
        self.api_port = await self._serve(app, self._api_host, self.api_port)

    async def _serve(self, app: web.Application, host: str, port: int) -> int:
        listener = Listener(app)
        self._listeners.append(listener)
        return await listener.start(host, port)

    async def stop(self) -> None:
        """Close the ports."""
        for listener in self._listeners:
            listener.close()
        for listener in self._listeners:
            await listener.end()
        self._listeners.clear()


class Listener:
    """One application on one port."""

    def __init__(self, app: web.Application) -> None:
        self._runner = web.AppRunner(app, shutdown_timeout=SHUTDOWN_SECONDS)
        self._socket: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen, on `::` at all addresses; the port, which is a free one for 0. Raises OSError when it is taken."""
        await self._runner.setup()
        manager, loop = self._runner.server, asyncio.get_running_loop()
        assert manager is not None  # noqa: S101  it is there from setup on

        def connection() -> _Connection:
            return _Connection(
                manager,
                loop=loop,
                logger=_quiet,
                access_log=_quiet,
                keepalive_timeout=IDLE_SECONDS,
                lingering_time=LINGER_SECONDS,
                auto_decompress=False,
                max_field_size=2 * HEADER_BYTES,  # so that one header above all that we take is refused in our words
            )

        if host == ALL_ADDRESSES:
            self._socket = await loop.create_server(connection, sock=_all_addresses(port))
        else:
            self._socket = await loop.create_server(connection, host, port)
        return int(self._socket.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Take no more connections."""
        if self._socket is not None:
            self._socket.close()

    async def end(self) -> None:
        """End those there are."""
        await self._runner.cleanup()


def _all_addresses(port: int) -> socket.socket:
    """A socket for IPv4 and IPv6; an event loop's own `::` would take IPv6 alone. IPv4 where the host has no IPv6."""
    if socket.has_dualstack_ipv6():
        return socket.create_server((ALL_ADDRESSES, port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))
