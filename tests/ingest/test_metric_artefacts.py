"""Every file of `../shared/artefacts/metrics`, and what is composed beside them, becomes what its SOURCES.md says.

Once by the maps alone, and once through a real Prometheus that scrapes all of it. Read the table with `pytest -s`.
"""

import asyncio
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from msgspec import to_builtins

from rebalancer.domain.events import Event, MetricSample
from rebalancer.ingest.prometheus import PrometheusReadings, Server
from rebalancer.ingest.prometheus_answer import read_answer
from rebalancer.ingest.promql import MAPS
from rebalancer.loop.clock import RealClock
from rebalancer.survey.traps.series import pods_by_metric
from rebalancer.survey.traps.series import question as which_pods
from tests.beside import folder
from tests.ingest import expositions as composed
from tests.ingest.expositions import Exposition, exporter, lines, pod, rows, scraped
from tests.ingest.test_prometheus import Answers, Handler, says
from tests.obs.prometheus import Prometheus, prometheus
from tests.testbed.process import wait_until

ALIAS = "llama-pool"


class Must(NamedTuple):
    """What a scrape becomes: the maps it is read by, its gauges, and the names of its counters with their values."""

    maps: str
    gauges: dict[str, float]
    counters: Mapping[str, float] = MappingProxyType({})


NOTHING = Must("", {})

# File -> words of SOURCES.md, and what comes out. Files of exporters without a pod's labels are nobody's.
RECORDED: Mapping[str, tuple[str, Must]] = {
    "amd-device-metrics-exporter-gpu-clock": ("no pod label in this sample", NOTHING),
    "amd-gpu-agent-mini": ("not ours by default", NOTHING),
    "dcgm-exporter-mig-a100-captured": ("no pod labels", NOTHING),
    "dcgm-exporter-readme-blank-sentinel": ("attributed to no pod", NOTHING),
    "dcgm-exporter-readme-kubernetes-empty-pod-labels": ("attributed to no pod", NOTHING),
    "epp-flow-control-enqueue-duration": ("not a pod reading", NOTHING),
    "epp-scheduler-attempts": ("EPP counters", NOTHING),
    "epp-scheduler-e2e": ("EPP histogram", NOTHING),
    "kube-state-metrics-node-excerpt": ("kube_node_*", NOTHING),
    "kube-state-metrics-server-test-pod-excerpt": ("kube_pod_* lines", NOTHING),
    "sglang-dynamo-passthrough-excerpt": (
        "SGLang counters only",
        Must("sglang", {}, {"promptTokens": 8_128_902, "generatedTokens": 7_557_572}),
    ),
    "sglang-production-metrics-overloaded": (
        "p95 is '>30 s', not 30",
        Must(
            "sglang",
            {"running": 162, "waiting": 2826, "kvCacheUse": 0.28, "ttftP95AboveSeconds": 30.0},
            {"promptTokens": 8_128_902, "generatedTokens": 7_557_572},
        ),
    ),
    "triton-histogram-and-summary-doc": ("queue unknown", Must("triton", {}, {"requestsFinished": 161})),
    "triton-tensorrt-llm-inflight-batcher": (
        "never sum all",
        Must("triton", {"running": 1, "waiting": 1, "kvCacheUse": 0.4875}),
    ),
    "trtllm-dynamo-passthrough": (
        "no running/waiting gauge at all",
        Must("tensorrt-llm", {}, {"requestsFinished": 155}),
    ),
    "vllm-0.7-v0-captured-full": (
        "running, waiting, cache use, TTFT read",
        Must(
            "vllm",
            {"running": 0, "waiting": 0, "kvCacheUse": 0},
            {"requestsFinished": 4, "promptTokens": 148, "generatedTokens": 955},
        ),
    ),
    "vllm-v0-iteration-tokens-doc-excerpt": ("nothing to read, unknown, not 0", NOTHING),
    "vllm-v1-dynamo-passthrough": ("same names", Must("vllm", {}, {"requestsFinished": 165})),
    "vllm-v1-http-and-engine-doc-excerpt": (
        "sample lines",
        Must("vllm", {"running": 8}, {"requestsFinished": 132, "requestsLeft": 0, "generatedTokens": 27453}),
    ),
}
EXPORTERS = ("amd-", "dcgm-", "epp-", "kube-state")

GPUS = {"gpuUtilisation": 0.6, "fbUsedMib": 121_000}
OWN = 'namespace="serving",pod="{}"'
COMPOSED: Mapping[str, tuple[Exposition, Must]] = {
    "vllm-both": (
        pod(composed.VLLM_09_BOTH_CACHE_NAMES, "vllm-both"),
        Must("vllm", {"running": 7, "waiting": 3, "kvCacheUse": 0.61}),
    ),
    "vllm-two": (
        pod(composed.VLLM_V1_TWO_ENGINES, "vllm-two"),
        Must(
            "vllm",
            {"running": 12, "waiting": 4, "kvCacheUse": 0.61},
            {"requestsFinished": 25, "requestsLeft": 2},
        ),
    ),
    "sglang-expert-ranks": (
        pod(composed.SGLANG_EXPERT_RANKS, "sglang-expert-ranks"),
        Must("sglang", {"running": 12, "waiting": 3}),
    ),
    "sglang-ranks": (pod(composed.SGLANG_ALL_RANKS, "sglang-ranks"), Must("sglang", {"running": 10, "waiting": 1})),
    "tgi": (
        pod(composed.TGI, "tgi"),
        Must(
            "tgi",
            {"running": 5, "waiting": 9, "latencyP95Seconds": 1.9},
            {"requestsFinished": 120, "requestsLeft": 4, "promptTokens": 51_000, "generatedTokens": 9000},
        ),
    ),
    "nim": (
        pod(composed.NIM, "nim"),
        Must(
            "nim+triton-gpus",
            {"running": 11, "waiting": 2, "kvCacheUse": 0.25, "gpuUtilisation": 0.5},
            {"requestsFinished": 30, "promptTokens": 900, "generatedTokens": 400},
        ),
    ),
    "triton": (
        pod(composed.TRITON, "triton"),
        Must(
            "triton+triton-gpus",
            {"waiting": 8, "gpuUtilisation": 0.75, "fbUsedMib": 1000},
            {"requestsFinished": 70, "requestsLeft": 1},
        ),
    ),
    "triton-with-vllm": (
        pod(composed.TRITON_WITH_VLLM, "triton-with-vllm"),
        Must(
            "vllm+triton-gpus",
            {"running": 4, "waiting": 2, "kvCacheUse": 0.2, "gpuUtilisation": 0.75, "fbUsedMib": 1000},
            {"promptTokens": 100, "generatedTokens": 50},
        ),
    ),
    "trtllm": (
        pod(composed.TENSORRT_LLM, "trtllm"),
        Must("tensorrt-llm", {"running": 3, "waiting": 1, "kvCacheUse": 0.4}, {"requestsFinished": 15}),
    ),
    "ray": (
        pod(composed.RAY, "ray"),
        Must("ray-serve-llm", {"running": 5, "waiting": 1, "kvCacheUse": 0.3}, {"requestsFinished": 12}),
    ),
    ALIAS: (exporter(composed.ENDPOINT_PICKER), Must("endpoint-picker", {"waiting": 10, "kvCacheUse": 0.55})),
    "dcgm-own": (
        Exposition(composed.DCGM.format(labels=OWN.format("dcgm-own")), {}),  # honorLabels: true
        Must("dcgm", GPUS),
    ),
    "dcgm-exported": (exporter(composed.DCGM.format(labels=OWN.format("dcgm-exported"))), Must("dcgm", GPUS)),
    "dcgm-old": (
        exporter(composed.DCGM.format(labels='pod_name="dcgm-old",pod_namespace="serving"')),
        Must("dcgm", GPUS),
    ),
    "amd-0": (exporter(composed.AMD), Must("amd", {"gpuUtilisation": 0.5, "fbUsedMib": 190_000, "fbFreeMib": 96_000})),
    "otel-0": (Exposition(composed.OTEL, {"job": "otel"}), Must("vllm", {"running": 6, "waiting": 1})),
}


def recorded() -> Iterator[tuple[str, Exposition]]:
    """Every file; skips without the folder, fails on one that no row speaks of."""
    root = folder("artefacts", "REBALANCER_ARTEFACTS")
    for path in sorted((root / "metrics").glob("*.txt")):
        assert path.stem in RECORDED, f"{path.name} has no row here: say what becomes of it"
        text = path.read_text()
        yield path.stem, exporter(text) if path.stem.startswith(EXPORTERS) else pod(text, path.stem)


def known(namespace: str, name: str) -> tuple[str, str, float] | None:
    return (name, name, 1.0) if namespace == "serving" else None


def became(samples: list[MetricSample], name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Gauges and counters of the one sample of a pod or model, both empty without one."""
    mine = [sample for sample in samples if name in (sample.pod, sample.model)]
    assert len(mine) <= 1, mine
    if not mine:
        return {}, {}
    counters = to_builtins(mine[0].counters) if mine[0].counters is not None else {}
    return to_builtins(mine[0].gauges), {key: value for key, value in counters.items() if key != "startTime"}


def test_each_file_becomes_what_its_source_says() -> None:
    stated = (folder("artefacts", "REBALANCER_ARTEFACTS") / "SOURCES.md").read_text()
    for name, exposition in recorded():
        words, must = RECORDED[name]
        (line,) = [line for line in stated.splitlines() if line.startswith(f"| `{name}.txt`")]
        assert words in line
        answer = read_answer(rows([*scraped(exposition)], MAPS), known, 15.0)
        gauges, counters = became([*answer.samples], name)
        said = f"{name:50} {'+'.join(answer.engines) or '-':15} {gauges} {counters}\n"
        sys.stdout.write(said)
        assert "+".join(answer.engines) == must.maps
        assert {key: gauges.get(key) for key in must.gauges} == pytest.approx(must.gauges)
        assert gauges.keys() - must.gauges.keys() <= {"ttftP95Seconds"}  # of old totals here, of rates below
        assert counters == pytest.approx(dict(must.counters))


@pytest.mark.parametrize("name", COMPOSED)
def test_each_composed_scrape_becomes_what_its_documentation_says(name: str) -> None:
    exposition, must = COMPOSED[name]
    answer = read_answer(rows([*scraped(exposition)], MAPS), known, 15.0, [ALIAS])
    gauges, counters = became([*answer.samples], name)
    assert answer.engines == {must.maps: 1}
    assert gauges == pytest.approx(must.gauges)
    assert counters == pytest.approx(dict(must.counters))


def test_all_at_once_each_pod_is_read_as_it_is_alone() -> None:
    series = [one for exposition, _ in COMPOSED.values() for one in scraped(exposition)]
    answer = read_answer(rows(series, MAPS), known, 15.0, [ALIAS])
    assert {name: became([*answer.samples], name)[0] for name in COMPOSED} == {
        name: pytest.approx(must.gauges) for name, (_, must) in COMPOSED.items()
    }


def growing(text: str) -> Handler:
    """Prints it again and again; its histograms and sums grow by what they are each time."""
    printed, times = lines(text), iter(range(1, 10_000))

    def handler(request: BaseHTTPRequestHandler) -> None:
        now = next(times)
        told = [
            re.sub(r"\S+$", lambda value: str(float(value[0]) * now), line)
            if re.match(r"\S*_(bucket|sum)[{ ]", line)
            else line
            for line in printed
        ]
        says("\n".join([*told, ""]).encode(), headers={"Content-Type": "text/plain; version=0.0.4"})(request)

    return handler


@pytest.fixture
def everything(tmp_path: Path) -> Iterator[tuple[Prometheus, dict[str, Must]]]:
    """A Prometheus that scrapes all files and compositions, and what each must become."""
    expositions = dict(recorded()) | {name: exposition for name, (exposition, _) in COMPOSED.items()}
    musts = {name: must for name, (_, must) in RECORDED.items()} | {name: must for name, (_, must) in COMPOSED.items()}
    with ExitStack() as ends:
        targets = []
        for exposition in expositions.values():
            server = Answers(growing(exposition.text))
            ends.callback(server.server_close)
            ends.callback(server.shutdown)
            targets.append({"targets": [server.url.removeprefix("http://")], "labels": exposition.target})
        found = ends.enter_context(prometheus(tmp_path, {"all": targets}))
        wait_until(lambda: len(found.query("count_over_time(up[1m]) > 2")) == len(targets), "scraped thrice", 30.0)
        yield found, musts


@pytest.mark.real
async def test_a_real_prometheus_that_scrapes_all_of_it_answers_the_same(
    everything: tuple[Prometheus, dict[str, Must]],
) -> None:
    server, musts = everything
    heard: list[Event] = []
    source = PrometheusReadings(
        Server(server.url),
        15.0,
        RealClock(),
        heard.extend,
        lambda: ["serving"],
        known,
        models=lambda: [ALIAS],
        counted=True,
    )
    await source.poll()
    assert source.trouble is None
    samples = [event for event in heard if isinstance(event, MetricSample)]
    for name, must in musts.items():
        gauges, counters = became(samples, name)
        sys.stdout.write(f"{name:50} {gauges} {counters}\n")
        assert {key: gauges.get(key) for key in must.gauges} == pytest.approx(must.gauges), name
        assert gauges.keys() - must.gauges.keys() <= {"ttftP95Seconds"}, name
        assert set(counters) == set(must.counters), name
    assert source.engines == {maps: sum(must.maps == maps for must in musts.values()) for maps in source.engines}
    assert source.cost.queries == 4  # names, labels, scrapes, readings
    assert source.cost.samples > 0
    assert source.has is not None
    named = pods_by_metric(await asyncio.to_thread(server.query, which_pods(source.has.names)), source.has.names)
    assert ("serving", "otel-0") in named["vllm:num_requests_running"]
    assert {("serving", "dcgm-own"), ("serving", "dcgm-old")} < named["DCGM_FI_DEV_FB_USED"]
    sys.stdout.write(f"{source.cost}\n")
