"""Jobs on idle GPUs that give way: room for whoever is short, let go of by who gains next to nothing, never a floor."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.quota_view import Holder
from tests.builders import NAMESPACE, a_model, a_policy, a_pool, a_snapshot
from tests.planning.story import Story, change_of, moves

A_JOB = Holder("Job", NAMESPACE, "train", 4)


def a_story(concurrency: float, b: int = 4, giving: int = 4, gives_way: tuple[str, ...] = ("batch",)) -> Story:
    """Model b has `b` replicas on a node of 8 GPUs, `giving` of which are under a job that gives way."""
    model = a_model("b", 1, entitlement=8)
    policy = a_policy(model, pools=(a_pool("a100", 8, gives_way=gives_way),))
    story = Story(policy, a_snapshot(policy, {"b": b}, {"b": {"concurrency": concurrency}}))
    (node,) = story.view("a100").nodes
    story.pool("a100", nodes=(replace(node, giving_gpus=giving),), giving=(A_JOB,))
    return story


def test_who_is_short_is_granted_what_they_hold_at_once() -> None:
    change = change_of(a_story(32.0).plan(), "b")
    assert (change.replicas_from, change.replicas_to, change.nodes) == (4, 8, ("a100-1",))


def test_what_others_hold_for_good_is_not_granted() -> None:
    story = a_story(32.0)
    (node,) = story.view("a100").nodes
    story.pool("a100", nodes=(replace(node, giving_gpus=1, foreign_gpus=3),), others=(A_JOB,))
    assert change_of(story.plan(), "b").replicas_to == 5


@pytest.mark.parametrize("gives_way", [("batch",), ()], ids=["jobs", "no jobs"])
def test_where_jobs_take_what_is_idle_a_model_lets_go_of_what_it_gains_nothing_by(gives_way: tuple[str, ...]) -> None:
    story = a_story(3.0, b=8, giving=0, gives_way=gives_way)
    *_, last = [8, *(moves(plan)["b"][1] for plan in story.turns(60) if "b" in moves(plan))]
    assert (last < 8) is bool(gives_way)
    assert last >= 1, "its floor"


def test_they_are_told_as_held_by_others_who_give_way() -> None:
    (pool,) = a_story(4.0).plan().pools
    assert (pool.budget, pool.free, pool.giving, pool.foreign) == (8, 0, 4, 4)
    assert pool.nodes == ("job serving/train 4 on idle GPUs: the scheduler ends them for a replica that wants these",)


def test_so_is_why_somebody_stays() -> None:
    story = a_story(4.0, giving=0)
    why = "pods of PriorityClass batch do not give way: their priority, 7, is not below that of model b's pods, 0"
    story.pool("a100", giving=(), stays=why)
    assert story.plan().pools[0].nodes == (why,)
