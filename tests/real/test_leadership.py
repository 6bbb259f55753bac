"""Two replicas as processes on the real API server and broker: one is killed or ends, and the other one acts.

Judged by the audit log, in which each replica names itself and its term, and by the Lease.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import aiohttp
import pytest

from rebalancer.leader.lease import EPOCH
from rebalancer.leader.timing import TIMING
from tests.real.api_proxy import ApiProxy
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
ON_ITS_WAY_SECONDS = 0.1
"""A write that was sent just before its deadline is received just after."""
RISING = ((4.0, 30.0), (0.2, 62.0))
"""So many seconds before the deadline so many requests are in flight of chat: there is something to write then."""
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

    async def renewed_at(self) -> float:
        """When the renewal began that the Lease shows, in epoch seconds."""
        lease = await self.kube.get("Lease", LEASE, self.namespace)
        return datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp()

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


@pytest.fixture
async def door(pair: Pair, account: str) -> AsyncIterator[ApiProxy]:
    """What the first replica goes through to the API server."""
    async with ApiProxy.before(pair.cluster.access) as door:
        kubeconfig = pair.first.folder / "through-the-door"
        access = replace(pair.cluster.access, server=door.url)
        await asyncio.to_thread(kubeconfig.write_text, access.kubeconfig(account))
        pair.first.settings["KUBECONFIG"] = str(kubeconfig)
        yield door


@pytest.mark.timeout(150, func_only=True)
async def test_when_the_leader_is_killed_or_ends_the_other_one_acts_and_no_earlier_term_writes_again(
    pair: Pair, traffic: Traffic, ours: dict[str, str], patience: float, capsys: pytest.CaptureFixture[str]
) -> None:
    before = await _both_up(pair, traffic, ours)
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
    assert after_kill.received - killed <= patience * CRASH_SECONDS
    assert took_over - ended <= patience * ORDERLY_SECONDS


@pytest.mark.timeout(150, func_only=True)
async def test_a_leader_whose_network_is_gone_ends_itself_and_writes_nothing_after_its_deadline(
    pair: Pair,
    door: ApiProxy,
    traffic: Traffic,
    ours: dict[str, str],
    patience: float,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = await _both_up(pair, traffic, ours)
    one = await pair.epoch()

    gone = time.time()
    door.swallow()
    traffic.says("chat", running=40)  # it still reads Kafka, and wants to write
    await pair.scaled(above=before)
    await pair.kube.wait_for(lambda: _ended(pair.first), "it has ended itself", 20.0)
    ended = time.time()

    writes = [write for write in await pair.writes() if write.received > gone]
    with capsys.disabled():
        print(
            f"\ncut off: another one acts after {writes[0].received - gone:.1f} s, it ended by {ended - gone:.1f} s"
        )  # the figures
    assert all(_epoch(write) > one for write in writes)
    assert writes[0].received - gone <= patience * CRASH_SECONDS
    assert "the lease was not renewed in time" in await pair.first.log()


@pytest.mark.timeout(150, func_only=True)
async def test_a_leader_whose_lease_alone_is_out_of_reach_writes_nothing_after_its_deadline(
    pair: Pair,
    door: ApiProxy,
    traffic: Traffic,
    ours: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    await _both_up(pair, traffic, ours)
    one = await pair.epoch()

    door.swallow("/leases/")
    deadline = await pair.renewed_at() + TIMING.renew_seconds
    for seconds, running in RISING:
        await asyncio.sleep(deadline - seconds - time.time())
        traffic.says("chat", running=running)
    await pair.leads("rb-1")
    await pair.kube.wait_for(lambda: _ended(pair.first), "who cannot renew has ended itself", 20.0)

    writes = [write for write in await pair.writes() if write.succeeded]
    of_first = [write.received - deadline for write in writes if _epoch(write) == one]
    with capsys.disabled():
        print(
            f"\nwrites of who cannot renew, seconds before its deadline: {[round(-late, 1) for late in of_first[-6:]]}"
        )
    assert -TIMING.renew_seconds < of_first[-1], "while it might it wrote"
    assert of_first[-1] <= ON_ITS_WAY_SECONDS


@pytest.mark.timeout(150, func_only=True)
async def test_one_replica_of_before_there_were_leases_becomes_two_that_go_on_where_it_stopped(
    pair: Pair, traffic: Traffic, ours: dict[str, str]
) -> None:
    settings = dict(pair.first.settings)
    del pair.first.settings["LEASE_NAME"]
    await _world(pair, traffic, ours)
    await pair.first.start()
    traffic.says("chat", running=15)
    before = await pair.scaled(above=1)
    assert await pair.first.stop() == 0, "it is stopped first, for it asks nobody"

    pair.first.settings = settings
    await pair.first.start()
    await pair.leads("rb-0")
    await pair.second.start()
    traffic.says("chat", running=40)
    await pair.scaled(above=before)

    epoch = await pair.epoch()
    epochs = [_epoch(write) if "epoch" in write.agent else 0 for write in await pair.writes() if write.succeeded]
    assert epochs == sorted(epochs)
    assert set(epochs) == {0, epoch}
    asked = [write.request["spec"]["replicas"] for write in await pair.writes() if write.succeeded]
    assert all(later != earlier for earlier, later in pairwise(asked)), "nothing is asked for twice"
    assert (await pair.second.status())["leader"] == "rb-0"


async def _world(pair: Pair, traffic: Traffic, ours: dict[str, str]) -> None:
    """One model that has been content with its one replica for a minute, and room for it."""
    await pair.kube.create(gpu_node(f"{pair.namespace}-a", gpus=GPUS, labels=ours))
    served = deployment("chat", pair.namespace, 1, node_labels=ours, load_seconds=1, end_seconds=1)
    await pair.kube.apply(served)
    await pair.kube.wait_ready(1, pair.namespace)
    rules = policy([pool("gpus", ours, GPUS)], [model("chat", pair.namespace, 1, GPUS, GPUS)])
    for each in (pair.first, pair.second):
        await each.policy(rules)
    await traffic.past("chat", running=5)


async def _both_up(pair: Pair, traffic: Traffic, ours: dict[str, str]) -> int:
    """The first one leads and has written once, the second one stands by. The replicas then."""
    await _world(pair, traffic, ours)
    await pair.first.start()
    await pair.leads("rb-0")
    await pair.second.start()
    told = await pair.second.status()
    assert (told["instance"], told["leader"]) == ("rb-1", "rb-0")
    traffic.says("chat", running=15)
    return await pair.scaled(above=1)


async def _ended(service: Service) -> bool:
    try:
        await service.unready()
    except aiohttp.ClientConnectionError:
        return True
    return False


def _epoch(write: Write) -> int:
    found = re.search(r"epoch (\d+)", write.agent)
    assert found is not None, write.agent
    return int(found[1])
