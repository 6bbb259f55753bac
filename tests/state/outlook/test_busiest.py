"""The busiest five minutes of the last three hours, of those of which half was observed."""

import numpy as np
import pytest

from rebalancer.state.outlook.learning import learn
from rebalancer.state.outlook.level import HOUR, busiest
from tests.state.outlook.ahead import past_of

SPAN_SECONDS, COLD, HORIZON = 9000, 60, 150


def test_it_is_the_highest_mean_of_five_minutes_of_the_last_hour_of_each_model() -> None:
    work = np.ones((2, 7200))
    work[0, -1800:-1500] = 5.0
    work[1, -4200:-3900] = 9.0  # more than an hour ago
    assert busiest(past_of(work).running_sums(SPAN_SECONDS), HOUR) == pytest.approx([5.0, 1.0])


def test_five_minutes_of_which_less_than_half_was_observed_are_none_of_them() -> None:
    assert busiest(past_of(np.full((1, 140), 7.0)).running_sums(SPAN_SECONDS), HOUR)[0] == 0.0
    assert busiest(past_of(np.full((1, 160), 7.0)).running_sums(SPAN_SECONDS), HOUR)[0] == pytest.approx(7.0)
    assert busiest(past_of(np.zeros((1, 0))).running_sums(SPAN_SECONDS), HOUR)[0] == 0.0


@pytest.mark.parametrize(("seconds_ago", "most"), [(2 * 3600, 5.0), (4 * 3600, 1.0)])
def test_three_hours_are_learnt(seconds_ago: int, most: float) -> None:
    work = np.ones((1, 5 * 3600))
    work[0, -seconds_ago - 400 : -seconds_ago] = 5.0
    assert learn(past_of(work), COLD, HORIZON)[0].busiest == pytest.approx(most)
