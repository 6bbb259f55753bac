"""A Node that is gone, or that nobody has seen: its pods are nowhere, whatever they said last."""

import pytest

from rebalancer.domain.cluster import SOURCES
from rebalancer.domain.events import ObjectsListed, ObjectUnreadable, SourceState
from rebalancer.domain.snapshot import NoticeView
from rebalancer.state import ClusterState
from tests.builders import NOW, a_notice
from tests.state.objects import (
    a_cluster_node,
    a_karpenter_node,
    a_ready_pod,
    a_sample,
    a_state,
    a_told_notice,
    a_workload,
    changed,
    feed,
    gone,
    listed,
)
from tests.state.test_notices import POLICY, notices, one, with_nodes


def phases(state: ClusterState, now: float) -> dict[str, str]:
    """Of the pods of `b`, by name."""
    model = next(each for each in state.peek(now).models if each.id == "b")
    return {pod.name: pod.phase for target in model.targets for pod in target.pods}


def test_a_node_that_is_gone_is_under_notice_until_its_pods_are_gone() -> None:
    state = with_nodes()
    feed(state, gone(a_cluster_node("n1"), at=NOW + 3))
    expected = NoticeView(node="n1", kind="gone", since=NOW + 3, deadline=NOW + 3, source="kubernetes")
    assert one(state, NOW + 60) == expected
    assert state.take_wakes() == {"notice", "node"}
    leaving = a_ready_pod("b-n1", node="n1", resource_version="2", deleting_at=NOW + 70)
    feed(state, changed(leaving))
    assert one(state, NOW + 60) == expected
    feed(state, gone(leaving))
    assert notices(state, NOW + 60) == ()


def test_a_spot_notice_outlives_its_node_by_as_long_as_its_pods_do() -> None:
    state = feed(with_nodes(), a_told_notice("s1"))
    feed(state, gone(a_karpenter_node("s1"), at=NOW + 121), now=NOW + 121)
    assert one(state, NOW + 2000) == a_notice("s1")  # Karpenter drains no Node that is gone
    feed(state, gone(a_ready_pod("b-s1", node="s1")), now=NOW + 2000)
    assert notices(state, NOW + 2000) == ()


def test_a_node_that_comes_back_is_under_notice_no_more() -> None:
    state = feed(with_nodes(), gone(a_cluster_node("n1")), changed(a_cluster_node("n1", uid="uid-reborn")))
    assert notices(state) == ()


def test_pods_of_others_keep_no_notice_of_a_gone_node() -> None:
    other = a_ready_pod("x-1", workload="x", node="n1")
    assert notices(feed(a_state(POLICY, a_cluster_node("n1"), other), gone(a_cluster_node("n1")))) == ()


def test_a_node_that_went_while_its_pods_were_of_no_model_is_gone_once_they_are_of_one() -> None:
    without_b = POLICY.model_copy(update={"models": tuple(each for each in POLICY.models if each.id != "b")})
    state = a_state(without_b, a_cluster_node("n1"), a_workload(), a_ready_pod("b-1", node="n1"))
    feed(state, gone(a_cluster_node("n1"), at=NOW + 3), now=NOW + 3)
    assert notices(state, NOW + 5) == ()
    state.set_policy(POLICY, NOW + 5)
    feed(state, SourceState("nodes", NOW + 5), now=NOW + 5)
    assert one(state, NOW + 5).since == NOW + 3
    feed(state, gone(a_ready_pod("b-1", node="n1")), now=NOW + 6)
    assert notices(state, NOW + 6) == ()


def test_of_a_node_whose_models_left_the_policy_it_is_known_that_it_went_when_they_are_back() -> None:
    without_b = POLICY.model_copy(update={"models": tuple(each for each in POLICY.models if each.id != "b")})
    state = feed(with_nodes(), gone(a_cluster_node("n1"), at=NOW + 3), now=NOW + 3)
    state.set_policy(without_b, NOW + 4)
    feed(state, SourceState("nodes", NOW + 5), now=NOW + 5)
    assert notices(state, NOW + 5) == ()
    state.set_policy(POLICY, NOW + 6)
    assert one(state, NOW + 6).since == NOW + 3


def test_a_node_that_was_never_seen_is_unknown_and_gone_after_half_a_minute() -> None:
    ahead = changed(a_ready_pod("b-2", node="n9"))
    state = feed(with_nodes(), ahead)
    feed(state, SourceState("nodes", NOW + 29), SourceState("pods", NOW + 29), now=NOW + 29)
    assert notices(state, NOW + 29) == ()
    feed(state, a_sample(at=NOW + 30), now=NOW + 30)
    assert one(state, NOW + 30) == NoticeView(node="n9", kind="gone", since=NOW, deadline=NOW, source="kubernetes")
    late = feed(with_nodes(), ahead)
    feed(late, changed(a_cluster_node("n9"), at=NOW + 2), a_sample(at=NOW + 31), now=NOW + 31)
    assert notices(late, NOW + 31) == ()


def test_a_node_that_nobody_can_read_is_there_also_where_it_was_never_read() -> None:
    state = feed(a_state(POLICY, a_cluster_node("n1"), a_workload()), changed(a_ready_pod("b-2", node="n9")))
    unreadable = ObjectsListed("nodes", NOW + 1, (a_cluster_node("n1"),), unreadable=("n9",))
    feed(state, unreadable, now=NOW + 1)
    feed(state, SourceState("nodes", NOW + 40), SourceState("pods", NOW + 40), now=NOW + 40)
    assert notices(state, NOW + 40) == ()
    assert phases(state, NOW + 40) == {"b-2": "ready"}
    feed(state, listed("nodes", a_cluster_node("n1")), now=NOW + 41)
    assert phases(state, NOW + 41) == {"b-2": "lost"}


def test_a_new_node_that_the_watch_cannot_read_is_there() -> None:
    state = feed(a_state(POLICY, a_cluster_node("n1"), a_workload()), changed(a_ready_pod("b-2", node="n9")))
    assert phases(state, NOW) == {"b-2": "lost"}
    feed(state, ObjectUnreadable("nodes", NOW + 1, "n9"), now=NOW + 1)
    assert phases(state, NOW + 1) == {"b-2": "ready"}
    feed(state, SourceState("nodes", NOW + 40), SourceState("pods", NOW + 40), now=NOW + 40)
    assert notices(state, NOW + 40) == ()
    feed(state, changed(a_cluster_node("n9")), gone(a_cluster_node("n9"), at=NOW + 41), now=NOW + 41)
    assert one(state, NOW + 41).kind == "gone"


@pytest.mark.parametrize("order", [("nodes", "pods"), ("pods", "nodes")])
def test_a_node_that_went_while_nobody_looked_is_gone_half_a_minute_after_the_lists(order: tuple[str, str]) -> None:
    lists = {"nodes": listed("nodes", a_cluster_node("n2")), "pods": listed("pods", a_ready_pod("b-1", node="n1"))}
    state = ClusterState(POLICY, started_at=NOW)
    feed(state, lists[order[0]], now=NOW - 100)
    feed(state, *(listed(source) for source in SOURCES if source not in lists), lists[order[1]])
    feed(state, SourceState("nodes", NOW + 29), SourceState("pods", NOW + 29), now=NOW + 29)
    assert notices(state, NOW + 29) == ()
    feed(state, SourceState("nodes", NOW + 30), now=NOW + 30)
    assert one(state, NOW + 30).kind == "gone"


def test_while_the_watch_of_nodes_is_silent_no_node_is_taken_for_gone() -> None:
    state = feed(with_nodes(), changed(a_ready_pod("b-2", node="n9")))  # nodes were heard of a minute ago
    feed(state, a_sample(at=NOW + 31), changed(a_ready_pod("b-3", node="n2")), now=NOW + 31)
    assert notices(state, NOW + 31) == ()
