"""What a new leader makes of writes that the one before it left without an outcome."""

import pytest
from msgspec.structs import replace

from rebalancer.act.intents import intent_of
from rebalancer.act.node_pool_parts import HOLD
from rebalancer.act.originals import ANNOTATION as ORIGINALS
from rebalancer.act.succession import LEFT, inherit, settled
from rebalancer.act.unseen_writes import UnseenWrites
from rebalancer.domain.arithmetic import peak_replicas
from rebalancer.domain.outcome import REFUSED, UNKNOWN, WRITTEN, Intent, Outcome
from rebalancer.sandbox.api import Obj
from tests.act.rig import GPU, Rig, change, deployment, node_pool, node_pool_change, says, scaled_object
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot, an_autoscaler, an_elastic_pool


def left(intent: Intent) -> Outcome:
    return Outcome(intent, NOW, UNKNOWN, LEFT)


async def test_a_write_whose_object_shows_it_has_happened(rig: Rig) -> None:
    intent = intent_of(change(rig.target("b"), 4), 7, NOW)
    rig.store.put(deployment("b", 4))

    (outcome,) = await settled(rig.kube, (left(intent),), lambda: rig.facts, rig.policy)

    assert says(outcome, WRITTEN, "the leader before ended without its outcome")


async def test_one_that_does_not_show_may_still_come(rig: Rig) -> None:
    intent = intent_of(change(rig.target("b"), 4), 7, NOW)

    assert await settled(rig.kube, (left(intent),), lambda: rig.facts, rig.policy) == (left(intent),)


async def test_an_autoscalers_bounds_are_read_where_it_owns_the_target(rig: Rig) -> None:
    target = rig.show("b", autoscaler=an_autoscaler(minimum=2, maximum=9))
    intent = intent_of(change(target, 5, minimum=3), 7, NOW)

    for bounds, status in (((2, 9), UNKNOWN), ((3, 5), WRITTEN)):
        rig.store.put(scaled_object("b", *bounds))
        (outcome,) = await settled(rig.kube, (left(intent),), lambda: rig.facts, rig.policy)
        assert outcome.status == status


async def test_an_object_that_cannot_be_read_leaves_it_unknown(rig: Rig) -> None:
    rig.server.faults.fail_next(5, 500, path_part="/scale")
    intent = intent_of(change(rig.target("b"), 4), 7, NOW)

    assert await settled(rig.kube, (left(intent),), lambda: rig.facts, rig.policy) == (left(intent),)


async def test_what_is_known_is_not_asked_again(rig: Rig) -> None:
    rig.store.put(deployment("b", 4))  # another write of the same number
    known = replace(left(intent_of(change(rig.target("b"), 4), 7, NOW)), status=REFUSED, detail="floor: it is 4")

    assert await settled(rig.kube, (known,), lambda: rig.facts, rig.policy) == (known,)


async def test_what_may_still_come_counts_both_ways_until_the_watches_show_it(rig: Rig) -> None:
    target, unseen = rig.target("b"), UnseenWrites()
    lower, higher = target.replicas - 1, target.replicas + 2

    inherit(unseen, (left(intent_of(change(target, lower), 6, NOW)),), lambda: rig.facts)
    assert unseen.least(target).replicas == lower

    inherit(unseen, (left(intent_of(change(target, higher), 6, NOW)),), lambda: rig.facts)
    assert unseen.least(target).replicas == target.replicas
    assert peak_replicas(unseen.with_most(target)) == higher


async def test_what_the_object_shows_counts_both_ways_while_the_watch_lags_behind(rig: Rig) -> None:
    target, unseen = rig.target("b"), UnseenWrites()
    lower = target.replicas - 1
    rig.store.put(deployment("b", lower))
    outcomes = await settled(rig.kube, (left(intent_of(change(target, lower), 7, NOW)),), lambda: rig.facts, rig.policy)

    inherit(unseen, outcomes, lambda: rig.facts)

    assert (outcomes[0].status, unseen.least(target).replicas) == (WRITTEN, lower)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("limit", {"limits": {GPU: "4"}}, {"limits": {GPU: "8"}}),
        ("restore-limit", {"limits": {GPU: "4"}, "saved": True}, {"limits": {GPU: "4"}}),
        ("hold", {"limits": {GPU: "4"}}, {"limits": {GPU: "4"}, "budgets": [HOLD]}),
        ("end-hold", {"budgets": [HOLD]}, {"budgets": None}),
    ],
)
async def test_a_node_pool_that_shows_its_write_has_it(rig: Rig, kind: str, before: Obj, after: Obj) -> None:
    policy = a_policy(a_model("a"), pools=(a_pool(), an_elastic_pool(gpus=16)))
    rig.stand(policy, a_snapshot(policy))
    intent = intent_of(node_pool_change(kind, limit_from=4, limit_to=8), 7, NOW)

    for shown, status in ((before, UNKNOWN), (after, WRITTEN)):
        obj = node_pool(limits=shown.get("limits"), budgets=shown.get("budgets"))
        obj["metadata"]["annotations"] = {ORIGINALS: "{}"} if shown.get("saved") else {}
        rig.store.put(obj)
        (outcome,) = await settled(rig.kube, (left(intent),), lambda: rig.facts, policy)
        assert outcome.status == status


async def test_a_node_pool_that_has_gone_or_is_spelled_in_no_number_leaves_its_write_unknown(rig: Rig) -> None:
    policy = a_policy(a_model("a"), pools=(a_pool(), an_elastic_pool(gpus=16)))
    rig.stand(policy, a_snapshot(policy))
    outcome = left(intent_of(node_pool_change("limit", limit_from=4, limit_to=8), 7, NOW))

    assert await settled(rig.kube, (outcome,), lambda: rig.facts, policy) == (outcome,)
    rig.store.put(node_pool(limits={GPU: "some"}))
    assert await settled(rig.kube, (outcome,), lambda: rig.facts, policy) == (outcome,)
