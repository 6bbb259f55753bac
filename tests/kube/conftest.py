"""A misbehaving API server and a client of it."""

from collections.abc import AsyncIterator

import pytest

from rebalancer.kube.client import KubeClient
from tests.kube.server import ApiServer, a_client


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[KubeClient]:
    async with a_client(server.access) as client:
        yield client
