"""The wire below the calls: who they go to, what is never logged, how much is read."""

import logging
import socket
from email.utils import formatdate

import pytest
from aiohttp import web

from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.kube.errors import (
    Temporary,
)
from rebalancer.kube.resources import PODS, Call, Ref
from rebalancer.kube.transport import Transport, live_socket
from tests.kube.server import (
    EPOCH,
    ApiServer,
    LoopClock,
    a_client,
    as_json,
    opened,
)

pytestmark = pytest.mark.looptime

POD = Ref(PODS, "serving", "llama-0")


async def test_a_redirect_is_not_followed(server: ApiServer, client: KubeClient) -> None:
    async def elsewhere(server: ApiServer, _request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": f"{server.url}/elsewhere"})

    server.on_call.extend([elsewhere] * 3)
    with pytest.raises(Temporary, match="redirect"):
        await client.get(POD)
    assert not any(asked.path == "/elsewhere" for asked in server.asked)


async def test_a_proxy_in_the_environment_does_not_get_our_calls(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with a_client(server.access) as client:
        await client.get(POD)
    assert server.asked


async def test_a_proxy_of_the_kubeconfig_gets_them(server: ApiServer) -> None:
    async with a_client(Access("http://api.example:8080", proxy=server.url)) as client:
        await client.get(POD)
    assert server.asked[0].headers["Host"] == "api.example:8080"


async def test_bodies_and_tokens_are_never_logged(server: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    async def secret(_server: ApiServer, _request: web.Request) -> web.StreamResponse:
        return as_json({"data": "s3cret"})

    server.on_call.append(secret)
    with caplog.at_level(logging.DEBUG):
        async with a_client(Access(server.url, "Bearer t0ken")) as client:
            assert (await client.get(POD))["data"] == "s3cret"
    assert "s3cret" not in caplog.text
    assert "t0ken" not in caplog.text


async def test_a_body_without_end_is_cut_off(server: ApiServer) -> None:
    async def floods(_server: ApiServer, request: web.Request) -> web.StreamResponse:
        reply = await opened(request)
        while True:
            await reply.write(b" " * 65_536)

    server.on_call.append(floods)
    transport = Transport(server.access, LoopClock(), max_body_bytes=1_000_000)
    with pytest.raises(Temporary, match="longer than 1000000 bytes"):
        await transport.ask(Call("get", PODS, POD.path))
    await transport.close()


async def test_the_name_it_is_known_by_can_carry_the_epoch(server: ApiServer, client: KubeClient) -> None:
    await client.get(POD)
    client.identify("rebalancer/1 pod-a epoch-7")
    await client.get(POD)
    names = [asked.headers["User-Agent"] for asked in server.asked]
    assert names == ["rebalancer", "rebalancer/1 pod-a epoch-7"]


async def test_the_servers_clock_is_known_within_a_second(server: ApiServer, client: KubeClient) -> None:
    async def ahead(_server: ApiServer, _request: web.Request) -> web.StreamResponse:
        return as_json({}, Date=formatdate(EPOCH + 90, usegmt=True))

    assert client.server_offset_seconds is None
    server.on_call.append(ahead)
    await client.get(POD)
    assert client.server_offset_seconds == pytest.approx(90, abs=1)


async def test_a_date_that_is_none_says_nothing_new(server: ApiServer, client: KubeClient) -> None:
    async def nonsense(_server: ApiServer, _request: web.Request) -> web.StreamResponse:
        return as_json({}, Date="yesterday")

    server.on_call.append(nonsense)
    await client.get(POD)
    assert client.server_offset_seconds is None


def test_the_kernel_watches_over_quiet_connections() -> None:
    address = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))
    with live_socket(address) as live:
        assert live.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert live.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000


async def test_issues_103_104_119_closing_leaves_no_connection(server: ApiServer) -> None:
    client = a_client(server.access)
    await client.get(POD)
    await client.close()
    with pytest.raises(RuntimeError, match="closed"):
        await client.get(POD)
