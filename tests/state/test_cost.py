"""The cost of a token on a full replica, from replicas that are as full as they happen to be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.sim.batching.engine import BatchingEngine
from rebalancer.sim.batching.engines import LLAMA2_7B
from rebalancer.state.cost import BLOCK_SECONDS, Cost, beginning
from tests.sim.offered.judge import ENGINES

FULL = 0.001  # replica-seconds of a token where all slots are in use
PODS = 4
EVERY = 5.0


def told(cost: Cost, used: np.ndarray, beginning: float, since: float = 1_000.0, full: float = FULL) -> Cost:
    """Samples of replicas with that share of their slots in use, whose cost per token begins at a share of `full`."""
    for number, share in enumerate(used.tolist(), 1):
        busy = share * PODS * EVERY
        tokens = busy / (full * (beginning + (1.0 - beginning) * share))
        cost.saw(since + number * EVERY, EVERY, busy, PODS * EVERY, tokens)
    return cost


def test_a_few_looks_at_what_runs_make_no_line_of_their_own_noise() -> None:
    """A look sees twice what runs on average, or nothing; what is written in between is counted."""
    chance, noisy = np.random.default_rng(2), Cost()
    for number, share in enumerate(hours(6, 0.3, 0.5).tolist(), 1):
        seen = share * PODS * EVERY * 2.0 * chance.integers(0, 2)
        noisy.saw(1_000.0 + number * EVERY, EVERY, seen, PODS * EVERY, share * PODS * EVERY / FULL)
    assert noisy.of_token() == pytest.approx(FULL, rel=0.2)


def hours(number: float, low: float, high: float) -> np.ndarray:
    """Shares that change every two minutes."""
    points = int(number * 3600 / EVERY)
    return np.random.default_rng(1).uniform(low, high, points // 24 + 1).repeat(24)[:points]


@pytest.mark.parametrize("beginning", [0.15, 0.25, 1.0])
def test_what_a_full_replica_costs_is_known_though_none_was_ever_full(beginning: float) -> None:
    cost = told(Cost(), hours(3, 0.2, 0.7), beginning)
    assert cost.of_token() == pytest.approx(FULL, rel=0.05)


def test_before_loads_have_differed_what_was_seen_stands() -> None:
    assert told(Cost(), np.full(120, 0.5), 0.6).of_token() == pytest.approx(0.8 * FULL)


def test_before_loads_have_differed_the_line_leans_as_such_lines_usually_do() -> None:
    assert told(Cost(), np.full(120, 0.3), 0.2).of_token(0.2) == pytest.approx(FULL)


def test_what_was_seen_for_hours_stands_against_what_is_usual() -> None:
    assert told(Cost(), hours(3, 0.2, 0.7), 0.6).of_token(0.1) == pytest.approx(FULL, rel=0.07)


def test_bursts_beside_idle_seconds_are_no_load_between_the_two() -> None:
    """Tokens are written in the bursts; half of the slots in use all the time would write more of them."""
    cost = told(Cost(), np.tile([0.8, 0.0], 720), 0.2)
    assert cost.of_token(0.2) == pytest.approx(FULL, rel=0.03)


@pytest.mark.parametrize("engine", [*ENGINES.values(), LLAMA2_7B["a40"]])
@pytest.mark.parametrize("prompt", [1200, 6000, 13_500])
def test_a_line_begins_where_those_of_engines_do(engine: BatchingEngine, prompt: int) -> None:
    """With answers of 200 tokens: what one costs that is written alone, and beside as many as there is room for."""
    held = prompt + 100
    full = int(min(engine.most_running, engine.kv_tokens / held))
    alone, crowded = (engine.decode_seconds()[n] + engine.seconds_per_kv_token * held * n for n in (1, full))
    read = prompt / 200 * (1 / engine.prefill_per_second + engine.seconds_per_pair * prompt / 2)
    begins = beginning(prompt / 200, full, engine.kv_tokens / held)
    assert begins == pytest.approx((alone + read) / (crowded + full * read), abs=0.1)


def test_nothing_is_known_before_a_token_is_written() -> None:
    assert Cost().of_token() == 0.0
    assert told(Cost(), np.zeros(120), 0.3).of_token() == 0.0


def test_an_engine_that_has_become_slower_is_known_within_a_day() -> None:
    cost = told(Cost(), hours(6, 0.3, 1.0), 0.3)
    told(cost, hours(24, 0.3, 1.0), 0.3, since=30_000.0, full=2.0 * FULL)
    assert cost.of_token() == pytest.approx(2.0 * FULL, rel=0.15)


def test_a_restart_goes_on_with_what_was_learnt() -> None:
    used = hours(1, 0.2, 0.8)
    kept = told(Cost(), used[: len(used) // 2], 0.2).sums
    assert kept.blocks == pytest.approx(1800 / BLOCK_SECONDS, rel=0.05)
    assert Cost(kept).of_token() == pytest.approx(FULL, rel=0.1)


@given(st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(1.0, 1e6)), min_size=1, max_size=40))
def test_a_full_replicas_token_costs_no_less_than_was_seen_and_no_more_than_if_all_were_full(
    blocks: list[tuple[float, float]],
) -> None:
    cost = Cost()
    for number, (used, tokens) in enumerate(blocks, 1):
        cost.saw(1_000.0 + BLOCK_SECONDS * number, BLOCK_SECONDS / 12, used * BLOCK_SECONDS, BLOCK_SECONDS, tokens)
    each = [used * BLOCK_SECONDS / tokens for used, tokens in blocks]
    assert 0.99 * min(each) <= cost.of_token() <= 1.01 * max(each) / min(used for used, _ in blocks)
