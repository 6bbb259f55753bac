"""Metric producers that others ship: which topic they write, how it is read, and which of their names mean what."""

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from rebalancer.domain.metric_maps import GaugeName
from rebalancer.domain.part import Part

DecoderName = Literal["rebalancer", "telegraf", "prometheus", "otlp-json", "otlp-proto", "vector", "flat"]
Combine = Literal["sum", "max", "mean"]
Label = Annotated[str, Field(min_length=1, max_length=253)]
Labels = Annotated[tuple[Label, ...], Field(min_length=1, max_length=20)]


class GaugeRule(Part):
    """One row: what a metric of the producer means."""

    metric: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        description="The metric's name; `:`, `.`, `/` and `_` count as the same, for producers rewrite them."
    )
    gauge: GaugeName = Field(description="The gauge that it is.")
    factor: Annotated[FiniteFloat, Field(gt=0, le=1e12)] = Field(
        default=1.0, description="What its value is multiplied by: 0.01 for a percentage, 0.001 for milliseconds."
    )
    combine: Combine = Field(
        default="sum", description="How the values of one pod's engines, models or GPUs become one (labels.parts)."
    )


class ProducerLabels(Part):
    """Labels that say whose a value is. Of several the first that a series has counts; dots stand for nested keys."""

    namespace: Labels = Field(
        default=(
            "exported_namespace",
            "namespace",
            "k8s.namespace.name",
            "k8s_namespace_name",
            "kubernetes.namespace_name",
            "kubernetes_namespace",
            "pod_namespace",
        ),
        description="Namespace of the pod.",
    )
    pod: Labels = Field(
        default=(
            "exported_pod",
            "pod",
            "k8s.pod.name",
            "k8s_pod_name",
            "kubernetes.pod_name",
            "kubernetes_pod_name",
            "pod_name",
        ),
        description="Name of the pod.",
    )
    uid: Labels = Field(
        default=("k8s.pod.uid", "k8s_pod_uid", "kubernetes.pod_id", "pod_uid"),
        description="UID of the pod; it counts before namespace and name.",
    )
    parts: Labels = Field(
        default=(
            "engine",
            "dp_rank",
            "model_name",
            "model",
            "version",
            "ReplicaId",
            "WorkerId",
            "gpu",
            "UUID",
            "GPU_I_ID",
            "gpu_id",
            "gpu_uuid",
        ),
        description="What tells the engines, models or GPUs of one pod apart. Series that differ in other labels only"
        " are one: two replicas of Prometheus tell of the same requests. Of one instant the highest of them counts.",
    )


class MetricProducer(Part):
    """One topic that a stock producer writes."""

    topic: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=249)] = Field(
        description="Full name of the topic; topicPrefix is not put before it. We never make it."
    )
    decoder: DecoderName = Field(
        description="rebalancer: our own CloudEvents. prometheus: prometheus-kafka-adapter, json and avro-json."
        " flat: one JSON object of labels and numbers, as Fluent Bit and Redpanda Connect write."
    )
    interval_seconds: Annotated[FiniteFloat, Field(ge=0.1, le=3600)] = Field(
        default=15.0, description="Seconds between two samples of a pod, as it is scraped."
    )
    labels: ProducerLabels = ProducerLabels()
    gauges: tuple[GaugeRule, ...] = Field(
        default=(), max_length=200, description="What its metrics mean, before the names that are known anyhow."
    )

    @property
    def rules(self) -> tuple[GaugeRule, ...]:
        """The producer's own rows, then those of well-known exporters; the first that yields a gauge counts."""
        return (*self.gauges, *KNOWN_NAMES)


def _rule(metric: str, gauge: GaugeName, combine: Combine = "sum", factor: float = 1.0) -> GaugeRule:
    return GaugeRule(metric=metric, gauge=gauge, combine=combine, factor=factor)


# vLLM calls its cache's use a percentage and means a ratio. Ray puts `ray_` before it; NIM has no prefix.
KNOWN_NAMES: tuple[GaugeRule, ...] = (
    *(
        rule
        for prefix in ("vllm:", "ray_vllm:", "")
        for rule in (
            _rule(f"{prefix}num_requests_running", "running"),
            _rule(f"{prefix}num_requests_waiting", "waiting"),
            _rule(f"{prefix}kv_cache_usage_perc", "kvCacheUse", "max"),
            _rule(f"{prefix}gpu_cache_usage_perc", "kvCacheUse", "max"),
        )
    ),
    _rule("sglang:num_running_reqs", "running"),
    _rule("sglang:num_queue_reqs", "waiting"),
    _rule("sglang:token_usage", "kvCacheUse", "max"),
    _rule("tgi_batch_current_size", "running"),
    _rule("tgi_queue_size", "waiting"),
    _rule("trtllm_num_requests_running", "running"),
    _rule("trtllm_num_requests_waiting", "waiting"),
    _rule("trtllm_kv_cache_utilization", "kvCacheUse", "max"),
    _rule("nv_inference_pending_request_count", "waiting", "max"),  # a request waits in an ensemble and in its parts
    # A GPU that is cut into instances (MIG) has no DCGM_FI_DEV_GPU_UTIL to tell, and what is written of it for an
    # instance is not read; each instance has its activity.
    _rule("DCGM_FI_DEV_GPU_UTIL", "gpuUtilisation", "mean", 0.01),
    _rule("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gpuUtilisation", "mean"),
    _rule("nv_gpu_utilization", "gpuUtilisation", "mean"),
    _rule("DCGM_FI_DEV_FB_USED", "fbUsedMib"),
    _rule("DCGM_FI_DEV_FB_FREE", "fbFreeMib"),
)
