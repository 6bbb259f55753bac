"""A window in pieces: each instant once, fine where it is young, never more points than Prometheus allows."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rebalancer.ingest.past.pieces import FINENESS, STEPS, PastPiece, pieces

NOW = 1_800_000_000.0
HOUR = 3600.0


def instants(piece: PastPiece) -> range:
    return range(piece.begin, piece.end + 1, piece.step_seconds)


@example(hours=24.600035028569664, interval=1.0, at=1.125)  # an edge between two seconds
@given(hours=st.floats(0.01, 24 * 90), interval=st.sampled_from([1.0, 15.0, 30.0, 60.0, 300.0]), at=st.floats(0, 99))
def test_the_pieces_go_through_the_window_without_a_gap_and_without_an_instant_twice(
    hours: float, interval: float, at: float
) -> None:
    end = NOW + at
    window = pieces(end - hours * HOUR, end, interval)
    asked = [instant for piece in window for instant in instants(piece)]
    assert asked == sorted(set(asked))
    assert all(len(instants(piece)) <= STEPS < 11_000 for piece in window)
    coarsest = max(240.0, interval)
    assert all(later - earlier <= coarsest for earlier, later in pairwise(asked))
    assert asked[0] - (end - hours * HOUR) < 1
    assert 0 < end - asked[-1] <= coarsest + 1


@pytest.mark.parametrize(("hours", "count"), [(1, 1), (24, 12), (24 * 7, 21)])
def test_a_day_is_a_dozen_questions_and_a_week_about_twenty(hours: float, count: int) -> None:
    assert len(pieces(NOW - hours * HOUR, NOW, 15.0)) == count


def test_the_young_past_is_asked_for_as_finely_as_it_was_scraped_and_the_old_one_is_not() -> None:
    window = pieces(NOW - 24 * 7 * HOUR, NOW, 15.0)
    assert {piece.step_seconds for piece in window} == {15, 60, 240}
    rings_seconds = FINENESS[0][0]
    assert all(piece.step_seconds == 15 for piece in window if piece.begin > NOW - rings_seconds + 1)


@given(begin=st.integers(0, 10**6), steps=st.integers(1, STEPS), step=st.integers(1, 300))
def test_two_halves_have_the_instants_of_the_whole(begin: int, steps: int, step: int) -> None:
    whole = PastPiece(begin, begin + steps * step, step)
    assert [at for half in whole.halves() for at in instants(half)] == list(instants(whole))
