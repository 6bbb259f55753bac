"""What is usual: the median of the last hour's minutes, which one bad sample does not move."""

import numpy as np
import pytest

from rebalancer.state.outlook.level import usual
from tests.state.outlook.ahead import bursty, past_of

SPAN_SECONDS = 9000


def test_it_is_the_median_of_the_last_hours_minutes_of_each_model() -> None:
    work = bursty(7200, models=2)
    found = usual(past_of(work).running_sums(SPAN_SECONDS))
    minutes = work[:, -3600:].reshape(2, 60, 60).mean(axis=2)
    assert found == pytest.approx(np.median(minutes, axis=1))


def test_a_short_past_has_the_minutes_that_there_are_and_none_has_none() -> None:
    steps = np.concatenate([np.full((1, 60), level) for level in (1.0, 2.0, 9.0)], axis=1)
    assert usual(past_of(steps).running_sums(SPAN_SECONDS))[0] == pytest.approx(2.0)
    assert np.isnan(usual(past_of(steps[:, :0]).running_sums(SPAN_SECONDS))[0])


def test_one_bad_sample_and_a_burst_of_half_an_hour_do_not_move_it() -> None:
    work = np.ones((2, 7200))
    work[0, -10:-5] = 1e9
    work[1, -1700:] = 50.0
    assert usual(past_of(work).running_sums(SPAN_SECONDS)) == pytest.approx([1.0, 1.0])
