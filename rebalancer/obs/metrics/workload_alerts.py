"""Alerts about the workloads themselves, from what their exporters tell: see `exporters` for whose labels these are.

A GPU that nobody holds is free or lent by design, and raises none of them.
"""

from rebalancer.obs.metrics.alert import INFO, WARNING, Alert
from rebalancer.obs.metrics.exporters import (
    CREATED,
    DEGREES,
    KV_CACHE,
    MEMORY_USE,
    PENDING,
    POWER_USE,
    WAITING,
    first_token,
    first_tokens,
    gpu_use,
    in_use,
    of_gpu,
)

# vLLM takes about 90 % of a GPU's memory when it starts, so that a full GPU is its normal state; what runs out is the
# KV cache in it, and that hurts once requests wait.
MEMORY_HIGH = f"""(
  {of_gpu(MEMORY_USE)} > 0.95
  unless on (namespace, pod) {KV_CACHE}
) or (
  {KV_CACHE} > 0.95
  and on (namespace, pod) {WAITING} > 0
)"""

# A GPU is in use while any kernel runs: an engine with one request says nearly what one with a hundred says. Where the
# engine tells whether requests wait, a GPU in full use is told only while they do.
BUSY = f"""(
  {in_use(gpu_use("5m"))} > 0.9
  unless on (namespace, pod) {WAITING} == 0
)"""

PENDING_LONG = f"""count by (namespace, reason) (
  {PENDING}
  and on (namespace, pod) time() - {CREATED} > 900
)"""

# Of fewer than 100 requests the 99th percentile is the slowest one. A model whose engine tells no histogram, or of
# which few requests come, is held against its SLO by the latency that it is planned by.
_SLO = "max by (model, model_namespace, model_name) (rebalancer_model_slo_seconds)"
_LATENCY_P99 = f"""label_replace(
  {first_token(0.99, "10m")}
  and on (namespace, model_name) {first_tokens("10m")} >= 100,
  "model_namespace", "$1", "namespace", "(.*)")"""
LATE = f"""max by (model) (
  {_LATENCY_P99} > on (model_namespace, model_name) group_right () {_SLO}
) or on (model) (
  max by (model) (rebalancer_model_latency_seconds) > on (model) max by (model) (rebalancer_model_slo_seconds)
)"""

WHERE = (
    "{{ $labels.namespace }}/{{ $labels.pod }}{{ with $labels.gpu }} (GPU {{ . }} of {{ $labels.hostname }}){{ end }}"
)
SHARE = "{{ $value | humanizePercentage }}"

WORKLOAD_ALERTS: tuple[Alert, ...] = (
    Alert(
        "RebalancerLatencyAboveSlo",
        WARNING,
        LATE,
        "5m",
        "Requests of a model take longer than its SLO.",
        "Requests of model {{ $labels.model }} take {{ $value | humanizeDuration }} (99th percentile of its engines, "
        "or 95th of its worst replica); its SLO is "
        '{{ with printf "rebalancer_model_slo_seconds{model=%q}" $labels.model | query }}'
        "{{ . | first | value | humanizeDuration }}{{ end }}.",
    ),
    Alert(
        "RebalancerPodsPending",
        WARNING,
        PENDING_LONG,
        "1m",
        "Pods have waited for their GPUs for more than 15 minutes.",
        "In {{ $labels.namespace }} {{ $value }} pod{{ if ne $value 1.0 }}s{{ end }} asking for GPUs, created more "
        "than 15 minutes ago, cannot run: {{ $labels.reason }}.",
    ),
    Alert(
        "RebalancerGpuMemoryHigh",
        WARNING,
        MEMORY_HIGH,
        "5m",
        "A workload is running out of GPU memory.",
        f"{WHERE} uses {SHARE} of its GPU memory, or of its KV cache and requests wait.",
    ),
    Alert(
        "RebalancerGpuTemperatureHigh",
        WARNING,
        f"{of_gpu(DEGREES)} > 85",
        "5m",
        "A GPU is close to slowing itself down.",
        f"The GPU of {WHERE} has {{{{ $value }}}} degrees Celsius; above 85 GPUs begin to throttle, and replicas "
        "on them carry less than planned.",
    ),
    Alert(
        "RebalancerGpuPowerHigh",
        INFO,
        f"{of_gpu(POWER_USE)} > 0.98",
        "15m",
        "A GPU is held back by its power limit.",
        f"The GPU of {WHERE} draws {SHARE} of the power that it may; at the limit it lowers its clock, and replicas on "
        "it carry less than planned.",
    ),
    Alert(
        "RebalancerGpuBusy",
        INFO,
        BUSY,
        "15m",
        "A GPU has been in full use for 15 minutes.",
        f"The GPU of {WHERE} was in use {SHARE} of the last minutes: what comes on top of that waits.",
    ),
    Alert(
        "RebalancerGpuIdle",
        INFO,
        f"{in_use(gpu_use('30m'))} < 0.2",
        "2h",
        "A GPU that somebody holds has been all but idle for 2 hours.",
        f"The GPU of {WHERE} was in use {SHARE} of the last half hour, and below 20 % for 2 hours.",
    ),
)
