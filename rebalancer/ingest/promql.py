"""What Prometheus is asked about the pods of vLLM and their GPUs, and metric samples from its answer. Pure.

Pod by pod, because only the owner of a pod says whose it is: `model_name` is a hint that two models may share. A pod
that Prometheus did not scrape is thereby absent, where a sum over the model would only have become smaller.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf, isnan
from typing import NamedTuple

import msgspec
from msgspec import Struct

from rebalancer.domain.events import Gauges, MetricSample
from rebalancer.ingest.counted import COUNTED, counters_of
from rebalancer.ingest.gauges import impossible

SOURCE = "prometheus"
DNS1123 = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
AT = "at"


def _of_gpus(by: str, metric: str, instances: str = "", of: str = "{}") -> str:
    """`by` pod, a metric of dcgm-exporter. `instances`: a matcher of MIG's label. `of`: what is asked of each series.

    Scraped without honorLabels, `pod` and `namespace` are the exporter's own and the workload's are `exported_*`.
    """
    own, exported = (of.format(metric + labels.replace("}", instances + "}")) for labels in ("{PODS}", "{EXPORTED}"))
    for name in ("namespace", "pod"):
        exported = f'label_replace({exported}, "{name}", "$1", "exported_{name}", "(.*)")'
    return f"{by} by (namespace, pod) ({own} or {exported})"


# Gauges by the names of `events.Gauges` on the wire; PODS and EXPORTED stand for label matchers. Several engines of one
# pod are summed; vLLM calls its cache's use a percentage and means a ratio, and has renamed the metric once. A GPU that
# is cut into instances (MIG) has no DCGM_FI_DEV_GPU_UTIL of its own to tell; each instance has its engine's activity.
READINGS = {
    AT: "min by (namespace, pod) (timestamp(vllm:num_requests_running{PODS})) or "
    + _of_gpus("min", "DCGM_FI_DEV_FB_USED", of="timestamp({})"),
    "running": "sum by (namespace, pod) (vllm:num_requests_running{PODS})",
    "waiting": "sum by (namespace, pod) (vllm:num_requests_waiting{PODS})",
    "kvCacheUse": "max by (namespace, pod) (vllm:kv_cache_usage_perc{PODS} or vllm:gpu_cache_usage_perc{PODS})",
    "ttftP95Seconds": "histogram_quantile(0.95, sum by (namespace, pod, le) "
    "(rate(vllm:time_to_first_token_seconds_bucket{PODS}[1m])))",
    "gpuUtilisation": _of_gpus("avg", "DCGM_FI_DEV_GPU_UTIL", ',GPU_I_ID=""')
    + " / 100 or "
    + _of_gpus("avg", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    "fbUsedMib": _of_gpus("sum", "DCGM_FI_DEV_FB_USED"),
    "fbFreeMib": _of_gpus("sum", "DCGM_FI_DEV_FB_FREE"),
}


# (namespace, name) -> (model, UID, creation time) of a model's pod. A pod made anew under an old name has readings from
# before its time.
PodNamed = Callable[[str, str], tuple[str, str, float] | None]


class _Labels(Struct, frozen=True):
    reading: str
    namespace: str = ""
    pod: str = ""


class _Series(Struct, frozen=True):
    metric: _Labels
    value: tuple[float, str]


class Answer(NamedTuple):
    """Samples by pod; `unknown`: pods that are no model's; `unusable`: pods of which nothing is known.

    `impossible`: values that cannot be and were left out, by gauge.
    """

    samples: tuple[MetricSample, ...]
    unknown: int
    unusable: int
    impossible: Counter[str]


def question(namespaces: Iterable[str], *, counted: bool = False) -> str:
    """One query for all readings of all pods of these namespaces: one answer is one instant.

    `counted`: the engines' counters, too, by which arrivals are known.

    Raises ValueError for a name that is not DNS-1123: it would be read as PromQL.
    """
    names = sorted(namespaces)
    for name in names:
        if not DNS1123.fullmatch(name):
            raise ValueError(f"{name!r} is not a DNS-1123 name")
    among = "|".join(name.replace(".", "[.]") for name in names)
    pods, exported = f'namespace=~"{among}",pod!=""', f'exported_namespace=~"{among}",exported_pod!=""'
    branches = (
        f'label_replace({expr.replace("PODS", pods).replace("EXPORTED", exported)}, "reading", "{reading}", "", "")'
        for reading, expr in (READINGS | (COUNTED if counted else {})).items()
    )
    return " or ".join(branches)


def read_answer(result: object, pod_named: PodNamed, interval_seconds: float) -> Answer:
    """Samples from `data.result` of an instant query. Raises msgspec.ValidationError when it is no such thing.

    A value that is not finite, that cannot be or that is not there is absent, never zero.
    """
    by_name: dict[tuple[str, str], dict[str, float]] = {}
    for series in msgspec.convert(result, list[_Series]):
        labels = series.metric
        by_name.setdefault((labels.namespace, labels.pod), {})[labels.reading] = float(series.value[1])
    by_pod: dict[tuple[str, str, float], dict[str, float]] = {}
    samples, unknown, unusable, wrong = [], 0, 0, Counter[str]()
    for (namespace, name), values in sorted(by_name.items()):
        pod = pod_named(namespace, name)
        if pod is None:
            unknown += 1
        elif not pod[2] <= values.get(AT, inf) < inf:
            unusable += 1
        else:  # one replica may be told of under two names: vLLM's launcher, and the requester that has the GPUs
            told = by_pod.setdefault(pod, {})
            told.update(values, **{AT: min(values[AT], told.get(AT, inf))})
    for pod_of, values in by_pod.items():
        sample, left_out = sample_of(pod_of, values, interval_seconds)
        wrong.update(left_out)
        if sample is None:
            unusable += 1
        else:
            samples.append(sample)
    return Answer(tuple(samples), unknown, unusable, wrong)


def sample_of(
    pod: tuple[str, str, float], values: Mapping[str, float], interval_seconds: float
) -> tuple[MetricSample | None, list[str]]:
    """What is known of `pod` (as `PodNamed` has it) at one instant, and the gauges that cannot be.

    `values`: by reading, with its instant at `AT`. None where no gauge is left.
    """
    model, uid, created_at = pod
    known = {reading: value for reading, value in values.items() if not isnan(value)}  # a rate over nothing is NaN
    at, counters = known.pop(AT), counters_of(known, created_at)
    known = {reading: value for reading, value in known.items() if reading not in COUNTED}
    left_out = impossible(known)
    gauges = {name: known[name] for name in known.keys() - left_out.keys()}
    if not gauges:
        return None, list(left_out)
    made = msgspec.convert(gauges, Gauges)
    return MetricSample(SOURCE, f"{uid}/{at}", at, model, interval_seconds, made, uid, counters), list(left_out)


def batches(namespaces: Iterable[str], size: int = 20) -> Iterator[list[str]]:
    """Namespaces of one question each: 20 of the longest names make a URL of 25 KB."""
    names = sorted(namespaces)
    for start in range(0, len(names), size):
        yield names[start : start + size]
