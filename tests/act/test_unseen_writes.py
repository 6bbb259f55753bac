"""What the gate has asked for counts until the watches have had time to show it, however long the write took."""

from contextlib import suppress

from rebalancer.act.unseen_writes import KEEP_SECONDS, UnseenWrites
from rebalancer.kube.errors import Conflict, Temporary
from tests.act.rig import Rig, SteppingClock, change


async def test_a_write_counts_for_as_long_as_it_is_under_way_and_ten_seconds_more(rig: Rig) -> None:
    unseen, clock, target = UnseenWrites(), SteppingClock(), rig.target("b")
    lower = target.replicas - 1
    with unseen.booked(change(target, lower), clock):
        await clock.sleep(2 * KEEP_SECONDS)
        unseen.stepped(1800.0)
        unseen.forget(clock.now())
        assert unseen.least(target).replicas == lower
    await clock.sleep(KEEP_SECONDS - 0.1)
    unseen.forget(clock.now())
    assert unseen.least(target).replicas == lower
    await clock.sleep(0.1)
    unseen.forget(clock.now())
    assert unseen.least(target).replicas == target.replicas


async def test_a_conflict_leaves_open_whether_an_earlier_copy_of_the_same_call_has_passed(rig: Rig) -> None:
    unseen, clock, target = UnseenWrites(), SteppingClock(), rig.target("b")
    lower = target.replicas - 1
    with suppress(Conflict), unseen.booked(change(target, lower), clock):
        raise Conflict("deployments/b: the object has been modified")
    assert unseen.least(target).replicas == lower


async def test_what_was_surely_not_written_counts_no_more(rig: Rig) -> None:
    unseen, clock, target = UnseenWrites(), SteppingClock(), rig.target("b")
    with suppress(Temporary), unseen.booked(change(target, target.replicas - 1), clock):
        raise Temporary("not connected")
    assert unseen.least(target).replicas == target.replicas
