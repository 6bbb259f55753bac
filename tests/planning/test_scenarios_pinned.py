"""A person wants more replicas than there is room for: the answer says for how many there is, and why for no more."""

from msgspec.structs import replace

from rebalancer.domain.memory import Memory
from rebalancer.domain.people import Override
from rebalancer.domain.plan import Plan
from rebalancer.planning import plan
from tests.builders import NOW, a_model, a_policy, a_pool, a_snapshot, an_override
from tests.planning.story import moves

POLICY = a_policy(a_model("a", 1, entitlement=4), a_model("b", 1, entitlement=2), pools=(a_pool(gpus=8),))


def of_the_second_plan(override: Override, wanted_by_a: float) -> Plan:
    """Model b has 9 replicas, whoever asked for them, of which 6 have one of the 8 GPUs; a has two and owns four."""
    readings = {"a": {"concurrency": wanted_by_a}, "b": {"concurrency": 4.0}}
    world = a_snapshot(POLICY, {"a": 2, "b": 9}, readings, overrides=(replace(override, created_at=NOW - 60.0),))
    raised = tuple(
        replace(view, targets=tuple(replace(target, by_others=view.id == "b") for target in view.targets))
        for view in world.models
    )
    world = replace(world, models=raised)
    before = plan(replace(world, at=NOW - 10.0), POLICY, Memory()).memory
    return plan(world, POLICY, before).plan


def told(of: Plan) -> str:
    (state,) = of.overrides
    return state.message


def test_a_pin_above_the_room_there_is_says_for_how_many_there_is_and_why() -> None:
    decided = of_the_second_plan(an_override("pin", "b", 9), wanted_by_a=2.0)
    assert moves(decided) == {}
    assert "pin 9, room for 6: 3 replicas of it have no node to start on: a replica needs 1 GPU" in told(decided)


def test_what_is_taken_back_of_a_pin_for_others_is_told_with_its_reason() -> None:
    decided = of_the_second_plan(an_override("pin", "b", 9), wanted_by_a=14.0)
    assert moves(decided) == {"b": (9, 6)}
    assert told(decided).endswith("pin 9, room for 6: pool a100 has 8 GPUs in its budget, and 11 were promised")


def test_a_persons_floor_above_the_room_there_is_says_so_too() -> None:
    decided = of_the_second_plan(an_override("floor", "b", 9), wanted_by_a=2.0)
    assert "floor 9, room for 6: 3 replicas of it have no node to start on" in told(decided)
