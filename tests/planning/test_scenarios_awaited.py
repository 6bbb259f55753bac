"""A node of an elastic pool goes or is drained under its pods: what waits stays, and a node is asked for."""

from msgspec.structs import replace

from rebalancer.domain.cluster import Taint
from tests.builders import a_model, a_node_claim, a_policy, a_snapshot, a_write_stop, an_elastic_pool
from tests.planning import cluster
from tests.planning.story import Story, change_of, decision_of, moves, node_pool_changes

CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def lost(held: int = 2, wanted: int = 2, floor: int = 0, limit: int = 32) -> Story:
    """Model b had `held` replicas on the one node of pool spot, of 8 GPUs, and needs `wanted`; that node is gone."""
    b = a_model("b", floor, pools=("spot",), entitlement=0)
    policy = a_policy(b, pools=(an_elastic_pool("spot", limit, gpus_per_node=8),))
    snapshot = a_snapshot(policy, {"b": held}, {"b": {"concurrency": 4.0 * wanted}}, nodes={"spot": 1})
    story = Story(policy, snapshot)
    story.turn()
    (view,) = story.view("spot").node_pools
    story.pool("spot", node_pools=(replace(view, gpu_limit=0),))  # who set it wants nodes by our grants alone
    story.lose(story.view("spot").nodes[0].name)
    story.snapshot = cluster.reconcile(story.snapshot)
    assert [pod.phase for pod in story.of("b").pods] == ["pending"] * held
    return story


def test_what_waits_stays_and_a_node_grant_stands_for_it() -> None:
    story = lost()
    plan = story.plan()
    assert moves(plan) == {}
    limit = node_pool_changes(plan)["limit"]
    assert (limit.limit_from, limit.limit_to, limit.grant) == (0, 8, "w3.1-b")
    assert limit.reason.startswith("b has no node for 2 replicas that no shift can free")
    assert [(one.replicas, one.gpus, one.node_pool, one.limit_due) for one in story.grants()] == [(2, 2, "spot", True)]
    decision = decision_of(plan, "b")
    assert (decision.allocation, decision.granted, plan.unmet) == (2, 2, ())


def test_once_its_limit_is_written_the_plan_is_at_rest_until_the_node_comes() -> None:
    story = lost()
    story.write(story.plan())
    assert story.plan().empty
    assert [one.limit_due for one in story.grants()] == [False]
    assert (story.plan().pools[0].budget, story.plan().pools[0].promised) == (2, 2)
    story.snapshot = cluster.launch(story.snapshot, "spot", 8)
    story.wait(30.0)
    story.settle()
    assert moves(story.plan()) == {}
    assert story.grants() == ()
    assert [pod.phase for pod in story.of("b").pods] == ["ready"] * 2


def test_what_is_beyond_its_maximum_goes_as_before() -> None:
    story = lost(held=4, wanted=4)
    b = a_model("b", 0, pools=("spot",), entitlement=0, max_replicas=2)
    story.policy = a_policy(b, pools=story.policy.pools)
    change = change_of(story.plan(), "b")
    assert (change.kind, change.replicas_from, change.replicas_to) == ("release", 4, 2)
    assert [one.replicas for one in story.grants()] == [2]


def test_where_no_node_may_come_it_goes_as_before() -> None:
    story = lost()
    story.policy = a_policy(*story.policy.models, pools=(an_elastic_pool("spot", 7, gpus_per_node=8),))
    assert change_of(story.plan(), "b").replicas_to == 0
    assert story.grants() == ()


def test_where_no_node_comes_in_time_it_is_withdrawn_down_to_the_floor() -> None:
    story = lost(held=3, wanted=3, floor=1)
    story.write(story.plan())
    story.wait(story.policy.nodes.node_timeout_seconds)
    change = change_of(story.plan(), "b")
    assert (change.kind, change.replicas_from, change.replicas_to) == ("withdraw", 3, 1)


def test_a_nodepool_that_has_just_failed_is_not_asked_and_what_waits_goes() -> None:
    story = lost()
    story.write(story.plan())
    (view,) = story.view("spot").node_pools
    failed = a_node_claim("spot-x", failed="InsufficientCapacityError", created_at=story.snapshot.at)
    story.pool("spot", node_pools=(replace(view, claims=(failed,)),))
    assert change_of(story.plan(), "b").kind == "withdraw"
    story.write(story.plan())
    assert story.plan().node_pools == ()


def test_while_writes_are_stopped_nothing_is_asked_and_nothing_remembered() -> None:
    story = lost()
    story.snapshot = replace(story.snapshot, write_stop=a_write_stop())
    plan = story.plan()
    assert (moves(plan), plan.node_pools, story.grants()) == ({}, (), ())


def test_a_number_that_somebody_else_has_raised_is_not_taken_over() -> None:
    story = lost(held=5, wanted=5)
    story.target("b", by_others=True)
    assert (moves(story.plan()), story.grants()) == ({}, ())


def drained(held: int = 2, floor: int = 2, **of_the_node: object) -> Story:
    """The node of `held` replicas is cordoned and empty, as after `kubectl drain`; the NodePool is at its limit."""
    b = a_model("b", floor, pools=("spot",), entitlement=0)
    policy = a_policy(b, pools=(an_elastic_pool("spot", 32, gpus_per_node=8),))
    snapshot = a_snapshot(policy, {"b": held}, {"b": {"concurrency": 4.0 * held}}, nodes={"spot": 1})
    story = Story(policy, snapshot)
    story.turn()
    (view,), (node,) = story.view("spot").node_pools, story.view("spot").nodes
    cordoned = replace(node, schedulable=False, taints=(CORDON,), **of_the_node)
    story.pool("spot", node_pools=(replace(view, gpu_limit=8, gpus_used=8),), nodes=(cordoned,))
    story.evict(node.name)
    story.snapshot = cluster.reconcile(cluster.vanish(story.snapshot))
    assert [pod.phase for pod in story.of("b").pods] == ["pending"] * held
    return story


def test_for_what_a_drained_node_held_another_one_comes() -> None:
    story = drained()
    plan = story.plan()
    assert moves(plan) == {}
    limit = node_pool_changes(plan)["limit"]
    assert (limit.limit_from, limit.limit_to, limit.grant) == (8, 16, "w3.1-b")
    assert plan.unmet == ()
    story.write(plan)
    assert story.plan().empty
    story.snapshot = cluster.launch(story.snapshot, "spot", 8)
    story.wait(30.0)
    story.settle()
    assert (moves(story.plan()), story.grants()) == ({}, ())
    assert [pod.phase for pod in story.of("b").pods] == ["ready"] * 2


def test_of_a_number_that_somebody_else_has_raised_nodes_come_for_what_is_needed() -> None:
    story = drained()
    story.target("b", replicas=9, by_others=True)
    story.snapshot = cluster.reconcile(story.snapshot)
    assert len(story.of("b").pods) == 9
    assert moves(story.plan()) == {"b": (9, 2)}, "what nobody needs goes"
    assert [one.replicas for one in story.grants()] == [2]


def test_a_node_that_takes_pods_again_ends_the_grant_and_the_limit_returns() -> None:
    story = drained()
    story.write(story.plan())
    story.pool("spot", nodes=tuple(replace(one, schedulable=True, taints=()) for one in story.view("spot").nodes))
    story.snapshot = cluster.reconcile(story.snapshot)
    story.wait(30.0)
    story.settle()
    back = node_pool_changes(story.plan())["restore-limit"]
    assert (back.limit_from, back.limit_to, story.grants()) == (16, 8, ())


def test_while_writes_are_stopped_what_waits_on_a_drained_node_is_told_to_have_none() -> None:
    story = drained()
    story.snapshot = replace(story.snapshot, write_stop=a_write_stop())
    plan = story.plan()
    assert (plan.node_pools, story.grants()) == ((), ())
    assert "1 by taint node.kubernetes.io/unschedulable" in next(one.why for one in plan.unmet)


def test_no_node_is_asked_for_a_pod_that_no_node_of_the_pool_would_take() -> None:
    story = drained(labels={})
    story.target("b", node_selector={"gpu": "h200"})
    plan = story.plan()
    assert (moves(plan), plan.node_pools, story.grants()) == ({}, (), ())
    assert "node selector gpu=h200" in next(one.why for one in plan.unmet)


def test_while_a_node_is_on_its_way_none_is_asked_for() -> None:
    story = drained()
    (view,) = story.view("spot").node_pools
    story.pool("spot", node_pools=(replace(view, claims=(a_node_claim("spot-x", created_at=story.snapshot.at),)),))
    assert (story.plan().node_pools, story.grants()) == ((), ())
