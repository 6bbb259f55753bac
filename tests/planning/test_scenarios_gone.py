"""A Node that is gone takes its pods with it, whatever they said last; one that goes in a fortnight takes nothing."""

import pytest
from msgspec.structs import replace

from tests.builders import NOW, Replicas, a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.planning.story import Story, change_of, decision_of, moves

FORTNIGHT = 14 * 86_400.0


def a_floor_on_two_nodes() -> Story:
    """Model a has its floor of 2, one replica on each node; b, which wants all there is, has the other GPUs."""
    a, b = a_model("a", 2, priority=1), a_model("b", 1, entitlement=6, priority=1000)
    policy = a_policy(a, b, pools=(a_pool(gpus=11),))
    readings = {"a": {"concurrency": 8.0}, "b": {"concurrency": 40.0}}
    story = Story(policy, a_snapshot(policy, {"a": 2, "b": 8}, readings, {"a": 0.1, "b": 10.0}))
    first, second = story.of("a").pods
    story.target("a", pods=(replace(first, node="a100-1"), replace(second, node="a100-2")))
    others = story.of("b").pods
    story.target("b", pods=tuple(replace(pod, node="a100-1" if n < 6 else "a100-2") for n, pod in enumerate(others)))
    story.plan()
    return story


class TestGone:
    @pytest.mark.parametrize("seen", [True, False])
    def test_the_floor_counts_no_pod_on_a_node_that_is_gone_or_was_never_seen(self, seen: bool) -> None:  # noqa: FBT001  a value of the table
        # Of a's three replicas one is on the Node that went: the other two are its floor.
        story = a_floor_on_two_nodes()
        story.target("a", replicas=3, pods=(*story.of("a").pods, replace(story.of("a").pods[1], uid="uid-a-9")))
        story.take_away("a100-1", seen=seen)
        for plan in story.turns(6):
            taken = [change for change in plan.changes if change.model == "a" and change.victims]
            assert not {"uid-a-1", "uid-a-9"} & {uid for change in taken for uid in change.victims}
            assert len([pod for pod in story.of("a").pods if pod.phase == "ready"]) >= 2

    def test_a_replica_is_not_taken_because_one_that_is_gone_would_be_left(self) -> None:
        story = a_floor_on_two_nodes()
        story.take_away("a100-1")
        plan = story.plan()
        assert decision_of(plan, "a").ready == 1
        assert "a" not in {change.model for change in plan.changes if change.kind == "release"}

    def test_what_is_gone_is_replaced_at_once_and_once(self) -> None:
        # PodGC takes 40-60 s: until then the ReplicaSet believes that all four run.
        policy = a_policy(a_model("b", 2, entitlement=4), pools=(a_pool(gpus=16),))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}))
        story.plan()
        story.take_away("a100-1")
        assert moves(story.turn()) == {"b": (4, 8)}
        assert {pod.phase for pod in story.of("b").pods if pod.node == "a100-1"} <= {"lost"}
        story.turns(3)
        story.collect("a100-1")
        story.turns(3)
        assert story.replicas("b") == 4
        assert {(pod.node, pod.phase) for pod in story.of("b").pods} == {("a100-2", "ready")}

    def test_a_lost_replica_is_never_released_for_its_number_is_that_of_one_that_serves(self) -> None:
        # Two of a's four are lost: asked for two, its ReplicaSet would end any two of four that it takes for Ready.
        story = a_floor_on_two_nodes()
        first, second = story.of("a").pods
        pods = (first, replace(first, uid="uid-a-8"), second, replace(second, uid="uid-a-9"))
        story.target("a", replicas=4, pods=pods)
        story.take_away("a100-1")
        for plan in story.turns(6):
            assert [change for change in plan.changes if change.replicas_to < change.replicas_from] == []
        assert len([pod for pod in story.of("a").pods if pod.phase == "ready"]) == 2

    def test_a_spot_node_past_its_deadline_frees_no_replica_of_anybody_else(self) -> None:
        # Its 8 pods are Ready by their last word: counted, they would be 8 GPUs above the 8 that are left. Nothing can
        # replace a's, whose other replicas are the floor.
        a, c = a_model("a", 2, pools=("a100", "spot")), a_model("c", 4, pools=("a100", "spot"), entitlement=4)
        policy = a_policy(a, c, pools=(a_pool(gpus=8), an_elastic_pool(gpus=16, node_pools=())))
        readings = {"a": {"concurrency": 40.0}, "c": {"concurrency": 48.0}}
        held: dict[str, Replicas] = {"a": {"a100": 2, "spot": 8}, "c": {"a100": 4, "spot": 8}}
        story = Story(policy, a_snapshot(policy, held, readings, {"a": 2.0, "c": 10.0}, nodes={"spot": 2}))
        story.plan()
        story.notice("spot-1", 120.0)
        story.wait(121.0)
        story.take_away("spot-1")
        for plan in story.turns(4):
            assert "c" not in {change.model for change in plan.changes if change.replicas_to < change.replicas_from}
        assert story.replicas("c", "spot") == 8

    def test_a_list_without_any_node_takes_nothing(self) -> None:
        # An empty set is never "all".
        policy = a_policy(a_model("a", 1), a_model("b", 1), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"a": 4, "b": 4}, {}, {"a": 4.0, "b": 0.5}))
        story.take_away("a100-1")
        plan = story.plan()
        assert moves(plan) == {}
        assert {unmet.model for unmet in plan.unmet} == {"a", "b"}


class TestMaintenance:
    """a100-1 goes in a fortnight; b's four replicas run there."""

    def a_story(self) -> Story:
        policy = a_policy(a_model("b", 2, entitlement=4), pools=(a_pool(gpus=16),))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}))
        story.plan()
        story.notice("a100-1", FORTNIGHT, kind="scheduled-change", doomed_at=NOW + FORTNIGHT - 150)
        return story

    def test_it_takes_nothing_today(self) -> None:
        story = self.a_story()
        plan = story.turn()
        assert plan.empty
        decision = decision_of(plan, "b")
        assert (decision.ready, decision.doomed, decision.granted) == (4, 0, 4)
        assert next(pool.budget for pool in plan.pools if pool.pool == "a100") == 16

    def test_nothing_new_is_granted_there(self) -> None:
        story = self.a_story()
        story.load("b", {"concurrency": 24.0}, 6.0)
        story.turns(2)
        assert change_of(story.plans[-1], "b").nodes == ("a100-2",)

    def test_its_replicas_are_replaced_in_time(self) -> None:
        story = self.a_story()
        story.wait(FORTNIGHT - 151)
        assert story.plan().empty
        story.wait(1.0)
        change = change_of(story.plan(), "b")
        assert (change.kind, change.replicas_from, change.replicas_to, change.nodes) == ("replace", 4, 8, ("a100-2",))
