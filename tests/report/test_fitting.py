"""What was recorded under one policy, decided under another that names other models and pools."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.memory import Loan, Memory, ModelMemory, NodeGrant, Shift
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.target_spec import TargetSpec
from rebalancer.planning import plan
from rebalancer.report.fitting import fit
from tests.builders import NOW, a_model, a_node, a_policy, a_pool, a_snapshot

SIGNALS = {"concurrency": {"per_replica": 4.0}}
POOL = "a100"


def a_named(name: str, **overrides: object) -> Model:
    return a_model(name, entitlement=3, signals=SIGNALS).model_copy(update=overrides)


RECORDED = a_policy(a_named("a"), a_named("b"))
MEMORY = Memory(
    models={"a": ModelMemory(demand=4), "b": ModelMemory(demand=1)},
    loans=(Loan("a", "b", POOL, 1, NOW),),
    shifts=(Shift("s1", POOL, "a", ("b",), 1, NOW),),
    node_grants=(NodeGrant("g", "a", POOL, "np", 1, 1, NOW, NOW + 60.0),),
)
OTHERS = {
    "the same": RECORDED,
    "a model under another name": a_policy(a_named("z", aliases=("a",)), a_named("b")),
    "a model less": a_policy(a_named("b")),
    "a model more": a_policy(a_named("a"), a_named("b"), a_named("c")),
    "other models": a_policy(a_named("x"), a_named("y")),
    "another pool": a_policy(
        *(a_named(name, targets=(TargetSpec(pool="h100", name=name),)) for name in "ab"),
        pools=(a_pool("h100", node_labels={"pool": "h100"}),),
    ),
    "a pool more": a_policy(a_named("a"), a_named("b"), pools=(a_pool(), a_pool("h100", node_labels={"pool": "h100"}))),
}


def a_look() -> Snapshot:
    look = a_snapshot(RECORDED, {"a": 4, "b": 2}, {"a": {"concurrency": 15.0}, "b": {"concurrency": 1.0}}, {"a": 4.0})
    assert look.pools[0].name == POOL
    return replace(look, pools=(replace(look.pools[0], nodes=look.pools[0].nodes or (a_node("n1"),)),))


@pytest.mark.parametrize("other", OTHERS.values(), ids=list(OTHERS))
def test_every_other_policy_decides_what_was_recorded(other: Policy) -> None:
    fitted = fit(RECORDED, other)
    decision = plan(fitted.snapshot(a_look()), other, fitted.memory(MEMORY))
    assert [each.model for each in decision.plan.models] == sorted(model.id for model in other.models)


def test_the_same_policy_sees_and_remembers_what_was_recorded() -> None:
    fitted = fit(RECORDED, RECORDED)
    assert (fitted.snapshot(a_look()), fitted.memory(MEMORY), fitted.notes) == (a_look(), MEMORY, ())


def test_a_model_is_the_same_by_its_alias_and_what_is_remembered_of_it_goes_along() -> None:
    fitted = fit(RECORDED, OTHERS["a model under another name"])
    seen, memory = fitted.snapshot(a_look()), fitted.memory(MEMORY)
    assert [view.id for view in seen.models] == [load.model for load in seen.loads] == ["b", "z"]
    assert memory.models["z"].demand == 4
    assert (memory.loans[0].borrower, memory.shifts[0].recipient, memory.node_grants[0].model) == ("z", "z", "z")
    assert fitted.notes == ("model a is called z in the new policy: taken as the same, for its alias or its workload",)


def test_a_model_is_the_same_by_its_workload() -> None:
    fitted = fit(RECORDED, a_policy(a_named("z", targets=(TargetSpec(pool=POOL, name="a"),)), a_named("b")))
    assert fitted.names == {"a": "z", "b": "b"}


def test_a_pool_is_the_same_by_its_node_labels_and_what_is_remembered_there_goes_along() -> None:
    models = (a_named(name, targets=(TargetSpec(pool="big", name=name),)) for name in "ab")
    fitted = fit(RECORDED, a_policy(*models, pools=(a_pool("big", node_labels=RECORDED.pools[0].node_labels),)))
    assert fitted.notes == ("pool a100 is called big in the new policy: taken as the same, for its nodeLabels",)
    assert (fitted.policy, fitted.snapshot(a_look()), fitted.memory(MEMORY)) == (RECORDED, a_look(), MEMORY)


def test_a_pool_whose_name_another_one_has_now_is_not_taken_for_the_same_by_its_labels() -> None:
    labels = RECORDED.pools[0].node_labels
    pools = (a_pool(node_labels={"pool": "new"}), a_pool("big", node_labels=labels))
    assert fit(RECORDED, a_policy(a_named("a"), a_named("b"), pools=pools)).pools == {POOL}


def test_replicas_of_a_model_that_is_not_named_any_more_still_hold_their_gpus() -> None:
    seen = fit(RECORDED, OTHERS["a model less"]).snapshot(a_look())
    held = sum(node.foreign_gpus for node in seen.pools[0].nodes)
    assert held == sum(holder.amount for holder in seen.pools[0].others) == 4 * RECORDED.models[0].gpus_per_replica


def test_what_only_one_policy_has_is_said_with_the_way_out() -> None:
    notes = fit(RECORDED, OTHERS["other models"]).notes
    assert len(notes) == 4
    assert "aliases: [a]" in notes[0]
    assert "model x is not in a recorded policy" in notes[2]
    pools = fit(RECORDED, OTHERS["another pool"]).notes
    assert [note.split(":")[0] for note in pools] == [
        "pool a100 is not in the new policy",
        "pool h100 is not in the journal",
    ]
