"""Rings keep each second of a model's past once, and lose only resolution."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.state.ring_level import COVERAGE, REQUESTS, WORK
from rebalancer.state.rings import BYTES_PER_MODEL, LEVELS, SPAN_SECONDS, Rings

T0 = 1_800_000_000
FINE, MIDDLE, COARSE = (step * cells for step, cells in LEVELS)

Row = tuple[int, int, int, float, float]  # column, end, length, work, share


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def add(rings: Rings, *rows: Row) -> int:
    column, end, length, work, share = zip(*rows, strict=True)
    return rings.add(ints(*column), ints(*end), ints(*length), {WORK: np.array(work), COVERAGE: np.array(share)})


def mean(rings: Rings, window: float, end: int, column: int = 0) -> float:
    return float(rings.work(ints(column), (end,), (window,))[0, 0])


def steady(rings: Rings, work: float, start: int, end: int, column: int = 0) -> None:
    """Samples of 5 s in (start, end]."""
    add(rings, *((column, at, 5, work, 1.0) for at in range(start + 5, end + 1, 5)))


def test_a_steady_model_has_the_same_mean_in_every_window() -> None:
    rings = Rings(1)
    steady(rings, 3.0, T0, T0 + 7200)
    for window in (15, 60, 300, 1200, 3600):
        assert mean(rings, window, T0 + 7200) == pytest.approx(3.0)


def test_an_interval_is_spread_over_its_seconds() -> None:
    rings = Rings(1)
    add(rings, (0, T0 + 10, 10, 4.0, 1.0))
    assert mean(rings, 4, T0 + 10) == pytest.approx(4.0)
    seconds, work = rings.series(0, WORK)
    assert seconds.tolist() == list(range(T0 + 1, T0 + 11))
    assert work.tolist() == [4.0] * 10


def test_fewer_than_half_of_the_seconds_seen_is_unknown() -> None:
    rings = Rings(1)
    add(rings, (0, T0, 7, 1.0, 1.0))
    assert mean(rings, 14, T0) == pytest.approx(1.0)
    assert np.isnan(mean(rings, 15, T0))


def test_pods_that_still_have_to_report_do_not_lower_the_mean() -> None:
    rings = Rings(1)
    add(rings, (0, T0, 5, 2.0, 0.5), (0, T0 + 5, 5, 2.0, 0.5), (0, T0, 5, 4.0, 0.5))  # the second pod is late
    assert mean(rings, 10, T0 + 5) == pytest.approx((6.0 * 5 + 2.0 * 5) / 7.5)
    assert mean(rings, 5, T0 + 5) == pytest.approx(4.0)


def test_an_unobserved_gap_is_not_calm() -> None:
    rings = Rings(1)
    steady(rings, 6.0, T0, T0 + 40)
    steady(rings, 6.0, T0 + 60, T0 + 100)
    assert mean(rings, 100, T0 + 100) == pytest.approx(6.0)


def test_a_late_sample_goes_to_its_second_at_every_age() -> None:
    for age in (100, FINE + 100, FINE + MIDDLE + 100):
        rings = Rings(1)
        rings.advance(T0)
        assert add(rings, (0, T0 - age, 10, 5.0, 1.0)) == 0
        seconds, work = rings.series(0, WORK)
        assert T0 - age - 20 <= seconds[0] <= seconds[-1] <= T0 - age
        assert work.sum() == pytest.approx(50.0)


def test_what_is_older_than_the_rings_is_counted_and_dropped() -> None:
    rings = Rings(1)
    rings.advance(T0)
    assert add(rings, (0, T0 - SPAN_SECONDS - 20, 5, 5.0, 1.0), (0, T0, 5, 5.0, 1.0)) == 1
    assert rings.series(0, WORK)[1].sum() == pytest.approx(25.0)


def test_columns_do_not_mix() -> None:
    rings = Rings(3)
    add(rings, (0, T0, 20, 1.0, 1.0), (2, T0, 20, 3.0, 1.0))
    assert mean(rings, 10, T0, column=0) == pytest.approx(1.0)
    assert np.isnan(mean(rings, 10, T0, column=1))
    assert mean(rings, 10, T0, column=2) == pytest.approx(3.0)
    rings.clear(2)
    assert np.isnan(mean(rings, 10, T0, column=2))
    assert mean(rings, 10, T0, column=0) == pytest.approx(1.0)


def test_each_column_has_its_own_window_end() -> None:
    rings = Rings(2)
    add(rings, (0, T0, 10, 1.0, 1.0), (1, T0 + 10, 10, 2.0, 1.0), (1, T0, 10, 8.0, 1.0))
    found = rings.work(ints(0, 1), (T0, T0 + 10), (10.0, 20.0))
    assert found[0].tolist() == [1.0, 2.0]
    assert found[1].tolist() == [1.0, 5.0]


def test_arrivals_of_zero_are_known_and_none_are_unknown() -> None:
    rings = Rings(1)
    rings.add(ints(0), ints(T0), ints(3), {REQUESTS: np.array([0.0])})
    seconds, requests = rings.series(0, REQUESTS)
    assert len(seconds) == 3
    assert requests.tolist() == [0.0, 0.0, 0.0]
    assert rings.series(0, WORK)[0].tolist() == []


def test_one_model_fits_in_64_kib() -> None:
    assert BYTES_PER_MODEL <= 64 * 1024
    tracemalloc.start()
    rings = Rings(100)
    rings.advance(T0)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / 100 <= 64 * 1024
    assert len(rings.to_bytes(0)) <= 64 * 1024


def test_more_models_keep_the_past_of_those_there_are() -> None:
    rings = Rings(1)
    steady(rings, 2.0, T0, T0 + 600)
    wider = rings.widened(5)
    assert mean(wider, 600, T0 + 600) == pytest.approx(2.0)
    assert np.isnan(mean(wider, 600, T0 + 600, column=4))


@pytest.mark.parametrize("later", [0, 1, 7, 400, 6000])
def test_a_checkpoint_brings_back_every_window(later: int) -> None:
    rings = Rings(2)
    for start in range(0, 24_000, 600):
        steady(rings, 1.0 + start / 600, T0 + start, T0 + start + 600, column=1)
    rings.add(ints(1), ints(T0 + 24_000), ints(300), {REQUESTS: np.array([2.5])})
    fresh = Rings(1)
    if later:
        fresh.advance(T0 + 24_000 + later)  # another model was restored first, from a younger entry
    fresh.restore(0, rings.to_bytes(1))
    rings.advance(T0 + 24_000 + later)
    for channel in (WORK, REQUESTS, COVERAGE):
        seconds, sums = rings.series(1, channel)
        restored_seconds, restored = fresh.series(0, channel)
        assert restored_seconds.tolist() == seconds.tolist()
        assert restored == pytest.approx(sums)


@pytest.mark.parametrize("harm", ["cut", "flip", "magic", "empty"])
def test_a_damaged_checkpoint_is_refused(harm: str) -> None:
    rings = Rings(1)
    steady(rings, 1.0, T0, T0 + 60)
    data = bytearray(rings.to_bytes(0))
    match harm:
        case "cut":
            data = data[:-4]
        case "flip":
            data[-9] ^= 1
        case "magic":
            data[0] ^= 1
        case _:
            data = bytearray()
    with pytest.raises(ValueError, match="rebuilt from the metrics topic"):
        Rings(1).restore(0, bytes(data))


samples = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.one_of(st.integers(0, 40), st.integers(0, 700), st.integers(0, 2_000)).map(lambda age: T0 - age),
        st.integers(1, 60),
        st.floats(0, 100, width=16),
        st.sampled_from([0.25, 0.5, 1.0]),
    ),
    min_size=1,
    max_size=40,
)


@given(rows=samples, data=st.data())
def test_the_order_of_samples_does_not_matter(rows: list[Row], data: st.DataObject) -> None:
    one, other = Rings(3), Rings(3)
    add(one, *rows)
    for row in data.draw(st.permutations(rows)):
        add(other, row)
    for column in range(3):
        for channel in (WORK, COVERAGE):
            seconds, sums = one.series(column, channel)
            other_seconds, other_sums = other.series(column, channel)
            assert other_seconds.tolist() == seconds.tolist()
            assert other_sums == pytest.approx(sums, rel=1e-4, abs=1e-4)


@given(rows=samples)
def test_nothing_is_lost_on_the_way_to_coarser_cells(rows: list[Row]) -> None:
    """Against a plain dictionary of seconds."""
    rings = Rings(3)
    for row in rows:
        add(rings, row)
    rings.advance(T0 + 5_000)
    for column in range(3):
        expected: dict[int, float] = {}
        for row_column, end, length, work, _ in rows:
            for second in range(end - length + 1, end + 1):
                if row_column == column:
                    expected[second] = expected.get(second, 0.0) + work
        assert rings.series(column, WORK)[1].sum() == pytest.approx(sum(expected.values()), rel=1e-4, abs=1e-3)
