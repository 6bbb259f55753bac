"""A new leader counts what the one before it asked for, as long as its own watch shows the number from before."""

import pytest
from msgspec.structs import replace

from rebalancer.app.recent_writes import RecentWrite, count_unheard, recent_writes
from rebalancer.domain.outcome import REFUSED, UNKNOWN, WRITTEN, Intent, Outcome
from rebalancer.state.holdings import UNHEARD_SECONDS
from tests.builders import NOW, a_policy
from tests.state.objects import a_state, a_workload, changed, feed, ref

POLICY = a_policy()


def a_write(to: int = 7, at: float = NOW - 20.0, status: str = WRITTEN, **changes: object) -> Outcome:
    intent = Intent(
        id="42-b-a100",
        cycle=42,
        at=at,
        kind="grant",
        subject="b",
        object="deployment/serving/b",
        replicas_from=3,
        replicas_to=to,
        reason="test",
        pool="a100",
    )
    return Outcome(replace(intent, **changes), at, status)


def asks_for(shown: int, *writes: Outcome, now: float = NOW) -> int | None:
    """The number that counts for b in a state whose watch shows `shown`; None: just that."""
    state = a_state(POLICY, a_workload(replicas=shown))
    count_unheard(recent_writes(writes, POLICY, now), state, now)
    (target,) = next(view for view in state.peek(now).models if view.id == "b").targets
    return target.unconfirmed_replicas


def test_a_raise_that_our_watch_has_not_shown_counts() -> None:
    """Seed 301363 of the schedules: a watch had been silent for 20 s when its replica began to lead."""
    assert asks_for(3, a_write(7)) == 7


def test_what_our_watch_shows_may_be_the_write_that_its_leader_died_over() -> None:
    """From 5 to 3, back to 4, and to 5 with the leader's last breath: 4 counted, and 5 was not believed for 90 s."""
    writes = [a_write(3, NOW - 40.0, replicas_from=5), a_write(4, NOW - 20.0, replicas_from=3, id="43-b")]
    assert asks_for(5, *writes) == 4
    assert asks_for(5, *writes, a_write(5, NOW - 19.0, UNKNOWN, replicas_from=4, id="44-b")) is None


def test_so_does_a_release() -> None:
    assert asks_for(3, a_write(2)) == 2


@pytest.mark.parametrize("shown", [7, 5])
def test_what_our_watch_shows_since_counts_as_it_shows_it(shown: int) -> None:
    assert asks_for(shown, a_write(7)) is None


def test_of_several_the_newest_counts() -> None:
    assert asks_for(3, a_write(5, NOW - 10.0, replicas_from=7), a_write(7, NOW - 20.0)) == 5
    assert asks_for(7, a_write(5, NOW - 10.0, replicas_from=7), a_write(7, NOW - 20.0)) == 5


def test_what_was_refused_is_too_old_or_has_left_the_policy_counts_nothing() -> None:
    assert asks_for(3, a_write(status=REFUSED)) is None
    assert asks_for(3, a_write(at=NOW - UNHEARD_SECONDS)) is None
    assert asks_for(3, a_write(object="deployment/serving/left")) is None


def test_it_counts_until_the_watch_shows_it() -> None:
    state = a_state(POLICY, a_workload(replicas=3))
    count_unheard((RecentWrite("b", ref(), (3,), 7, None, NOW - 20.0),), state, NOW)
    feed(state, changed(a_workload(replicas=7, resource_version="2")))
    (target,) = next(view for view in state.peek(NOW).models if view.id == "b").targets
    assert (target.replicas, target.unconfirmed_replicas) == (7, None)
