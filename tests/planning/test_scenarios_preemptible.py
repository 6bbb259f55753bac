"""Preemptible jobs on idle GPUs: room for whoever is short, let go of by who gains next to nothing, never a floor."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.quota_view import Holder
from tests.builders import NAMESPACE, a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, change_of, moves

A_JOB = Holder("Job", NAMESPACE, "train", 4)


def a_story(concurrency: float, b: int = 4, preemptible: int = 4, classes: tuple[str, ...] = ("batch",)) -> Story:
    """Model b has `b` replicas on a node of 8 GPUs, `preemptible` of which are under a preemptible job."""
    model = a_model("b", 1, entitlement=8)
    policy = a_policy(model, pools=(a_pool("a100", 8, preemptible_priority_classes=classes),))
    story = Story(policy, a_snapshot(policy, {"b": b}, {"b": {"concurrency": concurrency}}))
    (node,) = story.view("a100").nodes
    story.pool(
        "a100", nodes=(replace(node, foreign_gpus=preemptible, preemptible_gpus=preemptible),), preemptible=(A_JOB,)
    )
    return story


def test_who_is_short_is_granted_what_they_hold_at_once() -> None:
    change = change_of(a_story(32.0).plan(), "b")
    assert (change.replicas_from, change.replicas_to, change.nodes) == (4, 8, ("a100-1",))


def test_what_others_hold_for_good_is_not_granted() -> None:
    story = a_story(32.0)
    (node,) = story.view("a100").nodes
    story.pool("a100", nodes=(replace(node, foreign_gpus=4, preemptible_gpus=1),), others=(A_JOB,))
    assert change_of(story.plan(), "b").replicas_to == 5


@pytest.mark.parametrize("classes", [("batch",), ()], ids=["jobs", "no jobs"])
def test_where_jobs_take_what_is_idle_a_model_lets_go_of_what_it_gains_nothing_by(classes: tuple[str, ...]) -> None:
    story = a_story(3.0, b=8, preemptible=0, classes=classes)
    *_, last = [8, *(moves(plan)["b"][1] for plan in story.turns(60) if "b" in moves(plan))]
    assert (last < 8) is bool(classes)
    assert last >= 1, "its floor"


def test_they_are_told_as_held_by_others_who_are_preemptible() -> None:
    (pool,) = a_story(4.0).plan().pools
    assert (pool.budget, pool.free, pool.preemptible, pool.foreign) == (8, 0, 4, 4)
    assert pool.nodes == ("job serving/train 4 on idle GPUs: the scheduler preempts them for a replica",)


def test_so_is_why_somebody_is_not() -> None:
    story = a_story(4.0, preemptible=0)
    why = "pods of PriorityClass batch are not preempted: their priority, 7, is not below that of model b's pods, 0"
    story.pool("a100", preemptible=(), not_preemptible=why)
    assert story.plan().pools[0].nodes == (why,)
