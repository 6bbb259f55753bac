"""Samples become offered work and arrivals: what a model is asked to do, second by second."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.domain.events import Counters, Gauges, MetricSample
from rebalancer.domain.readings import Reading, Work
from tests.builders import NOW, a_model, a_policy
from tests.state.loads import load_of, minutes_of, requests_per_second, two_pods
from tests.state.objects import (
    a_ready_pod,
    a_sample,
    a_state,
    a_workload,
    feed,
    listed,
)


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


@pytest.mark.parametrize("tokens", [None, 200.0])
def test_a_counter_that_falls_tells_nothing_about_the_gap(tokens: float | None) -> None:
    """An exporter that stays while its engine starts anew says that it counts since when it did before."""

    def counted(at: float, finished: float) -> MetricSample:
        written = None if tokens is None else tokens * finished
        return a_sample(pod="b-1", at=at, running=4, counters=Counters(NOW - 7200.0, finished, None, None, written))

    state = a_state(None, a_workload(), a_ready_pod("b-1"))
    feed(state, *(counted(NOW - 600 + 5 * n, 100_000 + 10.0 * n) for n in range(121)))
    usual = load_of(state).work.short or 0.0
    for n in range(1, 4):
        feed(state, counted(NOW + 5 * n, 10.0 * n), now=NOW + 5 * n)
        assert load_of(state, now=NOW + 5 * n).work.short == pytest.approx(usual, rel=0.3)
    assert requests_per_second(state)[-10:] == [2.0] * 10


def test_no_counters_are_no_arrivals_not_zero_arrivals() -> None:
    assert requests_per_second(feed(two_pods(), *minutes_of())) == []


@given(order=st.permutations(range(4)), finished=st.lists(st.integers(0, 50), min_size=4, max_size=4))
def test_arrivals_do_not_depend_on_the_order_of_neighbours(order: list[int], finished: list[int]) -> None:
    totals = [sum(finished[: n + 1]) for n in range(4)]
    samples = [a_sample(pod="b-1", at=NOW - 30 + 5 * n, running=3, finished=totals[n]) for n in range(4)]
    in_order = requests_per_second(feed(two_pods(), *samples))
    mixed = requests_per_second(feed(two_pods(), *(samples[n] for n in order)))
    assert mixed == pytest.approx(in_order, abs=1e-4)
