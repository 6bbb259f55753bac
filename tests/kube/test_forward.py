"""The way to a pod's port: who we are there, while connections come and go."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rebalancer.kube.access import Access
from rebalancer.kube.forward import PROTOCOL, Forward
from tests.kube.logins import HandClock


class Echo:
    """An API server whose pod says again what it hears, to whoever comes with `token`."""

    def __init__(self) -> None:
        self.token = "first"
        self.refused = 0

    async def forward(self, request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] != f"Bearer {self.token}":
            self.refused += 1
            return web.Response(status=401)
        socket = web.WebSocketResponse(protocols=(PROTOCOL,))
        await socket.prepare(request)
        await socket.send_bytes(b"\x00\x90\x1f")
        async for frame in socket:
            await socket.send_bytes(frame.data)
        return socket


@pytest.fixture
async def echo() -> AsyncIterator[tuple[Echo, str]]:
    echo, app = Echo(), web.Application()
    app.router.add_get("/api/v1/namespaces/rebalancer/pods/rb-0/portforward", echo.forward)
    async with TestServer(app) as server:
        yield echo, f"http://127.0.0.1:{server.port}"


async def said_again(forward: Forward) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(forward.path))
    writer.write(b"hello")
    try:
        return await reader.read(5)
    finally:
        writer.close()


@pytest.mark.parametrize(("seconds", "refused"), [(10.0, 1), (70.0, 0)])
async def test_a_login_that_has_run_out_is_read_again_for_the_next_connection(
    echo: tuple[Echo, str], tmp_path: Path, seconds: float, refused: int
) -> None:
    server, url = echo
    clock, access = HandClock(), Access(url, "Bearer first", lambda: Access(url, f"Bearer {server.token}"))
    async with Forward(access, clock, "rebalancer", "rb-0", 8080, tmp_path) as forward:
        assert await said_again(forward) == b"hello"
        server.token, clock.seconds = "second", seconds
        assert await said_again(forward) == b"hello", forward.trouble
        assert server.refused == refused


async def test_a_login_that_stays_refused_is_told_until_a_connection_succeeds(
    echo: tuple[Echo, str], tmp_path: Path
) -> None:
    server, url = echo
    clock, access = HandClock(), Access(url, "Bearer stale", lambda: Access(url, "Bearer stale"))
    clock.seconds = 10.0
    async with Forward(access, clock, "rebalancer", "rb-0", 8080, tmp_path) as forward:
        assert await said_again(forward) == b""
        assert (
            forward.trouble == "the API server refused pods/portforward of rebalancer/rb-0: 401 Invalid response status"
        )
        assert server.refused == 1
        server.token = "stale"
        assert await said_again(forward) == b"hello"
        assert forward.trouble is None
