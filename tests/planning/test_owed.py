"""What an owner is owed does not flap: one replica more or less is believed slowly, a step of more than one at once."""

from msgspec.structs import replace

from rebalancer.domain.memory import Owed
from rebalancer.domain.readings import Work
from rebalancer.planning.demand.owed import Crossed, crossed, owed, waits
from tests.builders import a_model
from tests.planning.outlooks import an_outlook

COOLDOWN = 30.0


def quiet(replicas: int) -> Crossed:
    """Work that keeps exactly so many busy, without any noise."""
    return Crossed(replicas, replicas, replicas)


def course(before: Owed, work: Crossed, asks: list[int], every: float = 5.0) -> list[int]:
    """What is owed in plan after plan, while votes ask for these."""
    found = []
    for number, asked in enumerate(asks):
        before = owed(before, work, asked, COOLDOWN, number * every)
        found.append(before.replicas)
    return found


def seen(level: float, minute: float, dispersion: float, before: int, *, surge: bool = False) -> Crossed:
    outlook = an_outlook({1: 0.0, 2: 0.0}, 1, a_model("a"), level=level, base=level, shifted=level)
    work = Work(last_60s=minute)
    return crossed(replace(outlook, dispersion=dispersion), work, Owed(before), surge=surge)


class TestOwed:
    def test_what_votes_asked_for_throughout_20_s_is_owed(self) -> None:
        assert course(Owed(2), quiet(2), [4] * 6) == [2, 2, 2, 2, 4, 4]

    def test_a_vote_for_less_in_between_counts(self) -> None:
        assert course(Owed(2), quiet(2), [4, 4, 2, 4, 4, 4, 4, 4]) == [2, 2, 2, 2, 2, 2, 2, 4]

    def test_the_fewest_that_they_asked_for_is_owed_first(self) -> None:
        # 3 has stood for 20 s at 20 s, 5 (asked from 10 s on) at 30 s.
        assert course(Owed(2), quiet(2), [3, 3, 5, 5, 5, 5, 5]) == [2, 2, 2, 2, 3, 3, 5]

    def test_the_last_minute_must_have_crossed_by_more_than_chance(self) -> None:
        # Bins of 10 s vary by 0.2 x 4 replicas squared: a minute of six of them by 0.37. Twice that is 0.73.
        assert seen(4.0, 4.3, 0.2, before=4).surely == 4
        assert seen(4.0, 4.9, 0.2, before=4).surely == 5

    def test_a_step_of_more_than_one_replica_is_owed_at_once(self) -> None:
        assert seen(4.0, 5.1, 1.0, before=4).surely == 6

    def test_so_is_a_surge(self) -> None:
        assert seen(4.0, 4.1, 1.0, before=4, surge=True).surely == 5

    def test_the_last_replica_stays_owed_for_the_cooldown(self) -> None:
        assert course(Owed(4), quiet(3), [1] * 8) == [4] * 6 + [3, 3]

    def test_more_than_one_is_none_of_it_at_once(self) -> None:
        assert course(Owed(6), quiet(2), [1] * 8) == [3] * 6 + [2, 2]

    def test_votes_that_ask_for_it_hold_it(self) -> None:
        assert course(Owed(4), quiet(3), [1, 1, 4, 1, 1, 1, 1, 1, 1, 1]) == [4] * 9 + [3]

    def test_work_that_may_cross_again_by_chance_holds_it(self) -> None:
        # The level of 3.95 varies by 0.12: 4 replicas may not be enough.
        assert seen(3.95, 3.9, 0.2, before=5).enough == 5
        assert seen(3.5, 3.4, 0.2, before=5).enough == 4


def test_work_that_hovers_at_a_boundary_changes_nothing() -> None:
    before = Owed(4)
    for number in range(100):
        work = seen(4.0 + 0.1 * (-1) ** number, 4.0 + 0.3 * (-1) ** number, 0.2, before.replicas)
        before = owed(before, work, 4 + number % 2, COOLDOWN, 5.0 * number)
        assert before.replicas in {4, 5}
        assert number < 1 or before.replicas == 4, "a crossing that comes and goes is no claim"


def test_what_would_change_by_time_alone_is_known() -> None:
    assert not waits(owed(Owed(4), quiet(4), 4, COOLDOWN, 0.0))
    assert waits(owed(Owed(4), quiet(4), 5, COOLDOWN, 0.0))
    assert waits(owed(Owed(4), quiet(3), 3, COOLDOWN, 0.0))
    assert not waits(None)
