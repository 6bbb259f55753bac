"""vLLM's metrics as it spells them, through a real Prometheus, to samples of pods."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rebalancer.domain.events import Event, MetricSample
from rebalancer.ingest.prometheus import PrometheusReadings, Server
from rebalancer.loop.clock import RealClock
from tests.ingest.test_prometheus import Answers, says
from tests.obs.prometheus import Prometheus, prometheus
from tests.testbed.build import Missing
from tests.testbed.process import wait_until
from tests.testbed.system import program

VLLM = """\
vllm:num_requests_running{engine="0",model_name="meta-llama/Llama-3-70B"} 7
vllm:num_requests_running{engine="1",model_name="meta-llama/Llama-3-70B"} 5
vllm:num_requests_waiting{engine="0",model_name="meta-llama/Llama-3-70B"} 3
vllm:num_requests_waiting{engine="1",model_name="meta-llama/Llama-3-70B"} 0
vllm:kv_cache_usage_perc{engine="0",model_name="meta-llama/Llama-3-70B"} 0.61
vllm:kv_cache_usage_perc{engine="1",model_name="meta-llama/Llama-3-70B"} 0.42
vllm:time_to_first_token_seconds_bucket{le="0.5",model_name="meta-llama/Llama-3-70B"} 0
vllm:time_to_first_token_seconds_bucket{le="+Inf",model_name="meta-llama/Llama-3-70B"} 0
"""
OLD_VLLM = VLLM.replace("kv_cache_usage_perc", "gpu_cache_usage_perc").replace("} 7", "} NaN")
GPUS = """\
DCGM_FI_DEV_GPU_UTIL{gpu="0"} 50
DCGM_FI_DEV_GPU_UTIL{gpu="1"} 70
DCGM_FI_DEV_FB_USED{gpu="0"} 60000
DCGM_FI_DEV_FB_FREE{gpu="0"} 20000
"""
MIG = """\
DCGM_FI_DEV_GPU_UTIL{gpu="0",GPU_I_ID="3",GPU_I_PROFILE="3g.20gb"} 0
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",GPU_I_ID="3",GPU_I_PROFILE="3g.20gb"} 0.4
"""
EXPOSITION = {"Content-Type": "text/plain; version=0.0.4"}
PODS = {"llama-0": "uid-0", "llama-1": "uid-1"}


def a_pod(server: Answers, pod: str, namespace: str = "serving") -> dict[str, object]:
    target = server.url.removeprefix("http://")
    return {"targets": [target], "labels": {"namespace": namespace, "pod": pod}}


def pod_named(namespace: str, name: str) -> tuple[str, str, float] | None:
    return ("llama-70b", PODS[name], 0.0) if namespace == "serving" and name in PODS else None


@pytest.fixture
def scraped(tmp_path: Path) -> Iterator[Prometheus]:
    """Two pods of ours, one stranger in our namespace, one pod of ours by name in another namespace."""
    servers = [Answers(says(text.encode(), headers=EXPOSITION)) for text in (VLLM + GPUS, OLD_VLLM + MIG, VLLM, VLLM)]
    with ExitStack() as ends:
        for server in servers:
            ends.callback(server.server_close)
            ends.callback(server.shutdown)
        names = (("llama-0", "serving"), ("llama-1", "serving"), ("stranger", "serving"), ("llama-0", "elsewhere"))
        targets = [a_pod(server, *name) for server, name in zip(servers, names, strict=True)]
        found = ends.enter_context(prometheus(tmp_path, {"vllm": targets}))
        wait_until(lambda: len(found.query("up == 1")) == len(targets), "all scraped", 20.0)
        yield found


@pytest.mark.real
async def test_each_pod_of_ours_becomes_a_sample(scraped: Prometheus) -> None:
    heard: list[Event] = []
    clock = RealClock()
    source = PrometheusReadings(
        Server(scraped.url), 15.0, clock, heard.extend, lambda: ["serving"], pod_named, deadline_seconds=5.0
    )
    async with asyncio.timeout(30.0):
        while len(heard) < len(PODS):
            heard.clear()
            await source.poll()
            await clock.sleep(0.3)
    assert source.trouble is None
    samples = {event.pod: event for event in heard if isinstance(event, MetricSample)}
    assert set(samples) == {"uid-0", "uid-1"}
    one, other = samples["uid-0"], samples["uid-1"]
    assert (one.model, one.source) == ("llama-70b", "prometheus")
    assert (one.gauges.running, one.gauges.waiting, one.gauges.kv_cache_use) == (12, 3, 0.61)
    assert one.gauges.ttft_p95_seconds is None  # nobody asked anything: NaN, and not zero
    assert (one.gauges.gpu_utilisation, one.gauges.fb_used_mib, one.gauges.fb_free_mib) == (0.6, 60_000, 20_000)
    assert (other.gauges.gpu_utilisation, other.gauges.fb_used_mib) == (0.4, None)
    assert (other.gauges.running, other.gauges.kv_cache_use) == (None, 0.61)
    assert 0.0 <= clock.now() - one.at < 10.0


def scraped_for(minutes: float, every_seconds: float, now: float) -> str:
    """OpenMetrics of one pod of vLLM: 3 requests run, and 10 more a scrape had their first token in 0.5 to 1 s."""
    times = [now - back * every_seconds for back in range(int(minutes * 60 / every_seconds), -1, -1)]
    pod = 'namespace="serving",pod="llama-0"'
    buckets = {"0.5": 0, "1.0": 10, "+Inf": 10}
    running = [f"vllm:num_requests_running{{{pod}}} 3 {at:.3f}" for at in times]
    counted = [
        f'vllm:time_to_first_token_seconds_bucket{{{pod},le="{le}"}} {each * place} {at:.3f}'
        for le, each in buckets.items()
        for place, at in enumerate(times)
    ]
    types = "# TYPE vllm:num_requests_running gauge", "# TYPE vllm:time_to_first_token_seconds histogram"
    return "\n".join([types[0], *running, types[1], *counted, "# EOF", ""])


@pytest.mark.real
@pytest.mark.parametrize(("every_seconds", "window_seconds"), [(15, 60), (30, 120), (60, 240)])
def test_rates_follow_the_scrape_interval(tmp_path: Path, every_seconds: float, window_seconds: float) -> None:
    """A rate over 1 min of scrapes each minute would be empty: nobody would know the time to the first token."""
    try:
        promtool = program("promtool")
    except Missing as missing:
        pytest.skip(str(missing))
    clock, heard = RealClock(), list[Event]()
    (tmp_path / "past.txt").write_text(scraped_for(20.0, every_seconds, clock.now() - 2.0))
    command = [
        str(promtool),
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        str(tmp_path / "past.txt"),
        str(tmp_path / "tsdb"),
    ]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603  # our words
    with prometheus(tmp_path, {}) as server:
        source = PrometheusReadings(
            Server(server.url), 15.0, clock, heard.extend, lambda: ["serving"], pod_named, deadline_seconds=10.0
        )
        asyncio.run(source.poll())
    assert source.has is not None
    assert source.has.scrape_seconds == pytest.approx(every_seconds, rel=0.2)
    assert source.has.window_seconds == pytest.approx(window_seconds, rel=0.2)
    (sample,) = heard
    assert isinstance(sample, MetricSample)
    assert sample.gauges.running == 3
    assert sample.gauges.ttft_p95_seconds == pytest.approx(0.975)
    assert sample.interval_seconds == pytest.approx(every_seconds, rel=0.2)
