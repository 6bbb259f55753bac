"""A pod that two monitors scrape, as through two Services of one workload, has the work that it tells, not twice it.

Nor has a model of which a gateway tells.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rebalancer.domain.events import Event, MetricSample
from rebalancer.domain.metric_maps import MetricMap, MetricSource
from rebalancer.ingest.prometheus import PrometheusReadings, Server
from rebalancer.loop.clock import RealClock
from tests.ingest.test_prometheus import Answers, says
from tests.obs.prometheus import Prometheus, prometheus
from tests.testbed.process import wait_until

ENGINE = b"""vllm:num_requests_running{engine="0",model_name="llama"} 3
vllm:num_requests_running{engine="1",model_name="llama"} 4
vllm:request_success_total{engine="0",finished_reason="stop",model_name="llama"} 50
vllm:request_success_total{engine="0",finished_reason="length",model_name="llama"} 20
"""
GATEWAY = b'gateway_inflight{model_name="llama"} 9\n'
# Two series of one model that have no address.
RULE = {"record": "service:gateway_waiting", "expr": "max by (model_name, service) (gateway_inflight)"}


@pytest.fixture
def scraped(tmp_path: Path) -> Iterator[Prometheus]:
    """Of two engines `once-0` has both and each job scrapes one of them; `twice-0` has one, which two jobs scrape.

    Of two gateways two jobs scrape the first, and one port of its Service by two names.
    """
    with ExitStack() as ends:
        addresses = []
        for exposition in (ENGINE, ENGINE, ENGINE, GATEWAY, GATEWAY):
            server = Answers(says(exposition, headers={"Content-Type": "text/plain; version=0.0.4"}))
            ends.callback(server.server_close)
            ends.callback(server.shutdown)
            addresses.append(server.url.removeprefix("http://"))
        first, second, third, gateway, another = addresses
        once, twice = {"namespace": "serving", "pod": "once-0"}, {"namespace": "serving", "pod": "twice-0"}
        jobs: dict[str, list[dict[str, object]]] = {
            "pods": [{"targets": [first], "labels": once}, {"targets": [third], "labels": twice}],
            "services": [
                {"targets": [second], "labels": once},
                {"targets": [third], "labels": twice | {"service": "llama"}},
                {"targets": [third], "labels": twice | {"service": "llama-headless"}},
                {"targets": [third], "labels": twice | {"service": "llama", "endpoint": "http"}},
                {"targets": [third], "labels": twice | {"service": "llama", "endpoint": "metrics"}},
            ],
            "gateways": [
                {"targets": [gateway], "labels": {"service": "gateway", "endpoint": "http"}},
                {"targets": [gateway], "labels": {"service": "gateway", "endpoint": "metrics"}},
                {"targets": [another], "labels": {"service": "other"}},
            ],
            "gateways-again": [{"targets": [gateway]}],
        }
        rules = tmp_path / "rules.yml"
        rules.write_text(json.dumps({"groups": [{"name": "gateways", "rules": [RULE]}]}))
        asker = ends.enter_context(prometheus(tmp_path, jobs, [rules]))
        wait_until(lambda: len(asker.query("count_over_time(up[1m]) > 1")) == 11, "scraped twice", 30.0)
        wait_until(lambda: len(asker.query(RULE["record"])) == 3, "recorded", 30.0)
        yield asker


@pytest.mark.real
async def test_a_pod_is_counted_once_per_address_however_many_jobs_scrape_it(scraped: Prometheus) -> None:
    heard: list[Event] = []

    def known(_: str, name: str) -> tuple[str, str, float]:
        return "llama", name, 0.0

    source = PrometheusReadings(
        Server(scraped.url), 15.0, RealClock(), heard.extend, lambda: ["serving"], known, counted=True
    )
    await source.poll()
    assert source.trouble is None
    samples = {event.pod: event for event in heard if isinstance(event, MetricSample)}
    assert samples["twice-0"].gauges.running == 7
    assert samples["once-0"].gauges.running == 14
    for pod, finished in (("twice-0", 70), ("once-0", 140)):
        counters = samples[pod].counters
        assert counters is not None
        assert counters.requests_finished == finished


@pytest.mark.real
async def test_a_gateway_is_counted_once_per_address_and_a_recording_rule_as_it_is(scraped: Prometheus) -> None:
    heard: list[Event] = []
    running = MetricSource(reading="running", series="gateway_inflight")
    waiting = MetricSource(reading="waiting", series=RULE["record"])
    own = MetricMap(name="gateway", model_label="model_name", readings=(running, waiting))
    source = PrometheusReadings(
        Server(scraped.url),
        15.0,
        RealClock(),
        heard.extend,
        lambda: ["serving"],
        lambda *_: None,
        models=lambda: {"llama"},
        own_maps=lambda: (own,),
    )
    await source.poll()
    assert source.trouble is None
    (sample,) = (event for event in heard if isinstance(event, MetricSample))
    assert (sample.pod, sample.gauges.running, sample.gauges.waiting) == (None, 18, 27)
