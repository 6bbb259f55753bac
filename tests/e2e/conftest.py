"""The simulated cluster behind the embedded API."""

from collections.abc import AsyncIterator

import pytest

from rebalancer.sandbox.api import EmbeddedKubernetes
from tests.e2e.stages import Cluster, a_world
from tests.sandbox.hand_clock import HandClock


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    clock = HandClock()
    async with EmbeddedKubernetes(clock) as kubernetes:
        yield Cluster(clock, kubernetes, a_world())
