"""One Prometheus for several clusters: only the series that bear this cluster's labels are asked for."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rebalancer.domain.events import Event, MetricSample
from rebalancer.domain.metric_maps import MetricMap, MetricSource
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.engines import DCGM, VLLM
from rebalancer.ingest.prometheus import PrometheusReadings, Server
from rebalancer.ingest.promql import (
    MAPS,
    MetricInventory,
    matchers_of,
    names_of,
    question,
    scrapes_question,
    selector,
    with_own,
)
from rebalancer.loop.clock import RealClock
from rebalancer.survey.first_policy import recent
from rebalancer.survey.traps import series
from tests.ingest.test_prometheus import Answers, says
from tests.obs.prometheus import Prometheus, prometheus
from tests.testbed.process import wait_until

OURS = matchers_of('cluster=prod-eu,said=a"b\\c')
GATEWAY = MetricMap(name="gateway", model_label="model", readings=(MetricSource(reading="waiting", series="queue"),))
SELECTOR = re.compile(r"\{[^{}]+\}")


def test_the_value_of_a_matcher_is_no_promql() -> None:
    assert OURS == 'cluster="prod-eu",said="a\\"b\\\\c"'
    assert matchers_of("") == ""
    assert matchers_of("cluster=") == 'cluster=""'
    assert matchers_of("a=b=c") == 'a="b=c"'


@pytest.mark.parametrize(
    "text",
    [
        question(["serving"], MetricInventory(names_of(with_own([GATEWAY])), matchers=OURS), with_own([GATEWAY])),
        question(["serving"], MetricInventory(names_of(MAPS), matchers=OURS), counted=True),
        scrapes_question(["serving"], MetricInventory(VLLM.names, matchers=OURS)),
        selector(DCGM.names, OURS),
        series.question(DCGM.names, OURS),
        series.bounds_question(VLLM.names, OURS),
        *recent.questions([WorkloadRef("serving", "StatefulSet", "llama")], OURS),
    ],
)
def test_each_selector_of_each_question_has_the_matchers(text: str) -> None:
    selectors = SELECTOR.findall(text)
    assert selectors
    assert [each for each in selectors if OURS not in each] == []


@pytest.fixture
def federated(tmp_path: Path) -> Iterator[Prometheus]:
    """Pod `llama-0` of two clusters, with 7 and 40 requests."""
    with ExitStack() as ends:
        targets = []
        for cluster, running in (("prod-eu", 7), ("prod-us", 40)):
            exposition = f"vllm:num_requests_running {running}\n".encode()
            server = Answers(says(exposition, headers={"Content-Type": "text/plain; version=0.0.4"}))
            ends.callback(server.server_close)
            ends.callback(server.shutdown)
            labels = {"namespace": "serving", "pod": "llama-0", "cluster": cluster}
            targets.append({"targets": [server.url.removeprefix("http://")], "labels": labels})
        asker = ends.enter_context(prometheus(tmp_path, {"pods": targets}))
        wait_until(lambda: len(asker.query("count_over_time(up[1m]) > 1")) == 2, "scraped twice", 30.0)
        yield asker


@pytest.mark.real
@pytest.mark.parametrize(
    ("matchers", "running"), [("cluster=prod-eu", 7), ("cluster=prod-us", 40), ("cluster=x", None)]
)
async def test_pods_of_one_name_in_two_clusters_are_not_one_pod(
    federated: Prometheus, matchers: str, running: int | None
) -> None:
    heard: list[Event] = []

    def known(_: str, name: str) -> tuple[str, str, float]:
        return "llama", name, 0.0

    server = Server(federated.url, matchers=matchers)
    source = PrometheusReadings(server, 15.0, RealClock(), heard.extend, lambda: ["serving"], known)
    await source.poll()
    assert [event.gauges.running for event in heard if isinstance(event, MetricSample)] == [running] * bool(running)
    assert ('with cluster="x"' in (source.trouble or "")) == (running is None)
