"""What fails on a pool costs its models their decisions alone: the others are planned as if it were not there."""

from collections import Counter
from collections.abc import Callable

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from rebalancer.domain.codec import to_bytes
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Intent, Outcome
from rebalancer.domain.plan import Plan, Unplanned
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.sync import Unseen
from rebalancer.planning import Memo, plan, plan_apart
from rebalancer.planning.apart import NotSeenError
from rebalancer.planning.facts.families import families
from tests.builders import NOW, a_model, a_node, a_policy, a_pool, a_snapshot, an_elastic_pool

READINGS = {
    "a": {"concurrency": 14.0},
    "b": {"concurrency": 2.0},
    "x": {"concurrency": 14.0},
    "y": {"concurrency": 2.0},
}
REPLICAS = {"a": 2, "b": 5, "x": 2, "y": 5}
A100 = (a_model("a", 1, entitlement=4), a_model("b", 1, entitlement=4))
H100 = (a_model("x", 1, entitlement=4, pools=("h100",)), a_model("y", 1, entitlement=4, pools=("h100",)))
POLICY = a_policy(*A100, *H100, pools=(a_pool(), a_pool("h100")))
ALONE = a_policy(*A100, pools=(a_pool(),))

Spoil = Callable[[Snapshot], Snapshot]


def a_world(policy: Policy) -> Snapshot:
    """Of each pool one model that wants two GPUs more and one that has three to spare; one GPU is free."""
    models = {model.id for model in policy.models}
    return a_snapshot(
        policy,
        {name: count for name, count in REPLICAS.items() if name in models},
        {name: signals for name, signals in READINGS.items() if name in models},
    )


def with_a_node_of_no_gpus_known(world: Snapshot) -> Snapshot:
    pools = tuple(
        replace(view, nodes=tuple(replace(node, gpus=None) for node in view.nodes)) if view.name == "h100" else view
        for view in world.pools
    )
    return replace(world, pools=pools)


def with_a_target_of_no_grace(world: Snapshot) -> Snapshot:
    models = tuple(
        replace(view, targets=tuple(replace(target, gpus_per_pod=None) for target in view.targets))
        if view.id == "x"
        else view
        for view in world.models
    )
    return replace(world, models=models)


SPOILT = [with_a_node_of_no_gpus_known, with_a_target_of_no_grace]


def others(of: Plan) -> Plan:
    """The plan without what is told of the pool that fails."""
    return replace(of, unplanned=UNSET, models=tuple(each for each in of.models if each.model in {"a", "b"}))


@pytest.mark.parametrize("spoil", SPOILT)
def test_the_other_pool_is_planned_byte_for_byte_as_if_the_failing_one_were_not_there(spoil: Spoil) -> None:
    world = spoil(a_world(POLICY))
    with pytest.raises(TypeError):
        plan(world, POLICY, Memory())
    decided = plan_apart(world, POLICY, Memory())
    alone = plan(a_world(ALONE), ALONE, Memory())
    assert alone.plan.changes, "or it would not tell"
    assert to_bytes(others(decided.plan)) == to_bytes(alone.plan)
    assert {name: decided.memory.models[name] for name in "ab"} == alone.memory.models


@pytest.mark.parametrize("spoil", SPOILT)
def test_its_models_are_told_to_be_left_as_they_are_and_why(spoil: Spoil) -> None:
    decided = plan_apart(spoil(a_world(POLICY)), POLICY, Memory()).plan
    (told,) = decided.unplanned or ()
    assert (told.pools, told.models) == (("h100",), ("x", "y"))
    assert told.error.startswith("TypeError: ")
    x = next(each for each in decided.models if each.model == "x")
    assert (x.demand, x.granted, x.ready, x.floor) == (None, 2, 2, 1), "so `rebalancer_model_blind` is 1"
    assert x.why == f"is left as it is: planning failed on pool h100 ({told.error})"


def unseen(world: Snapshot, *these: Unseen) -> Snapshot:
    return replace(world, unseen=these)


X_UNSEEN = Unseen("model", "x", ("h100",), "TypeError: no number (views.py, line 7)")
H100_UNSEEN = Unseen("pool", "h100", ("h100",), "KeyError: 'n1' (pools.py, line 9)")


@pytest.mark.parametrize("one", [X_UNSEEN, H100_UNSEEN])
def test_the_others_are_planned_as_if_what_could_not_be_looked_at_were_not_there(one: Unseen) -> None:
    decided = plan_apart(unseen(a_world(POLICY), one), POLICY, Memory())
    alone = plan(a_world(ALONE), ALONE, Memory())
    assert alone.plan.changes, "or it would not tell"
    assert to_bytes(others(decided.plan)) == to_bytes(alone.plan)
    (told,) = decided.plan.unplanned or ()
    assert told == Unplanned(
        ("h100",), ("x", "y"), f"NotSeenError: {one.kind} {one.name} could not be looked at: {one.why}"
    )


def test_a_model_that_was_never_seen_is_told_to_be_left_as_it_is() -> None:
    world = unseen(a_world(POLICY), X_UNSEEN)
    world = replace(world, models=tuple(view for view in world.models if view.id != "x"))
    decided = plan_apart(world, POLICY, Memory()).plan
    x = next(each for each in decided.models if each.model == "x")
    assert (x.demand, x.granted) == (None, 0)
    assert x.why.startswith("is left as it is: planning failed on pool h100 (NotSeenError: model x could not be ")


def test_where_nobody_would_be_left_that_was_seen_the_cycle_fails() -> None:
    a_unseen = replace(X_UNSEEN, name="a", pools=("a100",))
    with pytest.raises(NotSeenError, match="model x could not be looked at: TypeError"):
        plan_apart(unseen(a_world(POLICY), X_UNSEEN, a_unseen), POLICY, Memory())


def test_what_became_of_its_writes_is_remembered_and_so_is_what_was() -> None:
    release = Intent("1-x-h100", 1, NOW, "release", "x", "", 3, 2, "", pool="h100", counts="step", counted=1)
    world = replace(a_world(POLICY), outcomes=(Outcome(release, NOW, WRITTEN),))
    before = plan(a_world(POLICY), POLICY, Memory()).memory
    after = plan_apart(with_a_node_of_no_gpus_known(world), POLICY, before).memory
    assert [loss.replicas for loss in after.models["x"].losses] == [1]
    assert after.models["y"] == before.models["y"]
    assert [loan for loan in after.loans if loan.pool == "h100"] == [
        loan for loan in before.loans if loan.pool == "h100"
    ]


def test_pools_that_share_a_model_fail_together_and_a_cycle_of_none_else_fails_as_a_whole() -> None:
    shared = (*H100, a_model("z", 1, entitlement=1, pools=("h100", "a100")))
    policy = a_policy(*A100, *shared, pools=(a_pool(), a_pool("h100")))
    with pytest.raises(TypeError):
        plan_apart(with_a_node_of_no_gpus_known(a_world(policy)), policy, Memory())


def test_a_failure_that_belongs_to_no_pool_fails_the_cycle() -> None:
    policy = POLICY.model_copy(update={"guards": None})
    with pytest.raises(AttributeError):
        plan_apart(a_world(POLICY), policy, Memory())


def test_a_memo_that_a_failing_plan_has_left_half_made_is_forgotten() -> None:
    memo, world = Memo(), a_world(POLICY)
    plan_apart(world, POLICY, Memory(), memo)
    memo.sums(Counter)["half"] += 1
    plan_apart(with_a_node_of_no_gpus_known(world), POLICY, Memory(), memo)
    assert memo.sums(Counter) == Counter()
    assert to_bytes(plan_apart(world, POLICY, Memory(), memo)) == to_bytes(plan(world, POLICY, Memory()))


def test_pools_are_of_one_family_where_models_roles_nodes_or_a_teams_elastic_gpus_bind_them() -> None:
    pools = (a_pool(), a_pool("h100"), an_elastic_pool("spot"), an_elastic_pool("more"), a_pool("l4"))
    models = (
        a_model("a", 1, entitlement=1),
        a_model("x", 1, entitlement=1, pools=("h100", "spot"), team="search"),
        a_model("y", 0, pools=("more",), team="search"),
        a_model("z", 1, entitlement=1, pools=("l4",)),
    )
    policy = a_policy(*models, pools=pools)
    bound = a_policy(*models, pools=pools, teams=({"name": "search", "elastic_gpus": 4},))

    def of(policy: Policy, world: Snapshot) -> list[list[str]]:
        return [sorted(family.pools) for family in families(world, policy)]

    world = a_snapshot(policy)
    assert of(policy, world) == [["a100"], ["h100", "spot"], ["l4"], ["more"]]
    assert of(bound, world) == [["a100"], ["h100", "more", "spot"], ["l4"]]
    both = tuple(
        replace(view, nodes=(a_node("n-of-both"),)) if view.name in {"a100", "l4"} else view for view in world.pools
    )
    assert ["a100", "l4"] in of(policy, replace(world, pools=both))


def test_a_family_is_told_with_all_its_pools() -> None:
    assert Unplanned(("h100", "spot"), ("x",), "KeyError: 'n1'").why == (
        "planning failed on pools h100 and spot (KeyError: 'n1')"
    )
