"""A producer's usual lag is learnt: what comes as late as ever is fresh, what is later than that is stale."""

from collections.abc import Callable

import pytest

from rebalancer.domain.readings import MOST_LAG_SECONDS, Reading
from rebalancer.state import ClusterState
from tests.builders import NOW
from tests.state.loads import load_of, minutes_of, two_pods
from tests.state.objects import a_ready_pod, a_sample, changed, feed

INTERVAL = 5.0
MARGIN = 3 * INTERVAL  # beyond the usual lag


def delivered(
    state: ClusterState,
    lag: Callable[[float], float],
    seconds: float,
    spacing: float = INTERVAL,
    interval: float = INTERVAL,
) -> float:
    """A sample of the whole of model b for every `spacing` s from NOW on, each that late; the instant of the last."""
    born = [NOW + spacing * number for number in range(int(seconds / spacing))]
    arrivals = sorted((at + lag(at - NOW), at) for at in born)
    for now, at in arrivals:
        state.apply(a_sample(at=at, running=4.0, interval_seconds=interval), now)
    return arrivals[-1][0]


def fresh(state: ClusterState, now: float) -> bool:
    reading = load_of(state, now=now).signals["concurrency"]
    return isinstance(reading, Reading) and reading.coverage == 1.0


def steady(lag: float) -> Callable[[float], float]:
    return lambda _: lag


@pytest.mark.parametrize("lag", [0.0, 10.0, 20.0, 60.0, 120.0])
def test_samples_that_are_always_late_are_fresh_for_as_long_as_others_and_the_lag(lag: float) -> None:
    state = two_pods()
    last = delivered(state, steady(lag), 300.0)
    assert load_of(state, now=last).lag_seconds == pytest.approx(lag)
    assert fresh(state, last + MARGIN - 0.1)
    assert not fresh(state, last + MARGIN + 0.1)


def test_a_lag_is_known_with_the_second_sample() -> None:
    state = two_pods()
    state.apply(a_sample(at=NOW, running=4.0), NOW + 60.0)
    assert not fresh(state, NOW + 60.0)
    state.apply(a_sample(at=NOW + INTERVAL, running=4.0), NOW + 65.0)
    assert fresh(state, NOW + 65.0)


def test_the_windows_of_offered_work_end_where_knowledge_does() -> None:
    state = two_pods()
    last = delivered(state, steady(60.0), 600.0)
    work, same = (load_of(state, now=last + passed).work for passed in (0.0, 2 * INTERVAL - 1.0))
    assert work.short == work.last_60s == work.long == pytest.approx(1.0)
    assert same == work
    assert load_of(state, now=last).known_until == last - 60.0
    silent = load_of(state, now=last + 2 * INTERVAL + 30.0)
    assert silent.known_until == last - 30.0
    assert silent.work.short is None


def test_a_broker_that_was_away_for_a_minute_twice_is_no_habit() -> None:
    state = two_pods()
    away = {300.0: 361.0, 370.0: 421.0}

    def lag(after: float) -> float:
        return max([1.0, *(back - after for gone, back in away.items() if gone <= after < back)])

    delivered(state, lag, 500.0)
    assert load_of(state, now=NOW + 496.0).lag_seconds == pytest.approx(1.0)


def test_a_backlog_that_is_read_at_once_teaches_nothing() -> None:
    state = two_pods()
    delivered(state, lambda after: max(1.0, 500.0 - after), 520.0)
    assert load_of(state, now=NOW + 516.0).lag_seconds == pytest.approx(1.0)


@pytest.mark.parametrize("growth", [0.15, 0.3, 0.6])
def test_a_lag_that_grows_is_no_habit_within_four_minutes(growth: float) -> None:
    state = two_pods()
    delivered(state, steady(1.0), 240.0)
    told = []
    for number in range(48, 48 + int(600 / INTERVAL)):
        at = NOW + number * INTERVAL
        now = at + 1.0 + growth * (at - NOW - 240.0)
        state.apply(a_sample(at=at, running=4.0), now)
        told.append((now - NOW - 240.0, fresh(state, now + INTERVAL)))
    went_blind = min(after for after, seen in told if not seen)
    assert went_blind < 240.0
    assert not any(seen for after, seen in told if after > 300.0 and growth >= 0.3)


def test_a_lag_that_creeps_up_ends_at_the_ceiling() -> None:
    state = two_pods()
    oldest = 0.0
    for number in range(4000):
        at = NOW + number * INTERVAL
        now = at + 1.0 + 0.02 * (at - NOW)
        state.apply(a_sample(at=at, running=4.0), now)
        if fresh(state, now):
            oldest = max(oldest, now - at)
    assert MOST_LAG_SECONDS < oldest <= MOST_LAG_SECONDS + MARGIN


def test_a_lag_that_came_to_stay_is_believed_after_three_minutes_and_given_up_after_one() -> None:
    state = two_pods()
    lags = {}
    for number in range(240):
        at = number * INTERVAL
        lag = 60.0 if 300.0 <= at < 900.0 else 1.0
        state.apply(a_sample(at=NOW + at, running=4.0), NOW + at + lag)
        lags[at + lag] = load_of(state, now=NOW + at + lag).lag_seconds
    believed = min(after for after, lag in lags.items() if lag > 50.0)
    assert 420.0 <= believed <= 600.0
    gone = min(after for after, lag in lags.items() if after > 960.0 and lag < 10.0)
    assert gone <= 1080.0


@pytest.mark.parametrize("every", [15.0, 30.0, 60.0])
def test_scrapes_that_are_asked_for_more_often_than_they_come_are_as_late_as_they_get(every: float) -> None:
    state = two_pods()
    last = delivered(state, steady(30.0), 600.0, spacing=every, interval=15.0)
    assert fresh(state, last + every)
    assert load_of(state, now=last).lag_seconds == pytest.approx(30.0 + every - 15.0)


def test_a_pod_that_is_new_is_taken_to_be_as_late_as_the_others() -> None:
    state = two_pods()
    for now, sample in [(sample.at + 60.0, sample) for sample in minutes_of()]:
        state.apply(sample, now)
    now = NOW + 61.0
    assert load_of(state, now=now).lag_seconds == pytest.approx(60.0)
    state.apply(changed(a_ready_pod("b-3", ready_at=NOW + 30.0), at=now), now)
    told = load_of(state, now=now).signals["concurrency"]
    assert isinstance(told, Reading)
    assert (told.value, told.coverage) == (8.0, 1.0), "nobody can have heard of a pod that has been Ready for 31 s"
    state.apply(a_sample(pod="b-3", at=NOW + 5.0, running=3.0), now + 4.0)
    told = load_of(state, now=now + 4.0).signals["concurrency"]
    assert isinstance(told, Reading)
    assert told.value == 11.0


def test_a_clock_that_is_ahead_teaches_nothing() -> None:
    state = two_pods()
    delivered(state, steady(1.0), 60.0)
    feed(state, a_sample(at=NOW + 400.0, running=4.0), now=NOW + 65.0)
    assert state.counters()["time-ahead"] == 1
    assert load_of(state, now=NOW + 65.0).lag_seconds == pytest.approx(1.0)


def test_a_backlog_that_is_read_in_shares_is_no_habit_of_its_producers() -> None:
    """Ten minutes of samples, in shares of 20 two seconds apart: nothing is fresh before the last of them is read."""
    state = two_pods()
    shares = range(6)
    for share in shares:
        now = NOW + 590.0 + 3.0 * share
        for number in range(20 * share, 20 * share + 20):
            state.apply(a_sample(at=NOW + INTERVAL * number, running=4.0, interval_seconds=INTERVAL), now)
        assert fresh(state, now) == (share == shares[-1])
    assert load_of(state, now=NOW + 606.0).lag_seconds == 0.0
