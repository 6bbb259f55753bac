"""The gate is the last line: plans that break floor, budget or limit are refused, whatever they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.act.checks import Ground, check, decreases
from rebalancer.act.driver import Refused
from rebalancer.act.ledger import Ledger
from rebalancer.domain.cluster import Originals, Override
from rebalancer.domain.memory import Memory, NodeGrant
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Change
from tests.act.rig import Rig, a_grant_of, change, deployment, node_pool, node_pool_change, scaled_object
from tests.builders import (
    NOW,
    a_model,
    a_notice,
    a_policy,
    a_pool,
    a_snapshot,
    an_autoscaler,
    an_elastic_pool,
    an_override,
)


def refused(outcome: Outcome, check: str) -> bool:
    assert (outcome.status, outcome.detail.split(":")[0]) == ("refused", check), outcome
    return True


def two_pools(rig: Rig, a100: int, spot: int, **model: object) -> None:
    """Model b with a target in each of two pools, floor 3."""
    policy = a_policy(
        a_model("b", min_replicas=3, pools=("a100", "spot"), **model), pools=(a_pool(), an_elastic_pool())
    )
    rig.stand(policy, a_snapshot(policy, replicas={"b": {"a100": a100, "spot": spot}}, nodes={"spot": 2}))


def of_b(rig: Rig, name: str, to: int) -> Change:
    return change(rig.target(name), to, model="b")


# --- floor


async def test_a_release_below_the_floor_is_refused(rig: Rig) -> None:
    (outcome,) = await rig.apply(change(rig.target("b"), 1))

    assert refused(outcome, "floor")
    assert "its floor is 2" in outcome.detail
    assert rig.writes == []


@pytest.mark.parametrize("kind", ["release", "settle", "withdraw", "bounds", "grant", "no such kind"])
async def test_no_kind_of_change_passes_the_floor(rig: Rig, kind: str) -> None:
    (outcome,) = await rig.apply(change(rig.target("b"), 1, kind=kind, passes="drain"))

    assert refused(outcome, "floor")
    assert rig.writes == []


async def test_a_release_to_the_floor_is_written(rig: Rig) -> None:
    (outcome,) = await rig.apply(change(rig.target("b"), 2))

    assert outcome.status == "written"


async def test_doomed_replicas_do_not_hold_up_the_floor(rig: Rig) -> None:
    target = rig.target("b")
    node = target.pods[0].node or ""
    pods = tuple(replace(pod, node="n9" if n < 3 else node) for n, pod in enumerate(target.pods))
    rig.show("b", pods=pods)
    rig.facts = replace(rig.facts, notices=(a_notice("n9"),))

    (outcome,) = await rig.apply(change(rig.target("b"), 4))  # 4 asked for, 3 of them doomed: 1 stays

    assert refused(outcome, "floor")


async def test_doomed_replicas_go_even_when_the_model_is_at_its_floor(rig: Rig) -> None:
    target = rig.target("b")
    pods = tuple(replace(pod, node="n9" if n < 3 else "n1") for n, pod in enumerate(target.pods))
    rig.show("b", pods=pods)
    rig.facts = replace(rig.facts, notices=(a_notice("n9", karpenter=True),))
    victims = pods[:3]

    (outcome,) = await rig.apply(
        change(
            rig.target("b"),
            2,
            passes="drain",
            victims=tuple(pod.uid for pod in victims),
            victim_names=tuple(pod.name for pod in victims),
        )
    )

    assert outcome.status == "written"


async def test_a_model_under_its_floor_may_be_raised_part_of_the_way(rig: Rig) -> None:
    rig.store.put(deployment("b", 0))
    target = rig.show("b", replicas=0, pods=())

    (outcome,) = await rig.apply(change(target, 1))

    assert outcome.status == "written"


async def test_the_floor_is_summed_over_the_models_targets(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=2)

    first, second = await rig.apply(of_b(rig, "b-spot", 1), of_b(rig, "b", 1))

    assert {first.status, second.status} == {"written", "refused"}
    assert sorted((rig.replicas("b"), rig.replicas("b-spot"))) == [1, 2]


async def test_doomed_replicas_elsewhere_do_not_hold_up_the_floor(rig: Rig) -> None:
    two_pools(rig, a100=3, spot=2)
    rig.facts = replace(rig.facts, notices=(a_notice("spot-1"),))

    (outcome,) = await rig.apply(of_b(rig, "b", 2))

    assert refused(outcome, "floor")


async def test_a_maximum_of_ours_counts_for_the_floor_before_the_hpa_shows_it(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=3)
    lowered = an_autoscaler(2, 2, effective_maximum=3, originals=Originals(1, 9))
    pods = rig.target("b-spot").pods
    rig.show("b-spot", autoscaler=lowered, pods=(replace(pods[0], node="n9"), *pods[1:]))  # still runs 3, one doomed
    rig.facts = replace(rig.facts, notices=(a_notice("n9"),))

    (outcome,) = await rig.apply(of_b(rig, "b", 1))

    assert refused(outcome, "floor")


async def test_two_releases_side_by_side_cannot_both_use_the_same_surplus(rig: Rig) -> None:
    """The facts show neither write: what counts is what the gate has under way."""
    two_pools(rig, a100=2, spot=2)
    facts = rig.facts
    rig.notebook.before_answer = lambda: setattr(rig, "facts", facts)

    outcomes = await rig.apply(of_b(rig, "b-spot", 1), of_b(rig, "b", 1))

    assert sorted(outcome.status for outcome in outcomes) == ["refused", "written"]


async def test_a_write_of_the_last_cycle_counts_before_any_watch_shows_it(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=2)
    facts, gate = rig.facts, rig.gate()
    await rig.apply_by(gate, of_b(rig, "b-spot", 1))
    rig.facts = facts

    (outcome,) = await rig.apply_by(gate, of_b(rig, "b", 1))

    assert refused(outcome, "floor")


async def test_a_release_whose_reply_was_lost_counts_as_made_for_the_floor(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=2)
    gate = rig.gate()
    rig.server.faults.fail_next(1, 500, method="PUT")

    (unknown,) = await rig.apply_by(gate, of_b(rig, "b-spot", 1))
    (outcome,) = await rig.apply_by(gate, of_b(rig, "b", 1))

    assert unknown.status == "unknown"
    assert refused(outcome, "floor")


async def test_a_raise_elsewhere_whose_reply_was_lost_does_not_hold_up_the_floor(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=2)
    gate = rig.gate()
    rig.server.faults.fail_next(1, 500, method="PUT")

    (unknown,) = await rig.apply_by(gate, of_b(rig, "b-spot", 4))
    rig.store.put(deployment("b", 2))
    (outcome,) = await rig.apply_by(gate, of_b(rig, "b", 0))

    assert unknown.status == "unknown"
    assert refused(outcome, "floor")


async def test_a_refused_write_leaves_nothing_counted(rig: Rig) -> None:
    two_pools(rig, a100=2, spot=2)
    gate = rig.gate()
    rig.server.faults.fail_next(1, 409, method="PUT")

    await rig.apply_by(gate, of_b(rig, "b-spot", 1))
    (outcome,) = await rig.apply_by(gate, of_b(rig, "b", 1))

    assert outcome.status == "written"


async def test_a_lower_bound_below_the_floor_is_refused(rig: Rig) -> None:
    rig.store.put(scaled_object("b", 3, 5))
    target = rig.show("b", autoscaler=an_autoscaler(3, 5, originals=Originals(1, 9)))

    (outcome,) = await rig.apply(change(target, 5, kind="bounds", minimum=1))

    assert refused(outcome, "floor")
    assert rig.bounds("b") == (3, 5)


async def test_an_override_that_says_so_by_name_passes_the_floor(rig: Rig) -> None:
    rig.facts = replace(rig.facts, overrides=(an_override("pin", "b", 1, allow_below_floor=True),))

    (below,) = await rig.apply(change(rig.target("b"), 0, passes="override pin-b allowBelowFloor"))
    (outcome,) = await rig.apply(change(rig.target("b"), 1, passes="override pin-b allowBelowFloor"))

    assert refused(below, "floor")  # not below what it says either
    assert outcome.status == "written"


@pytest.mark.parametrize(
    "override",
    [
        an_override("pin", "b", 1),
        an_override("pin", "b", 1, allow_below_floor=True, expires_at=NOW - 1.0),
        an_override("pin", "a", 1, allow_below_floor=True),
        an_override("drain", "b", 1, allow_below_floor=True),
    ],
    ids=["does not say so", "expired", "of another model", "of another kind"],
)
async def test_the_plans_word_alone_does_not_pass_the_floor(rig: Rig, override: Override) -> None:
    rig.facts = replace(rig.facts, overrides=(override,))

    (outcome,) = await rig.apply(change(rig.target("b"), 1, passes="override pin-b allowBelowFloor"))

    assert refused(outcome, "floor")


async def test_a_change_that_no_override_decided_keeps_the_policys_floor(rig: Rig) -> None:
    rig.facts = replace(rig.facts, overrides=(an_override("pin", "b", 1, allow_below_floor=True),))

    (outcome,) = await rig.apply(change(rig.target("b"), 1, passes="drain"))

    assert refused(outcome, "floor")


async def test_a_newer_override_of_the_kind_takes_the_exception_away(rig: Rig) -> None:
    old = an_override("pin", "b", 1, allow_below_floor=True, created_at=NOW - 90.0)
    rig.facts = replace(rig.facts, overrides=(old, an_override("pin", "b", 2, name="pin-newer")))

    (outcome,) = await rig.apply(change(rig.target("b"), 1, passes="override pin-b allowBelowFloor"))

    assert refused(outcome, "floor")


# --- budget


async def test_a_raise_beyond_the_budget_is_refused(rig: Rig) -> None:
    (outcome,) = await rig.apply(change(rig.target("a"), 4))

    assert refused(outcome, "budget")
    assert outcome.detail == "budget: 9 GPUs of a100 would be promised, its budget is 8"
    assert rig.writes == []


async def test_gpus_are_not_granted_before_the_released_pods_are_gone(rig: Rig) -> None:
    release, grant = await rig.apply(change(rig.target("b"), 4), change(rig.target("a"), 4))

    assert release.status == "written"
    assert refused(grant, "budget")


async def test_two_raises_side_by_side_cannot_both_use_the_last_gpu(rig: Rig) -> None:
    rig.show("b", replicas=4, pods=rig.target("b").pods[:4])
    rig.store.put(deployment("b", 4))
    facts = rig.facts
    rig.notebook.before_answer = lambda: setattr(rig, "facts", facts)

    outcomes = await rig.apply(change(rig.target("a"), 4), change(rig.target("b"), 5))

    assert sorted(outcome.status for outcome in outcomes) == ["refused", "written"]


async def test_a_raise_whose_reply_was_lost_counts_as_promised(rig: Rig) -> None:
    rig.show("b", replicas=4, pods=rig.target("b").pods[:4])
    rig.store.put(deployment("b", 4))
    gate = rig.gate()
    rig.server.faults.fail_next(1, 500, method="PUT")

    (unknown,) = await rig.apply_by(gate, change(rig.target("a"), 4))
    (outcome,) = await rig.apply_by(gate, change(rig.target("b"), 5))
    rig.clock.passed += 10.1
    (later,) = await rig.apply_by(gate, change(rig.target("b"), 5))

    assert unknown.status == "unknown"
    assert refused(outcome, "budget")
    assert later.status == "written"  # after 10 s the watches know


async def test_a_replacement_beside_doomed_pods_fits_the_budget_that_is_left(rig: Rig) -> None:
    rig.policy = a_policy(a_model("a"), a_model("b", min_replicas=2), pools=(a_pool(gpus=16),))
    pools = (replace(rig.facts.pools[0], nodes=a_snapshot(rig.policy).pools[0].nodes),)
    rig.facts = replace(rig.facts, pools=pools, notices=(a_notice("a100-1"),))

    five, six = (
        await rig.apply(change(rig.target("b"), 10, kind="replace")),
        await rig.apply(change(rig.target("a"), 7, kind="replace")),
    )

    assert five[0].status == "written"  # 5 on the node that stays
    assert refused(six[0], "budget")  # 4 more where 3 are free


async def test_a_grant_into_nodes_still_to_come_is_in_the_budget(rig: Rig) -> None:
    policy = a_policy(
        a_model("a", pools=("spot",)), a_model("b", pools=("spot",)), pools=(an_elastic_pool(gpus=8), a_pool())
    )
    rig.stand(policy, a_snapshot(policy, replicas={"a": 0, "b": 0}))

    plain = await rig.apply(change(rig.target("a"), 3))
    granted = await rig.apply(a_grant_of(rig.target("a"), 3, "g1"), a_grant_of(rig.target("b"), 5, "g2"))
    beyond = await rig.apply(a_grant_of(rig.target("b"), 6, "g3"))

    assert refused(plain[0], "budget")
    assert [outcome.status for outcome in granted] == ["written", "written"]
    assert refused(beyond[0], "budget")  # the policy's limit of 8 binds grants too


async def test_grants_in_memory_are_in_the_budget(rig: Rig) -> None:
    policy = a_policy(a_model("a", pools=("spot",)), pools=(an_elastic_pool(gpus=8), a_pool()))
    rig.stand(policy, a_snapshot(policy, replicas={"a": 0}))
    grant = NodeGrant("g1", "a", "spot", "spot", 3, 3, NOW, NOW + 900.0)

    (outcome,) = await rig.apply(change(rig.target("a"), 3), memory=Memory(node_grants=(grant,)))

    assert outcome.status == "written"


async def test_a_node_grant_without_a_node_pool_behind_the_pool_is_no_budget(rig: Rig) -> None:
    rig.policy = a_policy(a_model("a"), a_model("b", min_replicas=2), pools=(a_pool(gpus=16),))

    (outcome,) = await rig.apply(a_grant_of(rig.target("a"), 4, "g1", node_pool="spot"))

    assert refused(outcome, "budget")


async def test_a_node_grant_that_was_not_written_is_no_budget_for_others(rig: Rig) -> None:
    policy = a_policy(
        a_model("a", pools=("spot",)), a_model("b", pools=("spot",)), pools=(an_elastic_pool(gpus=8), a_pool())
    )
    rig.stand(policy, a_snapshot(policy, replicas={"a": 0, "b": 0}))
    rig.server.faults.fail_next(1, 409, method="PUT")

    first, second = await rig.apply(
        replace(a_grant_of(rig.target("a"), 3, "g1"), kind="replace"), change(rig.target("b"), 3)
    )

    assert refused(first, "conflict")
    assert refused(second, "budget")


async def test_a_model_that_left_the_policy_is_not_written(rig: Rig) -> None:
    rig.policy = a_policy(a_model("a"))

    (outcome,) = await rig.apply(change(rig.target("b"), 4))

    assert refused(outcome, "moved")


async def test_a_limit_beyond_the_policys_is_refused(rig: Rig) -> None:
    policy = a_policy(a_model("a"), pools=(a_pool(), an_elastic_pool(gpus=16)))
    rig.stand(policy, a_snapshot(policy))
    rig.store.put(node_pool(limits={"nvidia.com/gpu": "8"}))

    (beyond,) = await rig.apply(node_pool_change("limit", limit_from=8, limit_to=17))
    (unlimited,) = await rig.apply(node_pool_change("limit", limit_from=8, limit_to=None))
    (strange,) = await rig.apply(node_pool_change("limit", pool="a100", limit_from=8, limit_to=8))
    (outcome,) = await rig.apply(node_pool_change("limit", limit_from=8, limit_to=16))

    assert refused(beyond, "budget")
    assert refused(unlimited, "budget")
    assert refused(strange, "budget")
    assert outcome.status == "written"


# --- any plan


@given(
    asks=st.lists(st.tuples(st.sampled_from(["a", "b", "b-spot"]), st.integers(0, 12)), min_size=1, max_size=8),
    held=st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 8)),
    bound=st.booleans(),
)
def test_whatever_is_let_through_keeps_floors_and_budgets(
    asks: list[tuple[str, int]], held: tuple[int, int, int], *, bound: bool
) -> None:
    """Change after change over facts that never learn of them: the ledger alone must hold the line."""
    policy = a_policy(
        a_model("a", min_replicas=1),
        a_model("b", min_replicas=3, pools=("a100", "spot")),
        pools=(a_pool(gpus=8), an_elastic_pool(gpus=8)),
    )
    facts = a_snapshot(policy, replicas={"a": held[0], "b": {"a100": held[1], "spot": held[2]}}, nodes={"spot": 1})
    targets = {target.name: target for model in facts.models for target in model.targets}
    if bound:  # b's first target is bounded by an autoscaler that we took over
        own = an_autoscaler(targets["b"].replicas, max(1, targets["b"].replicas), originals=Originals(1, 9))
        targets["b"] = replace(targets["b"], autoscaler=own)
        models = tuple(
            replace(model, targets=tuple(targets[target.name] for target in model.targets)) for model in facts.models
        )
        facts = replace(facts, models=models)
    least = {name: target.replicas for name, target in targets.items()}  # if only the decreases happened
    most = dict(least)  # if only the raises did
    ground, ledger = Ground(policy, ()), Ledger()
    for name, to in asks:
        one = change(targets[name], to, model="a" if name == "a" else "b")
        try:
            check(one, facts, ground, ledger)
        except Refused:
            continue
        with ledger.booked(one, NOW):
            pass  # the reply was lost: it may have happened or not
        asked = max(1, to) if one.target.autoscaler else to
        if asked < least[name]:
            least[name] = asked
            assert least["a"] >= 1 if name == "a" else least["b"] + least["b-spot"] >= 3
        if asked > most[name]:
            most[name] = asked
            assert most["b-spot"] <= 8 if name == "b-spot" else most["a"] + most["b"] <= 8


def test_a_change_is_a_decrease_by_its_numbers() -> None:
    facts = a_snapshot(a_policy(a_model("b")), replicas={"b": 4})
    target = facts.models[0].targets[0]
    owned = replace(target, autoscaler=an_autoscaler(2, 4, originals=Originals(1, 9)))

    assert decreases(change(target, 3, kind="release"))
    assert decreases(change(target, 3, kind="grant", replicas_from=2))
    assert decreases(change(owned, 3, kind="grant", replicas_from=2, minimum=2))
    assert decreases(change(target, 5, kind="release", replicas_from=6))  # the HPA has not followed a lower maximum yet
    assert decreases(change(owned, 4, kind="bounds", minimum=1))
    assert not decreases(change(target, 5))
    assert not decreases(change(owned, 4, kind="bounds", minimum=2))
    assert not decreases(change(target, 3, kind="settle"))
    assert not decreases(change(target, 3, kind="withdraw"))
