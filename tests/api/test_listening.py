"""At which addresses the ports answer."""

import socket

import aiohttp
import pytest

from rebalancer.api.serving.probes import probe_app
from rebalancer.api.serving.server import Listener
from tests.api.decided import some_status_port


async def answers(host: str, port: int) -> bool:
    """Whether a kubelet that comes by this address is answered."""
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}/livez") as response:
            return response.status == 200
    except aiohttp.ClientConnectorError:
        return False


def has_ipv6() -> bool:
    """Whether this machine has an address of IPv6: a kernel that knows it may have it switched off by sysctl."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


async def test_two_colons_listen_on_ipv4_and_where_there_is_one_on_ipv6_at_one_port() -> None:
    listener = Listener(probe_app(some_status_port()))
    port = await listener.start("::", 0)
    try:
        assert await answers("127.0.0.1", port)
        assert await answers("[::1]", port) == has_ipv6()
    finally:
        listener.close()
        await listener.end()


async def test_a_port_that_is_taken_at_one_address_is_taken_for_all() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = Listener(probe_app(some_status_port()))
        with pytest.raises(OSError, match="in use"):
            await listener.start("::", taken.getsockname()[1])
        await listener.end()
