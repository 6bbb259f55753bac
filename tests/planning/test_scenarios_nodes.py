"""Nodes still to come: limits within the policy's bound, replicas past the free GPUs, and what becomes of them."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.cluster import SavedNodePool, Taint
from rebalancer.domain.policy import Model
from tests.builders import (
    a_model,
    a_node,
    a_node_claim,
    a_node_pool,
    a_policy,
    a_snapshot,
    a_write_stop,
    an_elastic_pool,
    an_override,
)
from tests.planning import cluster
from tests.planning.story import Story, change_of, moves, node_pool_changes, refusal_of, unmet_of


def a_story(
    wanted: int,
    held: int = 0,
    limit: int = 32,
    floor: int = 0,
    entitlement: int = 0,
    pool: dict[str, object] | None = None,
) -> Story:
    """Model b lives on spot nodes of 8 GPUs, has `held` replicas on full nodes of its own, and wants `wanted`."""
    b = a_model("b", floor, pools=("spot",), entitlement=entitlement)
    policy = a_policy(b, pools=(an_elastic_pool("spot", limit, **({"gpus_per_node": 8} | (pool or {}))),))
    snapshot = a_snapshot(policy, {"b": held}, {"b": {"concurrency": 4.0 * wanted}}, nodes={"spot": -(-held // 8)})
    story = Story(policy, snapshot)
    story.turn()  # borrowing waits one planning period
    return story


def two_models(wanted: dict[str, int], limit: int) -> Story:
    """Models a and b have nothing and want nodes in the same cycle."""
    models: list[Model] = [a_model(name, 0, pools=("spot",), entitlement=0) for name in ("a", "b")]
    policy = a_policy(*models, pools=(an_elastic_pool(gpus=limit, gpus_per_node=8),))
    readings = {name: {"concurrency": 4.0 * count} for name, count in wanted.items()}
    story = Story(policy, a_snapshot(policy, {}, readings))
    story.turn()
    return story


class TestGrant:
    def test_the_limit_rises_first_and_replicas_past_the_free_gpus_follow(self) -> None:
        # 3 replicas of 1 GPU on nodes of 8: one node. The gate writes limits before raises.
        story = a_story(3)
        plan = story.plan()
        limit = node_pool_changes(plan)["limit"]
        assert (limit.name, limit.limit_from, limit.limit_to, limit.grant) == ("spot", 0, 8, "g3-b")
        change = change_of(plan, "b")
        assert (change.kind, change.replicas_to, change.grant, change.node_pool) == ("grant", 3, "g3-b", "spot")

    def test_while_writes_are_stopped_a_nodepool_called_like_a_model_is_told_as_the_nodepool(self) -> None:
        story = a_story(3, pool={"node_pools": ("b",)})
        story.snapshot = replace(story.snapshot, write_stop=a_write_stop())
        refused = {refusal.subject: refusal.sentence for refusal in story.plan().refusals}
        why = "guard stop, alice stopped the writes: test"
        assert refused["b"] == f"does not get 3 replicas more (0 -> 3): {why}"
        assert refused["nodepool/b"] == "is left as it is: guard stop, limit: alice stopped the writes: test"

    def test_its_gpus_are_in_the_budget_until_its_replicas_have_a_node(self) -> None:
        story = a_story(3)
        story.write(story.plan())
        plan = story.plan()
        assert plan.empty
        assert [(grant.replicas, grant.gpus) for grant in story.grants()] == [(3, 3)]
        assert (plan.pools[0].budget, plan.pools[0].promised) == (3, 3)
        story.kubernetes()
        story.snapshot = cluster.launch(story.snapshot, "spot", 8)
        story.wait(30.0)
        story.settle()
        plan = story.plan()
        assert story.grants() == ()
        assert (plan.pools[0].budget, plan.pools[0].promised) == (8, 3)
        assert moves(plan) == {}

    def test_what_no_node_may_come_for_says_so_beside_what_comes(self) -> None:
        # 12 wanted, the pool may have 8 GPUs: a node comes for 8, and the other 4 do not wait for pods on their way.
        unmet = unmet_of(a_story(12, limit=8).plan(), "b")
        assert unmet is not None
        assert unmet.constraint == "budget"
        assert unmet.why.startswith(
            "8 granted, on a node that comes; beyond that a replica needs 1 GPU on one node of pool spot: none is free"
        )

    def test_of_what_comes_with_a_node_only_that_is_told_as_coming_with_it(self) -> None:
        # It has 6, 2 get the free GPUs of its node, 8 more come with a node; for 4 none may come.
        unmet = unmet_of(a_story(20, held=6, limit=16).plan(), "b")
        assert unmet is not None
        assert unmet.why.startswith("8 granted, on a node that comes; beyond that a replica needs 1 GPU")

    def test_free_gpus_are_used_before_nodes_are_asked_for(self) -> None:
        # 10 wanted: 6 of the node's 8 GPUs are held, 2 free, 2 need a node.
        story = a_story(10, held=6)
        plan = story.plan()
        assert moves(plan) == {"b": (6, 10)}
        assert node_pool_changes(plan)["limit"].limit_to == 16

    def test_gpus_that_are_free_where_it_may_not_land_are_none(self) -> None:
        # A whole node is free, for others: a node comes for b's 3 replicas, and nothing is asked for twice.
        story = a_story(3)
        taint = Taint(key="dedicated", value="others", effect="NoSchedule")
        story.pool("spot", nodes=(a_node("spot-1", 8, taints=(taint,), node_pool="spot"),))
        assert change_of(story.turn(), "b").grant is not None
        story.karpenter()
        assert all(moves(plan) == {} for plan in story.turns(100))
        assert [pod.phase for pod in story.of("b").pods] == ["ready"] * 3

    def test_a_shift_comes_before_a_node(self) -> None:
        # a has a lower priority and presently needs nothing of what it has: its replicas go, no node is asked for.
        a, b = (a_model(name, 0, pools=("spot",), entitlement=0, priority=n) for n, name in ((1, "a"), (2, "b")))
        policy = a_policy(a, b, pools=(an_elastic_pool(gpus=32, gpus_per_node=8),))
        readings = {"a": {"concurrency": 32.0}, "b": {"concurrency": 8.0}}
        story = Story(policy, a_snapshot(policy, {"a": 8}, readings, nodes={"spot": 1}))
        story.turn()
        plan = story.plan()
        assert moves(plan) == {"a": (8, 6)}
        assert list(node_pool_changes(plan)) == ["hold"]

    def test_a_shift_that_a_guard_declines_is_none_so_a_node_comes(self) -> None:
        # a is unseen and keeps all it has.
        a, b = a_model("a", 0, pools=("spot",), entitlement=0), a_model("b", 0, pools=("spot",), entitlement=0)
        policy = a_policy(a, b, pools=(an_elastic_pool(gpus=32, gpus_per_node=8),))
        b_wants = {"b": {"concurrency": 8.0}}
        story = Story(policy, a_snapshot(policy, {"a": 8}, b_wants, nodes={"spot": 1}))
        story.turn()
        plan = story.plan()
        assert moves(plan) == {"b": (0, 2)}
        assert node_pool_changes(plan)["limit"].limit_to == 16

    def test_two_models_in_one_plan_share_one_limit(self) -> None:
        plan = two_models({"a": 3, "b": 9}, limit=32).plan()
        limits = [change for change in plan.node_pools if change.kind == "limit"]
        assert [(change.limit_from, change.limit_to) for change in limits] == [(0, 24)]  # one node, and two
        assert moves(plan) == {"a": (0, 3), "b": (0, 9)}

    def test_and_the_policys_bound(self) -> None:
        plan = two_models({"a": 8, "b": 8}, limit=8).plan()
        assert moves(plan) == {"a": (0, 8)}
        assert node_pool_changes(plan)["limit"].limit_to == 8
        assert (
            refusal_of(plan, "budget", "b").why
            == "pool spot has all the GPUs that its gpuLimit of 8 allows, so no node is asked for"
        )

    def test_nodes_that_show_fewer_gpus_than_pods_hold_there_leave_no_more_room_for_others(self) -> None:
        story = a_story(40, held=16, limit=24)
        story.pool("spot", nodes=tuple(replace(node, gpus=4) for node in story.view("spot").nodes))
        assert change_of(story.plan(), "b").replicas_to == 24

    def test_a_later_grant_counts_the_nodes_that_are_still_to_come(self) -> None:
        story = two_models({"a": 8, "b": 0}, limit=16)
        story.write(story.plan())
        story.load("b", {"concurrency": 36.0})
        story.turns(2)  # no node has come yet
        assert story.view("spot").node_pools[0].gpu_limit == 16
        assert (story.replicas("a"), story.replicas("b")) == (8, 8)

    def test_one_node_does_not_end_two_grants(self) -> None:
        # a's node is there and a's pods run on it; b's is still to come, and its GPUs stay in the budget.
        story = two_models({"a": 8, "b": 8}, limit=16)
        story.write(story.plan())
        story.kubernetes()
        story.snapshot = cluster.launch(story.snapshot, "spot", 8)
        spot = story.view("spot")
        story.pool("spot", nodes=spot.nodes[:1])
        story.wait(30.0)
        story.kubernetes()
        for _ in range(3):
            plan = story.plan()
            assert moves(plan) == {}
            assert (plan.pools[0].budget, plan.pools[0].promised) == (16, 16)
            story.wait(10.0)
        assert [(grant.model, grant.gpus) for grant in story.grants()] == [("b", 8)]

    def test_what_one_model_is_granted_in_two_pools_stays_in_the_budget_of_both(self) -> None:
        # By one id for both, lab was taken to be promised more than its budget, and a replica was released.
        b = a_model("b", 0, pools=("spot", "lab"), entitlement=0)
        pools = [an_elastic_pool(name, gpus, gpus_per_node=1) for name, gpus in (("spot", 2), ("lab", 8))]
        policy = a_policy(b, pools=pools)
        story = Story(policy, a_snapshot(policy, {}, {"b": {"concurrency": 20.0}}))
        story.turn()
        plan = story.plan()
        grants = [(change.target.pool, change.replicas_to, change.grant) for change in plan.changes]
        assert sorted(grants) == [("lab", 3, "g3-b@lab"), ("spot", 2, "g3-b")]
        story.write(plan)
        story.kubernetes()
        story.wait(15.0)
        plan = story.plan()
        assert moves(plan) == {}
        assert {pool.pool: pool.budget for pool in plan.pools} == {"lab": 3, "spot": 2}

    def test_an_unlimited_node_pool_needs_no_limit(self) -> None:
        story = a_story(3)
        story.pool("spot", node_pools=(a_node_pool("spot", None),))
        plan = story.plan()
        assert plan.node_pools == ()
        assert change_of(plan, "b").grant == "g3-b"

    def test_a_limit_is_never_set_under_use(self) -> None:
        # Karpenter already runs 24 GPUs there for others than this policy knows nodes of: limit 24, ours on top.
        story = a_story(3)
        story.pool("spot", node_pools=(a_node_pool("spot", 0, gpus_used=24),))
        assert node_pool_changes(story.plan())["limit"].limit_to == 24

    @pytest.mark.parametrize("gpus", [1, 4])
    def test_whole_nodes_are_asked_for(self, gpus: int) -> None:
        # 5 replicas: of 1 GPU one node of 8; of 4 GPUs two per node, three nodes.
        b = a_model("b", 0, pools=("spot",), entitlement=0, gpus_per_replica=gpus)
        policy = a_policy(b, pools=(an_elastic_pool(gpus=64, gpus_per_node=8),))
        story = Story(policy, a_snapshot(policy, {}, {"b": {"concurrency": 20.0}}))
        story.turn()
        assert node_pool_changes(story.plan())["limit"].limit_to == {1: 8, 4: 24}[gpus]


class TestRefused:
    def test_at_the_policys_bound(self) -> None:
        story = a_story(20, held=16, limit=16)
        plan = story.plan()
        assert plan.empty
        refusal = refusal_of(plan, "budget", "b")
        assert (refusal.replicas_from, refusal.replicas_to, refusal.numbers["gpuLimit"]) == (16, 20, 16)
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert (unmet.replicas, unmet.constraint) == (4, "budget")

    def test_up_to_the_bound_it_is_granted(self) -> None:
        # 20 GPUs of limit in nodes of 8: 2 nodes, 16 replicas of 18.
        story = a_story(18, limit=20)
        plan = story.plan()
        assert moves(plan) == {"b": (0, 16)}
        assert node_pool_changes(plan)["limit"].limit_to == 16

    def test_a_replica_larger_than_a_node(self) -> None:
        b = a_model("b", 0, pools=("spot",), entitlement=0, gpus_per_replica=16)
        policy = a_policy(b, pools=(an_elastic_pool(gpus=64, gpus_per_node=8),))
        story = Story(policy, a_snapshot(policy, {}, {"b": {"concurrency": 4.0}}))
        story.turn()
        plan = story.plan()
        assert plan.empty
        assert refusal_of(plan, "fit", "b").why == "a replica needs 16 GPUs on one node, and nodes of pool spot have 8"

    def test_a_mig_shape_that_no_provider_offers(self) -> None:
        plan = a_story(3, pool={"resource": "nvidia.com/mig-3g.20gb"}).plan()
        assert plan.empty
        assert "no provider launches nodes that offer nvidia.com/mig-3g.20gb" in refusal_of(plan, "fit", "b").why

    def test_an_excluded_pool_is_asked_for_no_node(self) -> None:
        story = a_story(3)
        story.override(an_override("exclude", "spot", subject_kind="pool"))
        assert story.plan().empty

    def test_a_pool_over_its_budget_is_asked_for_no_node(self) -> None:
        # 8 replicas were on a node that is gone: shrink first.
        story = a_story(20, held=16)
        gone = story.view("spot").nodes[1]
        story.pool("spot", nodes=(story.view("spot").nodes[0],))
        assert gone.gpus == 8
        assert "limit" not in node_pool_changes(story.plan())


class TestEnd:
    def a_waiting_story(self, floor: int = 0) -> Story:
        """Model b was granted a node for 3 replicas 890 s ago, and it has not come."""
        story = a_story(3, floor=floor, entitlement=3 if floor else 0)
        story.turn()
        assert story.replicas("b") == 3
        story.plan()
        story.wait(story.grants()[0].asked_at + 890.0 - story.snapshot.at)
        assert story.plan().empty
        return story

    def test_after_the_time_out_pending_replicas_are_withdrawn_and_the_limit_returns(self) -> None:
        story = self.a_waiting_story()
        story.wait(10.0)
        plan = story.plan()
        change = change_of(plan, "b")
        assert (change.kind, change.replicas_from, change.replicas_to) == ("withdraw", 3, 0)
        assert (
            change.reason == "takes back 3 replicas that waited for a node: no node came within 900 s (node grant g3-b)"
        )
        restored = node_pool_changes(plan)["restore-limit"]
        assert (restored.limit_from, restored.limit_to) == (8, 0)
        assert restored.reason == "the limit returns to its own 0: no node is awaited"
        story.write(plan)
        assert story.plan().empty
        assert story.grants() == ()

    def test_a_limit_that_an_earlier_leader_raised_late_goes_back_though_nobody_knows_of_its_grant(self) -> None:
        story = a_story(0)
        saved = SavedNodePool(limits={"nvidia.com/gpu": "0"}, budgets=None)
        story.pool("spot", node_pools=(replace(story.view("spot").node_pools[0], saved=saved, gpu_limit=8),))
        restored = node_pool_changes(story.plan())["restore-limit"]
        assert (restored.limit_from, restored.limit_to) == (8, 0)

    def test_a_saved_limit_that_spells_no_number_stops_no_plan(self) -> None:
        story = a_story(0)
        saved = SavedNodePool(limits={"nvidia.com/gpu": "²"}, budgets=None)
        story.pool("spot", node_pools=(replace(story.view("spot").node_pools[0], saved=saved, gpu_limit=8),))
        assert story.plan().empty

    def test_a_failed_nodeclaim_ends_it_at_once(self) -> None:
        story = a_story(3)
        story.write(story.plan())
        story.kubernetes()
        story.wait(20.0)
        claim = a_node_claim(created_at=story.snapshot.at - 10.0, failed="InsufficientCapacity")
        story.pool("spot", node_pools=(replace(story.view("spot").node_pools[0], claims=(claim,)),))
        plan = story.plan()
        assert change_of(plan, "b").kind == "withdraw"
        assert "InsufficientCapacity" in change_of(plan, "b").reason

    def test_a_node_pool_that_brought_nothing_is_left_alone_for_another_time_out(self) -> None:
        story = self.a_waiting_story()
        story.wait(10.0)
        story.turn()
        plan = story.plan()
        assert plan.empty
        refusal = refusal_of(plan, "nodes", "b")
        assert (
            "no NodePool of pool spot brings nodes now (the last grant there: takes back 3 "
            "replicas that waited for a node"
        ) in refusal.why
        assert refusal.until == plan.at - 10.0 + 900.0
        story.wait(refusal.until - story.snapshot.at)
        assert change_of(story.plan(), "b").grant is not None

    def test_the_next_node_pool_is_asked_meanwhile(self) -> None:
        story = a_story(3, pool={"node_pools": ("spot", "spot-b")})
        story.write(story.plan())
        story.kubernetes()
        story.plan()
        story.wait(900.0)
        story.turn()
        assert node_pool_changes(story.plan())["limit"].name == "spot-b"

    def test_nothing_ready_goes(self) -> None:
        # 6 Ready and 2 free GPUs when 6 more were wanted: 2 have their place, 4 wait and are withdrawn.
        story = a_story(12, held=6)
        story.turn()
        assert story.replicas("b") == 12
        story.wait(900.0)
        story.load("b", {"concurrency": 48.0})
        change = change_of(story.plan(), "b")
        assert (change.kind, change.replicas_from, change.replicas_to) == ("withdraw", 12, 8)

    def test_the_floors_replicas_go_on_asking(self) -> None:
        # The floor is 2 of the 3: one is withdrawn; the others, their grant and the limit stay.
        story = self.a_waiting_story(floor=2)
        story.wait(10.0)
        plan = story.plan()
        assert moves(plan) == {"b": (3, 2)}
        assert "restore-limit" not in node_pool_changes(plan)
        story.write(plan)
        story.settle()
        assert all(later.empty for later in story.turns(95))
        assert [grant.replicas for grant in story.grants()] == [2]
        assert story.plans[-1].pools[0].budget == 2

    def test_what_nobody_wants_any_more_ends_with_its_grant(self) -> None:
        # Demand falls while the node is still to come: the replica is let go, and so is the limit.
        story = a_story(3)
        story.turn()
        story.load("b", {"concurrency": 0.0})
        story.turns(6)
        assert story.replicas("b") == 0
        assert story.grants() == ()
        assert story.view("spot").node_pools[0].gpu_limit == 0

    def test_the_limit_returns_to_what_is_in_use_when_that_is_more(self) -> None:
        story = a_story(3)
        story.turn()
        story.snapshot = cluster.launch(story.snapshot, "spot", 8)
        story.settle()
        story.wait(30.0)
        assert story.plan().empty
        assert story.view("spot").node_pools[0].gpu_limit == 8
        node = story.view("spot").nodes[0]
        story.lose(node.name)
        story.load("b", {"concurrency": 0.0})
        story.turns(8)
        assert story.view("spot").node_pools[0].gpu_limit == 0


def test_a_node_that_is_there_is_not_asked_for_again() -> None:
    story = a_story(3)
    story.turn()
    story.snapshot = cluster.launch(story.snapshot, "spot", 8)
    story.settle()
    assert all(plan.empty for plan in story.turns(10))
    assert [node.gpus for node in story.view("spot").nodes] == [8]
