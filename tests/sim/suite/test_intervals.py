from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.sim.suite.intervals import paired_interval


def blocks(late: np.ndarray, seed: int = 0) -> np.ndarray:
    asked = np.random.default_rng(seed).uniform(500, 1500, len(late))
    return np.column_stack([late * asked, asked])


def test_a_small_steady_difference_counts_although_the_blocks_vary_far_more() -> None:
    varying = np.random.default_rng(1).uniform(0.0, 0.5, 144)

    difference, low, high = paired_interval(blocks(varying + 0.01), blocks(varying), seed=7)

    assert difference == pytest.approx(0.01)
    assert 0.009 < low < 0.011
    assert 0.009 < high < 0.011


def test_noise_does_not_count() -> None:
    chance = np.random.default_rng(2)

    _, low, high = paired_interval(blocks(chance.uniform(0, 0.5, 144)), blocks(chance.uniform(0, 0.5, 144)), seed=7)

    assert low < 0 < high


def test_blocks_weigh_by_their_requests() -> None:
    a = np.array([[10.0, 10.0], [0.0, 990.0]])

    difference, _, _ = paired_interval(a, np.array([[0.0, 10.0], [0.0, 990.0]]), seed=7)

    assert difference == pytest.approx(0.01)


def test_a_night_without_requests_is_no_violation() -> None:
    assert paired_interval(np.zeros((3, 2)), np.zeros((3, 2)), seed=7) == (0.0, 0.0, 0.0)


def test_an_interval_is_the_same_for_the_same_seed() -> None:
    a, b = blocks(np.linspace(0, 1, 20)), blocks(np.linspace(1, 0, 20))

    assert paired_interval(a, b, seed=3) == paired_interval(a, b, seed=3)
    assert paired_interval(a, b, seed=3)[1:] != paired_interval(a, b, seed=4)[1:]


def test_the_interval_covers_the_true_difference_about_as_often_as_it_says() -> None:
    chance = np.random.default_rng(5)
    covered = 0
    for trial in range(60):
        a, b = (np.column_stack([chance.binomial(100, p, 60), np.full(60, 100.0)]) for p in (0.2, 0.17))
        _, low, high = paired_interval(a.astype(float), b.astype(float), trial)
        covered += low <= 0.03 <= high

    assert 52 <= covered <= 60


def test_runs_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_interval(np.zeros((3, 2)), np.zeros((4, 2)), seed=0)


NUMBER = st.floats(0, 1000)
SOME_BLOCKS = st.lists(st.tuples(NUMBER, NUMBER, st.floats(1, 1000)), min_size=1, max_size=30)


@given(SOME_BLOCKS, st.integers(0, 9))
def test_who_is_compared_with_whom_only_turns_the_sign(rows: list[tuple[float, float, float]], seed: int) -> None:
    ours, theirs, asked = np.array(rows).T
    a, b = np.column_stack([ours, asked]), np.column_stack([theirs, asked])

    difference, low, high = paired_interval(a, b, seed)

    assert paired_interval(b, a, seed) == pytest.approx((-difference, -high, -low), abs=1e-9)
    assert low - 1e-9 <= high


@given(SOME_BLOCKS, st.floats(0, 0.5), st.integers(0, 9))
def test_what_both_suffer_in_the_same_blocks_cancels(
    rows: list[tuple[float, float, float]], more: float, seed: int
) -> None:
    late, _, asked = np.array(rows).T
    a, b = np.column_stack([late + more * asked, asked]), np.column_stack([late, asked])

    assert paired_interval(a, b, seed) == pytest.approx((more, more, more), abs=1e-9)


@given(SOME_BLOCKS, st.integers(1, 5), st.integers(0, 9))
def test_the_same_draw_of_chance_five_times_over_is_no_more_certain_than_once(
    rows: list[tuple[float, float, float]], seeds: int, seed: int
) -> None:
    ours, theirs, asked = np.array(rows).T
    a, b = np.column_stack([ours, asked]), np.column_stack([theirs, asked])

    several = paired_interval(np.stack([a] * seeds), np.stack([b] * seeds), seed)

    assert several == pytest.approx(paired_interval(a, b, seed), abs=1e-9)


@given(SOME_BLOCKS, st.randoms(use_true_random=False), st.integers(0, 9))
def test_blocks_are_paired_by_their_place(rows: list[tuple[float, float, float]], random: Random, seed: int) -> None:
    late, _, asked = np.array(rows).T
    one = np.column_stack([late, asked])
    other = one[random.sample(range(len(one)), len(one))]

    assert paired_interval(one, one, seed) == (0.0, 0.0, 0.0)
    difference, low, high = paired_interval(one, other, seed)
    assert difference == pytest.approx(0.0, abs=1e-9)
    if len(one) > 1 and not np.allclose(one, other):
        assert low <= 1e-9
        assert high >= -1e-9


def test_seeds_of_other_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_interval(np.ones((5, 3, 2)), np.ones((4, 3, 2)), seed=0)
