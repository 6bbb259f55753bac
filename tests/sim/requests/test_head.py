"""The compiled head against the rules it states, and against a plain simulation of the same rules."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.sim.requests.arrivals import Arrivals, draw
from rebalancer.sim.requests.head import Head
from tests.sim.requests.plain import Plain

FOREVER = float("inf")


def requests(at: list[float], service: list[float] | float, route: float = 0.001) -> Arrivals:
    each = np.full(len(at), service) if isinstance(service, float) else np.array(service)
    return Arrivals(np.array(at), each, np.full((len(at), 2), route))


def lived(arrivals: Arrivals, changes: dict[int, int], seconds: int = 60) -> Head:
    """`changes`: replicas from a second on."""
    head = Head(arrivals, np.zeros((5, seconds)), 8)
    for begin, end in pairwise([*sorted(changes), seconds]):
        head.resize(changes[begin])
        head.live(begin, end)
    head.live(seconds, FOREVER)
    return head


def test_a_lone_request_takes_its_way_in_its_service_and_its_way_out() -> None:
    told = lived(requests([1.0], 0.2, 0.005), {0: 1}).measured
    assert told.latency[0] == pytest.approx(0.21)
    assert told.wait[0] == pytest.approx(0.005)
    assert told.busy[1] == pytest.approx(0.2)
    assert told.answered[1] == 1.0


def test_a_replica_holds_four_the_hand_one_the_queue_fifty_one_and_the_next_is_turned_away() -> None:
    told = lived(requests([0.001 * i for i in range(100)], 10.0, 1e-5), {0: 1}).measured
    assert np.isinf(told.latency).sum() == 100 - (4 + 1 + 51)
    assert np.isinf(told.latency[56:]).all()
    assert told.latencies[0] == pytest.approx(44 * 2e-5)  # a refusal is quick, and a mean of latencies shows it so


def test_replicas_are_given_requests_in_turn_even_where_another_is_idle() -> None:
    told = lived(requests([0.0, 1.0, 2.0, 3.0], [10.0, 0.1, 0.1, 0.1]), {0: 2}).measured
    assert told.wait[2] == pytest.approx(10.001 - 2.0)
    assert told.wait[3] < 0.01


def test_a_replica_that_is_let_go_finishes_what_it_holds_and_takes_no_more() -> None:
    told = lived(requests([0.0, 0.1, 5.0, 5.1], [8.0, 1.0, 1.0, 1.0]), {0: 1, 2: 2, 4: 1}).measured
    assert told.latency[1] == pytest.approx(8.902)
    assert told.latency[2] == pytest.approx(9.0 + 1.0 + 0.002 - 5.0)  # behind the two on the one that stays
    told = lived(requests([0.0, 3.0, 5.0], [1.0, 9.0, 1.0]), {0: 1, 2: 2, 4: 1}).measured
    assert told.latency[2] == pytest.approx(9.0 + 1.0 + 3.0 - 5.0 + 0.002)
    told = lived(requests([0.0, 3.0, 3.1, 5.0], [1.0, 0.1, 9.0, 1.0]), {0: 1, 2: 2, 4: 1}).measured
    assert told.latency[2] == pytest.approx(9.002)  # of the one that went
    assert told.latency[3] == pytest.approx(1.002)


def test_what_waits_is_handed_to_a_replica_that_comes() -> None:
    arrivals = requests([0.0] * 8, 4.0)
    alone, helped = lived(arrivals, {0: 1}).measured, lived(arrivals, {0: 1, 2: 2}).measured
    assert alone.latency.max() > 32.0
    assert helped.latency.max() == pytest.approx(2.0 + 4 * 4.0, abs=0.1)


def test_without_a_replica_nothing_is_answered_and_work_is_left() -> None:
    told = lived(requests([0.0, 1.0], 0.5), {0: 0}).measured
    assert np.isnan(told.latency).all()
    assert told.left[30] == pytest.approx(1.0)


def test_more_replicas_than_there_are_places_for_is_an_error() -> None:
    with pytest.raises(IndexError):
        Head(requests([0.0], 0.1), np.zeros((5, 10)), 8).resize(1000)


changes = st.lists(st.integers(1, 6), min_size=1, max_size=8).map(
    lambda counts: {8 * i: n for i, n in enumerate(counts)}
)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 1600), min_size=1, max_size=2), changes, st.integers(0, 99))
def test_every_request_is_answered_or_turned_away_once_and_busy_is_the_service_given(
    counts: list[int], replicas: dict[int, int], seed: int
) -> None:
    arrivals = draw(np.array([counts]), "compatible", seed)[0]
    head = lived(arrivals, replicas, 400)
    told = head.measured
    assert not np.isnan(told.latency).any()
    assert told.answered.sum() == len(arrivals.at)
    served = np.isfinite(told.latency)
    assert told.busy.sum() == pytest.approx(arrivals.service_seconds[served].sum())
    assert (told.latency[served] >= told.wait[served] + arrivals.service_seconds[served]).all()
    assert told.left[-1] == pytest.approx(0.0, abs=1e-9)


@settings(max_examples=20)
@given(st.integers(0, 1600), changes, st.integers(0, 99))
def test_latencies_are_those_of_a_plain_simulation(count: int, replicas: dict[int, int], seed: int) -> None:
    arrivals = draw(np.array([[count, 1600]]), "compatible", seed)[0]
    told = lived(arrivals, replicas, 200).measured
    assert np.allclose(told.latency, Plain(arrivals).live(replicas), atol=1e-6)
