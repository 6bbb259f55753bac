"""What the running service tells Prometheus, and what the dashboard and the rules make of it."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiokafka import AIOKafkaProducer
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from rebalancer.app import Service
from rebalancer.ledger.inventory import charged_to
from rebalancer.obs.metrics.alerts import ALERTS
from rebalancer.obs.metrics.catalogue import BY_NAME, METRICS
from rebalancer.obs.metrics.metric import Label
from rebalancer.obs.metrics.panel import DashboardRow, Query
from rebalancer.obs.metrics.panels import ROWS
from rebalancer.obs.metrics.workload_panels import WORKLOAD_ROWS
from rebalancer.sandbox.demo_cluster import DemoCluster
from rebalancer.sandbox.sandbox import Sandbox
from tests.app.conftest import Started, until
from tests.house.repository import ROOT
from tests.ingest.wire import SAMPLE, STRUCTURED, event
from tests.obs.prometheus import Prometheus, prometheus

RULES = ROOT / "charts/rebalancer/files/alerts.yaml"
HOSTILE = 'evil"} 1\n{'
SCRAPES = 5
ASK_SECONDS = 30.0


def decided(service: Service) -> bool:
    return service.plan is not None and not service.reporter.unready()


async def scrape(service: Service) -> dict[str, Family]:
    """Metric families as the probe port shows them, by name (without `_total`)."""
    url = f"http://127.0.0.1:{service.servers.probe_port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        assert reply.status == 200
        return {family.name: family for family in text_string_to_metric_families(await reply.text())}


async def send(bootstrap: str, *records: bytes) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    try:
        for record in records:
            await producer.send_and_wait("rebalancer.metrics", record, headers=list(STRUCTURED))
    finally:
        await producer.stop()


async def test_it_shows_exactly_the_catalogue_and_labels_are_bounded_whatever_comes_in(
    started: Started, sandbox: Sandbox, cluster: DemoCluster
) -> None:
    async with started() as service:
        await until(lambda: decided(service), "ready")
        await send(sandbox.bootstrap, b"not json", event({**SAMPLE, "model": HOSTILE}, time=None))
        await until(lambda: b'rejected_records_total{reason="not-json"} 1.0' in service.reporter.metrics(), "rejected")
        await until(lambda: b'input_total{result="unknown-model"} 1.0' in service.reporter.metrics(), "unknown model")
        shown = await scrape(service)
    assert set(shown) == {metric.name.removesuffix("_total") for metric in METRICS}
    assert {metric.kind for metric in METRICS if metric.kind != shown[metric.name.removesuffix("_total")].type} == set()
    names = {
        "model": {model.id for model in cluster.policy.models},
        "pool": {pool.name for pool in cluster.policy.pools},
        "team": {model.team for model in cluster.policy.models},
        "cost_center": {charged_to(model) for model in cluster.policy.models},
    }
    for metric in METRICS:
        for sample in shown[metric.name.removesuffix("_total")].samples:
            labels = {name: value for name, value in sample.labels.items() if name != "le"}
            assert set(labels) == {label.name for label in metric.labels}
            nobody = {""} if metric.name == "rebalancer_gpu_seconds_total" else set()
            for label in metric.labels:
                bound = _bound(label, names)
                assert not bound or labels[label.name] in bound | nobody, sample


def _bound(label: Label, names: dict[str, set[str]]) -> set[str]:
    return set(label.words) or names.get(label.name, set())


def test_the_dashboard_asks_only_for_metrics_that_exist() -> None:
    for query in queries(row for row in ROWS if row not in WORKLOAD_ROWS):
        assert "rebalancer_" in query.expr
    for query in queries():
        words = "".join(c if c.isalnum() or c == "_" else " " for c in query.expr).split()
        asked = {word.removesuffix("_bucket") for word in words if word.startswith("rebalancer_")}
        assert asked <= set(BY_NAME), query.expr


def queries(rows: Iterable[DashboardRow] = ROWS) -> list[Query]:
    return [query for row in rows for panel in row.panels for query in panel.queries]


def as_grafana_asks(query: Query) -> str:
    return query.expr.replace("$model", ".*").replace("$pool", ".*")


@pytest.mark.real
@pytest.mark.timeout(120)
async def test_a_real_prometheus_answers_every_panel_and_takes_the_rules_and_none_fires(
    started: Started, tmp_path: Path
) -> None:
    with ExitStack() as ends:
        async with started() as service:
            await until(lambda: decided(service), "ready")
            target = {"targets": [f"127.0.0.1:{service.servers.probe_port}"]}
            opening = prometheus(tmp_path, {"rebalancer": [target]}, [RULES])
            asked = await asyncio.to_thread(ends.enter_context, opening)
            await _until_scraped(asked)
            answers = {query.expr: await asyncio.to_thread(asked.query, as_grafana_asks(query)) for query in queries()}
            rules = (await asyncio.to_thread(asked.ask, "rules"))["groups"][0]["rules"]
            alerts = (await asyncio.to_thread(asked.ask, "alerts"))["alerts"]
            await asyncio.to_thread(ends.close)
    silent = [query.expr for query in queries() if not answers[query.expr] and not query.empty]
    assert silent == []
    assert {rule["name"]: rule["health"] for rule in rules} == {alert.name: "ok" for alert in ALERTS}
    assert [alert["labels"] for alert in alerts if alert["state"] == "firing"] == []


async def _until_scraped(asked: Prometheus) -> None:
    """Until rates can be known, and the rules have been looked at."""
    await _eventually(
        lambda: asked.query(f"count_over_time(rebalancer_plan_timestamp_seconds[1m]) >= {SCRAPES}"), "scraped"
    )
    await _eventually(
        lambda: all(rule["health"] == "ok" for rule in asked.ask("rules")["groups"][0]["rules"]), "rules evaluated"
    )


async def _eventually(condition: Callable[[], Any], what: str) -> None:
    async with asyncio.timeout(ASK_SECONDS):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.2)
