"""What a soak's figures are judged by."""

import pytest

from tests.faults.soak import FEWEST, MORE, MOST_STATE_KIB, Round, slope, steady


def rounds(number: int = 12, growing: str = "", by: float = 0.0) -> list[Round]:
    """A minute each; one figure grows by so much each minute."""
    flat = [Round("A01", 60.0 * at, 50.0, 50.0, 50.0, 50.0, 50.0, 50.0, 50.0, {}) for at in range(number)]
    if not growing:
        return flat
    return [Round(**{**one._asdict(), growing: 50.0 + at * by}) for at, one in enumerate(flat)]


def test_flat_figures_are_steady() -> None:
    assert steady(rounds()) == []


@pytest.mark.parametrize("figure", MORE)
def test_a_figure_that_grows_beyond_what_it_may_is_named(figure: str) -> None:
    (broken,) = steady(rounds(growing=figure, by=MORE[figure]))
    assert broken.startswith(figure)


def test_a_compacted_topic_that_grows_beyond_its_bound_is_named_though_it_shrinks_again() -> None:
    played = rounds()
    played[5] = played[5]._replace(topics={"state": (MOST_STATE_KIB + 1) * 1024})
    (broken,) = steady(played)
    assert broken.startswith("state")


def test_a_few_rounds_say_nothing() -> None:
    assert steady(rounds(FEWEST - 1)) == [f"{FEWEST - 1} rounds say nothing"]


def test_a_slope_is_per_hour() -> None:
    assert slope([0.0, 60.0, 120.0], [5.0, 6.0, 7.0]) == pytest.approx(60.0)
