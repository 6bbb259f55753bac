"""Two sources tell of the same pods: nothing is summed twice, nothing is lowered, and who fails has no say."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.events import Gauges, MetricSample
from rebalancer.domain.readings import Reading
from rebalancer.state import ClusterState
from tests.builders import NOW
from tests.state.loads import load_of, minutes_of, signal_of, two_pods
from tests.state.objects import a_sample, feed


def prometheus_says(pod: str, running: float, at: float = NOW - 2.0) -> MetricSample:
    sample = a_sample("b", pod, at=at)
    return replace(
        sample, source="prometheus", interval_seconds=15.0, gauges=Gauges(running=running), counters=None, position=None
    )


def in_flight(state: ClusterState, now: float = NOW) -> float:
    reading = signal_of(state, "concurrency", now)
    assert isinstance(reading, Reading)
    return reading.value


def test_both_sources_of_a_pod_count_once() -> None:
    state = feed(two_pods(), a_sample("b", "b-1", running=6.0), a_sample("b", "b-2", running=4.0))
    assert in_flight(state) == 10
    feed(state, prometheus_says("b-1", 6.0), prometheus_says("b-2", 4.0))
    assert in_flight(state) == 10


def test_a_source_that_sees_less_lowers_nothing_and_one_that_sees_more_counts() -> None:
    state = feed(two_pods(), a_sample("b", "b-1", running=6.0), a_sample("b", "b-2", running=4.0))
    feed(state, prometheus_says("b-1", 1.0))
    assert in_flight(state) == 10
    feed(state, prometheus_says("b-1", 9.0, at=NOW - 1.0))
    assert in_flight(state) == 13


def test_of_one_source_the_newest_counts() -> None:
    state = feed(two_pods(), *(prometheus_says(pod, 9.0, at=NOW - 20.0) for pod in ("b-1", "b-2")))
    feed(state, *(prometheus_says(pod, 3.0, at=NOW - 5.0) for pod in ("b-1", "b-2")))
    feed(state, prometheus_says("b-1", 9.0, at=NOW - 20.0))
    assert in_flight(state) == 6


def test_alone_it_carries_the_model_and_silent_it_leaves_the_model_blind_not_idle() -> None:
    state = feed(two_pods(), *(prometheus_says(pod, 3.0) for pod in ("b-1", "b-2")))
    reading = signal_of(state, "concurrency")
    assert isinstance(reading, Reading)
    assert (reading.value, reading.coverage) == (6, 1)
    later = signal_of(state, "concurrency", NOW + 300.0)
    assert isinstance(later, Reading)
    assert (later.value, later.coverage) == (6, 0)  # a stale reading has no vote


def test_a_pod_that_was_not_scraped_is_missing_from_the_coverage() -> None:
    reading = signal_of(feed(two_pods(), prometheus_says("b-1", 3.0)), "concurrency")
    assert isinstance(reading, Reading)
    assert reading.coverage == pytest.approx(0.5)


def test_offered_work_told_twice_is_the_same_work() -> None:
    once = feed(two_pods(), *minutes_of())
    twice = feed(
        two_pods(),
        *minutes_of(),
        *(prometheus_says(pod, 4.0, at=NOW - 600.0 + 15.0 * n) for n in range(1, 41) for pod in ("b-1", "b-2")),
    )
    assert load_of(twice).work == load_of(once).work
