"""Samples become readings and offered work: over Ready pods, by age, whatever order they come in."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.domain.events import Counters, Event, Gauges, MetricSample
from rebalancer.domain.policy import Policy
from rebalancer.domain.readings import ModelLoad, NoReading, Reading, Signal, Work
from rebalancer.domain.snapshot import Snapshot
from rebalancer.state import ClusterState
from rebalancer.state.checkpoint import ModelPast
from rebalancer.state.rings import REQUESTS, WORK, Rings
from tests.builders import NOW, a_model, a_policy
from tests.state.objects import (
    a_cluster_node,
    a_ready_pod,
    a_sample,
    a_state,
    a_workload,
    at_offset,
    changed,
    feed,
    gone,
    listed,
)

NEVER_SEEN, ABSENT = NoReading("never-seen"), NoReading("absent")


def load_of(found: ClusterState | Snapshot, model: str = "b", now: float = NOW) -> ModelLoad:
    snapshot = found if isinstance(found, Snapshot) else found.peek(now)
    return next(load for load in snapshot.loads if load.model == model)


def signal_of(state: ClusterState, name: str, now: float = NOW) -> Signal:
    return load_of(state, now=now).signals[name]


def two_pods(policy: Policy | None = None) -> ClusterState:
    """Model b with pods b-1 and b-2, both Ready for minutes."""
    return a_state(policy, a_cluster_node(), a_workload(replicas=2), a_ready_pod("b-1"), a_ready_pod("b-2"))


def minutes_of(
    model: str = "b", pods: Iterable[str] = ("b-1", "b-2"), running: float = 4.0, minutes: int = 10
) -> list[Event]:
    """A sample of each pod every 5 s until NOW."""
    return [
        a_sample(model, pod, at=NOW - 60.0 * minutes + 5.0 * n, running=running)
        for n in range(1, 12 * minutes + 1)
        for pod in pods
    ]


# --- readings


def test_counts_are_sums_ratios_are_means_and_latency_is_the_worst() -> None:
    one = {"waiting": 1.0, "kv_cache_use": 0.2, "gpu_utilisation": 0.5}
    two = {"waiting": 0.0, "kv_cache_use": 0.6, "gpu_utilisation": 0.7}
    state = feed(
        two_pods(),
        a_sample(pod="b-1", at=NOW - 2, running=3, gauges=one),
        a_sample(pod="b-2", at=NOW - 1, running=5, gauges=two),
        a_sample(pod="b-1", at=NOW - 1, running=3, gauges=one | {"latency_p95_seconds": 0.3}),
    )
    assert load_of(state).signals == {
        "concurrency": Reading(9.0, NOW - 1, 1.0),
        "queue": Reading(1.0, NOW - 1, 1.0),
        "kvCache": Reading(0.4, NOW - 1, 1.0),
        "latency": Reading(0.3, NOW - 1, 0.5),
        "utilisation": Reading(0.6, NOW - 1, 1.0),
    }
    assert load_of(state).pod_requests == {"uid-b-1": 4.0, "uid-b-2": 5.0}


def test_time_to_first_token_stands_for_latency_where_it_is_known() -> None:
    state = feed(two_pods(), a_sample(pod="b-1", gauges={"latency_p95_seconds": 9.0, "ttft_p95_seconds": 0.4}))
    assert signal_of(state, "latency") == Reading(0.4, NOW, 0.5)


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


# --- names, lies and limits


def test_aliases_find_their_model() -> None:
    policy = a_policy(a_model("b", aliases=("meta-llama/Llama-3-70B",)))
    state = feed(two_pods(policy), a_sample("meta-llama/Llama-3-70B", "b-1", running=2))
    assert signal_of(state, "concurrency") == Reading(2.0, NOW, 0.5)


def test_a_bomb_of_unknown_names_is_counted_and_bounded() -> None:
    state = feed(two_pods(), *(a_sample(f"x{n}", running=1) for n in range(1000)), a_sample("x0", running=1))
    assert state.counters() == {"unknown-model": 1001}
    assert len(state.unknown_models()) == 50
    assert state.unknown_models()["x0"] == 2


def test_a_bomb_of_pods_or_sources_fills_no_memory() -> None:
    state = feed(two_pods(), *(a_sample(pod=f"x{n}", running=1) for n in range(100)))
    feed(state, *(a_sample(pod="b-1", running=1, source=f"s{n}") for n in range(100)))
    assert state.counters() == {"accepted": 8, "unknown-pod": 100, "too-many-sources": 92}
    assert signal_of(state, "concurrency") == Reading(1.0, NOW, 0.5)


def test_liars_about_other_pods_do_not_reach_the_model() -> None:
    lies = [a_sample(pod=f"liar-{n}", running=0.0, at=NOW - 5 + n / 10) for n in range(50)]
    state = feed(two_pods(), *minutes_of(running=6.0), *lies)
    assert signal_of(state, "concurrency") == Reading(12.0, NOW, 1.0)
    assert load_of(state).work.short == pytest.approx(3.0)


def test_a_sample_from_the_future_does_not_wipe_the_past() -> None:
    state = feed(two_pods(), *minutes_of(), a_sample(pod="b-1", at=NOW + 6, running=1))
    assert state.counters()["time-ahead"] == 1
    assert load_of(state).work.long == pytest.approx(2.0)


# --- offered work


def test_offered_work_is_requests_over_what_a_replica_carries() -> None:
    state = feed(two_pods(), *minutes_of(running=6.0, minutes=25))
    work = load_of(state).work
    assert (work.short, work.last_60s, work.long, work.slow) == pytest.approx((3.0, 3.0, 3.0, 3.0))


def test_windows_are_unknown_until_half_of_them_was_seen() -> None:
    state = feed(two_pods(), *minutes_of(running=6.0, minutes=2))
    work = load_of(state).work
    assert work.short == pytest.approx(3.0)
    assert work.last_60s == pytest.approx(3.0)
    assert work.long is None
    assert work.slow == pytest.approx(3.0)  # over the windows that are known


def test_the_slow_level_weighs_minutes_over_seconds() -> None:
    quiet = minutes_of(running=2.0, minutes=25)
    busy = [replace(event, gauges=Gauges(running=20.0)) if event.at > NOW - 60 else event for event in quiet]
    work = load_of(feed(two_pods(), *busy)).work
    assert work.last_60s == pytest.approx(10.0)
    assert work.slow == pytest.approx(0.1 * 10 + 0.5 * (10 + 4 * 1) / 5 + 0.4 * (10 + 19 * 1) / 20, rel=1e-3)


def test_a_windows_end_waits_for_the_next_sample_but_not_for_ever() -> None:
    state = feed(two_pods(), *minutes_of(running=6.0))
    assert load_of(state, now=NOW + 9).work.short == pytest.approx(3.0)
    assert load_of(state, now=NOW + 16).work.short == pytest.approx(3.0)
    assert load_of(state, now=NOW + 20).work.short is None
    assert load_of(state, now=NOW + 20).work.long == pytest.approx(3.0)
    assert load_of(state, now=NOW + 3600).work == Work()


def test_utilisation_stands_for_work_where_concurrency_is_not_configured() -> None:
    policy = a_policy(a_model("b", signals={"utilisation": True}))  # interactive: full at 60 %
    samples = [
        a_sample(pod=pod, at=NOW - 300 + 5.0 * n, gauges={"gpu_utilisation": use})
        for n in range(1, 61)
        for pod, use in (("b-1", 0.3), ("b-2", 0.6))
    ]
    assert load_of(feed(two_pods(policy), *samples)).work.short == pytest.approx(1.5)
    whole = [a_sample(at=NOW - 60 + 5.0 * n, gauges={"gpu_utilisation": 0.45}) for n in range(1, 13)]
    assert load_of(feed(two_pods(policy), *whole)).work.short == pytest.approx(1.5)


def test_a_model_whose_samples_cannot_tell_has_no_work() -> None:
    policy = a_policy(a_model("b", signals={"queue": {"high": 4.0}}))
    samples = [a_sample(pod="b-1", at=NOW - 60 + 5 * n, running=2.0, gauges={"waiting": 1.0}) for n in range(1, 13)]
    load = load_of(feed(two_pods(policy), *samples))
    assert load.work == Work()
    assert load.signals["queue"] == Reading(1.0, NOW, 0.5)


def test_a_new_pod_does_not_look_like_a_surge() -> None:
    """The old pod's work must not be stretched over the new ones before they had time to report."""
    state = feed(a_state(None, a_workload(), a_ready_pod("b-1")), *minutes_of(pods=["b-1"], running=4.0))
    fresh = [a_ready_pod(f"b-{n}", ready_at=NOW) for n in (2, 3, 4)]
    feed(state, listed("pods", a_ready_pod("b-1"), *fresh))
    for second in (2.0, 5.0, 7.0):
        feed(state, a_sample(pod="b-1", at=NOW + second, running=4.0), now=NOW + second)
        assert load_of(state, now=NOW + second).work.short == pytest.approx(1.0, rel=0.05)
    feed(state, *(a_sample(pod=f"b-{n}", at=NOW + 9, running=4.0) for n in (1, 2, 3, 4)), now=NOW + 9)
    assert 1.0 < (load_of(state, now=NOW + 9).work.short or 0) < 3.0
    assert "surge" not in state.take_wakes()


def test_a_models_first_pod_is_seen_at_once() -> None:
    state = a_state(None, a_workload(), a_ready_pod("b-1", ready_at=NOW - 4))
    feed(
        state, *(a_sample(pod="b-1", at=NOW - 4 + n, running=4.0, interval_seconds=1.0) for n in range(9)), now=NOW + 4
    )
    assert load_of(state, now=NOW + 4).work.short == pytest.approx(1.0)


# --- counters become arrivals


def kept(state: ClusterState, channel: int) -> list[float]:
    """One channel of model b in every observed second, as the checkpoint has it."""
    rings = Rings(1)
    rings.restore(0, ModelPast.from_bytes(state.rings_bytes("b")).rings)
    return [float(value) for value in rings.series(0, channel)[1]]


def requests_per_second(state: ClusterState) -> list[float]:
    return kept(state, REQUESTS)


def work_per_second(state: ClusterState) -> list[float]:
    return kept(state, WORK)


def test_arrivals_are_what_finished_and_the_change_of_what_is_in_flight() -> None:
    state = feed(
        two_pods(),
        a_sample(pod="b-1", at=NOW - 10, running=4, finished=100),
        a_sample(pod="b-1", at=NOW - 5, running=6, finished=108),  # 8 + 2 in 5 s
        a_sample(pod="b-1", at=NOW, running=1, finished=113),  # 5 - 5
    )
    assert requests_per_second(state) == [2.0] * 5 + [0.0] * 5


def test_arrivals_of_all_pods_add_up() -> None:
    pods = ("b-1", "b-2")
    state = feed(
        two_pods(), *(a_sample(pod=pod, at=NOW - 5 + 5 * n, running=2, finished=10 * n) for n in (0, 1) for pod in pods)
    )
    assert requests_per_second(state) == [4.0] * 5


def test_a_restarted_producer_tells_nothing_about_the_gap() -> None:
    reborn = Counters(start_time=NOW - 3, requests_finished=2.0)
    state = feed(
        two_pods(),
        a_sample(pod="b-1", at=NOW - 10, running=4, finished=100_000),
        a_sample(pod="b-1", at=NOW - 5, running=4, counters=reborn),
        a_sample(pod="b-1", at=NOW, running=4, counters=replace(reborn, requests_finished=7.0)),
    )
    assert requests_per_second(state) == [1.0] * 5


def test_a_counter_that_falls_is_no_negative_demand() -> None:
    state = feed(
        two_pods(),
        a_sample(pod="b-1", at=NOW - 5, running=4, finished=100),
        a_sample(pod="b-1", at=NOW, running=0, finished=50),
    )
    assert requests_per_second(state) == [0.0] * 5


def test_no_counters_are_no_arrivals_not_zero_arrivals() -> None:
    assert requests_per_second(feed(two_pods(), *minutes_of())) == []


@given(order=st.permutations(range(4)), finished=st.lists(st.integers(0, 50), min_size=4, max_size=4))
def test_arrivals_do_not_depend_on_the_order_of_neighbours(order: list[int], finished: list[int]) -> None:
    totals = [sum(finished[: n + 1]) for n in range(4)]
    samples = [a_sample(pod="b-1", at=NOW - 30 + 5 * n, running=3, finished=totals[n]) for n in range(4)]
    in_order = requests_per_second(feed(two_pods(), *samples))
    mixed = requests_per_second(feed(two_pods(), *(samples[n] for n in order)))
    assert mixed == pytest.approx(in_order, abs=1e-4)


# --- live intervals


def test_only_intervals_seen_since_the_start_are_live() -> None:
    state = a_state(None, a_workload(), a_ready_pod("b-1"), started_at=NOW - 11)
    feed(state, *(a_sample(pod="b-1", at=NOW - 60 + 5 * n, running=1) for n in range(12)))
    assert load_of(state).intervals_live == 2
    feed(state, a_sample(pod="b-1", at=NOW - 1, running=1))  # the interval of NOW - 5 once more
    assert load_of(state).intervals_live == 2
    feed(state, a_sample(pod="b-1", at=NOW, running=1))
    assert load_of(state).intervals_live == 3


def test_live_intervals_are_counted_to_a_hundred() -> None:
    state = a_state(None, a_workload(), a_ready_pod("b-1"), started_at=NOW - 10_000)
    feed(state, *(a_sample(pod="b-1", at=NOW - 1000 + 5 * n, running=1) for n in range(200)))
    assert load_of(state).intervals_live == 100


# --- order and repetition


def as_delivered(samples: list[MetricSample]) -> list[MetricSample]:
    """Kafka numbers records in the order in which it hands them out."""
    return [at_offset(sample, offset) for offset, sample in enumerate(samples)]


histories = st.lists(
    st.tuples(
        st.sampled_from([None, "b-1", "b-2"]), st.integers(0, 60), st.integers(0, 12), st.sampled_from(["s", "t"])
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda entry: (entry[0], entry[1], entry[3]),
)


def history(entries: list[tuple[str | None, int, int, str]]) -> list[MetricSample]:
    return [
        a_sample(pod=pod, at=NOW - 5.0 * age, running=float(running), source=source)
        for pod, age, running, source in entries
    ]


@given(entries=histories, data=st.data())
def test_any_order_and_any_repetition_give_the_same_load(
    entries: list[tuple[str | None, int, int, str]], data: st.DataObject
) -> None:
    samples = history(entries)
    once = feed(two_pods(), *as_delivered(samples))
    mixed = as_delivered(data.draw(st.permutations(samples)))
    rewinds = data.draw(st.lists(st.integers(0, len(mixed)), max_size=3))
    again = feed(two_pods(), *mixed)
    for start in rewinds:
        feed(again, *mixed[start:])
    one, other = load_of(once), load_of(again)
    assert other.signals == one.signals
    assert other.pod_requests == one.pod_requests
    assert other.intervals_live == one.intervals_live
    for name in ("short", "last_60s", "long", "slow"):
        assert getattr(other.work, name) == pytest.approx(getattr(one.work, name), abs=1e-3)


@given(entries=histories)
def test_a_producer_that_sends_everything_twice_changes_nothing(
    entries: list[tuple[str | None, int, int, str]],
) -> None:
    samples = sorted(history(entries), key=lambda sample: sample.at)
    once = feed(two_pods(), *as_delivered(samples))
    twice = feed(two_pods(), *as_delivered([copy for sample in samples for copy in (sample, sample)]))
    assert load_of(twice) == load_of(once)


def test_an_old_sample_that_a_producer_sends_again_later_is_not_counted_twice() -> None:
    samples = [a_sample(pod="b-1", at=NOW - 15 + 5 * n, running=4.0 * n, finished=3.0 * n) for n in range(4)]
    once, again = feed(two_pods(), *as_delivered(samples)), feed(two_pods(), *as_delivered([*samples, samples[1]]))
    assert work_per_second(again) == work_per_second(once)
    assert requests_per_second(again) == requests_per_second(once)
    assert again.counters() == {"accepted": 4, "duplicate": 1}


def test_of_two_records_for_one_instant_the_later_stands() -> None:
    first, second = at_offset(a_sample(pod="b-1", running=1), 7), at_offset(a_sample(pod="b-1", running=2), 8)
    for order in ((first, second), (second, first)):
        assert signal_of(feed(two_pods(), *order), "concurrency") == Reading(2.0, NOW, 0.5)


def test_a_topic_made_anew_is_heard_although_its_offsets_start_again() -> None:
    state = feed(two_pods(), *as_delivered(minutes_of(running=4.0)))  # type: ignore[arg-type]  # all are samples
    later = [at_offset(a_sample(pod=f"b-{1 + n % 2}", at=NOW + 5 + 5 * (n // 2), running=12.0), n) for n in range(24)]
    feed(state, *later, now=NOW + 60)
    assert load_of(state, now=NOW + 60).work.last_60s == pytest.approx(6.0)


def test_samples_that_are_quicker_than_the_first_list_of_pods_are_not_lost() -> None:
    state = ClusterState(a_policy(), started_at=NOW)
    feed(state, *minutes_of(running=6.0))
    assert load_of(state).work == Work()
    feed(state, listed("pods", a_ready_pod("b-1"), a_ready_pod("b-2")))
    assert load_of(state).work.long == pytest.approx(3.0)
    assert state.counters() == {"accepted": 240}


def test_what_waits_for_the_pods_is_bounded() -> None:
    state = ClusterState(a_policy(), started_at=NOW)
    state.apply_all([a_sample(pod="b-1", running=1)] * 50_010, NOW)
    assert state.counters() == {"before-pods": 10}


# --- the policy changes


def test_a_model_that_stays_keeps_its_past_and_one_that_leaves_is_forgotten() -> None:
    state = feed(two_pods(), *minutes_of(running=6.0))
    state.set_policy(a_policy(a_model("b"), a_model("c"), a_model("d")), NOW)
    assert load_of(state).work.long == pytest.approx(3.0)
    assert load_of(state).signals["concurrency"] == Reading(12.0, NOW, 1.0)
    state.set_policy(a_policy(a_model("c")), NOW)
    assert [load.model for load in state.peek(NOW).loads] == ["c"]
    state.set_policy(a_policy(a_model("b"), a_model("c")), NOW)
    assert load_of(state).work == Work()
    assert set(load_of(state).signals.values()) == {NEVER_SEEN}
    feed(state, a_sample(pod="b-1", running=1))
    assert signal_of(state, "concurrency") == Reading(1.0, NOW, 0.5)
