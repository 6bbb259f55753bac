"""What a fixed number of replicas would have come to in the last three hours."""

import numpy as np
import pytest

from rebalancer.state.outlook.learning import learn
from rebalancer.state.outlook.stood import Stood, stood
from tests.state.outlook.ahead import bursty, past_of

COLD, HORIZON = 60, 150
START_ROWS = 8  # 60 s and the 20 s in which a surge is answered, in rows of 10 s
SPAN_SECONDS = 10_800


def stood_of(work: np.ndarray) -> list[Stood]:
    return stood(past_of(work).running_sums(SPAN_SECONDS), COLD)


def with_bursts(seconds: int, calm: float, burst: float, lasts: int, every: int = 1200) -> np.ndarray:
    """Calm work with a burst of so many seconds in the middle of each period."""
    middle = np.arange(seconds) % every
    return np.where((middle >= every // 2) & (middle < every // 2 + lasts), burst, calm)[np.newaxis]


def plainly_enough(work: np.ndarray) -> int:
    """The same as a queue of one count at a time, row by row; of counts without a gap."""
    rows = work[: len(work) // 10 * 10].reshape(-1, 10).sum(axis=1)
    for count in range(max(1, int(rows.mean() / 10)), 1000):
        left, since, last, long = 0.0, 0, -100, 0.0
        for row, came in enumerate(rows):
            after = max(0.0, left + came - 10 * count)
            if (left + after) / 2 > 2.5 * count:
                since = since if row - last <= 3 else row
                last = row
                long += came if row - since >= START_ROWS else 0.0
            left = after
        if long <= 0.001 * rows.sum():
            return count
    raise AssertionError("unreachable")


def test_steady_work_needs_just_its_replicas() -> None:
    assert stood_of(np.full((1, 10_800), 5.0)) == [Stood(5, 5.0, 5.0)]


def test_a_burst_that_is_over_before_a_move_would_serve_asks_for_no_more_than_it_takes_to_be_over_soon() -> None:
    # Of 30 s at 6 with 4 replicas 60 replica-seconds wait, which are gone 30 s later; with 3 it takes two minutes.
    (found,) = stood_of(with_bursts(10_800, calm=2.0, burst=6.0, lasts=30))
    assert found == Stood(4, 6.0, 4.0)


def test_a_burst_of_ten_minutes_asks_for_all_of_it() -> None:
    (found,) = stood_of(with_bursts(10_800, calm=2.0, burst=6.0, lasts=600))
    assert found == Stood(6, 6.0, 6.0)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_a_queue_of_each_count_comes_to(seed: int) -> None:
    work = bursty(10_800, mean=3.0, seed=seed)
    assert stood_of(work)[0].enough == plainly_enough(work[0])


def test_lateness_that_has_not_ended_says_nothing_of_its_height() -> None:
    work = np.full((1, 10_800), 2.0)
    work[0, -50:] = 9.0
    (found,) = stood_of(work)
    assert (found.enough, found.peak, found.minute) == (2, 2.0, 2.0)


def test_of_less_than_five_minutes_and_of_no_work_nothing_is_known() -> None:
    assert stood_of(np.full((1, 240), 5.0)) == [Stood()]
    assert stood_of(np.zeros((1, 10_800))) == [Stood()]


def test_each_model_by_itself() -> None:
    work = bursty(10_800, models=3)
    assert stood_of(work) == [stood_of(one[np.newaxis])[0] for one in work]


def test_three_hours_are_looked_at() -> None:
    work = np.full((1, 6 * 3600), 2.0)
    work[0, 3600:7200] = 9.0
    assert stood_of(work) == [Stood(2, 2.0, 2.0)]


def test_it_is_learnt_before_replays_can_be() -> None:
    young, old = (learn(past_of(np.full((1, seconds), 3.0)), COLD, HORIZON)[0] for seconds in (900, 9000))
    assert (young.error, young.enough, old.enough) == (None, 3, 3)
    assert old.error is not None
