"""Every question of rules and dashboard about workloads and their cost, asked of a real Prometheus with real series.

The expositions are those of ../shared/artefacts/metrics. Each scrape sees the counters grow by as much as was recorded.
The recorded dcgm-exporter knew no pods: its labels of a pod are filled in here, in each of its three styles.
"""

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rebalancer.loop.clock import RealClock
from rebalancer.obs.metrics.workload_alerts import WORKLOAD_ALERTS
from rebalancer.obs.metrics.workload_panels import WORKLOAD_ROWS
from tests.beside import folder
from tests.house.repository import ROOT
from tests.obs.prometheus import Prometheus, prometheus

DCGM, STATE = "dcgm-exporter-mig-a100-captured.txt", "kube-state-metrics-server-test-pod-excerpt.txt"
NODES = "kube-state-metrics-node-excerpt.txt"
POD_OF_GPU = {"new": 'namespace="serving",pod="{}"', "old": 'pod_namespace="serving",pod_name="{}"'}
OURS = """\
rebalancer_model_slo_seconds{model="chat",model_namespace="serving",model_name="meta-llama/Llama-3.1-8B-Instruct"} 4
rebalancer_model_latency_seconds{model="chat"} 1.5
rebalancer_gpu_cost_usd_total{pool="a100",model="chat",team="search",cost_center="cc-7",state="owned-busy"} 2
rebalancer_gpu_cost_usd_total{pool="a100",model="",team="",cost_center="",state="free"} 1
"""
COUNTS = re.compile(r"^(\w+:?\w+_(?:bucket|count|sum|total)(?:{.*})?) (\S+)$", re.MULTILINE)
NO_EXPOSITION = "vllm-v1-http-and-engine-doc-excerpt.txt"  # a page's lines, not all of which Prometheus can parse
SCRAPES, ASK_SECONDS = 4, 40.0

# Panel or alert -> why these expositions leave it empty.
SILENT = {
    "went": "the one node with GPUs is still there",
    "Pods that wait for GPUs": "the one pod of the excerpt runs",
    "RebalancerPodsPending": "the one pod of the excerpt runs",
    "RebalancerGpuPowerHigh": "dcgm-exporter tells no power limit by default",
}


class Expositions:
    """Serves PATH?STYLE of the folder; the counters are as many times as high as they were scraped."""

    def __init__(self, files: Path) -> None:
        scraped: Counter[str] = Counter()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                scraped[self.path] += 1
                name, _, style = self.path.removeprefix("/").partition("/")
                text = OURS if name == "ours" else (files / name).read_text()
                if style:
                    text = text.replace("{gpu=", f"{{{POD_OF_GPU[style].format('chat-0')},gpu=")
                body = _grown(text, scraped[self.path]).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def target(self, path: str, **labels: str) -> dict[str, object]:
        """A `static_config`; `labels` are those that service discovery would give."""
        instance = f"{path}:{'-'.join(labels.values())}"
        return {"targets": [self.address], "labels": {"__metrics_path__": f"/{path}", "instance": instance, **labels}}


def _grown(text: str, times: int) -> str:
    if "kube_" in text:
        return text
    return COUNTS.sub(lambda line: f"{line[1]} {float(line[2]) * times}", text)


@contextmanager
def scraping(files: Path, place: Path) -> Iterator[Prometheus]:
    """All of it, as an operator's ServiceMonitors would have it."""
    served = Expositions(files)
    own = {"namespace": "monitoring", "pod": "exporter-x"}
    names = sorted(each.name for each in files.iterdir() if each.name.startswith(("vllm", "sglang")))
    engines = [name for name in names if name != NO_EXPOSITION]
    targets = {
        "engines": [served.target(name, namespace="serving", pod=f"engine-{n}") for n, name in enumerate(engines)],
        "dcgm-kept": [served.target(f"{DCGM}/new", **own)],
        "dcgm-exported": [served.target(f"{DCGM}/new", **own)],
        "dcgm-old": [served.target(f"{DCGM}/old", **own)],
        "dcgm-free": [served.target(DCGM, **own)],
        "state-kept": [served.target(STATE, **own), served.target(NODES, **own)],
        "state-exported": [served.target(STATE, **own)],
        "rebalancer": [served.target("ours", namespace="rebalancer", pod="rebalancer-0")],
    }
    try:
        rules = [ROOT / "charts/rebalancer/files/alerts.yaml"]
        with prometheus(place, targets, rules, honoring=("dcgm-kept", "state-kept")) as asked:
            clock, pause = RealClock(), threading.Event()
            until = clock.monotonic() + ASK_SECONDS
            while not asked.query(f"min(count_over_time(up[1m])) >= {SCRAPES} and min(up) == 1"):
                assert clock.monotonic() < until, asked.query("up == 0") or asked.query("count_over_time(up[1m])")
                pause.wait(0.2)
            yield asked
    finally:
        served.server.shutdown()
        served.server.server_close()


def loosened(expr: str) -> str:
    """The same without its thresholds: what it holds against them. What tells unknown from known stays."""
    return re.sub(r" (?:>|>=|<) (?:0?\.?\d{1,2}|100|900)(?![\d.])", " != -1", expr)


@pytest.mark.real
@pytest.mark.timeout(120)
def test_each_question_about_workloads_has_an_answer_or_the_reason_why_not(tmp_path: Path) -> None:
    files = folder("artefacts", "REBALANCER_ARTEFACTS") / "metrics"
    queries = {
        query.legend if query.legend in SILENT else f"{panel.title}/{query.legend}" if many else panel.title: query
        for row in WORKLOAD_ROWS
        for panel in row.panels
        for many in [len(panel.queries) > 1]
        for query in panel.queries
    }
    with scraping(files, tmp_path) as asked:
        answers = {name: asked.query(query.expr.replace("$model", ".*")) for name, query in queries.items()}
        answers |= {alert.name: asked.query(loosened(alert.expr)) for alert in WORKLOAD_ALERTS}
        idle = asked.query(loosened(next(each.expr for each in WORKLOAD_ALERTS if each.name == "RebalancerGpuIdle")))
        late = asked.query(next(each.expr for each in WORKLOAD_ALERTS if each.name == "RebalancerLatencyAboveSlo"))
        rules = asked.ask("rules")["groups"][0]["rules"]
    for name, answer in sorted(answers.items()):
        first = f"{answer[0]['value'][1]:>8} {answer[0]['metric']}" if answer else f"         {SILENT.get(name)}"
        print(f"{name:45} {len(answer):3} {first}")  # noqa: T201  # the table is for a reader of -s
    assert {name for name, answer in answers.items() if not answer} == SILENT.keys()
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}, [rule.get("lastError") for rule in rules]
    # One pod, in whatever style it is told, and no free GPU: the whole card of a MIG GPU and the exporter's own pod.
    instances = {(each["metric"]["namespace"], each["metric"]["pod"], each["metric"]["GPU_I_ID"]) for each in idle}
    assert instances == {("serving", "chat-0", "13")}
    # 77 % of SGLang's first tokens came after the last bucket's 30 s, which is what a percentile can say at most.
    assert [(each["metric"], float(each["value"][1])) for each in late] == [({"model": "chat"}, 30.0)]
    answer = answers["Cost of the last hour, by team"]
    by_team = {each["metric"].get("team", ""): float(each["value"][1]) for each in answer}
    assert by_team["search"] == pytest.approx(2 * by_team[""])
