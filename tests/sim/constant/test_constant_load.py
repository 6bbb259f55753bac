"""At constant load a model's replicas move at most once in a load time and a cooldown, in 99 % of the windows."""

from collections.abc import Sequence

import pytest

from tests.planning.worlds import patience
from tests.sim.constant.__main__ import main
from tests.sim.constant.worlds import Life, live

# Where what is owed follows every crossing, half of the windows of these worlds have two moves or more, 334 in all.
HOVERING = (6, 8, 10, 11, 17, 25)

BY_VOTES = (44, 46)  # where votes are believed at once, 402 of 984 windows have two moves or more


def held(lives: Sequence[Life]) -> float:
    """Share of the windows with one move at most."""
    return 1.0 - sum(life.broken for life in lives) / sum(life.windows for life in lives)


@pytest.mark.timeout(patience(240))
def test_work_that_hovers_at_a_replicas_capacity_moves_nothing_to_and_fro() -> None:
    lives = [live(seed) for seed in HOVERING]
    assert held(lives) >= 0.97, [(life.seed, life.moves, life.broken) for life in lives]


@pytest.mark.timeout(patience(120))
def test_nor_do_votes_that_hover_where_nothing_else_decides() -> None:
    lives = [live(seed, look_ahead=False) for seed in BY_VOTES]
    assert held(lives) >= 0.97, [(life.seed, life.moves, life.broken) for life in lives]


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_of_ten_thousand_worlds_99_percent_of_the_windows_hold() -> None:
    assert main(["--worlds", "10000"]) == 0


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_nor_do_more_windows_break_in_a_quarter_of_the_worlds_by_votes() -> None:
    assert main(["--worlds", "2500", "--votes"]) == 0
