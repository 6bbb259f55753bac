"""What engines and exporters print, as recorded and as composed from documentation, and how it looks once scraped.

`rows` answers as Prometheus would answer `promql.question` about one scrape, by the maps themselves: enough to hold
every file against what it must become without a Prometheus. `test_metric_artefacts` asks a real one the same.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import inf
from statistics import fmean
from typing import Any, NamedTuple

from rebalancer.domain.metric_maps import READINGS, MetricMap, MetricSource
from rebalancer.ingest.promql import STYLES

AT = 1_800_000_000.0
LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)\s*$")
LABEL = re.compile(r'\s*(\w+)="([^"]*)"\s*,?')
MATCH = re.compile(r'(\w+)(=~|!~|!=|=)"(.*)"')
QUANTILE = {"ttftP95Seconds": 0.95, "latencyP95Seconds": 0.95, "latencyP99Seconds": 0.99}
BY = {"kvCacheUse": "max", "gpuUtilisation": "avg"}
AGGREGATE: dict[str, Callable[[list[float]], float]] = {"sum": sum, "max": max, "min": min, "avg": fmean}


class Scraped(NamedTuple):
    """One series as Prometheus keeps it."""

    name: str
    labels: dict[str, str]
    value: float


class Exposition(NamedTuple):
    """A target that is scraped: what it prints, and the labels that the scrape gives it."""

    text: str
    target: dict[str, str]


def pod(text: str, name: str) -> Exposition:
    """What a pod of ours in the namespace `serving` prints."""
    return Exposition(text, {"namespace": "serving", "pod": name})


def exporter(text: str) -> Exposition:
    """What an exporter prints that Prometheus scrapes without honorLabels."""
    return Exposition(text, {"namespace": "gpu-operator", "pod": "exporter-x7k2p"})


def lines(text: str) -> list[str]:
    """The lines that are samples, without those whose labels a page abbreviates with dots."""
    return [line for line in text.splitlines() if LINE.match(line) and "..." not in line]


def scraped(exposition: Exposition) -> Iterator[Scraped]:
    """Its series: labels that it prints and the scrape gives as well are told as exported_*; an empty one is none."""
    for line in lines(exposition.text):
        match = LINE.match(line)
        assert match is not None
        printed = {name: value for name, value in LABEL.findall(match[2] or "") if value}
        moved = {f"exported_{name}" if name in exposition.target else name: value for name, value in printed.items()}
        yield Scraped(match[1], moved | exposition.target, float(match[3]))


def rows(series: Sequence[Scraped], maps: Sequence[MetricMap]) -> list[dict[str, Any]]:
    """`data.result` of the question about these series."""
    answer = []
    for each in maps:
        told: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for reading in READINGS:
            for source in reversed(each.sources(reading)):
                for subject, figure in _figures(series, each, source, reading).items():
                    told[subject][reading] = figure
                if source.series.endswith("_bucket"):
                    for subject, share in _below(series, each, source).items():
                        told[subject][f"{reading}.below"] = share
        for (namespace, name), figures in told.items():
            whose = {"namespace": namespace, "pod": name} if namespace else {"model": name}
            answer += [
                {"metric": whose | {"reading": f"{each.name}/{reading}"}, "value": [AT, str(figure)]}
                for reading, figure in {"at": AT, **figures}.items()
            ]
    return answer


def _below(series: Sequence[Scraped], each: MetricMap, source: MetricSource) -> dict[tuple[str, str], float]:
    """The share of what a histogram has below its last bound."""
    shares = {}
    for subject, buckets in _histograms(series, each, source).items():
        total, finite = buckets.get(inf, 0.0), [count for edge, count in buckets.items() if edge < inf]
        if total and finite:
            shares[subject] = max(finite) / total
    return shares


def _histograms(
    series: Sequence[Scraped], each: MetricMap, source: MetricSource
) -> dict[tuple[str, str], dict[float, float]]:
    buckets: dict[tuple[str, str], dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for one in series:
        if one.name == source.series and all(_holds(one.labels, condition) for condition in source.where):
            for subject in _subjects(one.labels, each):
                buckets[subject][float(one.labels["le"])] += one.value
    return buckets


def _figures(
    series: Sequence[Scraped], each: MetricMap, source: MetricSource, reading: str
) -> dict[tuple[str, str], float]:
    grouped: dict[tuple[str, str], dict[tuple[tuple[str, str], ...], float]] = defaultdict(dict)
    for one in series:
        if one.name != source.series or not all(_holds(one.labels, condition) for condition in source.where):
            continue
        for subject in _subjects(one.labels, each):
            told = tuple(sorted((name, value) for name, value in one.labels.items() if name not in each.copies))
            grouped[subject][told] = max(one.value, grouped[subject].get(told, one.value))
    over = (
        _figures(series, each, MetricSource(reading=source.reading, series=source.mean_over), "")
        if source.mean_over
        else {}
    )
    if source.series.endswith("_bucket"):
        histograms = _histograms(series, each, source)
        return {subject: _quantile(QUANTILE[reading], told) / source.per for subject, told in histograms.items()}
    by = AGGREGATE[source.by or BY.get(reading, "sum")]
    figures = {subject: by([*told.values()]) / source.per for subject, told in grouped.items()}
    if source.mean_over:
        return {subject: figure * over[subject] for subject, figure in figures.items() if subject in over}
    return figures


def _subjects(labels: dict[str, str], each: MetricMap) -> Iterator[tuple[str, str]]:
    if each.model_label is not None:
        if each.model_label in labels:
            yield "", labels[each.model_label]
        return
    for namespace, name in STYLES:
        if namespace in labels and name in labels:
            yield labels[namespace], labels[name]


def _holds(labels: dict[str, str], condition: str) -> bool:
    match = MATCH.fullmatch(condition)
    assert match is not None
    name, how, wanted = match.groups()
    value = labels.get(name, "")
    same = re.fullmatch(wanted, value) is not None if "~" in how else value == wanted
    return same != how.startswith("!")


def _quantile(share: float, buckets: dict[float, float]) -> float:
    """As histogram_quantile has it: linear within a bucket, the largest finite bound beyond it."""
    edges = sorted(buckets)
    total = buckets.get(float("inf"), float("nan"))
    if not total > 0 or len(edges) == 1:
        return float("nan")
    rank, low, below = share * total, 0.0, 0.0
    for edge in edges[:-1]:
        if buckets[edge] >= rank:
            return low + (edge - low) * (rank - below) / (buckets[edge] - below)
        low, below = edge, buckets[edge]
    return edges[-2]


# --- composed: no recording with a licence is known, so these are written from what each project documents ------------

VLLM_09_BOTH_CACHE_NAMES = """\
vllm:num_requests_running{engine="0",model_name="llama"} 7
vllm:num_requests_waiting{engine="0",model_name="llama"} 3
vllm:kv_cache_usage_perc{engine="0",model_name="llama"} 0.61
vllm:gpu_cache_usage_perc{engine="0",model_name="llama"} 0.61
"""  # composed: docs.vllm.ai/en/v0.9.1/usage/metrics.html

VLLM_V1_TWO_ENGINES = """\
vllm:num_requests_running{engine="0",model_name="llama"} 7
vllm:num_requests_running{engine="1",model_name="llama"} 5
vllm:num_requests_waiting{engine="0",model_name="llama"} 3
vllm:num_requests_waiting{engine="1",model_name="llama"} 1
vllm:num_requests_waiting_by_reason{engine="0",model_name="llama",reason="capacity"} 3
vllm:num_requests_waiting_by_reason{engine="1",model_name="llama",reason="capacity"} 1
vllm:kv_cache_usage_perc{engine="0",model_name="llama"} 0.61
vllm:kv_cache_usage_perc{engine="1",model_name="llama"} 0.42
vllm:request_success_total{engine="0",finished_reason="stop",model_name="llama"} 20
vllm:request_success_total{engine="1",finished_reason="length",model_name="llama"} 5
vllm:request_success_total{engine="1",finished_reason="abort",model_name="llama"} 2
"""  # composed: docs.vllm.ai/en/latest/design/metrics

SGLANG_ALL_RANKS = """\
sglang:num_running_reqs{dp_rank="0",model_name="qwen",tp_rank="0"} 4
sglang:num_running_reqs{dp_rank="0",model_name="qwen",tp_rank="1"} 4
sglang:num_running_reqs{dp_rank="1",model_name="qwen",tp_rank="0"} 6
sglang:num_running_reqs{dp_rank="1",model_name="qwen",tp_rank="1"} 6
sglang:num_queue_reqs{dp_rank="0",model_name="qwen",tp_rank="0"} 1
"""  # composed: docs.sglang.ai/references/production_metrics.html, with --enable-metrics-for-all-schedulers

SGLANG_EXPERT_RANKS = """\
sglang:num_running_reqs{model_name="deepseek",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 12
sglang:num_running_reqs{model_name="deepseek",moe_ep_rank="1",pp_rank="0",tp_rank="1"} 12
sglang:num_queue_reqs{model_name="deepseek",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 3
sglang:num_queue_reqs{model_name="deepseek",moe_ep_rank="1",pp_rank="0",tp_rank="1"} 3
"""  # composed: docs.sglang.ai/references/production_metrics.html, the same with --ep-size 2

TGI = """\
tgi_batch_current_size 5
tgi_queue_size 9
tgi_request_success 120
tgi_request_failure{err="overloaded"} 4
tgi_request_input_length_sum 51000
tgi_request_generated_tokens_sum 9000
tgi_request_duration_bucket{le="1"} 50
tgi_request_duration_bucket{le="2"} 100
tgi_request_duration_bucket{le="+Inf"} 100
"""  # composed: huggingface.co/docs/text-generation-inference/reference/metrics

NIM = """\
num_requests_running{model_name="meta/llama-3.1-8b-instruct"} 11
num_requests_waiting{model_name="meta/llama-3.1-8b-instruct"} 2
num_request_max{model_name="meta/llama-3.1-8b-instruct"} 2048
gpu_cache_usage_perc{model_name="meta/llama-3.1-8b-instruct"} 0.25
request_success_total{finished_reason="stop",model_name="meta/llama-3.1-8b-instruct"} 30
prompt_tokens_total{model_name="meta/llama-3.1-8b-instruct"} 900
generation_tokens_total{model_name="meta/llama-3.1-8b-instruct"} 400
nv_gpu_utilization{gpu_uuid="GPU-1"} 0.5
"""  # composed: docs.nvidia.com/nim/large-language-models/latest/observability.html

TRITON = """\
nv_inference_pending_request_count{model="ensemble",version="1"} 8
nv_inference_pending_request_count{model="preprocessing",version="1"} 6
nv_inference_request_success{model="ensemble",version="1"} 70
nv_inference_request_success{model="preprocessing",version="1"} 70
nv_inference_request_failure{model="ensemble",reason="CANCELED",version="1"} 1
nv_gpu_utilization{gpu_uuid="GPU-1"} 0.75
nv_gpu_memory_used_bytes{gpu_uuid="GPU-1"} 1048576000
"""  # composed: docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/metrics.html

TENSORRT_LLM = """\
trtllm_num_requests_running{engine_type="trtllm",model_name="qwen"} 3
trtllm_num_requests_waiting{engine_type="trtllm",model_name="qwen"} 1
trtllm_kv_cache_utilization{engine_type="trtllm",model_name="qwen"} 0.4
trtllm_request_success_total{engine_type="trtllm",finished_reason="stop",model_name="qwen"} 15
"""  # composed: llm-d.ai, model servers (trtllm-serve 1.3 with enable_iter_perf_stats)

RAY = """\
ray_vllm_num_requests_running{ReplicaId="a",WorkerId="w1",model_name="llama"} 2
ray_vllm_num_requests_running{ReplicaId="b",WorkerId="w2",model_name="llama"} 3
ray_vllm_num_requests_waiting{ReplicaId="a",WorkerId="w1",model_name="llama"} 1
ray_vllm_num_requests_waiting_by_reason{ReplicaId="a",WorkerId="w1",model_name="llama",reason="capacity"} 1
ray_vllm_kv_cache_usage_perc{ReplicaId="a",WorkerId="w1",model_name="llama"} 0.3
ray_vllm_request_success{ReplicaId="a",WorkerId="w1",finished_reason="stop",model_name="llama"} 12
ray_vllm_request_success_total{ReplicaId="a",WorkerId="w1",finished_reason="stop",model_name="llama"} 12
"""  # composed: docs.ray.io/en/master/serve/llm/user-guides/observability.html; Ray exports counters under two names

TRITON_WITH_VLLM = (
    TRITON
    + """\
vllm:num_requests_running{model="vllm_model",version="1"} 4
vllm:num_requests_waiting{model="vllm_model",version="1"} 2
vllm:gpu_cache_usage_perc{model="vllm_model",version="1"} 0.2
vllm:prompt_tokens_total{model="vllm_model",version="1"} 100
vllm:generation_tokens_total{model="vllm_model",version="1"} 50
"""
)  # composed: github.com/triton-inference-server/vllm_backend, README, Triton metrics

ENDPOINT_PICKER = """\
inference_pool_average_kv_cache_utilization{name="llama-pool"} 0.55
inference_pool_average_queue_size{name="llama-pool"} 2.5
inference_pool_ready_pods{name="llama-pool"} 4
inference_pool_per_pod_queue_size{model_server_pod="llama-0-rank-0",name="llama-pool"} 10
"""  # composed: gateway-api-inference-extension.sigs.k8s.io, guides, metrics

DCGM = """\
DCGM_FI_DEV_GPU_UTIL{{gpu="0",{labels}}} 50
DCGM_FI_DEV_GPU_UTIL{{gpu="1",{labels}}} 70
DCGM_FI_DEV_FB_USED{{gpu="0",{labels}}} 60000
DCGM_FI_DEV_FB_USED{{gpu="1",{labels}}} 61000
DCGM_FI_DEV_FB_FREE{{gpu="0",{labels}}} 20000
DCGM_FI_DEV_FB_FREE{{gpu="1",{labels}}} 9223372036854775794
DCGM_FI_DEV_GPU_TEMP{{gpu="0",{labels}}} 61
"""  # composed: github.com/NVIDIA/dcgm-exporter, README, with a pod's labels filled in

AMD = """\
gpu_gfx_activity{gpu_id="0",hostname="n1",namespace="serving",pod="amd-0"} 40
gpu_gfx_activity{gpu_id="1",hostname="n1",namespace="serving",pod="amd-0"} 60
gpu_used_vram{gpu_id="0",hostname="n1",namespace="serving",pod="amd-0"} 100000
gpu_used_vram{gpu_id="1",hostname="n1",namespace="serving",pod="amd-0"} 90000
gpu_free_vram{gpu_id="0",hostname="n1",namespace="serving",pod="amd-0"} 96000
gpu_clock{clock_index="1",clock_type="system",gpu_id="0",namespace="serving",pod="amd-0"} 132
"""  # composed: rocm.docs.amd.com, device-metrics-exporter, list of metrics

OTEL = """\
vllm:num_requests_running{k8s_namespace_name="serving",k8s_pod_name="otel-0",model_name="llama"} 6
vllm:num_requests_waiting{k8s_namespace_name="serving",k8s_pod_name="otel-0",model_name="llama"} 1
"""  # composed: opentelemetry.io, compatibility of Prometheus and OpenMetrics: resource attributes as labels
