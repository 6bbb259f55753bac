"""What is told of a model's readings: by the policy's signals a missing one is a warning, else a word."""

from rebalancer.domain.metric_maps import MetricMap, MetricRules, MetricSource
from rebalancer.survey.case import Case
from rebalancer.survey.finding import OK, WARN, Finding
from rebalancer.survey.objects import Survey
from rebalancer.survey.readings import LACKS, of_models
from rebalancer.survey.traps.series import last_bounds
from tests.builders import a_model, a_policy
from tests.survey.manifests import Manifest, a_deployment, a_running_pod

PODS = frozenset({("serving", "b-1"), ("serving", "b-2")})
VLLM = {f"vllm:{name}": PODS for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")}


def told(
    series: dict[str, frozenset[tuple[str, str]]], *maps: MetricMap, objects: tuple[Manifest, ...] = ()
) -> list[Finding]:
    policy = a_policy(a_model("b")).model_copy(update={"metrics": MetricRules(maps=maps)})
    pods = objects or (a_deployment(), a_running_pod(name="b-1"), a_running_pod(name="b-2"))
    return [each for each in of_models(Case(Survey(pods), policy, series=series)) if each.about == "model/b"]


def test_nobody_asked_nothing_is_told() -> None:
    assert list(of_models(Case(Survey((a_deployment(), a_running_pod(name="b-1")))))) == []


def test_what_is_read_is_told_with_its_maps_and_how_many_pods_have_it() -> None:
    one = frozenset({("serving", "b-1")})
    (found, *_) = told(VLLM | {"DCGM_FI_DEV_FB_USED": PODS, "vllm:prompt_tokens_total": one})
    assert (found.state, found.said) == (
        OK,
        "read by vllm and dcgm: running, waiting, kvCacheUse, fbUsedMib, promptTokens of 1 of 2 pods",
    )


def test_each_missing_reading_is_told_once_with_its_cost_and_warns_where_the_model_votes_by_it() -> None:
    signals = a_model("b").signals.configured
    found = told({"DCGM_FI_DEV_GPU_UTIL": PODS})[1:]
    assert [each.said.partition(";")[0] for each in found] == [
        lack.cost for lack in LACKS if lack.readings != ("gpuUtilisation",)
    ]
    assert {each.state for each, lack in zip(found, LACKS, strict=False) if lack.signal in signals} == {WARN}
    assert {each.state for each in found if "counter" in each.said} == {OK}


def test_of_two_engines_in_one_pod_one_is_read() -> None:
    (found, *_) = told(VLLM | {"nv_inference_pending_request_count": PODS})
    assert found.said.startswith("read by vllm: ")


def test_a_map_of_your_own_counts() -> None:
    ours = MetricMap(name="ours", readings=(MetricSource(reading="running", series="our_running"),))
    (found, *_) = told({"our_running": PODS}, ours)
    assert found.said == "read by own/ours: running"


def test_nothing_read_is_one_warning() -> None:
    (found,) = told({"vllm:num_requests_running": frozenset({("serving", "c-1")})})
    assert (found.state, found.said) == (
        WARN,
        "no series that a map knows names one of its 2 pods: nothing is read of it",
    )


def test_a_histogram_that_ends_below_the_slo_is_a_warning() -> None:
    ttft = "vllm:time_to_first_token_seconds_bucket"
    policy = a_policy(a_model("b", slo={"latency_seconds": 45.0}))
    pods = (a_deployment(), a_running_pod(name="b-1"), a_running_pod(name="b-2"))

    def warned(bound: float) -> list[str]:
        case = Case(Survey(pods), policy, series=VLLM | {ttft: PODS}, last_bounds={ttft: bound})
        return [each.said for each in of_models(case) if each.state == WARN and "ends at" in each.said]

    assert warned(45.0) == []
    assert warned(30.0) == [
        f"{ttft} ends at 30 s, below the SLO of 45 s: a latency above is more than 30 s, and who is late is not seen"
    ]


def test_the_last_bound_of_a_histogram_is_the_highest_but_infinity() -> None:
    lines = [{"metric": {"__name__": "h_bucket", "le": bound}, "value": [0, "2"]} for bound in ("0.5", "30.0", "+Inf")]
    assert last_bounds([*lines, {"metric": {"__name__": "g_bucket", "le": "+Inf"}, "value": [0, "2"]}]) == {
        "h_bucket": 30.0
    }
