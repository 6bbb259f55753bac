"""The alerts on what others export, in each style of labels, and what comes close to them by design."""

from tests.alerts.story import Case, Fired, Series, always, told

JOB = 'job="dcgm",instance="10.0.0.9:9400"'
OWN = 'namespace="monitoring",pod="dcgm-x"'  # the exporter's
OURS = f'{OWN},exported_namespace="serving",exported_pod="sdxl-0"'
VLLMS = f'{OWN},exported_namespace="serving",exported_pod="llama-0"'
KEPT = 'namespace="serving",pod="sdxl-0"'  # Prometheus kept the exporter's labels
OLD = f'{OWN},pod_namespace="serving",pod_name="sdxl-0"'  # --use-old-namespace
SCRAPED = {f"up{{{JOB},{OWN}}}": always(1)}
GPU_OF_SDXL = {"namespace": "serving", "pod": "sdxl-0", "hostname": "gpu-1", "gpu": "3"}
BLANK = 9223372036854775794


def device(metric: str, values: str, labels: str, more: str = "") -> Series:
    """One figure of GPU 3 of gpu-1."""
    return {f'DCGM_FI_{metric}{{gpu="3",UUID="GPU-3",Hostname="gpu-1",{JOB},{labels}{more}}}': values, **SCRAPED}


def memory(used: float, free: float, labels: str) -> Series:
    return {
        **device("DEV_FB_USED", told(used, 1000), labels),
        **device("DEV_FB_FREE", told(free, 79000), labels),
    }


def vllm(kv_cache: float, waiting: float, labels: str = 'namespace="serving",pod="llama-0"') -> Series:
    return {
        f"vllm:kv_cache_usage_perc{{{labels}}}": told(kv_cache, 0.4),
        f"vllm:num_requests_waiting{{{labels}}}": told(waiting),
    }


def power(used: float, limit: float) -> Series:
    return {
        **device("DEV_POWER_USAGE", told(used, 90), OURS),
        **device("DEV_POWER_MGMT_LIMIT", always(limit), OURS),
    }


def pending(created: int, reason: str = "", resource: str = "nvidia_com_gpu", pods: int = 2) -> Series:
    """Pods that came so many seconds after the beginning; without a `reason` the scheduler finds no node."""
    found: dict[str, str] = {}
    for number in range(pods):
        labels = f'namespace="monitoring",pod="ksm",exported_namespace="serving",exported_pod="chat-{number}"'
        told_by = "pod_container_status_waiting_reason" if reason else "pod_status_unschedulable"
        more = f',container="engine",reason="{reason}"' if reason else ""
        found |= {
            f"kube_pod_created{{{labels}}}": always(created),
            f'kube_pod_status_phase{{{labels},phase="Pending"}}': told(1),
            f'kube_pod_container_resource_requests{{{labels},container="engine",resource="{resource}"}}': always(1),
            f"kube_{told_by}{{{labels}{more}}}": told(1),
        }
    return found


def first_tokens(*, late: bool, per_sample: int = 50, namespace: str = "serving") -> Series:
    """A model whose first tokens take up to 1 s, or 1 to 5 s; its SLO is 2 s."""
    labels = f'namespace="{namespace}",pod="llama-0",model_name="meta/llama"'
    growing = told(f"{30 * per_sample}+{per_sample}", f"0+{per_sample}")
    within = told(f"{29 * per_sample}+0", f"0+{per_sample}") if late else growing
    name = "vllm:time_to_first_token_seconds"
    return {
        f'{name}_bucket{{{labels},le="1.0"}}': within,
        f'{name}_bucket{{{labels},le="5.0"}}': growing,
        f'{name}_bucket{{{labels},le="+Inf"}}': growing,
        f"{name}_count{{{labels}}}": growing,
        'rebalancer_model_slo_seconds{model="b",model_namespace="serving",model_name="b"}': always(2),
        'rebalancer_model_slo_seconds{model="b",model_namespace="serving",model_name="meta/llama"}': always(2),
    }


FULL_GPU = "serving/sdxl-0 (GPU 3 of gpu-1) uses 97.5% of its GPU memory, or of its KV cache and requests wait."
IDLE = "The GPU of serving/sdxl-0 (GPU 3 of gpu-1) was in use 3% of the last half hour, and below 20 % for 2 hours."
BUSY = "The GPU of serving/sdxl-0 (GPU 3 of gpu-1) was in use 97% of the last minutes: what comes on top of that waits."
LATE = "Requests of model b take {} (99th percentile of its engines, or 95th of its worst replica); its SLO is 2s."
TEN_MINUTES = 60  # samples

WORKLOAD_CASES = (
    Case(
        "RebalancerLatencyAboveSlo",
        first_tokens(late=True),
        Fired({"model": "b"}, LATE.format("4.96s")),
        (
            first_tokens(late=False),
            first_tokens(late=True, per_sample=1),  # of 60 requests the 99th percentile is the slowest one
            first_tokens(late=True, namespace="staging"),  # the same model, which the policy does not know there
        ),
    ),
    Case(
        "RebalancerLatencyAboveSlo",  # no engine tells a histogram
        {
            'rebalancer_model_latency_seconds{model="b"}': told(3, 1),
            'rebalancer_model_slo_seconds{model="b",model_namespace="serving",model_name="b"}': always(2),
        },
        Fired({"model": "b"}, LATE.format("3s")),
        ({'rebalancer_model_latency_seconds{model="b"}': told(3, 1)},),  # promised nothing
    ),
    Case(
        "RebalancerPodsPending",
        pending(300),
        Fired(
            {"namespace": "serving", "reason": "Unschedulable"},
            "In serving 2 pods asking for GPUs, created more than 15 minutes ago, cannot run: Unschedulable.",
        ),
        (pending(800), pending(300, resource="cpu")),
    ),
    Case(
        "RebalancerPodsPending",
        pending(300, reason="ImagePullBackOff", pods=1),
        Fired(
            {"namespace": "serving", "reason": "ImagePullBackOff"},
            "In serving 1 pod asking for GPUs, created more than 15 minutes ago, cannot run: ImagePullBackOff.",
        ),
        (),
    ),
    Case(
        "RebalancerGpuMemoryHigh",
        memory(78000, 2000, OURS),
        Fired(GPU_OF_SDXL, FULL_GPU),
        (
            memory(40000, 40000, OURS),  # used / free would say 100 %
            memory(BLANK, 2000, OURS),  # DCGM does not know
            {**memory(78000, 2000, VLLMS), **vllm(0.6, 5)},  # what vLLM takes at its start
            vllm(0.99, 0),  # a full cache that nobody waits for is a good cache
        ),
    ),
    Case(
        "RebalancerGpuMemoryHigh", memory(78000, 2000, KEPT), Fired(GPU_OF_SDXL, FULL_GPU), (memory(74000, 6000, KEPT),)
    ),
    Case(
        "RebalancerGpuMemoryHigh",
        {**memory(78000, 2000, VLLMS), **vllm(0.99, 12)},
        Fired(
            {"namespace": "serving", "pod": "llama-0"},
            "serving/llama-0 uses 99% of its GPU memory, or of its KV cache and requests wait.",
        ),
        (vllm(0.94, 12),),
    ),
    Case(
        "RebalancerGpuTemperatureHigh",
        device("DEV_GPU_TEMP", told(88, 60), KEPT),
        Fired(
            GPU_OF_SDXL,
            "The GPU of serving/sdxl-0 (GPU 3 of gpu-1) has 88 degrees Celsius; above 85 GPUs begin to throttle, and "
            "replicas on them carry less than planned.",
        ),
        (
            device("DEV_GPU_TEMP", told(85, 60), KEPT),
            device("DEV_GPU_TEMP", told(95, 60, samples=25), KEPT),
            device("DEV_GPU_TEMP", always(BLANK), KEPT),
        ),
    ),
    Case(
        "RebalancerGpuPowerHigh",
        power(399, 400),
        Fired(
            GPU_OF_SDXL,
            "The GPU of serving/sdxl-0 (GPU 3 of gpu-1) draws 99.75% of the power that it may; at the limit it lowers "
            "its clock, and replicas on it carry less than planned.",
        ),
        (power(380, 400), device("DEV_POWER_USAGE", told(399, 90), OURS)),  # nobody tells what it may draw
    ),
    Case(
        "RebalancerGpuBusy",
        device("DEV_GPU_UTIL", told(97, 88), OURS),
        Fired(GPU_OF_SDXL, BUSY),
        (
            device("DEV_GPU_UTIL", told(89), OURS),
            {**device("DEV_GPU_UTIL", told(97, 88), VLLMS), **vllm(0.6, 0)},  # an engine at work that nobody waits for
            device("DEV_GPU_UTIL", told(97), OWN),  # the exporter's own pod holds no GPU
        ),
    ),
    *(
        Case(
            "RebalancerGpuIdle",
            device("DEV_GPU_UTIL", told(3, 80), labels),
            Fired(GPU_OF_SDXL, IDLE),
            (
                device("DEV_GPU_UTIL", told(25, 80), labels),
                device("DEV_GPU_UTIL", told(3, 80, samples=TEN_MINUTES), labels),  # of 2 minutes each: for 2 hours
            ),
            step_seconds=120,
        )
        for labels in (OURS, KEPT, OLD)
    ),
    Case(
        "RebalancerGpuIdle",  # an instance of a GPU that is cut
        device("PROF_GR_ENGINE_ACTIVE", told(0.03, 0.8), OURS, ',GPU_I_ID="7",GPU_I_PROFILE="1g.5gb"'),
        Fired({**GPU_OF_SDXL, "GPU_I_ID": "7"}, IDLE),
        (
            device("DEV_GPU_UTIL", always(0), OURS, ',GPU_I_ID="7"'),  # what is written for instances says nothing
            device("DEV_GPU_UTIL", always(0), OWN),  # free: the pod is the exporter's
            device("DEV_GPU_UTIL", always(0), 'namespace="",pod=""'),  # free, and Prometheus kept the labels
        ),
        step_seconds=120,
    ),
)
