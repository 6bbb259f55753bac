"""The engines' counters by PromQL: what a Prometheus that is the only source is asked besides the gauges. Pure."""

from collections.abc import Mapping
from math import isfinite

from rebalancer.domain.events import Counters

MOST = 1e12  # as `events.Amount` has it

# By the names of `events.Counters` on the wire; PODS stands for a label matcher. vLLM counts requests whose clients
# gave up among its successes, as aborted. A process beside the engine in its pod may be older: its start is none.
COUNTED = {
    "startTime": "max by (namespace, pod) (process_start_time_seconds{PODS} "
    "and on (namespace, pod, instance) vllm:num_requests_running{PODS})",
    "requestsFinished": 'sum by (namespace, pod) (vllm:request_success_total{PODS,finished_reason!="abort"})',
    "requestsLeft": 'sum by (namespace, pod) (vllm:request_success_total{PODS,finished_reason="abort"})',
    "promptTokens": "sum by (namespace, pod) (vllm:prompt_tokens_total{PODS})",
    "generatedTokens": "sum by (namespace, pod) (vllm:generation_tokens_total{PODS})",
}


def counters_of(values: Mapping[str, float], created_at: float) -> Counters | None:
    """The counters among `values`, by reading; None where the engine counts nothing.

    Where nobody tells when it began to count, that is when its pod was made (`created_at`, epoch seconds).
    """
    known = {name: value for name, value in values.items() if name in COUNTED and _may_be(value)}
    began = known.pop("startTime", created_at)
    if not known:
        return None
    return Counters(
        start_time=began,
        requests_finished=known.get("requestsFinished"),
        requests_left=known.get("requestsLeft"),
        prompt_tokens=known.get("promptTokens"),
        generated_tokens=known.get("generatedTokens"),
    )


def _may_be(value: float) -> bool:
    return isfinite(value) and 0.0 <= value <= MOST
