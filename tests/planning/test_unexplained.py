"""What cannot be put into sentences is decided and written all the same; the others are told of as always."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.memory import Memory
from rebalancer.domain.snapshot import Snapshot
from rebalancer.planning import plan, plan_apart
from rebalancer.planning.planner import decide
from tests.builders import a_model, a_policy, a_pool, a_snapshot
from tests.planning.outlooks import Shape, look

MODELS = tuple(a_model(name, 1, entitlement=4) for name in ("a", "b"))
POLICY = a_policy(*MODELS, pools=(a_pool(),)).model_copy(update={"look_ahead": True})


def a_world() -> Snapshot:
    """Model a needs more than it has, b has some to spare; both with an outlook."""
    readings = {"a": {"concurrency": 20.0}, "b": {"concurrency": 2.0}}
    world = a_snapshot(POLICY, {"a": 2, "b": 5}, readings, {"a": 5.0, "b": 0.5})
    return look(world, POLICY, {"a": 5.0, "b": 0.5}, {"a": Shape(), "b": Shape()})


def with_an_outlook_of_no_error(world: Snapshot) -> Snapshot:
    """Of model b, whose sentence about the error of its forecast cannot be made."""
    loads = tuple(
        replace(load, outlook=replace(load.outlook, error="?"))
        if load.model == "b" and load.outlook is not None
        else load
        for load in world.loads
    )
    return replace(world, loads=loads)


def with_unreadable_node_groups(world: Snapshot) -> Snapshot:
    return replace(world, pools=tuple(replace(view, node_groups=None) for view in world.pools))


def test_a_model_without_sentences_says_so_and_its_numbers_are_there() -> None:
    as_it_is = plan(a_world(), POLICY, Memory()).plan
    spoilt = plan_apart(with_an_outlook_of_no_error(a_world()), POLICY, Memory()).plan
    assert as_it_is.changes, "or it would not tell"
    assert spoilt.changes == as_it_is.changes
    (a, b), (told_a, told_b) = as_it_is.models, spoilt.models
    assert told_a == a
    assert told_b.why.startswith("could not be explained: TypeError: ")
    assert told_b == replace(b, why=told_b.why, steps=())


def test_a_pool_whose_nodes_cannot_be_told_of_says_so_and_its_numbers_are_there() -> None:
    (pool,) = plan(a_world(), POLICY, Memory()).plan.pools
    (told,) = plan_apart(with_unreadable_node_groups(a_world()), POLICY, Memory()).plan.pools
    assert told == replace(pool, nodes=("could not be explained: TypeError: 'NoneType' object is not iterable",))


def test_where_defects_are_looked_for_it_raises() -> None:
    spoilt = decide(with_unreadable_node_groups(a_world()), POLICY, Memory()).explained()
    assert [type(failure) for failure in spoilt.failures] == [TypeError]
    with pytest.raises(TypeError):
        plan(with_unreadable_node_groups(a_world()), POLICY, Memory())
