"""The metric maps that we have: which series of which engine or exporter hold our readings. Data, no code an engine.

The names are from what each project documents; docs/metrics.md is written from this module. Counters that an engine
raises only for requests which end well are `requests_finished`; what its clients gave up is `requests_left`.
"""

from typing import Final

from rebalancer.domain.metric_maps import MetricMap
from rebalancer.domain.metric_maps import MetricSource as Source


def _as_vllm(name: str, prefix: str) -> MetricMap:
    """Names of vLLM behind a prefix; the cache has had two, and `_by_reason` repeats what the queue's gauge says."""
    return MetricMap(
        name=name,
        running=(Source(series=f"{prefix}num_requests_running"),),
        waiting=(Source(series=f"{prefix}num_requests_waiting"),),
        kv_cache_use=(
            Source(series=f"{prefix}kv_cache_usage_perc"),  # called a percentage, and a ratio
            Source(series=f"{prefix}gpu_cache_usage_perc"),
        ),
        ttft_p95_seconds=(Source(series=f"{prefix}time_to_first_token_seconds_bucket"),),
        requests_finished=(Source(series=f"{prefix}request_success_total", where=('finished_reason!="abort"',)),),
        requests_left=(
            Source(series=f"{prefix}request_success_total", where=('finished_reason="abort"',)),
            Source(series=f"{prefix}request_failure_total"),
        ),
        prompt_tokens=(Source(series=f"{prefix}prompt_tokens_total"),),
        generated_tokens=(Source(series=f"{prefix}generation_tokens_total"),),
    )


VLLM: Final = _as_vllm("vllm", "vllm:")

SGLANG: Final = MetricMap(
    name="sglang",
    copies=("tp_rank", "pp_rank"),  # with --enable-metrics-for-all-schedulers each rank tells the same
    running=(Source(series="sglang:num_running_reqs"),),
    waiting=(Source(series="sglang:num_queue_reqs"),),
    kv_cache_use=(Source(series="sglang:token_usage"),),
    ttft_p95_seconds=(Source(series="sglang:time_to_first_token_seconds_bucket"),),
    requests_finished=(Source(series="sglang:num_requests_total"),),
    requests_left=(Source(series="sglang:num_aborted_requests_total"),),
    prompt_tokens=(Source(series="sglang:prompt_tokens_total"),),
    generated_tokens=(Source(series="sglang:generation_tokens_total"),),
)

TGI: Final = MetricMap(
    name="tgi",  # it tells neither the time to the first token nor the cache's use
    running=(Source(series="tgi_batch_current_size"),),
    waiting=(Source(series="tgi_queue_size"),),
    latency_p95_seconds=(Source(series="tgi_request_duration_bucket"),),
    requests_finished=(Source(series="tgi_request_success"),),
    requests_left=(Source(series="tgi_request_failure"),),
    prompt_tokens=(Source(series="tgi_request_input_length_sum"),),
    generated_tokens=(Source(series="tgi_request_generated_tokens_sum"),),
)

# One metric for all states of a request, told apart by a label. Without TensorRT-LLM nobody tells how many run. An
# ensemble has each request in several of its models: of a pod's models the highest counts, and no sum.
TRITON: Final = MetricMap(
    name="triton",
    running=(Source(series="nv_trt_llm_request_metrics", where=('request_type="scheduled"',)),),
    waiting=(
        Source(series="nv_trt_llm_request_metrics", where=('request_type="waiting"',)),
        Source(series="nv_inference_pending_request_count", by="max"),
    ),
    kv_cache_use=(Source(series="nv_trt_llm_kv_cache_block_metrics", where=('kv_cache_block_type="fraction"',)),),
    ttft_p95_seconds=(Source(series="nv_inference_first_response_histogram_ms_bucket", per=1000.0),),
    requests_finished=(Source(series="nv_inference_request_success", by="max"),),
    requests_left=(Source(series="nv_inference_request_failure", by="max"),),
)

NIM: Final = _as_vllm("nim", "")

TENSORRT_LLM: Final = MetricMap(
    name="tensorrt-llm",  # gauges from 1.3 on, with return_perf_metrics and enable_iter_perf_stats
    running=(Source(series="trtllm_num_requests_running"),),
    waiting=(Source(series="trtllm_num_requests_waiting"),),
    kv_cache_use=(Source(series="trtllm_kv_cache_utilization"),),
    ttft_p95_seconds=(Source(series="trtllm_time_to_first_token_seconds_bucket"),),
    requests_finished=(Source(series="trtllm_request_success_total", where=('finished_reason!~"abort|cancelled"',)),),
    requests_left=(Source(series="trtllm_request_success_total", where=('finished_reason=~"abort|cancelled"',)),),
    prompt_tokens=(Source(series="trtllm_prompt_tokens_total"),),
    generated_tokens=(Source(series="trtllm_generation_tokens_total"),),
)

RAY: Final = _as_vllm("ray-serve-llm", "ray_vllm_")  # the pod is Ray's worker, whose agent tells for its engines

# A GPU that is cut into instances (MIG) has no DCGM_FI_DEV_GPU_UTIL of its own to tell, and an exporter that writes it
# for an instance says 0 or the whole GPU's; each instance has its engine's activity.
DCGM: Final = MetricMap(
    name="dcgm",
    gpu_utilisation=(
        Source(series="DCGM_FI_DEV_GPU_UTIL", where=('GPU_I_ID=""',), per=100.0),
        Source(series="DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
    ),
    fb_used_mib=(Source(series="DCGM_FI_DEV_FB_USED"),),
    fb_free_mib=(Source(series="DCGM_FI_DEV_FB_FREE"),),
)

AMD: Final = MetricMap(
    name="amd",
    gpu_utilisation=(Source(series="gpu_gfx_activity", per=100.0),),
    fb_used_mib=(Source(series="gpu_used_vram"),),
    fb_free_mib=(Source(series="gpu_free_vram"),),
)

TRITON_GPUS: Final = MetricMap(
    name="triton-gpus",
    gpu_utilisation=(Source(series="nv_gpu_utilization"),),
    fb_used_mib=(Source(series="nv_gpu_memory_used_bytes", per=1048576.0),),
)


def _mean(prefix: str, figure: str, pods: str) -> Source:
    """A mean of the pool's pods. Several replicas of the picker tell of the same pool."""
    return Source(series=f"{prefix}_average_{figure}", mean_over=f"{prefix}_{pods}", by="max")


_PICKERS: Final = (("llm_d_epp", "ready_endpoints"), ("llm_d_epp", "ready_pods"), ("inference_pool", "ready_pods"))

ENDPOINT_PICKER: Final = MetricMap(
    name="endpoint-picker",
    model_label="name",  # of the InferencePool: an alias of the model whose pods it has
    running=tuple(_mean(prefix, "running_requests", pods) for prefix, pods in _PICKERS),
    waiting=tuple(_mean(prefix, "queue_size", pods) for prefix, pods in _PICKERS),
    kv_cache_use=tuple(
        Source(series=f"{prefix}_average_kv_cache_utilization", by="max") for prefix in ("llm_d_epp", "inference_pool")
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
