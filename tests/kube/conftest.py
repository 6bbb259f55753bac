"""A misbehaving API server and a client of it."""

from collections.abc import AsyncIterator

import pytest
from blockbuster import BlockBuster

from rebalancer.kube.client import KubeClient
from tests.kube.server import ApiServer, a_client


@pytest.fixture(scope="session", autouse=True)
def _login_may_block(blockbuster: BlockBuster) -> None:
    """It reads files under an event loop of its own, in a thread of its own."""
    for function in blockbuster.functions.values():
        function.can_block_in("rebalancer/kube/access.py", {"read"})


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[KubeClient]:
    async with a_client(server.access) as client:
        yield client
