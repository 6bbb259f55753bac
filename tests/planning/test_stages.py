"""The stages of `planner.decide` one by one: each makes a value of its own, and leaves those before it as they were."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TypeVar

import pytest
from msgspec.structs import replace

from rebalancer.domain.snapshot import Place, Shape
from rebalancer.planning.actions import changes, drains, evictions, node_grants
from rebalancer.planning.allocation.allocate import allocate
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.guards.release import Tally
from rebalancer.planning.planner import weigh
from rebalancer.planning.shares.caps import Caps
from rebalancer.planning.shares.quotas import QuotaRoom
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.planning.story import Story

Made = TypeVar("Made")


def insides(value: object) -> object:
    """All that may change in what a stage made, as it is now; the scene is frozen and stands for itself."""
    if isinstance(value, Mapping):
        return {key: insides(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [insides(each) for each in value]
    if isinstance(value, Caps | QuotaRoom):
        return insides(vars(value))
    if not dataclasses.is_dataclass(value) or isinstance(value, Scene):
        return value
    return {field.name: insides(getattr(value, field.name)) for field in dataclasses.fields(value)}


def asks_for_a_node() -> Story:
    """Model b lacks 3 replicas, for which a node of 8 GPUs may come."""
    policy = a_policy(
        a_model("b", 0, pools=("spot",), entitlement=0), pools=(an_elastic_pool(gpus=32, gpus_per_node=8),)
    )
    story = Story(policy, a_snapshot(policy, {}, {"b": {"concurrency": 12.0}}))
    story.turn()  # borrowing waits one planning period
    return story


def takes_back_what_no_node_came_for() -> Story:
    """The same once the node has not come in time."""
    story = asks_for_a_node()
    story.turn()
    story.plan()
    story.wait(story.grants()[0].asked_at + 900.0 - story.snapshot.at)
    return story


def evicts_surplus() -> Story:
    """A person drains the node of 4 numbered replicas, of which 2 are replaced and Ready elsewhere, and 2 surplus."""
    policy = a_policy(a_model("b", 2, entitlement=4), pools=(a_pool(gpus=16, drain=True),))
    story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 3.0}}, {"b": 2.0}))
    story.snapshot = replace(story.snapshot, drains_nodes=True)
    story.turns(20)
    pods = tuple(replace(pod, place=Place(number)) for number, pod in enumerate(story.of("b").pods))
    story.target("b", kind="StatefulSet", pods=pods, shape=Shape("apps/v1/statefulsets", "ordinal"))
    story.notice("a100-1", 0.0, kind="drain")
    story.write(story.plan())
    story.settle()
    story.wait(5.0)
    return story


@pytest.mark.parametrize("begin", [asks_for_a_node, takes_back_what_no_node_came_for, evicts_surplus])
def test_no_stage_changes_what_an_earlier_one_made(begin: Callable[[], Story]) -> None:
    story = begin()
    scene = weigh(story.snapshot, story.policy, story.memory).scene
    made: list[tuple[object, object]] = []  # what each stage made, and its insides at that moment

    def earlier_ones_stay(newest: Made) -> Made:
        assert all(insides(one) == before for one, before in made)
        made.append((newest, insides(newest)))
        return newest

    tally = earlier_ones_stay(Tally.of(scene))
    allocation = earlier_ones_stay(allocate(scene, tally))
    nodes = earlier_ones_stay(node_grants.plan_nodes(scene, allocation))
    moved = earlier_ones_stay(drains.moves_and_drains(scene, allocation, nodes, tally))
    earlier_ones_stay(changes.changes_of(scene, moved, nodes))
    drained = earlier_ones_stay(evictions.drain_changes(scene, moved))
    surplus = [change for change in drained if change.floor]
    assert nodes.units or nodes.withdrawn or surplus  # what these stories are about
