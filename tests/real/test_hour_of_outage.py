"""Kafka is killed for an hour, and the API server for ten minutes of it, before two replicas as processes.

With `OUTAGE_KAFKA_SECONDS=180 OUTAGE_API_SECONDS=60 make proof ARGS=tests/real/test_hour_of_outage.py` it takes five
minutes. What is decided, refused and caught up meanwhile is in `tests/outages`, in virtual time.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from tests.real.people import People
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.succession import acts, epoch_of, second_replica
from tests.real.test_faults import away
from tests.real.traffic import Traffic
from tests.testbed.kafka import Kafka
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment, gpu_node
from tests.testbed.stack import Stack

KAFKA_SECONDS = float(os.environ.get("OUTAGE_KAFKA_SECONDS", "3600"))
API_SECONDS = float(os.environ.get("OUTAGE_API_SECONDS", "600"))
GPUS = 8
LOOK_SECONDS = 2.0
RENEW_SECONDS = 7.0
"""A leader whose renewals fail writes for so long: the table of docs/operations.md."""
MOST_MIB = 512


@dataclass
class Outage:
    """Two replicas, and what was looked at every LOOK_SECONDS. Instants are of the test's clock, as the audit log's.

    led: how many of the two said that they lead, by instant.
    mib: the most memory that either of them had.
    """

    first: Service
    second: Service
    kube: Kube
    namespace: str
    led: list[tuple[float, int]] = field(default_factory=list)
    mib: float = 0.0

    async def until(self, instant: float) -> None:
        """Look on. A replica that ended itself starts again, as its container does."""
        while time.time() < instant:
            leading = 0
            for replica in (self.first, self.second):
                if replica.pid is None:
                    await replica.start(ready=False)
                leading += await self._look(replica)
            self.led.append((time.time(), leading))
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, replica: Service) -> int:
        try:
            figures = await replica.metrics()
            pages = (await asyncio.to_thread(Path(f"/proc/{replica.pid}/statm").read_text)).split()[1]
        except (aiohttp.ClientError, OSError):  # it ends at this moment
            return 0
        self.mib = max(self.mib, int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20)
        return int(figures["rebalancer_leading"])

    async def says(self, replica: Service, what: str, words: str) -> None:
        """Wait until its /readyz complains of that, in such words."""

        async def told() -> bool:
            return words in (await replica.unready()).get(what, "")

        await self.kube.wait_for(told, f"/readyz complains of {what}: {words}", 60.0)

    async def asks(self, wanted: Callable[[int], bool]) -> int:
        """Wait until chat asks for such a number of replicas; the number."""

        async def found() -> tuple[int] | None:
            replicas = (await self.kube.get("Deployment", "chat", self.namespace))["spec"]["replicas"]
            return (replicas,) if wanted(replicas) else None

        return (await self.kube.wait_for(found, "chat asks for other replicas", 60.0))[0]


@pytest.fixture
async def outage(
    service: Service,
    cluster: Stack,
    kafka: Kafka,
    kube: Kube,
    traffic: Traffic,
    namespace: str,
    ours: dict[str, str],
    tmp_path: Path,
) -> AsyncIterator[Outage]:
    """The first one leads and has written once, the second one stands by."""
    await kube.create(gpu_node(f"{namespace}-a", gpus=GPUS, labels=ours))
    await kube.apply(deployment("chat", namespace, 1, node_labels=ours, load_seconds=1, end_seconds=1))
    await kube.wait_ready(1, namespace)
    await service.policy(policy([pool("gpus", ours, GPUS)], [model("chat", namespace, 1, GPUS, GPUS)]))
    await asyncio.to_thread((tmp_path / "standby").mkdir)
    async with second_replica(service, cluster, kafka, tmp_path / "standby") as standby:
        await traffic.past("chat", running=5)
        began = time.time()
        await service.start()
        await acts(service, began)
        await standby.start()
        traffic.says("chat", running=15)
        yield Outage(service, standby, kube, namespace)


@pytest.mark.proof
@pytest.mark.outage
@pytest.mark.timeout(KAFKA_SECONDS + 600.0, func_only=True)
async def test_in_an_hour_without_kafka_and_ten_minutes_of_it_without_the_api_server_no_two_write_and_nobody_unasked(
    outage: Outage, kafka: Kafka, cluster: Stack, people: People, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = outage.first, outage.second
    before = await outage.asks(lambda replicas: replicas > 1)
    down = time.time()
    async with away(kafka.kill, kafka.start):
        await people.pin("blind", "chat", before + 1, seconds=KAFKA_SECONDS / 3)
        assert await outage.asks(lambda replicas: replicas != before) == before + 1, "people are obeyed without Kafka"
        await outage.says(second, "kafka-in", "")
        await outage.until(down + KAFKA_SECONDS / 3)
        api_down = time.time()
        async with away(cluster.apiserver.kill, cluster.apiserver.start):
            await outage.until(api_down + API_SECONDS)
            api_back = time.time()
        await outage.says(second, "leading", "this replica holds the Lease, and acts once")
        await people.pin("later", "chat", before + 2, seconds=KAFKA_SECONDS)  # it is obeyed after that hour
        await outage.says(first, "start", "cannot be read")
        await outage.until(down + KAFKA_SECONDS)
        back = time.time()
    up = time.time()
    acted = await acts(second, back, 120.0)
    await outage.asks(lambda replicas: replicas == before + 2)
    await people.phase("blind", "Expired")
    await people.phase("later", "InForce")
    await first.wait_ready(120.0)
    await second.wait_ready(120.0)

    written = [write for write in await first.writes(outage.kube) if write.resource != "leases" and write.succeeded]
    with capsys.disabled():
        print(
            f"\nKafka {back - down:.0f} s, the API server {api_back - api_down:.0f} s: acts {acted - up:.1f} s after"
            f" Kafka is up, {len(written)} writes, at most {outage.mib:.0f} MiB, {len(outage.led)} looks at who leads"
        )
    stopped = api_down + RENEW_SECONDS
    assert [write for write in written if stopped <= write.received < back] == [], "none of them acts"
    assert {leading for at, leading in outage.led if at < api_down - LOOK_SECONDS} == {1}
    assert {leading for at, leading in outage.led if at >= stopped + LOOK_SECONDS} == {0}
    epochs = [epoch_of(write) for write in written]
    assert epochs == sorted(epochs), "who led before writes no more"
    assert len(set(epochs)) == 2
    assert outage.mib <= MOST_MIB
    for replica in (first, second):
        assert "a cycle failed" not in await replica.log()
