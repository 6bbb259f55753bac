"""Models a and b, a Deployment each on 8 GPUs, behind an embedded Kubernetes API."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.sandbox.api import EmbeddedKubernetes
from tests.act.rig import Rig, SteppingClock
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.sandbox.hand_clock import HandClock


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    """Model a has 3 replicas and b 5, floors are 1 and 2, their pool is full; NodePool spot has no node."""
    clock = SteppingClock()
    policy = a_policy(a_model("a"), a_model("b", min_replicas=2), pools=(a_pool(), an_elastic_pool()))
    facts = a_snapshot(policy, replicas={"a": 3, "b": 5})
    async with EmbeddedKubernetes(HandClock()) as server, asyncio.timeout(20):
        access = Access(server=server.url, authorization="Bearer sandbox-rebalancer")
        async with KubeClient(access, clock, random.Random(7)) as kube:
            made = Rig(server, kube, clock, policy, facts)
            made.stand(policy, facts)
            yield made
