"""Allocation by curves against the exact optimum."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.planning.shares.curves import WIDE, Curve, hull_slopes, share_out, table_of
from tests.bench.fleet import Fleet


def best_cost(curves: list[Curve], budget: int) -> float:
    """The least total cost of counts that fit, by dynamic programming; inf where even the least do not."""
    best = np.zeros(budget + 1)
    for curve in curves:
        then = np.full(budget + 1, np.inf)
        for step, cost in enumerate(curve.values):
            used = (curve.least + step) * curve.gpus
            if used <= budget:
                then[used:] = np.minimum(then[used:], best[: budget + 1 - used] + cost)
        best = then
    return float(best[budget])


def cost_of(curves: list[Curve], counts: tuple[int, ...]) -> float:
    return sum(curve.values[count - curve.least] for curve, count in zip(curves, counts, strict=True))


def curve_of(chance: np.random.Generator, gpus: int = 1) -> Curve:
    """Late work that falls with every replica, with the kink and the caution around what there is."""
    least, here = int(chance.integers(0, 8)), int(chance.integers(3, 9))
    count = np.arange(13)
    late = chance.gamma(1.0, 200.0) * np.exp(-count / chance.uniform(0.5, 8.0))
    caution = np.where(count < here, np.sqrt(here - np.minimum(count, here)) * chance.gamma(1.0, 5.0), 0.0)
    noise = chance.gamma(0.3, 1.0, 13)
    return Curve(least, tuple((late + caution + 2 * np.abs(count - here) + noise).round(6)), gpus)


@pytest.mark.parametrize("sizes", [(1,), (1, 2, 4), (2, 8)])
@pytest.mark.parametrize("models", [3, 10, 40])
def test_it_is_within_half_a_percent_of_the_exact_optimum(models: int, sizes: tuple[int, ...]) -> None:
    chance = np.random.default_rng(models)
    gaps = []
    for _ in range(30):
        curves = [curve_of(chance, int(chance.choice(sizes))) for _ in range(models)]
        least = sum(curve.least * curve.gpus for curve in curves)
        budget = least + int(chance.integers(0, 8 * models * max(sizes) // 2))
        found = share_out(tuple(curves), budget)
        assert found.short == 0
        assert sum(n * curve.gpus for n, curve in zip(found.counts, curves, strict=True)) <= budget
        exact = best_cost(curves, budget)
        gaps.append((cost_of(curves, found.counts) - exact) / abs(exact))
    assert min(gaps) > -1e-9
    assert np.mean(gaps) < 0.005
    assert max(gaps) < 0.02


@pytest.mark.parametrize("sizes", [True, False])
def test_on_tables_as_the_look_ahead_makes_them_it_is_within_half_a_percent(sizes: bool) -> None:  # noqa: FBT001  # a case
    # Hulls, cliffs of a hopeless backlog and the caution around what there is, as outlooks of bursty work have them.
    world = Fleet(60, 1).world()
    found = {load.model: load.outlook for load in world.snapshot.loads if load.outlook is not None}
    curves = [
        Curve(found[model.id].least, found[model.id].values, model.gpus_per_replica if sizes else 1)
        for model in world.policy.models
    ]
    assert any(bent(curve) for curve in curves), "not all are convex"
    least = sum(curve.least * curve.gpus for curve in curves)
    most = sum((curve.least + len(curve.values) - 1) * curve.gpus for curve in curves)
    for budget in np.linspace(least, most, 9).astype(int).tolist():
        counts = share_out(curves, budget).counts
        assert sum(n * curve.gpus for n, curve in zip(counts, curves, strict=True)) <= budget
        exact = best_cost(curves, budget)
        assert exact - 1e-6 <= cost_of(curves, counts) <= exact + 0.005 * abs(exact)


def bent(curve: Curve) -> bool:
    """Whether some step gains more than the one before."""
    return bool((np.diff(curve.values, 2) < -1e-3).any())


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.integers(0, 40), min_size=1, max_size=5), st.integers(1, 3)),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 40),
)
def test_it_keeps_to_the_budget_and_the_curves_and_is_never_worse_than_the_least(
    rows: list[tuple[int, list[int], int]], budget: int
) -> None:
    curves = [Curve(least, tuple(float(value) for value in values), gpus) for least, values, gpus in rows]
    found = share_out(tuple(curves), budget)
    least = tuple(curve.least for curve in curves)
    used = sum(n * curve.gpus for n, curve in zip(found.counts, curves, strict=True))
    if found.short:
        assert found.counts == least
        assert found.short == used - budget
        return
    assert used <= budget
    assert all(
        curve.least <= n < curve.least + len(curve.values) for n, curve in zip(found.counts, curves, strict=True)
    )
    assert cost_of(curves, found.counts) <= cost_of(curves, least)


def test_on_convex_curves_of_one_gpu_it_is_the_optimum() -> None:
    chance = np.random.default_rng(1)
    for _ in range(100):
        steps = -np.sort(-chance.gamma(1.0, 9.0, (5, 6)), axis=1)
        curves = [Curve(1, tuple(100.0 - np.concatenate([[0], np.cumsum(row)]).round(6))) for row in steps]
        budget = int(chance.integers(5, 36))
        assert cost_of(curves, share_out(tuple(curves), budget).counts) == pytest.approx(best_cost(curves, budget))


def test_a_step_that_gains_only_with_the_next_one_is_taken_with_it() -> None:
    flat_then_steep = Curve(1, (10.0, 10.0, 1.0))
    gentle = Curve(1, (5.0, 3.0, 2.0))
    assert share_out((flat_then_steep, gentle), 4).counts == (3, 1)
    assert share_out((flat_then_steep, gentle), 3).counts == (
        1,
        2,
    )  # the second step does not fit: the first is worth nothing


def test_nobody_gets_what_does_not_help() -> None:
    assert share_out((Curve(2, (1.0, 1.0, 2.0)), Curve(0, (0.0, 4.0))), 9).counts == (2, 0)


def test_a_free_gpu_goes_to_the_smallest_gain() -> None:
    assert share_out((Curve(2, (0.000003, 0.000002)), Curve(0, (0.0, 4.0))), 9).counts == (3, 0)


def test_equal_gains_go_to_the_first() -> None:
    curves = [Curve(1, (4.0, 1.0)), Curve(1, (4.0, 1.0))]
    assert share_out(tuple(curves), 3).counts == (2, 1)


def test_gpus_that_the_largest_replica_leaves_go_to_smaller_ones() -> None:
    assert share_out((Curve(0, (90.0, 10.0, 0.0), gpus=4), Curve(0, (9.0, 6.0, 4.0, 3.0))), 7).counts == (1, 3)


def test_where_the_least_do_not_fit_it_says_by_how_many_gpus() -> None:
    found = share_out((Curve(3, (1.0, 0.0), gpus=2), Curve(2, (1.0,))), 6)
    assert (found.counts, found.short) == ((3, 2), 2)


def test_no_models_share_nothing() -> None:
    assert share_out((), 8).counts == ()


def test_thousands_of_gpus_are_shared_near_the_price_alone() -> None:
    """With every count of both a table of 3,000 by 3,000 takes 200 MiB, and of 10,000 by 10,000 2.3 GiB."""
    chance = np.random.default_rng(1)
    curves = [Curve(0, tuple(np.sort(chance.random(3000) * 1e4)[::-1]), gpus) for gpus in (1, 2)]
    tracemalloc.start()
    try:
        share = share_out(curves, 4000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 2**20
    assert cost_of(curves, share.counts) <= best_cost(curves, 4000) * 1.005


@pytest.mark.parametrize("step", [0.0, 0.25])
def test_a_wide_curve_among_narrow_ones_has_the_slopes_of_its_own_hull(step: float) -> None:
    """`step`: 0.25 for curves many of whose points lie on one line."""
    chance = np.random.default_rng(1)
    values = np.full((3, 2 * WIDE), np.inf)
    for place, width in enumerate((2 * WIDE, 5, WIDE + 1)):
        late = np.sort(chance.random(width) * 50)[::-1]
        values[place, :width] = np.round(late / step) * step if step else late + chance.random(width)
    slopes = hull_slopes(values)
    for row, of_row in zip(values, slopes, strict=True):
        known = row[np.isfinite(row)]
        counts = np.arange(len(known))
        with np.errstate(divide="ignore", invalid="ignore"):
            means = (known - known[:, np.newaxis]) / (counts - counts[:, np.newaxis])
        means[np.tril_indices(len(known))] = np.inf
        lowest = np.minimum.accumulate(means[:, ::-1], axis=1)[:, ::-1]  # by beginning, of ends from there on
        own = [lowest[: at + 1, at + 1].max() for at in range(len(known) - 1)]
        assert np.allclose(of_row[: len(known) - 1], own, rtol=0, atol=1e-9)
        assert np.isposinf(of_row[len(known) - 1 :]).all()


def test_hull_slopes_are_those_of_the_lower_hull() -> None:
    slopes = hull_slopes(np.array([[10.0, 10.0, 1.0, 0.0, np.inf], [5.0, 3.0, 2.0, 2.0, 4.0]]))
    assert slopes[0].tolist() == [-4.5, -4.5, -1.0, np.inf]
    assert slopes[1].tolist() == [-2.0, -1.0, 0.0, 2.0]


@given(st.integers(0, 10_000))
def test_a_table_made_from_the_one_before_is_the_same_one(seed: int) -> None:
    chance = np.random.default_rng(seed)
    curves = [curve_of(chance, int(chance.choice((1, 2)))) for _ in range(8)]
    before = table_of(curves)
    assert table_of(list(curves), before) is before
    shorter = curves[3]._replace(values=curves[3].values[: chance.integers(1, 13)])
    longer = curves[5]._replace(values=(*curves[5].values, 0.0))
    for other in ([*curves[:3], shorter, *curves[4:]], [*curves[:5], longer, *curves[6:]], curves[:7]):
        found, anew = table_of(other, before), table_of(other)
        width = anew.values.shape[1]
        assert np.array_equal(found.values[:, :width], anew.values)
        assert np.array_equal(found.slopes[:, : width - 1], anew.slopes)
        assert np.isinf(found.values[:, width:]).all()
        assert all(np.array_equal(one, two) for one, two in zip(found.steps, anew.steps, strict=True))
        assert np.array_equal(found.least, anew.least)
        assert found.curves == tuple(other)
