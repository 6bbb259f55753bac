"""The service beside a queue of SQS: what its status and metrics say of it, and that it takes no other's."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from importlib.util import find_spec

import pytest

from rebalancer.app import Service
from rebalancer.domain.events import CAPACITY_NOTICE_TYPE
from rebalancer.loop.clock import ScaledClock
from rebalancer.sandbox.demo_cluster import DemoCluster
from tests.app.conftest import Started, until
from tests.aws.server import KEY_ID, SECRET, SqsServer, sqs_server

WITH_EXTRA = find_spec("botocore") is not None


@pytest.fixture
async def server() -> AsyncIterator[SqsServer]:
    async with sqs_server() as running:
        yield running


def notice(node: str, at: float) -> dict[str, object]:
    data = {"kind": "spot-interruption", "node": node, "deadline": "2099-01-01T00:00:00Z"}
    time = datetime.fromtimestamp(at, UTC).isoformat()
    return {"specversion": "1.0", "type": CAPACITY_NOTICE_TYPE, "source": "me", "id": "1", "time": time, "data": data}


def abstaining(service: Service) -> dict[str, str]:
    return {each.what: each.detail for each in service.reporter.status().unready}


@pytest.mark.skipif(WITH_EXTRA, reason="the extra aws is there")
async def test_without_the_extra_the_status_says_which_one_is_needed_and_the_rest_works(
    started: Started, server: SqsServer
) -> None:
    async with started(notices_queue_url=server.url, notices_queue_region="eu-west-1") as service:
        await until(lambda: "rebalancer[aws]" in abstaining(service).get("notice-queue", ""), "told in the status")
        await until(lambda: service.plan is not None and not service.reporter.unready(), "ready all the same")
        assert b"rebalancer_notice_queue_good 0.0" in service.reporter.metrics()
        assert server.asked == []


@pytest.mark.skipif(not WITH_EXTRA, reason="the extra aws has a lock of its own: requirements/msk.txt")
async def test_a_notice_in_the_queue_is_a_notice_of_the_service(
    started: Started, server: SqsServer, cluster: DemoCluster, clock: ScaledClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    node = next(iter(cluster.world.nodes))
    async with started(notices_queue_url=server.url, notices_queue_region="eu-west-1") as service:
        await until(lambda: service.plan is not None, "a plan")
        server.send(json.dumps(notice(node, clock.now())))
        await until(lambda: not server.there, "the message is deleted")
        await until(lambda: [one.node for one in service.reporter.snapshot().notices] == [node], "the notice is known")
        assert "notice-queue" not in abstaining(service)
        assert b'rebalancer_notice_queue_messages_total{result="forwarded"} 1.0' in service.reporter.metrics()
