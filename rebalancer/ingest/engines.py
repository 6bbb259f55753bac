"""The metric maps that we have: which series of which engine or exporter hold our readings. Data, no code an engine.

The names are from what each project documents; docs/metrics.md is written from this module. Counters that an engine
raises only for requests which end well are `requests_finished`; what its clients gave up is `requests_left`.
"""

from typing import Final

from rebalancer.domain.metric_maps import MetricMap, ReadingName
from rebalancer.domain.metric_maps import MetricSource as Source


def _as_vllm(name: str, prefix: str) -> MetricMap:
    """Names of vLLM behind a prefix; the cache has had two, and `_by_reason` repeats what the queue's gauge says."""
    return MetricMap(
        name=name,
        readings=(
            Source(reading="running", series=f"{prefix}num_requests_running"),
            Source(reading="waiting", series=f"{prefix}num_requests_waiting"),
            Source(reading="kvCacheUse", series=f"{prefix}kv_cache_usage_perc"),  # called a percentage, and a ratio
            Source(reading="kvCacheUse", series=f"{prefix}gpu_cache_usage_perc"),
            Source(reading="ttftP95Seconds", series=f"{prefix}time_to_first_token_seconds_bucket"),
            Source(
                reading="requestsFinished", series=f"{prefix}request_success_total", where=('finished_reason!="abort"',)
            ),
            Source(reading="requestsLeft", series=f"{prefix}request_success_total", where=('finished_reason="abort"',)),
            Source(reading="requestsLeft", series=f"{prefix}request_failure_total"),
            Source(reading="promptTokens", series=f"{prefix}prompt_tokens_total"),
            Source(reading="generatedTokens", series=f"{prefix}generation_tokens_total"),
        ),
    )


VLLM: Final = _as_vllm("vllm", "vllm:")

SGLANG: Final = MetricMap(
    name="sglang",
    copies=("tp_rank", "pp_rank", "moe_ep_rank"),  # with --enable-metrics-for-all-schedulers each tells the same
    readings=(
        Source(reading="running", series="sglang:num_running_reqs"),
        Source(reading="waiting", series="sglang:num_queue_reqs"),
        Source(reading="kvCacheUse", series="sglang:token_usage"),
        Source(reading="ttftP95Seconds", series="sglang:time_to_first_token_seconds_bucket"),
        Source(reading="requestsFinished", series="sglang:num_requests_total"),
        Source(reading="requestsLeft", series="sglang:num_aborted_requests_total"),
        Source(reading="promptTokens", series="sglang:prompt_tokens_total"),
        Source(reading="generatedTokens", series="sglang:generation_tokens_total"),
    ),
)

TGI: Final = MetricMap(
    name="tgi",  # it tells neither the time to the first token nor the cache's use
    readings=(
        Source(reading="running", series="tgi_batch_current_size"),
        Source(reading="waiting", series="tgi_queue_size"),
        Source(reading="latencyP95Seconds", series="tgi_request_duration_bucket"),
        Source(reading="requestsFinished", series="tgi_request_success"),
        Source(reading="requestsLeft", series="tgi_request_failure"),
        Source(reading="promptTokens", series="tgi_request_input_length_sum"),
        Source(reading="generatedTokens", series="tgi_request_generated_tokens_sum"),
    ),
)

# One metric for all states of a request, told apart by a label. Without TensorRT-LLM nobody tells how many run. An
# ensemble has each request in several of its models: of a pod's models the highest counts, and no sum.
TRITON: Final = MetricMap(
    name="triton",
    readings=(
        Source(reading="running", series="nv_trt_llm_request_metrics", where=('request_type="scheduled"',)),
        Source(reading="waiting", series="nv_trt_llm_request_metrics", where=('request_type="waiting"',)),
        Source(reading="waiting", series="nv_inference_pending_request_count", by="max"),
        Source(
            reading="kvCacheUse", series="nv_trt_llm_kv_cache_block_metrics", where=('kv_cache_block_type="fraction"',)
        ),
        Source(reading="ttftP95Seconds", series="nv_inference_first_response_histogram_ms_bucket", per=1000.0),
        Source(reading="requestsFinished", series="nv_inference_request_success", by="max"),
        Source(reading="requestsLeft", series="nv_inference_request_failure", by="max"),
    ),
)

NIM: Final = _as_vllm("nim", "")

TENSORRT_LLM: Final = MetricMap(
    name="tensorrt-llm",  # gauges from 1.3 on, with return_perf_metrics and enable_iter_perf_stats
    readings=(
        Source(reading="running", series="trtllm_num_requests_running"),
        Source(reading="waiting", series="trtllm_num_requests_waiting"),
        Source(reading="kvCacheUse", series="trtllm_kv_cache_utilization"),
        Source(reading="ttftP95Seconds", series="trtllm_time_to_first_token_seconds_bucket"),
        Source(
            reading="requestsFinished",
            series="trtllm_request_success_total",
            where=('finished_reason!~"abort|cancelled"',),
        ),
        Source(
            reading="requestsLeft", series="trtllm_request_success_total", where=('finished_reason=~"abort|cancelled"',)
        ),
        Source(reading="promptTokens", series="trtllm_prompt_tokens_total"),
        Source(reading="generatedTokens", series="trtllm_generation_tokens_total"),
    ),
)

RAY: Final = _as_vllm("ray-serve-llm", "ray_vllm_")  # the pod is Ray's worker, whose agent tells for its engines

# A GPU that is cut into instances (MIG) has no DCGM_FI_DEV_GPU_UTIL of its own to tell, and an exporter that writes it
# for an instance says 0 or the whole GPU's; each instance has its engine's activity.
DCGM: Final = MetricMap(
    name="dcgm",
    readings=(
        Source(reading="gpuUtilisation", series="DCGM_FI_DEV_GPU_UTIL", where=('GPU_I_ID=""',), per=100.0),
        Source(reading="gpuUtilisation", series="DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
        Source(reading="fbUsedMib", series="DCGM_FI_DEV_FB_USED"),
        Source(reading="fbFreeMib", series="DCGM_FI_DEV_FB_FREE"),
    ),
)

AMD: Final = MetricMap(
    name="amd",
    readings=(
        Source(reading="gpuUtilisation", series="gpu_gfx_activity", per=100.0),
        Source(reading="fbUsedMib", series="gpu_used_vram"),
        Source(reading="fbFreeMib", series="gpu_free_vram"),
    ),
)

TRITON_GPUS: Final = MetricMap(
    name="triton-gpus",
    readings=(
        Source(reading="gpuUtilisation", series="nv_gpu_utilization"),
        Source(reading="fbUsedMib", series="nv_gpu_memory_used_bytes", per=1048576.0),
    ),
)


def _mean(reading: ReadingName, prefix: str, figure: str, pods: str) -> Source:
    """A mean of the pool's pods. Several replicas of the picker tell of the same pool."""
    return Source(reading=reading, series=f"{prefix}_average_{figure}", mean_over=f"{prefix}_{pods}", by="max")


_PICKERS: Final = (("llm_d_epp", "ready_endpoints"), ("llm_d_epp", "ready_pods"), ("inference_pool", "ready_pods"))

ENDPOINT_PICKER: Final = MetricMap(
    name="endpoint-picker",
    model_label="name",  # of the InferencePool: an alias of the model whose pods it has
    readings=(
        *(_mean("running", prefix, "running_requests", pods) for prefix, pods in _PICKERS),
        *(_mean("waiting", prefix, "queue_size", pods) for prefix, pods in _PICKERS),
        Source(reading="kvCacheUse", series="llm_d_epp_average_kv_cache_utilization", by="max"),
        Source(reading="kvCacheUse", series="inference_pool_average_kv_cache_utilization", by="max"),
    ),
)

ENGINES: Final = (VLLM, SGLANG, TGI, TENSORRT_LLM, RAY, NIM, TRITON)
"""Of the engines that a pod has series of, the one that tells most is read, of two alike the first: NIM and Triton may
have vLLM's series beside their own."""

DEVICES: Final = (DCGM, AMD, TRITON_GPUS)
"""Chosen in the same way, beside the engine."""

POOLS: Final = (ENDPOINT_PICKER,)
"""What tells of whole models."""

UNREAD: Final = {
    "gpu_usage": "AMD's GPU agent; no map reads it, the AMD device metrics exporter has gpu_gfx_activity",
    "inference_extension_scheduler_attempts_total": "the endpoint picker's own work; no reading of a pod or model",
    "nvidia_smi_utilization_gpu_ratio": "nvidia_gpu_exporter; it names no pods, dcgm-exporter does",
}
"""Metrics by which exporters are known that no map reads, with what there is to say about each."""
