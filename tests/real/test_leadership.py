"""Two replicas as processes on the real API server and broker: one is killed or ends, and the other one acts.

Judged by the audit log, in which each replica names itself and its term, and by the Lease.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rebalancer.leader.lease import EPOCH
from tests.real.policies import model, policy, pool
from tests.real.service import ACCOUNT, Service
from tests.real.traffic import Traffic
from tests.testbed.audit import AuditLog, Write
from tests.testbed.kafka import Kafka
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment, gpu_node
from tests.testbed.stack import Stack

GPUS = 8
LEASE = "rebalancer"
CRASH_SECONDS = 12.0
ORDERLY_SECONDS = 5.0
"""From SIGTERM to the next leader's first write: a planning period, and what the machine's other tests leave of it."""


@dataclass(frozen=True)
class Pair:
    """Two replicas of one installation, and what they are judged by."""

    first: Service
    second: Service
    kube: Kube
    cluster: Stack
    audit: AuditLog
    namespace: str

    async def epoch(self) -> int:
        lease = await self.kube.get("Lease", LEASE, self.namespace)
        return int(lease["metadata"]["annotations"][EPOCH])

    async def leader(self) -> str:
        lease = await self.kube.get("Lease", LEASE, self.namespace)
        return str(lease["spec"]["holderIdentity"]).partition("_")[0]

    async def leads(self, name: str) -> None:
        async def so() -> bool:
            return await self.leader() == name

        await self.kube.wait_for(so, f"{name} leads", 30.0)

    async def scaled(self, above: int) -> int:
        async def so() -> tuple[int] | None:
            replicas = (await self.kube.get("Deployment", "chat", self.namespace))["spec"]["replicas"]
            return (replicas,) if replicas > above else None

        return (await self.kube.wait_for(so, f"chat has more than {above}", 30.0))[0]

    async def writes(self) -> list[Write]:
        """What either of them wrote to workloads, in order."""
        found = await self.first.writes(self.kube)
        return [write for write in found if write.resource == "deployments"]


@pytest.fixture
async def pair(
    cluster: Stack,
    kafka: Kafka,
    kube: Kube,
    account: str,
    audit: AuditLog,
    namespace: str,
    topic_prefix: str,
    tmp_path: Path,
) -> AsyncIterator[Pair]:
    kubeconfig = await asyncio.to_thread(cluster.kubeconfig, namespace, account)
    user = f"system:serviceaccount:{namespace}:{ACCOUNT}"

    @asynccontextmanager
    async def replica(name: str) -> AsyncIterator[Service]:
        folder = tmp_path / name
        await asyncio.to_thread(folder.mkdir)
        service = await asyncio.to_thread(Service, cluster, kafka, kubeconfig, user, topic_prefix, folder)
        service.settings |= {"LEASE_NAME": LEASE, "INSTANCE": name}
        try:
            yield service
        finally:
            print(await asyncio.to_thread(service.log_tail))  # pytest shows it for a failed test
            await service.close()

    async with AsyncExitStack() as both:
        names = ("rb-0", "rb-1")
        first, second = [await both.enter_async_context(replica(name)) for name in names]
        yield Pair(first, second, kube, cluster, audit, namespace)


@pytest.mark.timeout(150, func_only=True)
async def test_when_the_leader_is_killed_or_ends_the_other_one_acts_and_no_earlier_term_writes_again(
    pair: Pair, traffic: Traffic, ours: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    await pair.kube.create(gpu_node(f"{pair.namespace}-a", gpus=GPUS, labels=ours))
    served = deployment("chat", pair.namespace, 1, node_labels=ours, load_seconds=1, end_seconds=1)
    await pair.kube.apply(served)
    await pair.kube.wait_ready(1, pair.namespace)
    rules = policy([pool("gpus", ours, GPUS)], [model("chat", pair.namespace, 1, GPUS, GPUS)])
    for each in (pair.first, pair.second):
        await each.policy(rules)
    await traffic.past("chat", running=5)

    await pair.first.start()
    await pair.leads("rb-0")
    await pair.second.start()
    assert (await pair.second.status())["leader"] == "rb-0"
    assert (await pair.second.status())["instance"] == "rb-1"
    traffic.says("chat", running=15)
    before = await pair.scaled(above=1)
    one = await pair.epoch()

    traffic.says("chat", running=40)
    killed = time.time()
    await pair.first.kill()
    await pair.scaled(above=before)
    two = await pair.epoch()
    after_kill = next(write for write in await pair.writes() if write.received > killed + 1.0)

    await pair.first.start()
    assert (await pair.first.status())["leader"] == "rb-1"
    before = await pair.scaled(above=1)
    traffic.says("chat", running=65)
    ended = time.time()
    assert await pair.second.stop() == 0
    await pair.leads("rb-0")
    took_over = time.time()
    await pair.scaled(above=before)
    three = await pair.epoch()

    writes = await pair.writes()
    epochs = [_epoch(write) for write in writes if write.succeeded]
    told = f"killed: acts after {after_kill.received - killed:.1f} s; SIGTERM: leads after {took_over - ended:.1f} s"
    with capsys.disabled():
        print(f"\n{told}; terms {epochs}")  # the figures that docs/operations.md tells
    assert one < two < three
    assert epochs == sorted(epochs)
    assert set(epochs) == {one, two, three}
    assert after_kill.received - killed <= CRASH_SECONDS
    assert took_over - ended <= ORDERLY_SECONDS


def _epoch(write: Write) -> int:
    found = re.search(r"epoch (\d+)", write.agent)
    assert found is not None, write.agent
    return int(found[1])
