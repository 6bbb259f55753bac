import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.sim.batching.arrivals import BatchArrivals
from rebalancer.sim.demand import Stream


def stream(requests: list[float], prompt: list[float], tokens: list[float]) -> Stream:
    return Stream("m", np.array(requests, float), np.array(prompt, float), np.array(tokens, float))


def arrivals(of: Stream, scale: float = 1.0, spread: float = 0.7, seed: int = 0) -> BatchArrivals:
    return BatchArrivals(of, scale=scale, spread=spread, seed=seed, model=0)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 2000), st.integers(1, 300)), min_size=1, max_size=60))
def test_each_second_gets_its_requests_and_the_sums_of_its_tokens(seconds: list[tuple[int, int, int]]) -> None:
    requests = [float(count) for count, _, _ in seconds]
    coming = arrivals(stream(requests, [n * p for n, p, _ in seconds], [n * t for n, _, t in seconds])).within(
        0, len(seconds)
    )
    assert np.bincount(coming.arrived.astype(int), minlength=len(seconds)).tolist() == requests
    assert (np.diff(coming.arrived) >= 0).all()
    for second, (count, prompt, tokens) in enumerate(seconds):
        some = coming.arrived.astype(int) == second
        # Whole tokens, at least one each: a second may be off by one, or by what its smallest requests lack.
        assert coming.prompt[some].sum() == pytest.approx(count * prompt, abs=1 + count)
        assert coming.tokens[some].sum() == pytest.approx(count * tokens, abs=1 + count)


def test_a_thinned_trace_stands_for_the_whole_and_keeps_what_each_request_is() -> None:
    one = stream([3.0] * 60, [300.0] * 60, [30.0] * 60)
    coming = arrivals(one, scale=7.5, spread=0.0).within(0, 60)
    assert len(coming.arrived) == 7.5 * 180
    assert set(coming.prompt) == {100}
    assert set(coming.tokens) == {10}


def test_token_lengths_are_spread_as_stated() -> None:
    one = stream([400.0] * 60, [400_000.0] * 60, [400.0] * 60)
    prompt = arrivals(one, spread=0.7).within(0, 60).prompt
    assert np.log(prompt).std() == pytest.approx(0.7, rel=0.02)


def test_what_arrives_depends_on_the_seed_and_on_nothing_else() -> None:
    one = stream([5.0] * 150, [500.0] * 150, [50.0] * 150)
    whole = [arrivals(one).within(begin, min(begin + 60, 150)) for begin in (0, 60, 120)]
    late = arrivals(one)
    pieces = [late.within(second, second + 1) for second in range(149, -1, -1)][::-1]
    for field in range(3):
        assert np.array_equal(
            np.concatenate([part[field] for part in whole]), np.concatenate([part[field] for part in pieces])
        )
    assert not np.array_equal(arrivals(one, seed=1).within(0, 60).arrived, whole[0].arrived)


def test_requests_are_numbered_through() -> None:
    one = arrivals(stream([2.0, 0.0, 3.0], [1.0] * 3, [1.0] * 3), scale=2.0)
    assert [one.first_number(second) for second in range(4)] == [0, 4, 4, 10]
