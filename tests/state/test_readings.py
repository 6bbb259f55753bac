"""Samples become readings over the Ready pods, each with its age."""

import pytest

from rebalancer.domain.events import Counters
from rebalancer.domain.readings import NoReading, Reading, Work
from tests.builders import NOW
from tests.state.loads import ABSENT, NEVER_SEEN, load_of, minutes_of, signal_of, two_pods
from tests.state.objects import (
    a_cluster_node,
    a_ready_pod,
    a_sample,
    a_state,
    a_workload,
    changed,
    feed,
    gone,
    listed,
)


def test_counts_are_sums_ratios_are_means_and_latency_is_the_worst() -> None:
    one = {"waiting": 1.0, "kv_cache_use": 0.2, "gpu_utilisation": 0.5}
    two = {"waiting": 0.0, "kv_cache_use": 0.6, "gpu_utilisation": 0.7}
    state = feed(
        two_pods(),
        a_sample(pod="b-1", at=NOW - 2, running=3, gauges=one),
        a_sample(pod="b-2", at=NOW - 1, running=5, gauges=two),
        a_sample(pod="b-1", at=NOW - 1, running=3, gauges=one | {"ttft_p95_seconds": 0.3}),
    )
    assert load_of(state).signals == {
        "concurrency": Reading(9.0, NOW - 1, 1.0),
        "queue": Reading(1.0, NOW - 1, 1.0),
        "kvCache": Reading(0.4, NOW - 1, 1.0),
        "latency": Reading(0.3, NOW - 1, 0.5),
        "utilisation": Reading(0.6, NOW - 1, 1.0),
    }
    assert load_of(state).pod_requests == {"uid-b-1": 4.0, "uid-b-2": 5.0}


@pytest.mark.parametrize(
    ("other", "latency"),
    [
        ({"ttft_p95_seconds": 0.4}, Reading(30.0, NOW, 1.0, above=True)),  # the worst of them is more than 30 s
        ({"ttft_p95_seconds": 42.0}, Reading(42.0, NOW, 1.0)),
        ({"ttft_p95_above_seconds": 10.0}, Reading(30.0, NOW, 1.0, above=True)),
        ({}, Reading(30.0, NOW, 0.5, above=True)),
    ],
)
def test_of_a_pod_whose_latency_lies_above_its_histograms_last_bound_it_is_known_that_it_does(
    other: dict[str, float], latency: Reading
) -> None:
    state = feed(
        two_pods(),
        a_sample(pod="b-1", running=1, gauges={"ttft_p95_above_seconds": 30.0}),
        a_sample(pod="b-2", running=1, gauges=other),
    )
    assert signal_of(state, "latency") == latency


def test_of_whole_answers_it_is_the_same() -> None:
    state = feed(two_pods(), a_sample(pod="b-1", running=1, gauges={"latency_p95_above_seconds": 10.0}))
    assert signal_of(state, "latency") == Reading(10.0, NOW, 0.5, above=True)


def test_time_to_first_token_stands_for_latency_where_it_is_known() -> None:
    state = feed(two_pods(), a_sample(pod="b-1", gauges={"latency_p95_seconds": 9.0, "ttft_p95_seconds": 0.4}))
    assert signal_of(state, "latency") == Reading(0.4, NOW, 0.5)


@pytest.mark.parametrize("tells", [{"kv_cache_use": 0.0}, {"ttft_p95_seconds": 0.4}])
def test_how_long_answers_take_is_not_held_against_a_time_to_first_token(tells: dict[str, float]) -> None:
    """An idle LLM writes its last answer for 20 s: nobody waits, and nobody's SLO of 2 s is broken."""
    state = feed(
        two_pods(),
        a_sample(pod="b-1", at=NOW - 5, running=1, gauges=tells),
        a_sample(pod="b-1", running=1, gauges={"latency_p95_seconds": 20.0, "latency_p99_seconds": 21.0}),
    )
    assert signal_of(state, "latency") == ABSENT


def test_an_engine_that_counts_tokens_is_an_llms_too() -> None:
    counted = Counters(NOW - 7200, requests_finished=1.0, generated_tokens=9.0)
    state = feed(two_pods(), a_sample(pod="b-1", running=1, gauges={"latency_p95_seconds": 20.0}, counters=counted))
    assert signal_of(state, "latency") == ABSENT


@pytest.mark.parametrize(
    ("measured", "seen"),
    [
        ({"latency_p95_seconds": 0.3, "latency_p99_seconds": 0.9}, 0.3),
        ({"latency_p99_seconds": 0.9}, 0.9),
    ],
)
def test_without_tokens_the_whole_answer_counts_by_its_p95_else_its_p99(
    measured: dict[str, float], seen: float
) -> None:
    state = feed(two_pods(), a_sample(pod="b-1", running=1, gauges=measured))
    assert signal_of(state, "latency") == Reading(seen, NOW, 0.5)


def test_nothing_heard_is_never_seen_and_a_gauge_left_out_is_absent() -> None:
    state = two_pods()
    assert set(load_of(state).signals.values()) == {NEVER_SEEN}
    assert load_of(state).work == Work()
    feed(state, a_sample(pod="b-1", running=2))
    assert signal_of(state, "kvCache") == ABSENT
    assert signal_of(state, "concurrency") == Reading(2.0, NOW, 0.5)
    assert load_of(state, "a").signals["kvCache"] == NEVER_SEEN


def test_a_sample_without_running_says_nothing_about_concurrency_or_work() -> None:
    state = feed(two_pods(), a_sample(pod="b-1", gauges={"waiting": 7.0}))
    assert signal_of(state, "concurrency") == ABSENT
    assert signal_of(state, "queue") == Reading(7.0, NOW, 0.5)
    assert load_of(state).pod_requests == {}


@pytest.mark.parametrize("value", [float("inf"), 1e308 * 10])
def test_what_is_not_finite_is_said_so_and_never_becomes_a_number(value: float) -> None:
    state = feed(two_pods(), *minutes_of(running=4.0), a_sample(pod="b-1", at=NOW + 1, running=value))
    assert signal_of(state, "concurrency", NOW + 1) == NoReading("not-finite")
    assert load_of(state, now=NOW + 1).work.short == pytest.approx(2.0)


def test_nan_is_no_value() -> None:
    state = feed(two_pods(), a_sample(pod="b-1", running=float("nan"), gauges={"kv_cache_use": float("nan")}))
    assert signal_of(state, "concurrency") == ABSENT
    assert signal_of(state, "kvCache") == ABSENT
    assert load_of(state).work == Work()


def test_the_age_is_that_of_the_oldest_sample_used() -> None:
    state = feed(two_pods(), a_sample(pod="b-1", at=NOW - 9, running=1), a_sample(pod="b-2", at=NOW - 1, running=1))
    assert signal_of(state, "concurrency") == Reading(2.0, NOW - 9, 1.0)


@pytest.mark.parametrize(("interval", "fresh_for"), [(5.0, 15.0), (10.0, 30.0), (60.0, 90.0)])
def test_a_sample_is_fresh_for_three_intervals_but_never_longer_than_stale_seconds(
    interval: float, fresh_for: float
) -> None:
    state = feed(two_pods(), a_sample(pod="b-1", running=1, interval_seconds=interval))
    assert signal_of(state, "concurrency", NOW + fresh_for) == Reading(1.0, NOW, 0.5)
    assert signal_of(state, "concurrency", NOW + fresh_for + 0.1) == Reading(1.0, NOW, 0.0)


def test_a_frozen_pod_leaves_the_sum_and_the_coverage() -> None:
    state = feed(two_pods(), a_sample(pod="b-1", at=NOW - 60, running=9), a_sample(pod="b-2", at=NOW - 1, running=1))
    assert signal_of(state, "concurrency") == Reading(1.0, NOW - 1, 0.5)


def test_half_of_the_pods_missing_shows_in_the_coverage_not_in_the_work() -> None:
    state = feed(two_pods(), *minutes_of(pods=["b-1"], running=4.0))
    assert signal_of(state, "concurrency") == Reading(4.0, NOW, 0.5)
    assert load_of(state).work.long == pytest.approx(2.0)  # the silent pod is taken to be as busy as the other


def test_only_ready_pods_of_the_model_count() -> None:
    state = a_state(
        None,
        a_workload(),
        a_ready_pod("b-1"),
        a_ready_pod("b-2", ready=False, ready_at=None),
        a_ready_pod("b-3", deleting_at=NOW + 20),
        a_ready_pod("b-4", phase="Succeeded"),
        a_ready_pod("x-1", workload="other"),
    )
    feed(state, *(a_sample(pod=f"b-{n}", running=1) for n in range(1, 5)), a_sample(pod="x-1", running=50))
    assert signal_of(state, "concurrency") == Reading(1.0, NOW, 1.0)
    assert state.counters()["unknown-pod"] == 2  # the finished pod and the foreign one


def test_a_pod_whose_node_is_gone_counts_for_no_reading_until_the_node_is_back() -> None:
    pods = a_ready_pod("b-1", node="n1"), a_ready_pod("b-2", node="n2")
    state = a_state(None, a_workload(), a_cluster_node("n1"), a_cluster_node("n2"), *pods)
    feed(state, *(a_sample(pod=f"b-{n}", running=n) for n in (1, 2)))
    assert signal_of(state, "concurrency") == Reading(3.0, NOW, 1.0)
    feed(state, gone(a_cluster_node("n2")))
    assert signal_of(state, "concurrency") == Reading(1.0, NOW, 1.0)
    feed(state, changed(a_cluster_node("n2", uid="uid-reborn")))
    assert signal_of(state, "concurrency") == Reading(3.0, NOW, 1.0)
    feed(state, listed("nodes", a_cluster_node("n2", uid="uid-reborn")))
    assert signal_of(state, "concurrency") == Reading(2.0, NOW, 1.0)


def test_a_pod_ahead_of_its_node_counts_once_the_node_is_seen() -> None:
    state = feed(a_state(None, a_workload()), changed(a_ready_pod("b-1", node="n9")), a_sample(pod="b-1", running=1))
    assert signal_of(state, "concurrency") == ABSENT
    feed(state, changed(a_cluster_node("n9")))
    assert signal_of(state, "concurrency") == Reading(1.0, NOW, 1.0)


def test_a_pod_that_becomes_ready_counts_with_the_sample_it_sent_before() -> None:
    loading = a_ready_pod("b-2", ready=False, ready_at=None)
    state = feed(a_state(None, a_workload(), a_ready_pod("b-1"), loading), a_sample(pod="b-2", running=1))
    assert signal_of(state, "concurrency") == ABSENT
    feed(state, changed(a_ready_pod("b-2", resource_version="2", ready_at=NOW)))
    assert signal_of(state, "concurrency") == Reading(1.0, NOW, 0.5)


def test_a_pod_that_goes_takes_its_samples_along() -> None:
    state = feed(two_pods(), a_sample(pod="b-1", running=1), a_sample(pod="b-2", running=8), gone(a_ready_pod("b-2")))
    assert signal_of(state, "concurrency") == Reading(1.0, NOW, 1.0)


def test_a_pod_made_anew_under_its_old_name_is_another_pod() -> None:
    state = feed(two_pods(), a_sample(pod="b-1", running=1), a_sample(pod="b-2", running=8))
    feed(state, changed(a_ready_pod("b-2", uid="uid-reborn", resource_version="9")))  # nobody told of the end of b-2
    assert signal_of(state, "concurrency") == Reading(1.0, NOW, 0.5)


def test_a_sample_of_the_whole_model_covers_it() -> None:
    state = feed(two_pods(), a_sample(running=6))
    assert signal_of(state, "concurrency") == Reading(6.0, NOW, 1.0)
    assert load_of(state).pod_requests == {}


def test_a_model_without_pods_can_still_have_a_queue() -> None:
    state = feed(a_state(None, a_workload(replicas=0)), a_sample(running=0, gauges={"waiting": 3.0}))
    assert signal_of(state, "queue") == Reading(3.0, NOW, 1.0)


def test_of_two_sources_that_disagree_the_higher_demand_stands() -> None:
    state = feed(
        two_pods(),
        a_sample(pod="b-1", running=0, source="kafka"),
        a_sample(pod="b-1", running=100, source="prometheus"),
        a_sample(pod="b-2", running=1, source="kafka"),
    )
    assert signal_of(state, "concurrency") == Reading(101.0, NOW, 1.0)
    feed(state, a_sample(running=300, source="gateway"))
    assert signal_of(state, "concurrency") == Reading(300.0, NOW, 1.0)


def test_a_full_view_beats_a_higher_partial_one() -> None:
    state = feed(two_pods(), a_sample(running=6, source="gateway"), a_sample(pod="b-1", running=50))
    assert signal_of(state, "concurrency") == Reading(6.0, NOW, 1.0)


def test_two_exporters_of_one_pod_complete_each_other() -> None:
    state = feed(
        two_pods(),
        a_sample(pod="b-1", running=2, source="vllm"),
        a_sample(pod="b-1", source="dcgm", at=NOW - 3, gauges={"gpu_utilisation": 0.9}),
    )
    assert signal_of(state, "concurrency") == Reading(2.0, NOW, 0.5)
    assert signal_of(state, "utilisation") == Reading(0.9, NOW - 3, 0.5)


def test_when_one_exporter_dies_its_signal_grows_stale_and_the_other_stays() -> None:
    state = feed(
        two_pods(),
        a_sample(pod="b-1", at=NOW - 60, running=2, source="vllm"),
        a_sample(pod="b-1", source="dcgm", gauges={"gpu_utilisation": 0.9}),
    )
    assert signal_of(state, "concurrency") == Reading(2.0, NOW - 60, 0.0)
    assert signal_of(state, "utilisation") == Reading(0.9, NOW, 0.5)
