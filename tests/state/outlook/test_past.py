"""Means and steps of a past that is kept at several resolutions, with holes."""

import numpy as np
import pytest

from rebalancer.state.outlook.past import NOW, Past, PastPoints, at, from_cells, per_second, work_of_one
from rebalancer.state.ring_level import COVERAGE, WORK
from rebalancer.state.rings import Rings
from tests.state.outlook.ahead import bursty


def uneven(work: np.ndarray) -> Past:
    """The same past as rings keep it: 10 s, then 2 s, then 1 s; a whole number of each."""
    seconds = work.shape[1]
    edges = np.concatenate([np.arange(0, seconds - 900, 10), np.arange(seconds - 900, seconds - 300, 2)])
    edges = np.concatenate([edges, np.arange(seconds - 300, seconds + 1)])
    sums = np.add.reduceat(work, edges[:-1], axis=1).T
    width = np.diff(edges)[:, np.newaxis] * np.ones(work.shape[0])
    return from_cells(edges.astype(np.int64), sums, width, np.ones(len(work)))


def test_a_mean_is_that_of_the_seconds_in_its_window() -> None:
    work = bursty(4000, models=2)
    sums = per_second(work, np.ones(len(work))).running_sums(4300)
    found = sums.mean(PastPoints(3, 6, 4), 300)
    for row, end in zip(found, (3970, 3910, 3850, 3790), strict=True):
        assert row == pytest.approx(work[:, end - 300 : end].mean(axis=1))


def test_a_window_longer_than_the_past_is_the_past() -> None:
    work = bursty(500)
    assert per_second(work, np.ones(len(work))).running_sums(4000).mean(NOW, 3600)[0] == pytest.approx(
        work.mean(axis=1)
    )


def test_before_the_past_nothing_is_known() -> None:
    work = bursty(500)
    assert np.isnan(per_second(work, np.ones(len(work))).running_sums(4000).mean(PastPoints(60, 1, 1), 60)).all()


def test_points_before_the_first_row_are_refused() -> None:
    with pytest.raises(ValueError, match="not within 3 rows of running sums"):
        at(np.zeros((3, 1)), PastPoints(3, 1, 1))


def test_coarser_cells_say_the_same_of_whole_cells() -> None:
    work = bursty(4000, models=3)
    fine, coarse = per_second(work, np.ones(len(work))), uneven(work)
    for points, window in ((NOW, 60), (PastPoints(6, 6, 10), 300), (PastPoints(200, 12, 3), 1200)):
        assert coarse.running_sums(4400).mean(points, window) == pytest.approx(
            fine.running_sums(4400).mean(points, window)
        )
    steps, missing = coarse.steps(3200, 300, 2)
    assert missing is None
    assert steps == pytest.approx(fine.steps(3200, 300, 2)[0])


def test_work_inside_a_coarse_cell_comes_evenly() -> None:
    past = from_cells(np.array([0, 10]), np.array([[30.0 * 10]]), np.array([[10.0]]), np.ones(1))
    assert past.steps(0, 5, 2)[0][:, 0] == pytest.approx([60.0] * 5)
    assert past.steps_of(np.array([0]), np.array([3]), 2, 1)[0][:, 0] == pytest.approx([30.0, 30.0])


def test_looks_at_a_part_of_the_pods_count_for_the_whole() -> None:
    edges = np.arange(0, 21, 10)
    half = from_cells(edges, np.array([[2.0], [2.0]]), np.array([[0.5], [1.0]]), np.ones(1))
    assert half.running_sums(20).mean(NOW, 10)[0, 0] == pytest.approx(2.0)
    assert half.running_sums(20).mean(NOW, 20)[0, 0] == pytest.approx(3.0)


def test_seconds_nobody_observed_count_for_no_mean_and_are_told() -> None:
    edges = np.arange(0, 41, 10)
    cells = np.array([[4.0], [0.0], [4.0], [4.0]])
    seen = np.array([[1.0], [0.0], [1.0], [1.0]])
    past = from_cells(edges, cells, seen, np.ones(1))
    assert past.running_sums(40).mean(NOW, 40)[0, 0] == pytest.approx(4.0)
    steps, missing = past.steps(5, 3, 10)
    assert missing is not None
    assert missing[:, 0] == pytest.approx([5.0, 5.0, 0.0])
    assert steps[:, 0] == pytest.approx([20.0, 20.0, 40.0])


def test_a_model_is_as_old_as_its_first_observed_second() -> None:
    edges = np.arange(0, 41, 10)
    seen = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    assert from_cells(edges, seen, seen, np.ones(2)).running_sums(40).age.tolist() == [20, 40]


def test_work_of_one_request_is_that_of_the_last_minutes_and_as_before_where_nobody_asked() -> None:
    found = work_of_one(np.array([30.0, 0.0, 0.0]), np.array([100.0, 0.0, 0.0]), np.array([0.5, 0.7, 0.0]))
    assert found.tolist() == [0.3, 0.7, 0.0]


def test_rings_give_the_past_that_they_were_fed() -> None:
    rings = Rings(3)
    work = bursty(6000, models=2)
    columns, ends = np.repeat([0, 2], 6000), np.tile(np.arange(1, 6001), 2) + 1_800_000_000
    ones = np.ones(12_000)
    rings.add(columns, ends, ones.astype(np.int64), {WORK: work.ravel(), COVERAGE: ones})
    edges, (cells, coverage) = rings.cells(np.array([0, 2]), 5900, WORK, COVERAGE)
    past = from_cells(edges, cells, coverage, np.ones(2))
    assert past.until == 1_800_006_000
    sums = past.running_sums(5000)
    for back, window in ((0, 60), (30, 300), (60, 3600)):  # a 2-s cell may be cut in half
        end = 6000 - 10 * back
        found = sums.mean(PastPoints(back, 1, 1), window)[0]
        assert found == pytest.approx(work[:, end - window : end].mean(axis=1), rel=5e-3)
    assert not len(Rings(2).cells(np.array([1]), 60, WORK)[1][0])


def test_some_models_of_a_past_are_a_past() -> None:
    work = bursty(1000, models=3)
    whole = uneven(work)
    part = whole.of(np.array([2, 0]))
    assert part.running_sums(900).mean(NOW, 300)[0] == pytest.approx(whole.running_sums(900).mean(NOW, 300)[0, [2, 0]])
    assert part.mean_of(np.array([1]), np.array([950]), 300)[0] == pytest.approx(work[0, 650:950].mean())
