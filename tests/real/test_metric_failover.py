"""A leader is killed while KEDA asks both replicas of ours, behind one Service: nobody's replicas move by it.

KEDA finds the replicas by the Service's EndpointSlice and asks each on the Service's port. Kubernetes takes no loopback
addresses of type IPv4 there, so these are names that look like them; a relay listens on each for its replica.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.real.followers import FLOOR, GPUS, answer, replicas, trigger, two_followers
from tests.real.occupancy import Pods, scaled
from tests.real.service import Service
from tests.real.succession import Pair, second_replica, start
from tests.real.traffic import Traffic
from tests.testbed.audit import AuditLog
from tests.testbed.kafka import Kafka
from tests.testbed.keda import Keda
from tests.testbed.kube import Json, Kube
from tests.testbed.process import free_port
from tests.testbed.stack import Stack

ADDRESSES = ("127.0.0.1", "127.0.0.2")
NAME = "rebalancer"


@asynccontextmanager
async def _relay(address: str, port: int, service: Service) -> AsyncIterator[None]:
    """Whoever connects to `address` speaks with this replica; with nobody where it is away."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection("127.0.0.1", int(service.settings["API_PORT"]))
            await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))
        except OSError:
            writer.close()

    async with await asyncio.start_server(connected, address, port):
        yield


def _endpoints(namespace: str, port: int) -> Json:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {"kubernetes.io/service-name": NAME},
        },
        "addressType": "FQDN",
        "endpoints": [{"addresses": [address]} for address in ADDRESSES],
        "ports": [{"name": "api", "port": port, "protocol": "TCP"}],
    }


@pytest.fixture
async def pair(service: Service, cluster: Stack, kafka: Kafka, tmp_path: Path) -> AsyncIterator[Pair]:
    await asyncio.to_thread((tmp_path / "standby").mkdir)
    async with second_replica(service, cluster, kafka, tmp_path / "standby") as standby:
        yield Pair(service, standby)


async def test_a_killed_leader_is_followed_without_a_replica_moved_and_the_next_one_is_asked(
    keda: Keda, pair: Pair, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str, ours: dict[str, str]
) -> None:
    port, leading, standing = free_port(), pair.leading, pair.standing
    url = f"http://{NAME}.{namespace}.svc:{port}/v1/models"
    each = {"aggregateFromKubeServiceEndpoints": "true", "aggregationType": "max"}
    asks = {name: trigger(f"{url}/{name}/desired/gpus", **each) for name in ("chat", "code")}
    async with AsyncExitStack() as relays:
        for address, service in zip(ADDRESSES, (leading, standing), strict=True):
            service.settings["API_HOSTS"] = ",".join(ADDRESSES)
            await relays.enter_async_context(_relay(address, port, service))
        await kube.apply(_endpoints(namespace, port))
        await two_followers(kube, leading, namespace, ours, asks)
        await asyncio.gather(traffic.past("chat", running=15), traffic.past("code", running=55))
        await pair.begin()
        await start(standing, None)
        await standing.wait_ready()
        assert (await answer(standing, "code"))[0] == 503

        traffic.says("code", running=35)
        traffic.says("chat", running=38)
        await replicas(kube, namespace, "chat", 4, 90)
        await kube.wait_ready(GPUS, namespace)
        before = await asyncio.to_thread(audit.writes, namespace=namespace)

        answers: list[tuple[int, int]] = []

        async def answers_again() -> bool:
            status, body = await answer(standing, "code")
            answers.append((status, body.get("replicas", -1)))
            return status == 200

        await leading.kill()
        await kube.wait_for(answers_again, "the next leader answers", 40)
        assert {status for status, _ in answers[:-1]} == {503}, "what is unknown is no number, and never 0"
        assert answers[-1] == (200, 4), "the next leader goes on with the number of the one before"
        after = await asyncio.to_thread(audit.writes, namespace=namespace)
        moved = [(name, scaled(after, name)[len(scaled(before, name)) :]) for name in ("chat", "code")]
        assert moved == [("chat", []), ("code", [])]

        traffic.says("chat", running=5)
        traffic.says("code", running=55)
        await replicas(kube, namespace, "code", 6, 90)
        await kube.wait_ready(6, namespace, "app=code")
    everybody = await asyncio.to_thread(audit.writes, namespace=namespace)
    assert Pods.of(everybody).most() <= GPUS, "no pod was ever asked for that had no GPU"
    assert min(count for _, count in scaled(everybody, "code")) >= FLOOR
