"""Capacity under notice: replaced before it goes, asked for once, and taken off the count when it has gone."""

from msgspec.structs import replace

from rebalancer.domain.memory import Replaced
from rebalancer.domain.pool_view import NodeClaimView, NodePoolView
from tests.builders import a_model, a_policy, a_pool, a_snapshot, an_elastic_pool
from tests.planning.story import (
    Story,
    change_of,
    decision_of,
    moves,
    node_pool_changes,
    refusal_of,
    unmet_of,
)


def a_story(gpus: int = 16) -> Story:
    """Model b keeps 4 replicas busy on a100-1, its floor is 2; a100-2 has what there is beyond 8 GPUs, all free."""
    policy = a_policy(a_model("b", 2, entitlement=4), pools=(a_pool(gpus=gpus),))
    story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}))
    story.plan()
    return story


def karpenter(story: Story, *, voluntary: bool = False) -> None:
    """Karpenter drains a100-1: it evicts within seconds."""
    kind = "disruption" if voluntary else "spot-interruption"
    story.notice("a100-1", karpenter=True, voluntary=voluntary, kind=kind)


class TestReplacement:
    """A node that Karpenter drains, and free GPUs on another one."""

    def test_doomed_replicas_do_not_count_from_the_notice_on(self) -> None:
        story = a_story()
        karpenter(story)
        decision = decision_of(story.plan(), "b")
        assert (decision.ready, decision.doomed, decision.demand) == (0, 4, 4)

    def test_replacements_are_asked_beside_them_at_once(self) -> None:
        # 4 doomed, 8 GPUs free on a100-2: asked for 8, which is 4 when the doomed ones have gone.
        story = a_story()
        karpenter(story)
        change = change_of(story.plan(), "b")
        assert (change.kind, change.replicas_from, change.replicas_to, change.nodes) == ("replace", 4, 8, ("a100-2",))
        assert change.replaces == tuple(f"a100/uid-b/8/uid-b-{n}" for n in range(4))
        assert change.reason.startswith("gets 4 replicas on a100-2 in place of those on a100-1, which goes")

    def test_nothing_is_asked_for_twice(self) -> None:
        story = a_story()
        karpenter(story)
        story.write(story.plan())
        for _ in range(3):  # written; then pending pods; then loading ones; then Ready ones
            assert story.plan().empty
            story.kubernetes()
            story.wait(0.1)
        story.settle()
        assert story.plan().empty
        assert story.replicas("b") == 8

    def test_the_number_comes_back_as_doomed_pods_leave_and_that_is_no_decrease(self) -> None:
        story = a_story()
        karpenter(story)
        story.write(story.plan())
        story.settle()
        story.evict("a100-1")
        plan = story.plan()
        change = change_of(plan, "b")
        assert (change.kind, change.replicas_from, change.replicas_to) == ("settle", 8, 4)
        assert (change.counts, change.recipients) == (None, ())
        story.write(plan)
        story.settle()
        story.lose("a100-1")
        assert story.plan().empty
        assert story.replicas("b") == 4
        assert story.memory.models["b"].losses == ()
        assert story.memory.models["b"].replaced == ()

    def test_each_leaving_pod_takes_its_own_replacement_off(self) -> None:
        story = a_story()
        karpenter(story)
        story.write(story.plan())
        story.settle()
        first, *others = (pod for pod in story.of("b").pods if pod.node == "a100-1")
        story.target("b", pods=tuple(pod for pod in story.of("b").pods if pod is not first))
        change = change_of(story.plan(), "b")
        assert (change.kind, change.replicas_from, change.replicas_to) == ("settle", 8, 7)
        assert change.reason == (
            "has its number taken back by 1: the pods on doomed nodes are gone, their replacements stay"
        )
        assert change.replaces == (f"a100/uid-b/8/{first.uid}",)
        assert len(others) == 3

    def test_pods_that_are_evicted_before_we_could_ask_are_replaced_by_their_replica_set(self) -> None:
        # A ReplicaSet replaces what is deleted by itself: asking too would be twice.
        story = a_story()
        karpenter(story)
        story.evict("a100-1")
        story.kubernetes()
        assert story.plan().empty
        story.settle()
        story.lose("a100-1")
        assert story.plan().empty
        assert story.replicas("b") == 4

    def test_a_notice_taken_back_takes_the_replacements_off_as_surplus_of_nobody(self) -> None:
        # The doomed pods live on: 8 are asked for and 4 needed. On a fixed pool position costs nothing: they stay.
        story = a_story()
        karpenter(story)
        story.write(story.plan())
        story.settle()
        story.snapshot = replace(story.snapshot, notices=())
        assert decision_of(story.plan(), "b").doomed == 0
        assert story.replicas("b") == 8
        assert story.memory.models["b"].replaced == ()

    def test_a_notice_taken_back_before_the_replacement_is_ready_leaves_the_ready_replica(self) -> None:
        # One Ready replica, floor 1, one that loads in another pool: nothing takes the Ready one away any more.
        b = a_model("b", 1, pools=("a100", "spot"), entitlement=1, max_replicas=1)
        policy = a_policy(b, pools=(a_pool(gpus=4), an_elastic_pool(gpus=4, node_pools=())))
        load = {"b": {"concurrency": 4.0}}
        story = Story(policy, a_snapshot(policy, {"b": 1}, load, {"b": 1.0}, nodes={"a100": 1, "spot": 1}))
        karpenter(story)
        plan = story.plan()
        assert (change_of(plan, "b").kind, change_of(plan, "b").target.pool) == ("replace", "spot")
        story.write(plan)
        story.snapshot = replace(story.snapshot, notices=())
        for plan in (story.plan(), story.plan()):
            assert [change for change in plan.changes if change.target.pool == "a100"] == []
            story.write(plan)
        assert story.replicas("b", "a100") == 1

    def test_a_blind_model_is_replaced_too_once(self) -> None:
        story = a_story()
        story.load("b")
        karpenter(story)
        story.write(story.plan())
        story.settle()
        assert story.replicas("b") == 8
        assert all(plan.empty for plan in story.turns(5))

    def test_a_replacement_in_another_pool_is_one(self) -> None:
        # a100 is full without a100-1; spot has room. a100's number comes back when its doomed pods have gone.
        b = a_model("b", 2, pools=("a100", "spot"), entitlement=4)
        policy = a_policy(b, pools=(a_pool(gpus=4), an_elastic_pool(gpus=8, node_pools=())))
        load = {"b": {"concurrency": 16.0}}
        story = Story(policy, a_snapshot(policy, {"b": 4}, load, {"b": 4.0}, nodes={"spot": 1}))
        story.plan()
        karpenter(story)
        plan = story.plan()
        change = change_of(plan, "b")
        assert (change.kind, change.target.pool, change.replicas_to) == ("replace", "spot", 4)
        assert change.replaces == tuple(f"a100/uid-b/4/uid-b-{n}" for n in range(4))
        story.write(plan)
        story.settle()
        assert all(plan.empty for plan in story.turns(3))
        story.evict("a100-1")
        story.turns(2)
        assert (story.replicas("b", "a100"), story.replicas("b", "spot")) == (0, 4)

    def test_also_for_a_blind_model_and_still_only_once(self) -> None:
        b = a_model("b", 2, pools=("a100", "spot"), entitlement=4)
        policy = a_policy(b, pools=(a_pool(gpus=4), an_elastic_pool(gpus=64, node_pools=())))
        story = Story(policy, a_snapshot(policy, {"b": 4}, nodes={"spot": 8}))
        story.plan()
        karpenter(story)
        story.turns(5)
        assert (story.replicas("b", "a100"), story.replicas("b", "spot")) == (4, 4)


def a_full_story() -> Story:
    """8 + 8 GPUs: b keeps 4 replicas busy on a100-1, a idles on all of a100-2."""
    policy = a_policy(a_model("a", 0), a_model("b", 2, entitlement=4), pools=(a_pool(gpus=16),))
    readings = {"a": {"concurrency": 0.0}, "b": {"concurrency": 16.0}}
    story = Story(policy, a_snapshot(policy, {"b": 4, "a": 8}, readings, {"b": 4.0}))
    for model, node in (("a", "a100-2"), ("b", "a100-1")):
        story.target(model, pods=tuple(replace(pod, node=node) for pod in story.of(model).pods))
    story.plan()
    return story


class TestNoFreeGpus:
    """Room is somebody else's."""

    def test_a_shift_makes_the_room(self) -> None:
        story = a_full_story()
        karpenter(story)
        plan = story.plan()
        assert moves(plan)["a"] == (8, 4)
        assert change_of(plan, "a").recipients == ("b",)

    def test_on_a_karpenter_node_replicas_without_a_replacement_are_released_down_to_the_floor(self) -> None:
        # So that no pending pod of theirs launches a node; the floor of 2 stays asked for.
        story = a_full_story()
        karpenter(story)
        plan = story.plan()
        change = change_of(plan, "b")
        assert (change.kind, change.replicas_from, change.replicas_to) == ("release", 4, 2)
        assert (change.passes, change.counts) == ("drain", "exempt")
        assert refusal_of(plan, "floor", "b").replicas_to == 0

    def test_released_pods_that_still_run_are_not_released_or_replaced_again(self) -> None:
        story = a_full_story()
        karpenter(story)
        story.write(story.plan())
        for _ in range(2):
            assert moves(story.plan()) == {}
            story.kubernetes()

    def test_and_come_back_where_the_shift_made_room(self) -> None:
        story = a_full_story()
        karpenter(story)
        story.turn(1.0)
        story.evict("a100-1")
        story.settle()
        story.lose("a100-1")
        story.turns(4)
        assert (story.replicas("a"), story.replicas("b")) == (4, 4)
        assert {pod.node for pod in story.of("b").pods} == {"a100-2"}

    def test_elsewhere_they_serve_until_the_deadline_less_their_grace(self) -> None:
        # Nobody gives: a is in a rollout. Deadline in 120 s, grace 30 s: they go at 90 s.
        story = a_full_story()
        story.target("a", rolling=True)
        story.notice("a100-1", 120.0)
        assert moves(story.turn(89.0)) == {}
        assert moves(story.turn(1.0)) == {}
        assert moves(story.turn()) == {"b": (4, 2)}

    def test_who_serves_a_minute_after_the_deadline_and_has_no_replacement_serves_on(self) -> None:
        story = a_full_story()
        story.target("a", rolling=True)
        story.notice("a100-1", 120.0)
        story.turn(100.0)
        story.wait(81.0)
        assert moves(story.plan()) == {}

    def test_voluntary_disruption_brings_its_own_node(self) -> None:
        # Karpenter launches the replacement before it drains: no node grant, and nothing is released.
        pool = a_pool(gpus=32, node_pools=("a100",), gpus_per_node=8)
        policy = a_policy(a_model("b", 2, entitlement=4), pools=(pool,))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}, nodes={"a100": 1}))
        karpenter(story, voluntary=True)
        plan = story.plan()
        assert plan.empty
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.replicas == 4

    def test_beside_replicas_that_it_replaced_already_what_a_model_lacks_is_asked_of_a_node(self) -> None:
        # The 4 on a100-1 are replaced on a100-2, which is full then: the 3 that work needs more wait for no place of
        # theirs.
        pool = a_pool(gpus=32, node_pools=("a100",), gpus_per_node=8)
        policy = a_policy(a_model("b", 2, entitlement=7), pools=(pool,))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}, nodes={"a100": 2}))
        first, second = story.view("a100").nodes
        story.pool("a100", nodes=(first, replace(second, foreign_gpus=4)))
        karpenter(story, voluntary=True)
        assert moves(story.turn()) == {"b": (4, 8)}
        story.load("b", {"concurrency": 28.0}, 7.0)
        plan = story.plan()
        assert moves(plan) == {"b": (8, 11)}
        assert node_pool_changes(plan)["limit"].limit_to == 24

    def test_an_interruption_asks_for_a_node(self) -> None:
        pool = a_pool(gpus=32, node_pools=("a100",), gpus_per_node=8)
        policy = a_policy(a_model("b", 2, entitlement=4), pools=(pool,))
        story = Story(policy, a_snapshot(policy, {"b": 4}, {"b": {"concurrency": 16.0}}, {"b": 4.0}, nodes={"a100": 1}))
        karpenter(story)
        plan = story.plan()
        change = change_of(plan, "b")
        assert (change.kind, change.replicas_to, change.grant) == ("replace", 8, "g1-b")
        limit = node_pool_changes(plan)["limit"]
        assert (limit.limit_from, limit.limit_to) == (8, 16)
        story.write(plan)
        assert story.plan().empty
        assert [grant.replicas for grant in story.grants()] == [4]


class TestPartOfThem:
    def test_replacements_are_asked_first_and_the_rest_is_released_after(self) -> None:
        # 2 GPUs free for 4 doomed: 2 are asked beside them now; the other 2 go in the next cycle.
        story = a_story(gpus=10)
        karpenter(story)
        plan = story.turn(0.1)
        assert moves(plan) == {"b": (4, 6)}
        plan = story.plan()
        change = change_of(plan, "b")
        assert (change.kind, change.replicas_from, change.replicas_to) == ("release", 6, 4)
        assert set(change.victims) == {f"uid-b-{n}" for n in range(4)} - {
            Replaced.of(entry).pod for entry in story.memory.models["b"].replaced
        }
        story.write(plan)
        story.settle()
        story.evict("a100-1")
        story.turns(3)
        assert story.replicas("b") == 2

    def test_the_rest_stays_while_the_replacements_load(self) -> None:
        # Of fewer replicas Kubernetes would end the two that load on a100-2, not the doomed.
        story = a_story(gpus=10)
        karpenter(story)
        story.write(story.plan())
        for _ in range(2):
            story.kubernetes()
            assert story.plan().empty
        story.evict("a100-1")
        story.lose("a100-1")
        story.turns(3)
        assert {(pod.node, pod.phase) for pod in story.of("b").pods} == {("a100-2", "ready")}
        assert story.replicas("b") == 2


class TestNowhere:
    """A model at its floor whose only node has gone: its controller made a pod that fits on no node."""

    def a_story(self) -> Story:
        policy = a_policy(a_model("b", 1, gpus_per_replica=8, entitlement=1), pools=(a_pool(gpus=8),))
        story = Story(policy, a_snapshot(policy, {"b": 1}, {"b": {"concurrency": 4.0}}, {"b": 1.0}))
        story.plan()
        story.lose("a100-1")
        story.kubernetes()
        assert [(pod.phase, pod.node) for pod in story.of("b").pods] == [("pending", None)]
        return story

    def test_it_is_short_of_it_and_told_that_its_pod_waits_for_a_node(self) -> None:
        plan = self.a_story().plan()
        lacks = unmet_of(plan, "b")
        assert lacks is not None
        assert (lacks.replicas, lacks.constraint) == (1, "budget")
        assert lacks.why.startswith("1 replica of it has no node to start on: ")
        assert moves(plan) == {}

    def test_while_a_node_comes_it_loads(self) -> None:
        story = self.a_story()
        coming = NodeClaimView("claim-1", 8, story.snapshot.at)
        behind = NodePoolView("np", "uid-np", "1", gpu_limit=16, gpus_used=0, claims=(coming,))
        story.pool("a100", node_pools=(behind,))
        assert story.plan().unmet == ()
        story.pool("a100", node_pools=(replace(behind, claims=(replace(coming, failed="no capacity"),)),))
        assert [lacks.model for lacks in story.plan().unmet] == ["b"]
