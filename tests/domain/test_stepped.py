"""Memory under a clock that was set: every instant of it moves, and nothing else does."""

from collections.abc import Iterator

import msgspec
import pytest
from msgspec import Struct

from rebalancer.domain.account import GoingModel, GoingReplica, NoticeAccount
from rebalancer.domain.memory import (
    AskedSince,
    Decided,
    GrantFailure,
    Jump,
    Level,
    Loan,
    Loss,
    Memory,
    ModelMemory,
    NodeGrant,
    Outage,
    Owed,
    Rose,
    Shift,
    SilentModel,
    Waiting,
    WaitingSince,
)
from rebalancer.domain.stepped import stepped
from tests.builders import NOW

MODEL = ModelMemory(
    demand=3,
    higher_since=NOW - 1,
    surge_since=NOW - 2,
    calm_since=NOW - 3,
    lower_since=NOW - 4,
    lower_peak=4,
    last_move_at=NOW - 5,
    unmet_since=NOW - 6,
    losses=(Loss(NOW - 7, 1, "step"),),
    replaced=("a100/uid-b/6/uid-b-1",),
    levels=(Level(NOW - 8, 2.5),),
    falls=(NOW - 10, NOW - 9),
    jump=Jump(NOW - 11, 30.0, 20.0, NOW - 12),
    deferred_since=NOW - 13,
    owed=Owed(2, (AskedSince(NOW - 14, 3),), NOW - 15),
    begun_anew=True,
    gave_at=NOW - 25,
    spare_since=NOW - 26,
    swung=1,
    got_again=True,
    waiting=Waiting(NOW - 31, (WaitingSince(NOW - 32, 5.0),)),
)
MEMORY = Memory(
    models={"b": MODEL},
    loans=(Loan("b", "a", "a100", 2, NOW - 16),),
    shifts=(Shift("s", "a100", "b", ("a",), 1, NOW - 17, ("spot",), NOW - 18, NOW - 19),),
    node_grants=(NodeGrant("g", "b", "spot", "spot", 1, 2, NOW - 20, NOW + 900, limit_due=True, limit_error="denied"),),
    grant_failures=(GrantFailure("spot", NOW + 60, "no capacity", 60.0),),
    overrides=(Decided("uid", NOW - 21, 3),),
    outages=(Outage(NOW - 22, NOW + 878, 3, 4, (SilentModel("b", 4.0),), "gateway", Rose("c", 3.0, 1.0)),),
    unknown_before=NOW - 23,
    resumed_at=NOW - 24,
    accounts=(
        NoticeAccount(
            node="n1",
            kind="spot-interruption",
            source="aws.ec2",
            pool="spot",
            confidence="certain",
            issued_at=NOW - 40,
            heard_at=NOW - 39,
            deadline=NOW + 80,
            replicas=(GoingReplica("uid-b-1", "b", 2.0, True, "rebalancer", NOW - 33),),  # noqa: FBT003  a field
            ready_before={"b": 2},
            acted_at=NOW - 38,
            replaced_at=NOW - 37,
            drained_at=NOW - 36,
            over_at=NOW - 35,
            voluntary=True,
            models=(GoingModel("b", NOW - 41, NOW - 42, NOW - 43, NOW - 44),),
            due_at=NOW - 34,
        ),
    ),
)


def numbers(value: object) -> Iterator[float]:
    """All numbers in JSON's shape."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from numbers(each)
    elif isinstance(value, int | float):
        yield value


def structs(value: object) -> Iterator[Struct]:
    if isinstance(value, Struct):
        yield value
        value = tuple(getattr(value, name) for name in value.__struct_fields__)
    if isinstance(value, dict):
        value = tuple(value.values())
    for each in value if isinstance(value, tuple) else ():
        yield from structs(each)


@pytest.mark.parametrize("seconds", [1800.0, -1800.0, 0.75])
def test_every_instant_is_as_long_ago_as_before_and_nothing_else_changes(seconds: float) -> None:
    before, after = msgspec.to_builtins(MEMORY), msgspec.to_builtins(stepped(MEMORY, seconds))
    moved = [number + seconds if number > NOW / 2 else number for number in numbers(before)]
    assert list(numbers(after)) == moved
    assert sum(number > NOW / 2 for number in numbers(before)) == 44
    assert stepped(stepped(MEMORY, seconds), -seconds) == MEMORY


def test_no_field_of_memory_is_left_out_of_this_test() -> None:
    for part in structs(MEMORY):
        for name, default in zip(part.__struct_fields__[::-1], part.__struct_defaults__[::-1], strict=False):
            assert getattr(part, name) != default, f"{type(part).__name__}.{name}"


def test_memory_without_instants_is_the_same_value() -> None:
    memory = Memory(models={"b": ModelMemory(demand=2)})
    assert stepped(memory, 1800.0) == memory
