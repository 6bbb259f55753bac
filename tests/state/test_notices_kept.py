"""Notices over a restart: another process that has what the first one kept says the same."""

import msgspec
from msgspec.structs import replace

from rebalancer.domain.cluster import SOURCES, ClusterObject
from rebalancer.domain.events import Event
from rebalancer.state import ClusterState
from rebalancer.state.notices import NoticePast
from tests.builders import NOW
from tests.state.objects import (
    DISRUPTED,
    a_cluster_node,
    a_karpenter_node,
    a_ready_pod,
    a_sample,
    a_told_notice,
    changed,
    feed,
    gone,
    listed,
)
from tests.state.test_notices import POLICY, notices, with_nodes
from tests.state.test_notices_due import a_maintenance

PODS = tuple(a_ready_pod(f"b-{node}", node=node) for node in ("n1", "n2", "s1"))


def restarted(state: ClusterState, *events: Event, now: float = NOW) -> ClusterState:
    """Another process with the same objects, which has what the first one kept."""
    past = msgspec.json.decode(msgspec.json.encode(state.notices_past()), type=tuple[NoticePast, ...])
    fresh = ClusterState(POLICY, started_at=now)
    fresh.restore_notices(past)
    return feed(fresh, *events, now=now)


def lists(*objects: ClusterObject) -> list[Event]:
    return [listed(source, *(each for each in objects if isinstance(each, kind))) for source, kind in SOURCES.items()]


def test_a_restart_keeps_what_was_told_seen_and_concluded() -> None:
    state = with_nodes()
    slow = a_ready_pod("b-slow", grace_seconds=600)
    feed(state, changed(slow), a_maintenance("n1"), a_told_notice("s1"))
    tainted = a_karpenter_node("s1", resource_version="2", taints=(DISRUPTED,))
    feed(state, changed(tainted, at=NOW - 9))
    feed(state, gone(a_cluster_node("n2"), at=NOW - 20), a_told_notice(None, instance_id="i-late"))
    notices(state)
    feed(state, gone(slow))
    before = notices(state)
    there = lists(a_cluster_node("n1"), tainted, *PODS)
    assert [(view.node, view.kind) for view in before] == [
        ("n1", "scheduled-change"), ("n2", "gone"), ("s1", "spot-interruption"),
    ]  # fmt: skip
    after = restarted(state, a_sample(), *there, now=NOW + 1)  # metrics may come before the lists
    assert notices(after, NOW + 1) == before == notices(state, NOW + 1)
    for each in (state, after):
        feed(each, changed(a_cluster_node("late")), now=NOW + 2)
    assert notices(after, NOW + 2) == notices(state, NOW + 2)
    assert {view.node for view in notices(after, NOW + 2)} == {"late", "n1", "n2", "s1"}


def test_a_restart_after_the_lists_came_keeps_as_much() -> None:
    state = feed(with_nodes(), a_told_notice("n1"), gone(a_cluster_node("n2"), at=NOW - 20))
    slow = a_ready_pod("b-slow", node="s1", grace_seconds=600)
    feed(state, changed(slow), a_maintenance("s1"))
    notices(state)
    feed(state, gone(slow))
    fresh = feed(ClusterState(POLICY, started_at=NOW), *lists(a_cluster_node("n1"), a_karpenter_node(), *PODS))
    assert notices(feed(fresh, a_maintenance("s1"))) != notices(state)
    fresh.restore_notices(state.notices_past())
    assert notices(fresh) == notices(state)


def test_what_was_told_before_a_restart_does_not_pass_to_a_node_made_anew() -> None:
    state = feed(with_nodes(), a_told_notice("n1"))
    reborn = a_cluster_node("n1", uid="uid-reborn", provider_id="aws:///eu-west-1a/i-reborn", ready_changed_at=NOW)
    assert notices(restarted(state, *lists(reborn, *PODS[:1]))) == ()


def test_what_was_told_before_a_restart_stands_for_the_same_machine_that_registered_again() -> None:
    state = feed(with_nodes(), a_told_notice("n1"), gone(a_cluster_node("n1")), *map(gone, PODS))
    notices(state)
    again = a_cluster_node("n1", uid="uid-again", ready_changed_at=NOW)
    assert [(one.node, one.deadline) for one in notices(restarted(state, *lists(again)))] == [("n1", NOW + 120)]


def test_what_was_taken_back_before_a_restart_stays_taken_back() -> None:
    state = feed(with_nodes(), a_told_notice("n1"), a_told_notice("n1", at=NOW + 1, cancelled=True))
    assert notices(restarted(state, *lists(a_cluster_node("n1"), *PODS[:1]), a_told_notice("n1"))) == ()


def test_a_restart_keeps_events_apart_and_what_was_kept_before_they_had_names_stands() -> None:
    told = [a_told_notice("n1", deadline=NOW + 900 * n, event=event) for n, event in ((1, "first"), (2, "second"))]
    end = replace(told[0], at=NOW + 1, cancelled=True)
    state = feed(with_nodes(), *told)
    there = lists(a_cluster_node("n1"), *PODS[:1])
    (after,) = notices(restarted(state, *there, end))
    assert after.deadline == NOW + 1800
    older = msgspec.to_builtins(feed(with_nodes(), a_told_notice("n1")).notices_past())
    for one in older[0]["told"]:
        del one["event"]
        for notice in one["notices"]:
            del notice["event"]
    fresh = ClusterState(POLICY, started_at=NOW)
    fresh.restore_notices(msgspec.convert(older, tuple[NoticePast, ...]))
    (kept,) = notices(feed(fresh, *there, replace(end, event="first")))
    assert kept.deadline == NOW + 120


def test_what_waited_for_its_node_over_a_long_stop_waits_until_nodes_are_listed() -> None:
    state = feed(with_nodes(), a_told_notice("late", deadline=NOW + 86_400), a_told_notice("foreign"))
    there = lists(a_cluster_node("n1"), a_cluster_node("late"), *PODS[:1])
    fresh = restarted(state, *reversed(there), now=NOW + 3600)
    assert [view.node for view in notices(fresh, NOW + 3600)] == ["late"]
    feed(fresh, a_sample(at=NOW + 3601), now=NOW + 3601)
    assert fresh.counters()["unmatched-notice"] == 1


def test_notices_of_nodes_that_went_with_their_pods_meanwhile_are_forgotten() -> None:
    state = feed(with_nodes(), a_told_notice("n1"), gone(a_cluster_node("n2")))
    fresh = restarted(state, *lists())
    assert notices(fresh) == ()
    feed(fresh, a_sample(at=NOW + 121), now=NOW + 121)
    assert fresh.notices_past() == ()
