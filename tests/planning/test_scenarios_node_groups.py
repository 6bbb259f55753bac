"""Nodes that Cluster Autoscaler brings for pending pods: how many, and what is said where it brings none."""

from msgspec.structs import replace

from rebalancer.domain.cluster import Taint
from tests.builders import NOW, a_model, a_node, a_node_group, a_policy, a_snapshot, an_elastic_pool
from tests.planning.story import Story, change_of, moves, refusal_of, unmet_of

GROUP = "eks-gpu-*"


def a_story(wanted: int, held: int = 0, limit: int = 64, **group: object) -> Story:
    """Model b lives on nodes of 8 GPUs of one node group, has `held` replicas there, and wants `wanted`."""
    b = a_model("b", 0, pools=("spot",), entitlement=0)
    pool = an_elastic_pool("spot", limit, node_pools=(), node_groups=(GROUP,), gpus_per_node=8)
    policy = a_policy(b, pools=(pool,))
    nodes = -(-held // 8)
    story = Story(policy, a_snapshot(policy, {"b": held}, {"b": {"concurrency": 4.0 * wanted}}, nodes={"spot": nodes}))
    story.pool("spot", node_groups=(replace(a_node_group(GROUP, nodes), **group),))
    story.turn()  # borrowing waits one planning period
    return story


class TestGrant:
    def test_it_is_pending_replicas_and_nothing_else(self) -> None:
        plan = a_story(10, held=8).plan()
        change = change_of(plan, "b")
        assert (change.kind, change.replicas_to, change.node_pool) == ("grant", 10, GROUP)
        assert plan.node_pools == ()

    def test_its_gpus_are_in_the_budget_until_its_replicas_have_a_node(self) -> None:
        story = a_story(10, held=8)
        story.turns(2)
        assert [(grant.node_pool, grant.gpus) for grant in story.grants()] == [(GROUP, 2)]
        assert all(moves(plan) == {} for plan in story.turns(3))
        story.add("spot", a_node("spot-2", labels={"pool": "spot"}))
        story.turn()
        story.turn()
        assert story.grants() == ()
        assert {pod.node for pod in story.of("b").pods} == {"spot-1", "spot-2"}

    def test_no_more_than_the_group_may_have(self) -> None:
        # 1 of at most 2 nodes are there: 8 more replicas fit, and 24 are wanted.
        assert moves(a_story(32, held=8, most=2).plan()) == {"b": (8, 16)}

    def test_nodes_that_it_has_asked_the_cloud_for_are_none_to_ask_for(self) -> None:
        story = a_story(32, held=8, target=4)
        assert refusal_of(story.plan(), "nodes", "b").why.endswith("node group eks-gpu-* has 4 nodes of 4")

    def test_nodes_granted_and_not_yet_asked_for_by_it_are_none_to_grant_to_another(self) -> None:
        models = [a_model(name, 0, pools=("spot",), entitlement=0) for name in ("a", "b")]
        pool = an_elastic_pool("spot", 64, node_pools=(), node_groups=(GROUP,), gpus_per_node=8)
        policy = a_policy(*models, pools=(pool,))
        story = Story(policy, a_snapshot(policy, {}, {name: {"concurrency": 64.0} for name in ("a", "b")}))
        story.pool("spot", node_groups=(a_node_group(GROUP, 0, 3),))
        story.turn()
        plan = story.turn()
        assert moves(plan) == {"a": (0, 16), "b": (0, 8)}
        story.load("b", {"concurrency": 160.0})
        assert all(moves(plan) == {} for plan in story.turns(3))

    def test_and_no_more_than_the_policy_s_gpu_limit(self) -> None:
        assert moves(a_story(32, held=8, limit=16).plan()) == {"b": (8, 16)}

    def test_where_no_status_tells_of_the_group_the_policy_alone_bounds_it(self) -> None:
        assert moves(a_story(32, held=8, told_at=None, most=0).plan()) == {"b": (8, 32)}

    def test_and_where_the_status_is_too_old_to_mean_anything(self) -> None:
        assert moves(a_story(32, held=8, told_at=NOW - 1200.0, refuses="backs off").plan()) == {"b": (8, 32)}


class TestNone:
    def test_a_group_that_backs_off_is_asked_for_nothing_and_unmet_says_why(self) -> None:
        story = a_story(16, held=8, refuses="after a scale-up that failed it adds none for a while (OUT_OF_RESOURCES)")
        plan = story.plan()
        assert moves(plan) == {}
        unmet = unmet_of(plan, "b")
        assert unmet is not None
        assert unmet.constraint == "nodes"
        assert unmet.why.startswith(
            "no node group of pool spot brings nodes now; node group eks-gpu-* has 1 node of 4: "
            "after a scale-up that failed it adds none for a while (OUT_OF_RESOURCES); a replica needs 1 GPU"
        )

    def test_it_is_asked_again_once_it_backs_off_no_more(self) -> None:
        story = a_story(16, held=8, refuses="it is unhealthy")
        story.turn()
        story.pool("spot", node_groups=(a_node_group(GROUP, 1),))
        assert moves(story.plan()) == {"b": (8, 16)}

    def test_another_group_of_the_pool_is_asked_instead(self) -> None:
        b = a_model("b", 0, pools=("spot",), entitlement=0)
        groups = ("aks-gpua-*", "aks-gpub-*")
        pool = an_elastic_pool("spot", 64, node_pools=(), node_groups=groups, gpus_per_node=8)
        policy = a_policy(b, pools=(pool,))
        story = Story(policy, a_snapshot(policy, {}, {"b": {"concurrency": 32.0}}))
        story.pool("spot", node_groups=(a_node_group(groups[0], refuses="it is unhealthy"), a_node_group(groups[1])))
        story.turn()
        assert change_of(story.plan(), "b").node_pool == "aks-gpub-*"

    def test_a_grant_that_brings_no_node_in_time_is_withdrawn_and_the_group_rests(self) -> None:
        story = a_story(10, held=8)
        story.turn()
        story.wait(900.0)
        plan = story.turn()
        assert moves(plan) == {"b": (10, 8)}
        assert refusal_of(story.plan(), "nodes", "b").until is not None
        assert moves(story.plan()) == {}


def test_what_the_group_may_bring_and_who_is_to_go_is_told() -> None:
    story = a_story(16, held=16, leaving=1)
    soft = Taint(key="DeletionCandidateOfClusterAutoscaler", value="1", effect="PreferNoSchedule")
    first, *others = story.view("spot").nodes
    story.pool("spot", nodes=(replace(first, taints=(soft,)), *others))
    assert story.plan().pools[0].nodes == (
        "node group eks-gpu-* has 2 nodes of 4, and Cluster Autoscaler would remove 1",
        "Cluster Autoscaler would remove spot-1, if nothing comes to need it",
    )


def test_a_status_that_is_missing_or_old_is_told_so() -> None:
    story = a_story(0, told_at=None)
    assert story.plan().pools[0].nodes == ("no status of Cluster Autoscaler tells of node group eks-gpu-*",)
    story.pool("spot", node_groups=(a_node_group(GROUP, told_at=story.snapshot.at - 1800.0),))
    assert story.plan().pools[0].nodes == ("Cluster Autoscaler last told of node group eks-gpu-* 30 min ago",)
