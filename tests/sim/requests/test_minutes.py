import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.sim.requests.minutes import Minutes, by_minute


@given(st.lists(st.floats(0.01, 100.0), min_size=1, max_size=300))
def test_p99_is_numpys(latency: list[float]) -> None:
    rows = by_minute(np.linspace(0.0, 59.0, len(latency)), np.array(latency), 0.72)
    assert rows[1, 0] == pytest.approx(np.quantile(latency, 0.99))


def test_one_turned_away_in_a_hundred_makes_the_p99_infinite_and_one_in_two_hundred_does_not() -> None:
    at = np.linspace(0.0, 59.0, 200)
    latency = np.full(200, 0.2)
    latency[0] = np.inf
    assert by_minute(at, latency, 0.72)[1, 0] == pytest.approx(0.2)
    latency[1:3] = np.inf
    assert by_minute(at, latency, 0.72)[1, 0] == np.inf


def test_utility_is_lost_by_minute_of_arrival_and_summed_over_jobs() -> None:
    at = np.array([1.0, 2.0, 61.0, 62.0])
    good = by_minute(at, np.array([0.2, 0.3, 0.2, 0.72]), 0.72)
    bad = by_minute(at, np.array([1.44, 1.44, np.inf, 0.2]), 0.72)
    minutes = Minutes.of([good, bad], 0.72)
    assert minutes.utility.tolist() == [[1.0, 1.0], [0.5, 0.0]]
    assert minutes.lost_utility == pytest.approx(0.75)
    assert minutes.mean_violation == pytest.approx((0.0 + 0.75) / 2)
    assert minutes.violation == pytest.approx(3 / 8)


def test_a_minute_without_requests_counts_neither_way() -> None:
    at = np.array([1.0, 121.0])
    minutes = Minutes.of([by_minute(at, np.array([1.44, 0.2]), 0.72)], 0.72)
    assert minutes.requests.tolist() == [[1.0, 0.0, 1.0]]
    assert minutes.lost_utility == pytest.approx(0.25)


def test_jobs_whose_last_streams_overrun_by_different_minutes_stand_side_by_side() -> None:
    short = by_minute(np.array([1.0]), np.array([0.2]), 0.72)
    long = by_minute(np.array([1.0, 60.5]), np.array([0.2, 1.44]), 0.72)
    minutes = Minutes.of([short, long], 0.72)
    assert minutes.requests.tolist() == [[1.0, 0.0], [1.0, 1.0]]
    assert minutes.lost_utility == pytest.approx(0.25)
