"""What a running service tells its readers: pages, the stream, what it did, and what it knew then."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec

from rebalancer.api.http.json_codec import instant_of
from rebalancer.app import Service
from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.demo_cluster import IDLE_RATES, DemoCluster
from tests.app.conftest import Started, get, until

SURGE = 4.0


def decided(service: Service) -> bool:
    return service.plan is not None and not service.reporter.unready()


async def json_of(service: Service, path: str) -> dict[str, Any]:
    status, body = await get(service.servers.api_port, path)
    assert status == 200, body
    return body


async def of_one_cycle(service: Service, *paths: str) -> list[dict[str, Any]]:
    """What is told there of the same cycle, however busy the machine is between two answers."""
    async with asyncio.timeout(20):
        while True:
            answers = [await json_of(service, path) for path in paths]
            if len({answer["cycle"] for answer in answers}) == 1:
                return answers


async def test_the_pages_show_the_living_cluster(started: Started) -> None:
    async with started() as service:
        await until(lambda: decided(service), "ready")
        page, chat, explained = await of_one_cycle(service, "/v1/overview", "/v1/models/chat", "/v1/explain/chat")
        assert [row["model"] for row in sorted(page["models"], key=lambda row: row["model"])] == [
            "chat",
            "code",
            "image",
        ]
        assert sum(len(node["gpus"]) for pool in page["pools"] for node in pool["nodes"]) == sum(
            pool["gpus"] for pool in page["pools"]
        )
        ready = next(row["ready"] for row in page["models"] if row["model"] == "chat")
        assert sum(replica["state"] == "ready" for replica in chat["replicas"]) >= ready
        assert chat["explanation"] == explained["explanation"]
        assert any(point["ready"] == ready for point in chat["chart"])
        pool = await json_of(service, "/v1/pools/a100")
        assert sum(len(node["pods"]) for node in pool["nodes"]) > 0


async def test_readers_are_told_the_policys_period_by_which_a_plan_is_old(started: Started) -> None:
    async with started() as service:
        await until(lambda: decided(service), "ready")
        for path in ("/v1/status", "/v1/overview"):
            assert (await json_of(service, path))["planEverySeconds"] == 2  # as demo_policy.yaml has it


async def test_readers_are_told_where_the_services_pods_are(started: Started) -> None:
    async with started(own_namespace="gpu-ops") as service:
        await until(lambda: decided(service), "ready")
        for path in ("/v1/status", "/v1/overview"):
            assert (await json_of(service, path))["namespace"] == "gpu-ops"


async def test_a_surge_comes_by_the_stream_and_stays_in_the_decisions_and_in_the_journal(
    started: Started, cluster: DemoCluster, clock: ScaledClock
) -> None:
    async with started(write_mode="act") as service:
        await until(lambda: decided(service), "ready")
        calm = service.clock.now()
        before = await json_of(service, "/v1/explain/chat")
        url = f"http://127.0.0.1:{service.servers.api_port}/v1/stream"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            cluster.dials["chat"].turn(SURGE * IDLE_RATES["chat"], clock.now())
            async with asyncio.timeout(40):
                cycle = await granted(response, "chat")
        rows = (await json_of(service, "/v1/decisions?model=chat&kind=grant"))["decisions"]
        assert rows[-1]["cycle"] == cycle
        kept = await json_of(service, f"/v1/decisions/{cycle}")
        assert any(change["model"] == "chat" and change["kind"] == "grant" for change in kept["plan"]["changes"])
        assert any(outcome["status"] == "written" for outcome in kept["outcomes"])
        then = await json_of(service, f"/v1/explain/chat?at={before['at']}")
        assert then["explanation"] == before["explanation"]
        assert instant_of(then["at"]) <= calm
        status, refused = await get(service.servers.api_port, "/v1/explain/chat?at=2020-01-01T00:00:00Z")
        assert status == 404
        assert "it reaches back to 20" in refused["fix"]


async def granted(response: aiohttp.ClientResponse, model: str) -> int:
    """The cycle of the first grant to `model` that the stream tells of."""
    async for page in overviews(response):
        for each in page["happenings"]:
            if (each["kind"], each["model"]) == ("grant", model):
                return int(each["cycle"])
    raise AssertionError("the stream ended")


async def overviews(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    event = b""
    async for line in response.content:
        if line.startswith(b"event: "):
            event = line
        if line.startswith(b"data: ") and event == b"event: overview\n":
            yield msgspec.json.decode(line.removeprefix(b"data: "), type=dict)


async def test_open_streams_do_not_delay_the_stop(started: Started) -> None:
    async with started() as service, aiohttp.ClientSession() as session:
        await until(lambda: decided(service), "ready")
        async with session.get(f"http://127.0.0.1:{service.servers.api_port}/v1/stream") as response:
            await response.content.readline()
            loop = asyncio.get_running_loop()
            began = loop.time()
            await service.servers.stop()
            assert loop.time() - began < 1.0
