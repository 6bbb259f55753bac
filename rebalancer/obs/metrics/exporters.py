"""PromQL of what others export - dcgm-exporter, serving engines, kube-state-metrics - under one set of labels.

Where Prometheus keeps its own labels (`honorLabels: false`, its default) a workload stands in `exported_namespace` and
`exported_pod`, and plain `pod` is the exporter's; dcgm-exporter's --use-old-namespace says `pod_namespace` and
`pod_name`; newer ones write `hostname` small. Whose GPU it is nobody can tell without the exporter's mapping to pods.
"""

from typing import Final

# DCGM says that it does not know by the largest numbers of its types: 2147483632, 1.4e14 and 9.2e18. An exporter that
# passes one on has told nothing; no degree, watt or MiB of a GPU comes near it.
UNKNOWN: Final = "2147483632"

_FIRST_TOKEN: Final = ("vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds")


def of_pod(series: str) -> str:
    """Series by their workload's `namespace` and `pod`, whether Prometheus kept the exporter's labels or not."""
    return _renamed(_renamed(series, "namespace", "exported_namespace"), "pod", "exported_pod")


def of_gpu(series: str) -> str:
    """One figure for each GPU, or instance of one: by workload, node, number and instance."""
    return _by_gpu(_of_device(series))


def in_use(series: str) -> str:
    """The series of GPUs that a pod holds, without free ones, whose `pod` is empty or the exporter's own."""
    exporters_own = 'unless on (namespace, pod, job, instance) up{pod!=""}'
    return _by_gpu(f"{_of_device(series)}\n  {exporters_own}\n  unless on (pod) vector(0)\n")


def _of_device(series: str) -> str:
    old = _renamed(_renamed(series, "namespace", "pod_namespace"), "pod", "pod_name")
    return _renamed(of_pod(old), "hostname", "Hostname")


def _by_gpu(series: str) -> str:
    return f"max by (namespace, pod, hostname, gpu, GPU_I_ID) ({series})"


def _renamed(series: str, ours: str, theirs: str) -> str:
    return f'label_replace({series}, "{ours}", "$1", "{theirs}", "(.+)")'


def gpu_use(window: str) -> str:
    """Share of the time in which a GPU worked at something, as a mean over a window; series of `in_use` or `of_gpu`.

    A GPU that is cut into instances has no use as a whole; each instance has its engine's activity.
    """
    return (
        f'avg_over_time(DCGM_FI_DEV_GPU_UTIL{{GPU_I_ID=""}}[{window}]) / 100'
        f' or avg_over_time(DCGM_FI_PROF_GR_ENGINE_ACTIVE{{GPU_I_ID!=""}}[{window}])'
    )


# used / free, as it is often written, is above 0.9 from 47 % on.
MEMORY_USE: Final = (
    f"(DCGM_FI_DEV_FB_USED < {UNKNOWN}) / ((DCGM_FI_DEV_FB_USED < {UNKNOWN}) + (DCGM_FI_DEV_FB_FREE < {UNKNOWN}))"
)
DEGREES: Final = f"DCGM_FI_DEV_GPU_TEMP < {UNKNOWN}"
WATTS: Final = f"DCGM_FI_DEV_POWER_USAGE < {UNKNOWN}"
# The limit is not among what dcgm-exporter tells by default: its counters file has to name one of these.
POWER_USE: Final = (
    f"({WATTS}) / on (instance, gpu, UUID) group_left ()\n"
    "  max by (instance, gpu, UUID) (DCGM_FI_DEV_ENFORCED_POWER_LIMIT or DCGM_FI_DEV_POWER_MGMT_LIMIT)"
)

KV_CACHE: Final = f"max by (namespace, pod) ({of_pod('vllm:kv_cache_usage_perc or vllm:gpu_cache_usage_perc')})"
WAITING: Final = "max by (namespace, pod) ({})".format(
    of_pod("vllm:num_requests_waiting or sglang:num_queue_reqs or tgi_queue_size")
)


def first_token(quantile: float, window: str) -> str:
    """Time to the first token, in seconds, by namespace and the engines' `model_name`."""
    rates = " or ".join(f"rate({engine}_bucket[{window}])" for engine in _FIRST_TOKEN)
    return f"histogram_quantile({quantile:g}, sum by (namespace, model_name, le) ({of_pod(rates)}))"


def first_tokens(window: str) -> str:
    """How many requests had their first token within a window, by the same labels."""
    counts = " or ".join(f"increase({engine}_count[{window}])" for engine in _FIRST_TOKEN)
    return f"sum by (namespace, model_name) ({of_pod(counts)})"


# Extended resources as kube-state-metrics spells them.
GPU_RESOURCE: Final = (
    'resource=~"nvidia_com_.*|amd_com_.*|gpu_intel_com_.*|habana_ai_.*|aws_amazon_com_neuron.*|google_com_tpu"'
)
_ASKING: Final = of_pod(f"kube_pod_container_resource_requests{{{GPU_RESOURCE}}} > 0")
_PENDING: Final = of_pod('kube_pod_status_phase{phase="Pending"} == 1')
_REASON: Final = of_pod(
    'label_replace(kube_pod_status_unschedulable == 1, "reason", "Unschedulable", "", "")'
    " or kube_pod_container_status_waiting_reason == 1 or kube_pod_init_container_status_waiting_reason == 1"
)
# By (namespace, pod, reason): pods that ask for GPUs and do not run yet. Of those for which nobody gives a reason, one
# is a scheduling gate, which kube-state-metrics does not name.
PENDING: Final = f"""(
  (
    max by (namespace, pod, reason) ({_REASON})
    and on (namespace, pod) {_PENDING}
  ) or on (namespace, pod) label_replace(
    max by (namespace, pod) ({_PENDING}), "reason", "not told", "", "")
) and on (namespace, pod) {_ASKING}"""
CREATED: Final = of_pod("kube_pod_created")


def gpu_nodes(then: str = "") -> str:
    """Nodes with GPUs, now or `then`, as "offset 5m"."""
    return f"max by (node) (kube_node_status_capacity{{{GPU_RESOURCE}}} {then} > 0)"
