"""The policy's pools: whose node is whose, what others hold there, what Karpenter is about to bring."""

from msgspec.structs import replace

from rebalancer.domain.cluster import DisruptionBudget, SavedNodePool
from rebalancer.domain.pool_view import NodePoolView, NodeView, PoolView
from rebalancer.state import ClusterState
from tests.builders import NOW, a_model, a_node_claim, a_policy, a_pool, an_elastic_pool
from tests.state.objects import (
    GPU,
    a_claim,
    a_cluster_node,
    a_karpenter_node,
    a_karpenter_pool,
    a_ready_pod,
    a_state,
    a_workload,
    changed,
    feed,
    gone,
    listed,
)

POLICY = a_policy(a_model("b"), pools=(a_pool(), an_elastic_pool()))
HOLD = DisruptionBudget(nodes="0", reasons=("Empty", "Underutilized"))
SAVED = SavedNodePool(limits=None, budgets=None)


def pool_of(state: ClusterState, name: str = "a100") -> PoolView:
    return next(view for view in state.peek(NOW).pools if view.name == name)


def node_of(state: ClusterState, name: str = "n1") -> NodeView:
    return next(node for pool in state.peek(NOW).pools for node in pool.nodes if node.name == name)


def node_pool_of(state: ClusterState) -> NodePoolView:
    (view,) = pool_of(state, "spot").node_pools
    return view


# --- nodes


def test_pools_and_nodes_are_in_order_and_strangers_are_left_out() -> None:
    state = a_state(
        POLICY, a_cluster_node("n2"), a_cluster_node("n1"), a_karpenter_node("s1"), a_cluster_node("x", "cpu")
    )
    assert [(pool.name, [node.name for node in pool.nodes]) for pool in state.peek(NOW).pools] == [
        ("a100", ["n1", "n2"]),
        ("spot", ["s1"]),
    ]


def test_a_node_shows_what_the_cluster_says() -> None:
    node = a_karpenter_node("s1", allocatable={GPU: 4, "other/x": 9}, unschedulable=True, ready=False)
    assert node_of(a_state(POLICY, node), "s1") == NodeView(
        name="s1",
        gpus=4,
        ready=False,
        schedulable=False,
        ready_changed_at=NOW - 3600,
        node_pool="spot",
        labels=node.labels,
    )


def test_a_node_of_two_pools_is_the_first_ones() -> None:
    both = a_policy(a_model("b"), pools=(a_pool("z"), a_pool("a100", node_labels={"zone": "1"})))
    state = a_state(both, a_cluster_node("n1", labels={"pool": "z", "zone": "1"}))
    assert [node.name for node in pool_of(state, "z").nodes] == ["n1"]
    assert pool_of(state).nodes == ()


def test_a_node_moves_with_its_labels() -> None:
    state = feed(a_state(POLICY, a_cluster_node("n1")), changed(a_cluster_node("n1", "spot", resource_version="2")))
    assert pool_of(state).nodes == ()
    assert [node.name for node in pool_of(state, "spot").nodes] == ["n1"]
    feed(state, gone(a_cluster_node("n1")))
    assert pool_of(state, "spot").nodes == ()


def test_gpus_without_allocatable_are_a_promise() -> None:
    assert node_of(a_state(POLICY, a_cluster_node("n1", allocatable={}))).gpus == 0


def test_foreign_gpus_are_those_of_pods_that_are_no_models() -> None:
    pods = [
        a_ready_pod("b-1"),
        a_ready_pod("train", workload="train", gpus={GPU: 2}),
        a_ready_pod("job", workload=None, gpus={GPU: 1}),
        a_ready_pod("done", workload=None, gpus={GPU: 4}, phase="Succeeded"),
        a_ready_pod("web", workload="web", gpus={}),
        a_ready_pod("far", workload="train", node="n2", gpus={GPU: 5}),
        a_ready_pod("mig", workload="train", gpus={"nvidia.com/mig-3g.20gb": 3}),
    ]
    state = a_state(POLICY, a_cluster_node("n1"), a_cluster_node("n2"), a_workload(), *pods)
    assert node_of(state).foreign_gpus == 3
    assert node_of(state, "n2").foreign_gpus == 5
    feed(state, gone(pods[1]), changed(replace(pods[2], resource_version="2", phase="Failed")))
    assert node_of(state).foreign_gpus == 0


def test_a_pod_that_goes_is_foreign_until_it_is_gone() -> None:
    pod = a_ready_pod("train", workload="train", gpus={GPU: 2})
    state = feed(
        a_state(POLICY, a_cluster_node("n1"), pod), changed(replace(pod, resource_version="2", deleting_at=NOW))
    )
    assert node_of(state).foreign_gpus == 2


def test_pods_become_foreign_when_their_model_leaves_the_policy() -> None:
    state = a_state(POLICY, a_cluster_node("n1"), a_ready_pod("b-1"))
    assert node_of(state).foreign_gpus == 0
    state.set_policy(a_policy(a_model("c"), pools=POLICY.pools), NOW)
    assert node_of(state).foreign_gpus == 1


def test_pools_follow_the_policy() -> None:
    state = a_state(POLICY, a_cluster_node("n1"), a_cluster_node("h1", "h100"))
    state.set_policy(a_policy(a_model("b", pools=("h100",)), pools=(a_pool("h100"),)), NOW)
    assert [(pool.name, [node.name for node in pool.nodes]) for pool in state.peek(NOW).pools] == [("h100", ["h1"])]
    assert state.take_wakes() == {"policy"}


# --- Karpenter


def test_a_node_pool_shows_limit_and_use_in_gpus() -> None:
    state = a_state(POLICY, a_karpenter_pool("spot", 8, used={GPU: 4, "cpu": 1}), a_karpenter_pool("other", 8))
    assert node_pool_of(state) == NodePoolView("spot", "uid-spot", "1", gpu_limit=8, gpus_used=4)
    feed(state, changed(a_karpenter_pool("spot", None, resource_version="2")))
    assert node_pool_of(state).gpu_limit is None
    feed(state, gone(a_karpenter_pool("spot")))
    assert pool_of(state, "spot").node_pools == ()


def test_a_hold_is_ours_only_with_the_budgets_saved() -> None:
    held = a_karpenter_pool(budgets=(DisruptionBudget("10%"), HOLD), saved=SAVED)
    assert node_pool_of(a_state(POLICY, held)).held
    assert not node_pool_of(a_state(POLICY, replace(held, saved=None))).held
    assert not node_pool_of(a_state(POLICY, replace(held, budgets=(DisruptionBudget("0"),)))).held
    assert not node_pool_of(a_state(POLICY, replace(held, budgets=None))).held


def test_claims_are_the_nodes_still_to_come() -> None:
    coming = a_claim("x1")
    registered = a_claim("x2", node="s2")
    ready = a_claim("x3", node="s1")
    leaving = a_claim("x4", deleting_at=NOW)
    refused = a_claim("x5", deleting_at=NOW, failed="InsufficientCapacity: no g5")
    nodes = [a_karpenter_node("s1"), a_karpenter_node("s2", ready=False)]
    state = a_state(POLICY, a_karpenter_pool(), *nodes, coming, registered, ready, leaving, refused)
    assert node_pool_of(state).claims == (
        a_node_claim("x1"),
        a_node_claim("x2", node="s2"),
        a_node_claim("x5", failed="InsufficientCapacity: no g5"),
    )
    feed(state, changed(a_karpenter_node("s2", resource_version="2")), listed("nodeclaims", coming, registered))
    assert node_pool_of(state).claims == (a_node_claim("x1"),)


def test_a_node_says_when_its_devices_became_fewer_until_they_are_back() -> None:
    state = a_state(POLICY, a_cluster_node("n1"))
    assert node_of(state).fell_at is None

    for version, count, at, fell_at in (
        ("2", 0, 10.0, NOW + 10.0),
        ("3", 0, 20.0, NOW + 10.0),  # nothing has changed but the version
        ("4", 5, 30.0, NOW + 10.0),
        ("5", 4, 40.0, NOW + 40.0),
        ("6", 8, 50.0, None),
    ):
        feed(state, changed(a_cluster_node("n1", gpus=count, resource_version=version), at=NOW + at))
        assert (node_of(state).gpus, node_of(state).fell_at) == (count, fell_at)


def test_another_node_of_that_name_has_not_become_smaller() -> None:
    state = a_state(POLICY, a_cluster_node("n1"))
    feed(state, changed(a_cluster_node("n1", gpus=0, resource_version="2"), at=NOW + 10.0))
    feed(state, changed(a_cluster_node("n1", gpus=4, uid="uid-other", resource_version="3"), at=NOW + 20.0))
    assert node_of(state).fell_at is None


# --- slices and shares

SMALL, LARGE = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"


def test_a_node_of_mixed_slices_is_in_the_pool_of_each_shape() -> None:
    labels = {"pool": "mig"}
    pools = (a_pool("small", resource=SMALL, node_labels=labels), a_pool("large", resource=LARGE, node_labels=labels))
    node = a_cluster_node("n1", "mig", allocatable={GPU: 0, SMALL: 2, LARGE: 1})
    stranger = a_ready_pod("x", None, gpus={SMALL: 1})
    policy = a_policy(a_model("b", pools=("small",)), pools=pools)
    state = a_state(policy, node, stranger)
    counts = {
        name: [(each.gpus, each.foreign_gpus) for each in pool_of(state, name).nodes] for name in ("small", "large")
    }
    assert counts == {"small": [(2, 1)], "large": [(1, 0)]}
    feed(state, changed(replace(node, resource_version="2", allocatable={SMALL: 2, LARGE: 0})))
    assert [pool_of(state, name).nodes[0].gpus for name in ("small", "large")] == [2, 0]
    feed(state, gone(node))
    assert [pool_of(state, name).nodes for name in ("small", "large")] == [(), ()]


def test_shares_are_told_instead_of_counted_unless_the_policy_counts_them() -> None:
    node = a_cluster_node(labels={"pool": "a100", "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.memory": "16384"})
    refused = node_of(a_state(POLICY, node))
    assert (refused.gpus, refused.refused) == (
        0,
        "offers 8 shares of 2 GPUs: a share is no GPU; to count shares, say `isolation: soft` in the pool",
    )
    soft = node_of(a_state(a_policy(a_model("b"), pools=(a_pool(isolation="soft"),)), node))
    assert (soft.gpus, soft.refused, soft.memory_gib) == (8, "", 4.0)


def test_gpu_memory_is_the_nodes_by_its_label_and_else_the_policys() -> None:
    policy = a_policy(a_model("b"), pools=(a_pool(memory_gib=80.0),))
    assert node_of(a_state(policy, a_cluster_node())).memory_gib == 80.0
    labels = {"pool": "a100", "nvidia.com/gpu.memory": "40960"}
    assert node_of(a_state(policy, a_cluster_node(labels=labels))).memory_gib == 40.0
