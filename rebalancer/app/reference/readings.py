"""The page about what is read from Prometheus, made of the metric maps."""

from collections.abc import Iterator

from rebalancer.app.reference.table import code, table
from rebalancer.domain.metric_maps import MetricMap, MetricSource
from rebalancer.ingest.engines import DEVICES, ENGINES, POOLS, UNREAD
from rebalancer.ingest.promql import BY, STYLES
from rebalancer.survey.readings import LACKS

_TITLES = {
    "vllm": "vLLM, 0.6 to today (V0 and V1)",
    "sglang": "SGLang",
    "tgi": "Text Generation Inference",
    "tensorrt-llm": "TensorRT-LLM (trtllm-serve, and through Dynamo)",
    "ray-serve-llm": "Ray Serve LLM",
    "nim": "NIM",
    "triton": "Triton, with and without TensorRT-LLM",
    "dcgm": "dcgm-exporter",
    "amd": "AMD device metrics exporter",
    "triton-gpus": "GPUs as Triton tells of them",
    "endpoint-picker": "The endpoint picker of llm-d and of the Gateway API inference extension",
}

_WORDS = {"sum": "sum", "max": "highest", "avg": "mean", "min": "lowest"}

_INTRO = """\
# What is read from Prometheus

A Prometheus that `prometheus.url` names is asked every `prometheus.intervalSeconds` for what it has of the metrics
below. Which of them exist is asked at the start and every two minutes, within ten minutes of the past; nothing is asked
for that is not there. The first pod of an engine that nobody ran before is seen after two minutes at most.

A pod is read by one engine's map and one exporter's: the one of which it has the most readings, of two alike the first
on this page. Two engines in one pod, as vLLM's data parallel ranks are, are summed. An address that several monitors,
Services or Prometheis scrape is counted once, where the series differ in `job`, `service`, `endpoint`, `prometheus` or
`prometheus_replica` alone: what a monitor with a label of its own has is added. A metric that repeats another by a
label, as vLLM's `_by_reason` does, is not asked for. Beside Kafka the counters are not asked for either, so that
arrivals are counted once.

Latencies are percentiles over four scrapes: 1 min where pods are scraped every 15 s, 4 min at every minute, 5 min at
most. How often they are scraped is asked for with the names: of all pods older than 5 min the seldomest scraped counts.
A percentile above the last bound of its histogram is told as *more than* that bound, for how far above nobody knows: it
is late where the bound is the SLO or more, agrees to fewer replicas nowhere, and where half the SLO is more than the
bound it has no vote. `doctor` names models whose histogram ends below their SLO.

Where one Prometheus has several clusters, as Thanos, Mimir and Amazon's managed one do, `prometheus.matchers` of the
values is needed, such as `{cluster: prod-eu}`: labels that all series of this cluster bear, and no other's. Pods of
StatefulSets and LeaderWorkerSets have the same names in each cluster, and their requests would be summed. Each question
asks for these labels; `--matchers cluster=prod-eu` has the commands that are given a `--prometheus` do the same. An
external label is one that a Prometheus adds to what it sends away: its own series do not bear it.

Pods are found by any of these pairs of labels:

"""

_COST = """
## What it costs

One question is open at a time, for at most 20 namespaces, and a poll ends after 4 s, or when Prometheus says that it
looked at 20 million samples for it. Namespaces that were left out by then are in `status`, and are asked about first
the next time. `rebalancer_prometheus_queries_total`, `rebalancer_prometheus_query_seconds_total` and
`rebalancer_prometheus_query_samples_total` say what all of it came to, `rebalancer_prometheus_left_out_namespaces` what
was left out.

## What is missing

`rebalancer doctor --prometheus URL` says for each model what is read, by which map, and what a missing reading costs.
A signal of the policy that has no vote for want of it is a warning.

"""

_OWN = """
## A map of your own

`metrics.maps` of the policy reads any other engine, gateway or recording rule; the
[policy guide](policy.md#a-metric-map-of-your-own) shows how. What it tells of a pod stands before what is below.
"""


def readings_page() -> str:
    """The page: an anchor for each engine and exporter."""
    styles = table(("namespace", "pod"), ((code(namespace), code(pod)) for namespace, pod in STYLES))
    lacks = table(("without", "cost"), ((", ".join(map(code, each.readings)), each.cost) for each in LACKS))
    return "".join((_INTRO, styles, _COST, lacks, _OWN, *map(_section, (*ENGINES, *DEVICES, *POOLS)), *_unread()))


def _section(each: MetricMap) -> str:
    whose = (
        f"Of whole models: its label {code(each.model_label)} is a model's id or alias.\n\n" if each.model_label else ""
    )
    copies = f"Of series that differ in {' or '.join(map(code, each.copies))} alone the highest counts.\n\n"
    rows = table(("reading", "metric", "with", "a pod's figure"), map(_row, each.readings))
    return f"\n## {_TITLES[each.name]}\n\n{whose}{copies if each.copies else ''}{rows}"


def _row(source: MetricSource) -> tuple[str, ...]:
    by = source.by or BY.get(source.reading, "sum")
    words = "percentile" if source.series.endswith("_bucket") else _WORDS[by]
    mean = f" x {code(source.mean_over)}" if source.mean_over else ""
    per = f" / {source.per:g}" if source.per != 1.0 else ""
    return code(source.reading), code(source.series), ", ".join(map(code, source.where)), f"{words}{mean}{per}"


def _unread() -> Iterator[str]:
    yield "\n## Known, and not read\n\n"
    yield table(("metric", "what there is to say"), ((code(metric), reason) for metric, reason in UNREAD.items()))
