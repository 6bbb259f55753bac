"""What users ask for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.world import Dial, Requests
from rebalancer.world.traffic import BadTrace, Trace, read_trace

ONE = Requests(1, 10, 20)
HEADER = "t_seconds,model,requests,input_tokens,output_tokens\n"


def test_a_dial_moves_in_a_straight_line() -> None:
    dial = Dial(ONE, 2.0)
    dial.turn(10.0, now=100.0, over_seconds=4.0)
    assert [dial.rate(at) for at in (100.0, 102.0, 104.0, 500.0)] == [2.0, 6.0, 10.0, 10.0]
    dial.turn(0.0, now=102.0, over_seconds=1.0)
    assert [dial.rate(at) for at in (102.0, 102.5, 103.0)] == [6.0, 3.0, 0.0]


def test_arrivals_bring_their_tokens() -> None:
    assert Dial(ONE, 3.0).arrivals(0.0, 2.0) == Requests(6.0, 60.0, 120.0)


def test_noise_keeps_the_mean_and_is_the_same_for_the_same_seed() -> None:
    first, again, other = (Dial(ONE, 5.0, seed) for seed in ("x", "x", "y"))
    counts = [first.arrivals(at, at + 1.0).count for at in range(4000)]
    assert sum(counts) / 4000 == pytest.approx(5.0, rel=0.03)
    assert [again.arrivals(at, at + 1.0).count for at in range(4000)] == counts
    assert [other.arrivals(at, at + 1.0).count for at in range(4000)] != counts
    assert min(counts) >= 0


@given(
    st.lists(st.tuples(st.integers(0, 50), st.floats(0, 100)), max_size=20),
    st.lists(st.floats(0.05, 3.0), min_size=1, max_size=80),
)
def test_all_requests_of_a_trace_arrive_once_whatever_the_steps(
    rows: list[tuple[int, float]], steps: list[float]
) -> None:
    trace = Trace(1000.0, [(at, ONE.times(count)) for at, count in rows])
    at, total = 990.0, 0.0
    for step in [*steps, 400.0]:
        total += trace.arrivals(at, at + step).count
        at += step
    assert total == pytest.approx(sum(count for _, count in rows), abs=1e-6)


def test_a_trace_is_read_per_model() -> None:
    rows = read_trace([HEADER, "0,chat,2,1600,200\n", "1,code,1,5,5\n", "1,chat,0,0,0\n"])
    assert rows == {
        "chat": [(0.0, Requests(2, 1600, 200)), (1.0, Requests(0, 0, 0))],
        "code": [(1.0, Requests(1, 5, 5))],
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: no column t_seconds"),
        ("t_seconds,model\n1,chat\n", "line 1: no column requests, input_tokens, output_tokens"),
        (HEADER, "line 2: no rows"),
        (HEADER + "1,chat,x,1,1\n", "line 2: requests is 'x'"),
        (HEADER + "1,chat,1,1,1\n-1,chat,1,1,1\n", "line 3: t_seconds is '-1'"),
        (HEADER + "1,chat,1,nan,1\n", "line 2: input_tokens is 'nan'"),
        (HEADER + "1,chat,1,1\n", "line 2: output_tokens is None"),
        (HEADER + "1,chat,inf,1,1\n", "line 2: requests is 'inf'"),
    ],
)
def test_a_trace_that_cannot_be_used_says_where_it_is_wrong(text: str, said: str) -> None:
    with pytest.raises(BadTrace, match=said):
        read_trace(text.splitlines(keepends=True))
