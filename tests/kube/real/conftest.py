"""The real API server behind our own client; the fixtures are those of the testbed."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rebalancer.kube.access import find_access
from rebalancer.kube.client import KubeClient
from rebalancer.loop.clock import RealClock
from tests.testbed.fixtures import *  # noqa: F403 - fixtures reach tests by being names in a conftest
from tests.testbed.fixtures import mark_real
from tests.testbed.stack import Stack


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_real(items, Path(__file__).parent)


@pytest.fixture
def kubeconfig(cluster: Stack) -> Path:
    return cluster.kubeconfig()


@pytest.fixture
async def door(kubeconfig: Path) -> AsyncIterator[KubeClient]:
    """Our client with all rights."""
    access = await find_access(kubeconfig)
    async with KubeClient(access, RealClock(), random.Random(1)) as client:
        yield client
