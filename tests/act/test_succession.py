"""What a new leader makes of writes that the one before it left without an outcome."""

from msgspec.structs import replace

from rebalancer.act.intents import intent_of
from rebalancer.act.ledger import Ledger
from rebalancer.act.succession import inherit, settled
from rebalancer.domain.arithmetic import peak_replicas
from rebalancer.domain.outcome import REFUSED, UNKNOWN, WRITTEN, Intent, Outcome
from tests.act.rig import Rig, change, deployment, says, scaled_object
from tests.builders import NOW, an_autoscaler


def left(intent: Intent) -> Outcome:
    return Outcome(intent, NOW, UNKNOWN, "the process ended before its outcome")


async def test_a_write_whose_object_shows_it_has_happened(rig: Rig) -> None:
    intent = intent_of(change(rig.target("b"), 4), 7, NOW)
    rig.store.put(deployment("b", 4))

    (outcome,) = await settled(rig.kube, (left(intent),), rig.facts)

    assert says(outcome, WRITTEN, "the leader before ended without its outcome")


async def test_one_that_does_not_show_may_still_come(rig: Rig) -> None:
    intent = intent_of(change(rig.target("b"), 4), 7, NOW)

    assert await settled(rig.kube, (left(intent),), rig.facts) == (left(intent),)


async def test_an_autoscalers_bounds_are_read_where_it_owns_the_target(rig: Rig) -> None:
    target = rig.show("b", autoscaler=an_autoscaler(minimum=2, maximum=9))
    intent = intent_of(change(target, 5, minimum=3), 7, NOW)

    for bounds, status in (((2, 9), UNKNOWN), ((3, 5), WRITTEN)):
        rig.store.put(scaled_object("b", *bounds))
        (outcome,) = await settled(rig.kube, (left(intent),), rig.facts)
        assert outcome.status == status


async def test_an_object_that_cannot_be_read_leaves_it_unknown(rig: Rig) -> None:
    rig.server.faults.fail_next(5, 500, path_part="/scale")
    intent = intent_of(change(rig.target("b"), 4), 7, NOW)

    assert await settled(rig.kube, (left(intent),), rig.facts) == (left(intent),)


async def test_what_is_known_is_not_asked_again(rig: Rig) -> None:
    rig.store.put(deployment("b", 4))  # another write of the same number
    known = replace(left(intent_of(change(rig.target("b"), 4), 7, NOW)), status=REFUSED, detail="floor: it is 4")

    assert await settled(rig.kube, (known,), rig.facts) == (known,)


async def test_what_may_still_come_counts_both_ways_until_the_watches_show_it(rig: Rig) -> None:
    target, ledger = rig.target("b"), Ledger()
    lower, higher = target.replicas - 1, target.replicas + 2

    inherit(ledger, (left(intent_of(change(target, lower), 6, NOW)),), rig.facts)
    assert ledger.least(target).replicas == lower

    inherit(ledger, (left(intent_of(change(target, higher), 6, NOW)),), rig.facts)
    assert ledger.least(target).replicas == target.replicas
    assert peak_replicas(ledger.with_most(target)) == higher


async def test_what_the_object_shows_counts_both_ways_while_the_watch_lags_behind(rig: Rig) -> None:
    target, ledger = rig.target("b"), Ledger()
    lower = target.replicas - 1
    rig.store.put(deployment("b", lower))
    outcomes = await settled(rig.kube, (left(intent_of(change(target, lower), 7, NOW)),), rig.facts)

    inherit(ledger, outcomes, rig.facts)

    assert (outcomes[0].status, ledger.least(target).replicas) == (WRITTEN, lower)
