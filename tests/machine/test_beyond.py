"""A start takes no more of a model than its twin, and after it has held back only a little sooner."""

from collections import Counter

from tests.machine.beyond import AHEAD_STEPS, BESIDE_STEPS, HELD_STEPS, SinceStart, beyond
from tests.machine.test_oracle import Bench, a_model

STEPS = 60
NEVER = STEPS
HELD = HELD_STEPS + AHEAD_STEPS


def side(taken_at: int, step: int, serving: int, needed: int | None = None) -> SinceStart:
    """One replica is taken in that step, of so many that serve."""
    taken = int(step >= taken_at)
    return SinceStart(Counter(b=taken), Counter(b=serving - taken), None if needed is None else Counter(b=needed))


def found(mine_at: int, its_at: int, mine: int = 3, its: int = 3, needed: int | None = None) -> list[int]:
    """The steps in which it is seen that a start took one of `mine` beyond its twin, which has `its`."""
    sides = [(side(mine_at, step, mine, needed), side(its_at, step, its)) for step in range(STEPS)]
    return [step for step in range(STEPS) if beyond(sides[: step + 1])]


def test_while_it_holds_back_it_takes_nothing_sooner_than_by_a_planning_period() -> None:
    assert found(mine_at=3, its_at=3 + BESIDE_STEPS) == []
    assert found(mine_at=3, its_at=4 + BESIDE_STEPS) == [3 + BESIDE_STEPS]


def test_afterwards_it_may_be_sooner_by_a_cooldown_that_began_anew_for_the_twin_and_no_more() -> None:
    assert found(mine_at=HELD_STEPS, its_at=HELD) == []
    assert found(mine_at=HELD_STEPS, its_at=HELD + 1) == [HELD]


def test_what_the_twin_never_takes_is_more() -> None:
    assert found(mine_at=HELD_STEPS, its_at=NEVER) == [HELD]


def test_it_may_take_later_what_its_twin_took() -> None:
    assert found(mine_at=30, its_at=3) == []


def test_what_the_twin_withdrew_before_it_served_may_go_once_it_does() -> None:
    assert found(mine_at=HELD_STEPS, its_at=NEVER, mine=4, its=3) == []
    assert found(mine_at=HELD_STEPS, its_at=NEVER, mine=4, its=4) == [HELD]


def test_what_the_twin_gains_later_makes_nothing_more_of_what_went_before() -> None:
    sides = [(side(HELD_STEPS, step, 4), side(NEVER, step, 3 if step < 30 else 9)) for step in range(STEPS)]
    assert not any(beyond(sides[: step + 1]) for step in range(STEPS))


def test_a_start_that_does_not_know_the_cycles_may_take_what_nobody_needs_and_nothing_else() -> None:
    assert found(mine_at=3, its_at=NEVER, mine=3, needed=2) == []
    assert found(mine_at=3, its_at=NEVER, mine=3, needed=3) == [3 + BESIDE_STEPS]


def test_what_bounds_let_go_serves_no_more_though_its_autoscaler_has_not_followed() -> None:
    """Of two worlds the one that wrote a cycle sooner keeps nothing that the other one takes."""
    bench = Bench(a_model("a", owner="keda"), a_model("b"))
    assert bench.oracle.serving()["a"] == 4
    bench.bounds("a", 3, 3)
    bench.oracle.look()
    assert bench.world.deployments[bench.ref("a")].replicas > 3
    assert bench.oracle.serving()["a"] == 3
