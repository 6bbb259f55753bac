"""What a first policy takes from triggers, and what it must not take for it."""

import pytest

from rebalancer.domain.policy import Model
from tests.survey.cluster import Json, engine, policy, text, the_model
from tests.testbed.objects import gpu_node, scaled_object

RATE = "histogram_quantile(0.95, sum by (le) (rate({}[1m])))"
WHOLE = "vllm:e2e_request_latency_seconds"


def scaled_by(query: str, threshold: str, *, image: str = "", **spec: object) -> list[Json]:
    """The model `chat` under one trigger."""
    chat = engine("chat")
    if image:
        chat["spec"]["template"]["spec"]["containers"][0]["image"] = image
    trigger = {"type": "prometheus", "metadata": {"query": query, "threshold": threshold}}
    return [gpu_node("a", 8), chat, scaled_object("chat", "ml", 1, 4, [trigger], **spec)]


def promised(model: Model) -> float | None:
    assert (model.slo is not None) == model.signals.latency
    return model.slo.latency_seconds if model.slo else None


@pytest.mark.parametrize(
    "query",
    [
        f"sum(rate({WHOLE}_count[1m]))",
        "sum(rate(vllm:time_to_first_token_seconds_count[1m]))",
        "sum(rate(istio_request_duration_milliseconds_count[1m]))",
        'sum(rate(ttft_seconds_bucket{le="2"}[1m])) / sum(rate(ttft_seconds_count[1m]))',
        RATE.format("vllm:inter_token_latency_seconds_bucket"),
        'sum(ttft_seconds_bucket{le="2"})',
        "sum(increase(ttft_seconds[5m]))",
        "job:ttft_below_2_seconds:ratio",
    ],
)
def test_requests_a_second_shares_and_times_between_tokens_are_no_promise(query: str) -> None:
    objects = scaled_by(query, "5")
    assert promised(the_model(policy(objects))) is None
    assert "no signal measures what trigger 0 (prometheus) of scaledobject/ml/chat does" in text(objects)


@pytest.mark.parametrize(
    ("query", "threshold", "seconds"),
    [
        (RATE.format("vllm:time_to_first_token_seconds_bucket"), "1.5", 1.5),
        (RATE.format("nv_inference_first_response_histogram_ms_bucket"), "1500", 1.5),
        ("sum(rate(ttft_seconds_sum[1m])) / sum(rate(ttft_seconds_count[1m]))", "2", 2.0),
        ('max(ttft_seconds{quantile="0.95"})', "2", 2.0),
        ("job:time_to_first_token:p95", "2", 2.0),
        ("avg(vllm:time_to_first_token_seconds)", "2", 2.0),
        ("avg_over_time(ttft_ms[5m])", "2000", 2.0),
    ],
)
def test_a_time_to_the_first_token_is_a_promise_as_a_guess(query: str, threshold: str, seconds: float) -> None:
    assert promised(the_model(policy(scaled_by(query, threshold)))) == seconds


def test_the_time_of_a_whole_answer_is_a_promise_of_what_writes_no_tokens_alone() -> None:
    query = RATE.format("http_request_duration_seconds_bucket")
    for image in ("whisper", "minimal-whisper", "animate", "outgist"):
        assert promised(the_model(policy(scaled_by(query, "20", image=f"registry/{image}:1")))) == 20, image
    for image in ("nim/meta/llm", "tgi", "my_tgi2"):
        assert promised(the_model(policy(scaled_by(query, "20", image=f"registry/{image}:1")))) is None, image
    assert promised(the_model(policy(scaled_by("max(inference_latency_ms)", "500", image="registry/whisper:1")))) == 0.5
    of_llm = scaled_by(query, "20")
    assert promised(the_model(policy(of_llm))) is None
    assert "20 s is held for whole answers" in " ".join(text(of_llm).replace("#", "").split())


def test_with_a_formula_the_triggers_own_thresholds_are_taken_for_nothing() -> None:
    modifiers = {"formula": "run + wait", "target": "24"}
    objects = scaled_by("sum(vllm:num_requests_running)", "1", advanced={"scalingModifiers": modifiers})
    concurrency = the_model(policy(objects)).signals.concurrency
    assert concurrency is not None
    assert concurrency.per_replica is None
    written = " ".join(text(objects).replace("#", "").split())
    assert "scaledobject/ml/chat asks by its formula run + wait for the target 24" in written
    late = scaled_by(RATE.format("ttft_seconds_bucket"), "1", advanced={"scalingModifiers": modifiers})
    assert promised(the_model(policy(late))) is None
