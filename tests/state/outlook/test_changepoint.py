"""Whether an excess is a burst or a new level."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.state.outlook.changepoint import LevelShift, level_since, probability, shift, shift_of_means, usual_of
from rebalancer.state.outlook.learned import Excesses, Learned
from rebalancer.state.outlook.learning import learn
from rebalancer.state.outlook.level import base, level
from rebalancer.state.outlook.past import NOW, RunningSums
from rebalancer.state.outlook.rule import SHIFT_WINDOWS_SECONDS, SINCE_SECONDS
from tests.state.outlook import plain
from tests.state.outlook.ahead import past_of

COLD, HORIZON = 60, 150
T = 13_000


def known(work: np.ndarray, window: int) -> tuple[list[tuple[float, float]], float]:
    """All pairs of the grid and the usual size, by the text."""
    one = learn(past_of(work[np.newaxis]), COLD, HORIZON)[0]
    pairs = []
    for s in plain.grid(len(work), HORIZON):
        if s >= 300:
            now = plain.level(work, s, one.beta)
            x = plain.excess(work, s, window, one.beta)
            left = (float(np.mean(work[s + COLD : s + HORIZON])) - now) / np.sqrt(now)
            pairs.append((x, min(max(left, -1.5 * abs(x)), 1.5 * abs(x))))
    steps = [abs(x - earlier) for (x, _), (earlier, _) in pairwise(pairs)]
    return pairs, 1.4826 * float(np.median(steps)) / np.sqrt(2.0) + 0.001


def with_bursts(last: int = 0) -> np.ndarray:
    """Bursts of 30 s that are over at once, one step that stays, and `last` seconds of a new one."""
    work = np.random.default_rng(5).gamma(40.0, 0.1, T)
    for begin in range(2000, T - 3000, 1500):
        work[begin : begin + 50] *= 6
    work[9000:10_200] *= 5
    if last:
        work[-last:] *= 5
    return work


@pytest.mark.parametrize("place", [0, 1])
def test_the_usual_excess_and_the_pairs_are_those_of_the_last_three_hours(place: int) -> None:
    work = with_bursts()
    one = learn(past_of(work[np.newaxis]), COLD, HORIZON)[0].excesses[place]
    pairs, usual = known(work, SHIFT_WINDOWS_SECONDS[place])
    assert one.typical == pytest.approx(usual, abs=2e-6)
    assert one.up == pytest.approx(max(x for x, _ in pairs), abs=2e-6)
    assert one.down == pytest.approx(-min(x for x, _ in pairs), abs=2e-6)
    asked = [pair for pair in pairs if abs(pair[0]) >= 4.2 * usual]
    assert len(asked) >= 5
    for got, wanted in zip(one.pairs, asked, strict=True):
        assert got == pytest.approx(wanted, abs=2e-6)


@given(
    x=st.floats(0.5, 60.0).flatmap(lambda size: st.sampled_from([size, -size])),
    pairs=st.lists(st.tuples(st.floats(-30, 30), st.floats(-45, 45)), max_size=20),
)
def test_its_probability_is_the_share_of_such_excesses_that_outlived_a_start(
    x: float, pairs: list[tuple[float, float]]
) -> None:
    largest = [max((sign * one for one, _ in pairs), default=0.0) for sign in (1, -1)]
    told = Excesses(1.0, max(largest[0], 0.0), max(largest[1], 0.0), tuple(pairs))
    assert probability(x, told) == pytest.approx(plain.shift_probability(x, pairs))


def usual_excess(sums: RunningSums, learned: Sequence[Learned]) -> np.ndarray:
    return usual_of(learned, sums, np.full(len(learned), 0.5))


def test_an_ordinary_minute_is_no_shift() -> None:
    work = with_bursts()
    sums = past_of(work[np.newaxis]).running_sums(4000)
    learned = learn(past_of(work[np.newaxis]), COLD, HORIZON)
    found = shift(sums, level(base(sums, NOW), np.array([learned[0].beta]))[0], learned, usual_excess(sums, learned))
    assert found.p[0] == 0.0
    assert found.times_usual[0] < 6.0


@pytest.mark.parametrize(("stays", "least", "most"), [(40, 0.0, 0.1), (400, 0.1, 0.95)])
def test_a_rise_is_as_likely_to_last_as_earlier_ones_were(stays: int, least: float, most: float) -> None:
    work = np.random.default_rng(5).gamma(40.0, 0.1, T)
    for begin in range(1000, T - 2000, 3000):
        work[begin : begin + stays] *= 5
    learned = learn(past_of(work[np.newaxis]), COLD, HORIZON)
    work[-60:] *= 5
    sums = past_of(work[np.newaxis]).running_sums(4000)
    found = shift(sums, level(base(sums, NOW), np.array([learned[0].beta]))[0], learned, usual_excess(sums, learned))
    assert found.times_usual[0] >= 6.0
    assert least <= found.p[0] <= most
    assert found.level[0] == pytest.approx(work[-60:].mean(), rel=0.1)


def test_an_unheard_of_excess_counts_as_lasting_and_downwards_too() -> None:
    calm = np.random.default_rng(6).gamma(400.0, 0.01, T)
    learned = learn(past_of(calm[np.newaxis]), COLD, HORIZON)
    for factor in (6.0, 0.0):
        work = calm.copy()
        work[-60:] *= factor
        sums = past_of(work[np.newaxis]).running_sums(4000)
        found = shift(
            sums, level(base(sums, NOW), np.array([learned[0].beta]))[0], learned, usual_excess(sums, learned)
        )
        assert found.p[0] > 0.8
        assert (found.level[0] > 4.0) == (factor > 1.0)


def young(work: np.ndarray, each: float) -> LevelShift:
    """What is made of the end of the work of a model of which nothing is learnt yet."""
    sums, nothing = past_of(work[np.newaxis]).running_sums(4000), [Learned()]
    now = level(base(sums, NOW), np.zeros((1, 3)))[0]
    return shift(sums, now, nothing, usual_of(nothing, sums, np.array([each])))


def requests(seconds: int, per_second: float, each: float, chance: np.random.Generator) -> np.ndarray:
    """Work of requests that come by chance, each of exponential work."""
    return each * chance.standard_gamma(chance.poisson(per_second, seconds))


def test_before_anything_was_learnt_a_step_is_held_against_requests_that_come_by_chance() -> None:
    chance = np.random.default_rng(3)
    before = requests(420, 10.0, 0.4, chance)
    calm, step = young(before, 0.4), young(np.concatenate([before, requests(30, 40.0, 0.4, chance)]), 0.4)
    assert calm.p[0] == 0.0
    assert step.p[0] > 0.8
    assert step.level[0] > 2 * 4.0


def test_before_anything_was_learnt_a_model_whose_requests_come_in_heaps_is_not_believed_to_have_shifted() -> None:
    chance = np.random.default_rng(4)
    for _ in range(50):
        heaps = np.where(chance.random(600) < 0.02, chance.gamma(2.0, 100.0, 600), 0.0)
        assert young(heaps, 0.4).p[0] < 0.2


def test_a_surge_in_its_third_minute_is_still_one_before_anything_was_learnt() -> None:
    chance = np.random.default_rng(5)
    before = requests(420, 8.0, 0.4, chance)
    for seconds in (60, 120, 150):
        surge = np.concatenate([before, requests(seconds, 32.0, 0.4, chance)])
        assert young(surge, 0.4).p[0] > 0.5


def test_without_counted_requests_the_usual_excess_is_that_of_requests_of_a_replica_second() -> None:
    sums = past_of(np.full((1, 600), 4.0)).running_sums(4000)
    unknown, one = (usual_of([Learned()], sums, np.array([each])) for each in (0.0, 1.0))
    assert unknown == pytest.approx(one)
    assert one[:, 0] == pytest.approx([np.sqrt(9.0 / window) for window in SHIFT_WINDOWS_SECONDS])


def since(rate: np.ndarray, level: float, usual: float = 0.3) -> float:
    """The level since a shift of one model whose rates, per second, are these."""
    means = np.array([[rate[-window:].mean()] for window in SINCE_SECONDS])
    return float(level_since(means, np.array([level]), np.array([usual]))[0])


def test_the_level_since_a_step_is_the_mean_over_all_of_it() -> None:
    chance = np.random.default_rng(1)
    for age in (30, 60, 120):
        rate = np.where(np.arange(600) < 600 - age, 4.0, 16.0) + chance.normal(0.0, 1.0, 600)
        assert since(rate, 4.0) == pytest.approx(rate[-age:].mean())


def test_a_rise_under_way_is_taken_to_go_on_and_a_step_is_not() -> None:
    rise = np.concatenate([np.full(570, 4.0), np.linspace(4.0, 10.0, 30)])
    assert 12.0 <= since(rise, 4.0) <= 16.0
    for age in (10, 20, 30):
        step = np.where(np.arange(600) < 600 - age, 4.0, 12.0)
        assert since(step, 4.0) <= 12.0


def test_at_the_border_of_the_unusual_a_shift_fades_instead_of_ending() -> None:
    usual = 0.3
    lasted = Excesses(usual, 3.0, 3.0, ((3.0, 3.0), (2.5, 2.5)))
    learned, twice = (Learned(excesses=(lasted, lasted)),), np.full((2, 1), usual)
    found = [
        float(shift_of_means(np.full((2, 1), 4.0 + times * usual * 2.0), np.array([4.0]), learned, twice).p[0])
        for times in np.linspace(3.9, 6.5, 27)
    ]
    assert found[0] == 0.0
    assert found[-1] > 0.6
    assert np.diff(found).max() < 0.1


def steps(minutes: int, last: int) -> np.ndarray:
    """Work that swaps between 3 and 10 replicas every `minutes`, ending `last` seconds after a step down."""
    whole = 60 * minutes
    level = np.where(np.arange(T + 2 * whole) // whole % 2 == 0, 10.0, 3.0)
    down = int(np.flatnonzero((level[:-1] == 10.0) & (level[1:] == 3.0) & (np.arange(len(level) - 1) < T))[-1]) + 1
    return np.random.default_rng(7).gamma(10.0, level[: down + last] / 10.0)


def effective(work: np.ndarray) -> float:
    """The level, and as much of a shift as is likely, at the end of the work."""
    learned = learn(past_of(work[np.newaxis, : len(work) // 300 * 300]), COLD, HORIZON)
    sums = past_of(work[np.newaxis]).running_sums(4000)
    now = level(base(sums, NOW), np.array([learned[0].beta]))[0]
    found = shift(sums, now, learned, usual_excess(sums, learned))
    return float(now[0] + found.p[0] * (found.level[0] - now[0]))


@pytest.mark.parametrize("minutes", [7, 20, 30])
def test_a_model_that_steps_to_and_fro_is_believed_to_have_fallen_within_a_minute(minutes: int) -> None:
    # Against its level, which follows a step for 20 minutes, it is unusual most of the time.
    assert effective(steps(minutes, last=60)) < 4.5  # a fall of 7 minutes is half over by the horizon


def test_where_several_rise_at_once_less_is_made_of_what_they_might_still_rise_to() -> None:
    rise = np.concatenate([np.full(570, 4.0), np.linspace(4.0, 10.0, 30)])
    calm = np.full(600, 4.0)

    def of(*rates: np.ndarray) -> list[float]:
        means = np.array([[rate[-window:].mean() for rate in rates] for window in SINCE_SECONDS])
        return [float(one) for one in level_since(means, np.full(len(rates), 4.0), np.full(len(rates), 0.3))]

    alone, beside_calm, together = of(rise), of(rise, calm), of(rise, rise)
    assert beside_calm[0] == alone[0] >= 12.0
    assert together[0] == together[1] <= 11.5
