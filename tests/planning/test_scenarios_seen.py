"""From what the cluster says to the plan: nodes that are gone, that go in a fortnight, and that Karpenter takes."""

import pytest
from msgspec.structs import replace

from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.planning import plan as decide
from rebalancer.state import ClusterState
from tests.builders import NOW, a_model, a_policy, a_pool
from tests.planning.story import change_of, decision_of, moves, node_pool_changes
from tests.state.objects import (
    DISRUPTED,
    a_claim,
    a_cluster_node,
    a_karpenter_node,
    a_karpenter_pool,
    a_ready_pod,
    a_sample,
    a_state,
    a_told_notice,
    a_workload,
    changed,
    feed,
    gone,
)

FORTNIGHT = 14 * 86_400.0
FIXED = a_policy(a_model("b", 2, entitlement=4), pools=(a_pool(gpus=16),), look_ahead=False)
GROWING = a_policy(
    a_model("b", 2, entitlement=4, pools=("spot",)),
    pools=(a_pool("spot", gpus=32, node_pools=("spot",), gpus_per_node=8),),
    look_ahead=False,
)


def busy(state: ClusterState, now: float = NOW) -> ClusterState:
    """Each of b's four replicas, all on one node, has all the requests that it carries, as metrics say twice."""
    samples = [a_sample(pod=f"b-{n}", at=at, running=4) for at in (now - 5, now) for n in range(4)]
    return feed(state, *samples, now=now)


def a_plan(state: ClusterState, policy: Policy, now: float = NOW) -> Plan:
    return decide(state.snapshot(now, 1), policy, Memory()).plan


def on_n1(policy: Policy = FIXED) -> ClusterState:
    """B's four replicas on n1, nothing on n2."""
    pods = (a_ready_pod(f"b-{n}", node="n1") for n in range(4))
    return busy(a_state(policy, a_cluster_node("n1"), a_cluster_node("n2"), a_workload("b", 4), *pods))


def on_spot() -> ClusterState:
    """B's four replicas on Karpenter's s1, the only node; NodePool spot may have no other as it is."""
    pods = (a_ready_pod(f"b-{n}", node="s1") for n in range(4))
    claim = a_claim("spot-x1", node="s1", initialized=True)
    node_pool = a_karpenter_pool(limit=8, used={"nvidia.com/gpu": 8})
    return busy(a_state(GROWING, a_karpenter_node("s1"), node_pool, claim, a_workload("b", 4), *pods))


class TestGone:
    def test_pods_of_a_node_that_is_gone_serve_nobody_and_are_replaced(self) -> None:
        state = feed(on_n1(), gone(a_cluster_node("n1")))
        plan = a_plan(state, FIXED)
        assert (decision_of(plan, "b").ready, decision_of(plan, "b").doomed) == (0, 4)
        assert moves(plan) == {"b": (4, 8)}

    def test_so_they_do_where_the_notice_was_told_before(self) -> None:
        state = feed(on_n1(), a_told_notice("n1", at=NOW - 125, deadline=NOW - 5), gone(a_cluster_node("n1")))
        assert decision_of(a_plan(state, FIXED), "b").doomed == 4

    def test_a_pod_ahead_of_its_node_serves_nobody_and_is_not_replaced(self) -> None:
        state = feed(on_n1(), changed(a_ready_pod("b-3", node="n9", resource_version="2")))
        plan = a_plan(state, FIXED)
        assert (decision_of(plan, "b").ready, decision_of(plan, "b").doomed) == (3, 0)
        assert moves(plan) == {}


class TestNotice:
    def test_a_maintenance_in_a_fortnight_takes_nothing_today(self) -> None:
        state = feed(on_n1(), a_told_notice("n1", kind="scheduled-change", deadline=NOW + FORTNIGHT))
        plan = a_plan(state, FIXED)
        assert (decision_of(plan, "b").ready, decision_of(plan, "b").doomed) == (4, 0)
        assert moves(plan) == {}
        assert plan.pools[0].budget == 16

    def test_it_dooms_in_time(self) -> None:
        due = NOW + FORTNIGHT - 150
        state = feed(on_n1(), a_told_notice("n1", kind="scheduled-change", deadline=NOW + FORTNIGHT))
        for at, doomed in ((due - 1, 0), (due, 4)):
            assert decision_of(a_plan(busy(state, at), FIXED, at), "b").doomed == doomed


class TestDisruption:
    @pytest.mark.parametrize(
        ("reason", "moved"), [(None, {"b": (4, 8)}), ("Drifted", {}), ("Empty", {}), ("Underutilized", {})]
    )
    def test_a_node_is_asked_for_unless_karpenter_says_that_it_brings_one(
        self, reason: str | None, moved: dict[str, tuple[int, int]]
    ) -> None:
        # Its own interruption handling only deletes the NodeClaim.
        claim = a_claim("spot-x1", node="s1", resource_version="2", deleting_at=NOW, disruption_reason=reason)
        tainted = a_karpenter_node("s1", resource_version="2", taints=(DISRUPTED,))
        plan = a_plan(feed(on_spot(), changed(claim), changed(tainted)), GROWING)
        assert moves(plan) == moved
        assert ("limit" in node_pool_changes(plan)) is (reason is None)

    def test_between_the_taint_and_its_reason_nothing_is_asked_for(self) -> None:
        state = feed(on_spot(), changed(a_karpenter_node("s1", resource_version="2", taints=(DISRUPTED,))))
        assert moves(a_plan(state, GROWING)) == {}
        reason = replace(a_claim("spot-x1", node="s1"), resource_version="2", disruption_reason="Underutilized")
        assert moves(a_plan(feed(state, changed(reason)), GROWING)) == {}

    def test_a_taint_without_a_reason_is_a_loss(self) -> None:
        state = feed(on_spot(), changed(a_karpenter_node("s1", resource_version="2", taints=(DISRUPTED,))))
        assert change_of(a_plan(busy(state, NOW + 6), GROWING, NOW + 6), "b").kind == "replace"
