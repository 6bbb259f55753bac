"""Faro's queueing, utility and solver against the project's own `test_solver.py` and `test_utility.py`.

Left out: `SolverWithDrop`, the drop penalties, steps, squares and other powers of utility (no variant with them is a
comparator), the cases without the M/D/c estimate (`mdc_percentile` 0, which no published configuration uses), and
`HybridAutoscalerTest` (it merges counters of a live Ray, the judge counts by itself). The project's
`..._with_overhead` cases expect an overhead of one bin with units free; its code of b595c4a halves it to none there, so
the expectation is held against a full quota, where the code charges it.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.sim.demand import F64
from rebalancer.sim.peers.faro.queueing import latency, utilities, wait_percentile
from rebalancer.sim.peers.faro.solver import (
    FaroProblem,
    FaroSettings,
    Objective,
    fit,
    late_bins,
    least_value,
    solve,
    tidy,
    value,
)


@pytest.mark.parametrize(
    ("rate", "percentile", "expected"),
    [
        (8.0, 80, 0.358),
        (8.0, 90, 0.704),
        (8.0, 95, 1.051),
        (8.0, 99, 1.856),
        (9.5, 80, 2.836),
        (9.5, 90, 4.222),
        (9.5, 95, 5.608),
        (9.5, 99, 8.827),
    ],
)
def test_waits_of_ten_servers_as_published(rate: float, percentile: float, expected: float) -> None:
    assert wait_percentile(rate, 1.0, 10.0, percentile) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        pytest.param(19.0, 1.252, id="stable"),
        pytest.param(17.0, 0.481, id="stable_2d"),
        pytest.param(20.0, 1.318, id="unstable_1"),
        pytest.param(30.0, 1.978, id="unstable_2"),
    ],
)
def test_latency_grows_with_what_an_overloaded_job_cannot_bear(rate: float, expected: float) -> None:
    assert latency(rate, 0.15, 3.0, 90.0, 0.95) == pytest.approx(expected, abs=5e-4)


def problem(rates: list[list[float]], *, current: list[float] | None = None, quota: float = 32.0) -> FaroProblem:
    jobs = len(rates)
    return FaroProblem(
        rates=np.array(rates),
        service_seconds=np.full(jobs, 0.148),
        slo_seconds=np.full(jobs, 0.592),
        current=np.array(current or [1.0] * jobs),
        floor=np.ones(jobs),
        units=np.ones(jobs),
        quota=quota,
    )


TWO = [[26.0, 20.0, 21.0], [33.0, 28.0, 10.0]]
P95 = FaroSettings(Objective.SUM, percentile=95.0, late_bins=0)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        pytest.param([[26.0], [33.0]], [5, 6], id="1d_input_rate_with_mdc"),
        pytest.param(TWO, [5, 6], id="2d_input_rate_mdc"),
        pytest.param([TWO[0], [33.0, 0.0, 0.0]], [5, 6], id="2d_input_rate_mdc_difflen_rates"),
        pytest.param([TWO[0], [0.0, 0.0, 0.0]], [5, 1], id="2d_input_rate_mdc_difflen_rates_with_zeros"),
    ],
)
def test_finds_the_replicas_that_the_project_finds(rates: list[list[float]], expected: list[int]) -> None:
    assert solve(problem(rates), P95) == expected


def of(replicas: list[float], *, late: int) -> F64:
    ask = problem(TWO)
    return utilities(np.array(replicas), ask.current, late, ask.rates, ask.service_seconds, ask.slo_seconds, 95.0, 0.95)


@pytest.mark.parametrize(
    ("replicas", "late", "expected"),
    [
        pytest.param([5.0, 6.0], 0, [1.0, 1.0], id="calculate_utility_mdc"),
        pytest.param([7.0, 9.0], 0, [1.0, 1.0], id="calculate_utility"),
        pytest.param([5.0, 6.0], 1, [0.677, 0.675], id="calculate_utility_mdc_with_overhead"),
    ],
)
def test_utility_as_the_project_calculates_it(replicas: list[float], late: int, expected: list[float]) -> None:
    assert of(replicas, late=late) == pytest.approx(expected, abs=5e-4)


def test_only_added_replicas_come_late() -> None:
    # test_reshape_x: 1 -> 2, 2 -> 1 and 2 -> 3 replicas with two late bins of four.
    old, new = np.array([1.0, 2.0, 2.0]), np.array([2.0, 1.0, 3.0])
    expected = [[1, 1, 2, 2], [1, 1, 1, 1], [2, 2, 3, 3]]
    rates, ones = np.full((3, 4), 9.0), np.ones(3)
    found = utilities(new, old, 2, rates, ones * 0.15, ones * 0.2, 90.0, 0.95)
    by_hand = [np.mean([min(1.0, 0.2 / latency(9.0, 0.15, n, 90.0, 0.95)) for n in row]) for row in expected]
    assert found == pytest.approx(by_hand)


# LatencyUtilityTest: utility of latencies 0, 0.8, 0.7, 1.2, 1.6 at an SLO of 0.8; a latency of exactly that comes of a
# load of next to nothing on a replica of that service time.
@pytest.mark.parametrize(("seconds", "expected"), [(1e-9, 1.0), (0.8, 1.0), (0.7, 1.0), (1.2, 0.666666666), (1.6, 0.5)])
def test_utility_is_slo_over_latency_and_at_most_one(seconds: float, expected: float) -> None:
    one = np.ones(1)
    found = utilities(one, one, 0, np.full((1, 1), 1e-12), one * seconds, one * 0.8, 99.0, 0.95)
    assert found[0] == pytest.approx(expected, abs=1e-6)


def test_new_replicas_come_late_only_where_somebody_must_release_first() -> None:
    assert late_bins(problem(TWO, quota=2.0), FaroSettings(late_bins=1)) == 1
    assert late_bins(problem(TWO, quota=3.0), FaroSettings(late_bins=1)) == 0


def test_objectives_weigh_the_sum_and_evenness() -> None:
    ask = problem(TWO)
    each = of([5.0, 2.0], late=0)
    even = each.min() - each.max() + 1
    values = {
        objective: value(ask, FaroSettings(objective, percentile=95.0))(np.array([5.0, 2.0])) for objective in Objective
    }
    assert values[Objective.SUM] == pytest.approx(-each.sum())
    assert values[Objective.FAIR] == pytest.approx(-even)
    assert values[Objective.FAIR_SUM] == pytest.approx(-each.sum() - 2 * even)


def test_what_does_not_fit_loses_the_replica_that_costs_least() -> None:
    ask = problem([[33.0], [0.1]], quota=7.0)
    assert list(fit(np.array([5.2, 5.7]), ask, value(ask, P95))) == [6.0, 1.0]


def test_of_equal_losses_the_one_that_moves_least_is_taken() -> None:
    ask = problem([[0.1], [0.1]], current=[3.0, 2.0], quota=5.0)
    assert list(fit(np.array([3.0, 3.0]), ask, value(ask, P95))) == [3.0, 2.0]


def test_replicas_that_gain_nothing_go() -> None:
    ask = problem([[26.0], [33.0]])
    assert list(tidy(np.array([9.0, 9.0]), ask, value(ask, P95))) == [5.0, 6.0]


def test_what_was_freed_goes_to_a_job_that_gains_by_it() -> None:
    ask = problem([[26.0], [33.0]], quota=12.0)
    assert list(tidy(np.array([9.0, 3.0]), ask, value(ask, P95))) == [5.0, 6.0]


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.lists(st.floats(0.0, 30.0), min_size=7, max_size=7), min_size=1, max_size=4),
    st.integers(4, 12),
    st.sampled_from(Objective),
)
def test_a_solution_fits_the_quota_and_keeps_the_floors(
    rates: list[list[float]], quota: int, objective: Objective
) -> None:
    found = solve(problem(rates, quota=float(quota)), FaroSettings(objective))
    assert min(found) >= 1
    assert sum(found) <= quota


@pytest.mark.parametrize(
    ("objective", "least"), [(Objective.SUM, -2.0), (Objective.FAIR, -1.0), (Objective.FAIR_SUM, -4.0)]
)
def test_where_every_job_has_all_its_utility_the_plan_keeps_it_with_no_replica_too_many(
    objective: Objective, least: float
) -> None:
    chosen = FaroSettings(objective)
    idle = problem([[2.0] * 7, [20.0] * 7], current=[9.0, 9.0])
    of = value(idle, chosen)
    assert least_value(2, chosen) == least == pytest.approx(of(idle.current))

    found = solve(idle, chosen)

    assert of(np.array(found, float)) == pytest.approx(least)
    assert all(of(np.array(found, float) - one) > least + 1e-4 for one in np.eye(2) if (found - one >= 1).all())


def test_where_a_job_lacks_utility_the_solver_is_asked() -> None:
    short = problem([[2.0] * 7, [40.0] * 7], current=[9.0, 2.0], quota=11.0)
    of = value(short, FaroSettings())
    assert of(short.current) > least_value(2, FaroSettings()) + 0.5
    assert of(np.array(solve(short, FaroSettings()), float)) < of(short.current) - 0.5
