"""Who brings nodes to a pool besides Karpenter, what it was refused lately, and GPUs that placeholders keep warm."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.events import ObjectChanged, SourceState
from rebalancer.domain.node_groups import AutoscalerStatus, NodeGroup, NodeGroupView
from rebalancer.domain.pool_view import PoolView
from rebalancer.state import ClusterState
from tests.builders import NOW, a_model, a_policy, a_pool, an_elastic_pool
from tests.state.objects import (
    a_claim,
    a_cluster_node,
    a_karpenter_pool,
    a_ready_pod,
    a_state,
    changed,
    feed,
    gone,
    listed,
)

GROUPS = (
    NodeGroup("https://cloud.example/zones/a/instanceGroups/gke-prod-gpu-aaaaaaaa-grp", 2, 3, 4, leaving=1),
    NodeGroup("https://cloud.example/zones/b/instanceGroups/gke-prod-gpu-bbbbbbbb-grp", 1, 1, 4),
    NodeGroup("gke-prod-cpu-cccccccc-grp", 9, 9, 9),
)
STATUS = AutoscalerStatus("kube-system", "cluster-autoscaler-status", "uid-cas", "1", NOW - 20.0, GROUPS)


def grown(*names: str, **pool: object) -> ClusterState:
    """A state whose one pool has these node groups behind it; nobody has told of them yet."""
    return a_state(a_policy(a_model("b"), pools=(a_pool("a100", 64, node_groups=names, **pool),)))


def pool_of(state: ClusterState) -> PoolView:
    (view,) = state.peek(NOW).pools
    return view


def told(state: ClusterState, status: AutoscalerStatus = STATUS) -> ClusterState:
    return feed(state, listed("autoscalerstatus", status))


def test_the_groups_of_one_managed_pool_are_one_group_over_all_zones() -> None:
    state = told(grown("gke-prod-gpu-*-grp"))
    assert pool_of(state).node_groups == (NodeGroupView("gke-prod-gpu-*-grp", NOW - 20.0, 3, 4, 8, leaving=1),)


@pytest.mark.parametrize("name", [GROUPS[0].name, "gke-prod-gpu-aaaaaaaa-grp"])
def test_a_group_is_named_whole_or_by_the_last_part_of_its_url(name: str) -> None:
    (group,) = pool_of(told(grown(name))).node_groups
    assert (group.nodes, group.target, group.most) == (2, 3, 4)


def test_only_groups_that_may_add_nodes_count_and_without_one_the_first_says_why() -> None:
    first = replace(GROUPS[0], refuses="it backs off")
    state = told(grown("gke-prod-gpu-*-grp"), replace(STATUS, groups=(first, *GROUPS[1:])))
    (group,) = pool_of(state).node_groups
    assert (group.nodes, group.target, group.most, group.refuses) == (1, 1, 4, "")
    second = replace(GROUPS[1], refuses="it is unhealthy")
    feed(
        state,
        ObjectChanged(
            "autoscalerstatus", NOW, replace(STATUS, resource_version="2", groups=(first, second, GROUPS[2]))
        ),
    )
    assert pool_of(state).node_groups[0].refuses == "it backs off"


def test_a_group_that_no_status_names_is_unknown() -> None:
    assert pool_of(told(grown("eks-gpu-*"))).node_groups == (NodeGroupView("eks-gpu-*"),)


def test_nothing_waits_for_a_status_that_nobody_may_read() -> None:
    state = grown("eks-gpu-*")
    assert state.sync(NOW).missing == ("autoscalerstatus",)
    feed(state, SourceState("autoscalerstatus", NOW, "forbidden", denied=True))
    assert state.sync(NOW).missing == ()
    assert state.sync(NOW + 3600.0).stale == tuple(sorted(set(state.sync(NOW + 3600.0).stale) - {"autoscalerstatus"}))


def test_a_policy_without_node_groups_follows_no_status() -> None:
    state = told(a_state(a_policy(a_model("b"))))
    assert pool_of(state).node_groups == ()


def test_gpus_of_placeholders_are_warm_and_nobody_s() -> None:
    holder = a_ready_pod("warm-1", None, placeholder=True)
    other = a_ready_pod("other-1", None)
    state = a_state(a_policy(a_model("b")), a_cluster_node("n1"), holder, other)
    (node,) = pool_of(state).nodes
    assert (node.gpus, node.foreign_gpus, node.warm_gpus) == (8, 1, 1)
    assert [each.name for each in pool_of(state).others] == ["other-1"]
    feed(state, gone(holder))
    assert pool_of(state).nodes[0].warm_gpus == 0


def test_when_the_cloud_had_no_capacity_last_is_known_until_it_brings_a_node() -> None:
    state = a_state(a_policy(a_model("b", pools=("spot",)), pools=(an_elastic_pool("spot"),)), a_karpenter_pool("spot"))
    failed = a_claim("spot-x1", failed="InsufficientCapacityError")
    feed(state, changed(failed, NOW - 5.0), gone(failed))
    (view,) = pool_of(state).node_pools
    assert view.refused_at == NOW - 5.0
    feed(state, changed(a_claim("spot-x2", node="n2", initialized=True)))
    (view,) = pool_of(state).node_pools
    assert view.refused_at is None


def test_a_write_to_the_claim_of_a_node_that_is_there_says_nothing_of_the_clouds_capacity() -> None:
    policy = a_policy(a_model("b", pools=("spot",)), pools=(an_elastic_pool("spot"),))
    there = a_claim("spot-x0", node="n0", initialized=True)
    state = a_state(policy, a_karpenter_pool("spot"), there)
    failed = a_claim("spot-x1", failed="InsufficientCapacityError")
    feed(state, changed(failed, NOW - 5.0), gone(failed), changed(replace(there, resource_version="9")))
    (view,) = pool_of(state).node_pools
    assert view.refused_at == NOW - 5.0
