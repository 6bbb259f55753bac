"""`rebalancer bridge`: what Prometheus answers becomes records that the service reads."""

import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from aiokafka import AIOKafkaConsumer, TopicPartition

from rebalancer.domain.events import Counters, Gauges, MetricSample, Position
from rebalancer.ingest.decode import decode_metric
from rebalancer.ingest.engines import VLLM
from rebalancer.sandbox.broker import EmbeddedBroker
from tests.cli.running import rebalancer
from tests.ingest.test_prometheus import GOOD, NOW, answer, series

COUNTED = (series("requestsFinished", "40"), series("generatedTokens", "9000"), series("startTime", str(NOW - 60)))
Captured = pytest.CaptureFixture[str]


@pytest.fixture
async def broker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EmbeddedBroker]:
    async def query(request: web.Request) -> web.Response:
        asks = request.query.get("query") or str((await request.post())["query"])
        counted = COUNTED if "requestsFinished" in asks else ()
        return web.Response(body=answer(*GOOD, *counted), content_type="application/json")

    async def names(request: web.Request) -> web.Response:
        return web.json_response({"status": "success", "data": sorted(VLLM.names)})

    async def labels(request: web.Request) -> web.Response:
        return web.json_response({"status": "success", "data": ["namespace", "pod"]})

    app = web.Application()
    app.router.add_route("*", "/api/v1/query", query)
    app.router.add_route("*", "/api/v1/label/__name__/values", names)
    app.router.add_route("*", "/api/v1/labels", labels)
    async with EmbeddedBroker({"rebalancer.metrics": 1}) as running, TestServer(app) as prometheus:
        monkeypatch.setenv("REBALANCER_KAFKA_BOOTSTRAP", running.bootstrap)
        monkeypatch.setenv("REBALANCER_KAFKA_SECURITY_PROTOCOL", "PLAINTEXT")
        monkeypatch.setenv("REBALANCER_PROMETHEUS_URL", str(prometheus.make_url("/")))
        yield running


async def test_each_pod_that_prometheus_knows_is_a_record_that_names_it(
    broker: EmbeddedBroker, capsys: Captured
) -> None:
    assert await rebalancer("bridge", "-n", "serving", "--once") == 0
    assert capsys.readouterr().out == "1 records written\n"
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("rebalancer.metrics", 0)])
        record = await consumer.getone()
    sample = decode_metric(record.value, record.headers, Position("m", 0, 0), NOW, NOW)
    assert isinstance(sample, MetricSample), sample
    assert (sample.namespace, sample.pod, sample.model, sample.at) == ("serving", "llama-0", "", NOW - 2)
    assert sample.gauges == Gauges(running=12.0, waiting=3.0, kv_cache_use=0.61)
    assert sample.counters == Counters(NOW - 60, requests_finished=40.0, generated_tokens=9000.0), (
        "arrivals are known by"
    )
    assert json.loads(record.value)["source"] == "rebalancer-bridge"


async def test_a_prometheus_that_is_away_writes_nothing_and_says_why(
    broker: EmbeddedBroker, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REBALANCER_PROMETHEUS_URL", "http://127.0.0.1:1")
    assert await rebalancer("bridge", "-n", "serving", "--once") == 1
    assert "0 records written: http://127.0.0.1:1" in capsys.readouterr().out


async def test_a_namespace_that_is_none_is_no_promql(broker: EmbeddedBroker, capsys: Captured) -> None:
    assert await rebalancer("bridge", "-n", '"} or up', "--once") == 2
    assert "DNS-1123" in capsys.readouterr().err


async def test_without_a_prometheus_it_says_which_setting_is_missing(
    broker: EmbeddedBroker, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REBALANCER_PROMETHEUS_URL")
    assert await rebalancer("bridge", "-n", "serving") == 2
    assert "REBALANCER_PROMETHEUS_URL is not set" in capsys.readouterr().err
