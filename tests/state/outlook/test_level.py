"""The slow level and the dispersion around it."""

import numpy as np
import pytest

from rebalancer.state.outlook.level import base, base_of, bins, dispersion, level
from rebalancer.state.outlook.past import NOW, PastPoints
from tests.state.outlook import plain
from tests.state.outlook.ahead import bursty, past_of


def test_it_is_the_weighted_windows_with_what_was_learnt() -> None:
    work = bursty(6000, models=2)
    sums = past_of(work).running_sums(9000)
    beta = np.array([[0.2, -0.1, 0.3], [0.0, 0.4, -0.2]])
    points = PastPoints(5, 6, 3)
    found = level(base(sums, points), beta)
    for row, s in zip(found, (5950, 5890, 5830), strict=True):
        for model in range(2):
            assert row[model] == pytest.approx(plain.level(work[model], s, beta[model]))


def test_a_correction_is_not_believed_beyond_half_and_double() -> None:
    work = np.concatenate([np.full((1, 3000), 1.0), np.full((1, 60), 9.0)], axis=1)
    told = base(past_of(work).running_sums(9000), NOW)
    assert level(told, np.array([[50.0, 0.0, 0.0]]))[0] == pytest.approx(2.0 * told.base[0])
    assert level(told, np.array([[-50.0, 0.0, 0.0]]))[0] == pytest.approx(0.5 * told.base[0])


def test_a_model_without_work_has_a_level_to_divide_by_and_an_unknown_one_has_none() -> None:
    nothing = np.zeros((1, 2000))
    assert base(past_of(nothing).running_sums(9000), NOW).base[0, 0] == 0.001
    assert np.isnan(base(past_of(nothing[:, :30]).running_sums(9000), PastPoints(100, 1, 1)).base[0, 0])


def test_young_models_have_the_windows_that_there_are() -> None:
    work = bursty(200)
    assert base(past_of(work).running_sums(9000), NOW).base[0, 0] == pytest.approx(plain.base(work[0], 200))


def test_one_second_each_is_the_same_as_all_at_once() -> None:
    work = bursty(6000, models=2)
    past = past_of(work)
    lanes = base_of(past, np.array([1, 0]), np.array([5000, 4000]))
    for lane, (model, s) in enumerate(((1, 5000), (0, 4000))):
        assert lanes.base[0, lane] == pytest.approx(plain.base(work[model], s))
        assert lanes.features[:, 0, lane] == pytest.approx(plain.features(work[model], s))


def test_dispersion_is_variance_over_mean_of_ten_second_rates() -> None:
    work = bursty(2000, models=2)
    found = dispersion(bins(past_of(work).running_sums(9000)), PastPoints(4, 6, 2), 300)
    for row, end in zip(found, (1960, 1900), strict=True):
        assert row == pytest.approx([plain.dispersion(one, end, 300) for one in work])


def test_dispersion_of_what_is_hardly_known_is_one() -> None:
    assert dispersion(bins(past_of(bursty(50)).running_sums(9000)), NOW, 300)[0, 0] == 1.0
    assert dispersion(bins(past_of(np.zeros((1, 900))).running_sums(9000)), NOW, 300)[0, 0] == 1.0
