"""Which nodes will go, by whom and when: told, seen on the cluster, or decided by a person."""

from itertools import permutations

import pytest
from msgspec.structs import replace

from rebalancer.domain.cluster import Node
from rebalancer.domain.events import SourceState
from rebalancer.domain.people import Override
from rebalancer.domain.snapshot import NoticeView
from rebalancer.state import ClusterState
from rebalancer.state.event_notices import EVENTS_AT_MOST
from tests.builders import NOW, a_notice, a_policy, a_pool, an_elastic_pool, an_override
from tests.state.objects import (
    DISRUPTED,
    a_claim,
    a_cluster_node,
    a_karpenter_node,
    a_ready_pod,
    a_state,
    a_told_notice,
    changed,
    feed,
    gone,
    listed,
)

POLICY = a_policy(pools=(a_pool(), an_elastic_pool()))


def notices(state: ClusterState, now: float = NOW) -> tuple[NoticeView, ...]:
    return state.peek(now).notices


def one(state: ClusterState, now: float = NOW) -> NoticeView:
    (notice,) = notices(state, now)
    return notice


def with_nodes() -> ClusterState:
    """A pod of b, which loads in 60 s and ends within 30 s, on each of n1, n2 and s1."""
    nodes = a_cluster_node("n1"), a_cluster_node("n2"), a_karpenter_node("s1")
    return a_state(POLICY, *nodes, *(a_ready_pod(f"b-{node.name}", node=node.name) for node in nodes))


# --- told


def test_a_spot_notice_dooms_its_node_at_once() -> None:
    state = feed(with_nodes(), a_told_notice("n1"))
    assert notices(state) == (a_notice("n1"),)
    assert state.take_wakes() == {"notice"}


def test_an_instance_is_found_by_the_end_of_the_provider_id() -> None:
    state = feed(with_nodes(), a_told_notice(None, instance_id="i-s1"), a_told_notice(None, instance_id="i-s"))
    assert one(state) == a_notice("s1", karpenter=True)


SETS = "azure:///subscriptions/s/resourceGroups/MC_r/providers/Microsoft.Compute/virtualMachineScaleSets"


@pytest.mark.parametrize("told", ["gpu-vmss_1", "GPU-VMSS_1", f"{SETS}/gpu-vmss/virtualMachines/1"])
def test_a_machine_of_a_scale_set_is_known_by_both_its_names(told: str) -> None:
    nodes = (
        a_cluster_node("n1", provider_id=f"{SETS}/gpu-vmss/virtualMachines/1"),
        a_cluster_node(
            "n2",
            provider_id=f"{SETS.replace('virtualMachineScaleSets', 'virtualmachinescalesets')}/x/virtualMachines/1",
        ),
        a_cluster_node("n3", provider_id=f"{SETS.rpartition('/')[0]}/virtualMachines/gpu-vmss_2"),
    )
    state = a_state(POLICY, *nodes)
    assert [view.node for view in notices(feed(state, a_told_notice(None, instance_id=told)))] == ["n1"]
    assert notices(feed(a_state(POLICY, *nodes), a_told_notice(None, instance_id="1"))) == ()
    assert one(feed(a_state(POLICY, *nodes), a_told_notice(None, instance_id="gpu-vmss_2"))).node == "n3"


def test_a_name_that_machines_of_two_zones_share_names_neither() -> None:
    here, there = (a_cluster_node(f"n{n}", provider_id=f"gce://project/zone-{n}/gpu-1") for n in (1, 2))
    told = a_told_notice(None, instance_id="gpu-1")
    assert notices(feed(a_state(POLICY, here, there), told)) == ()
    assert one(feed(a_state(POLICY, here), told)).node == "n1"
    late = feed(a_state(POLICY, a_cluster_node("n9")), told, changed(here), changed(there))
    assert one(late).node == "n1"  # it was alone when it came
    registered_again = a_cluster_node("n3", provider_id=here.provider_id)
    assert len(notices(feed(a_state(POLICY, here, registered_again), told))) == 1


def test_the_same_notice_again_is_no_news() -> None:
    state = feed(with_nodes(), a_told_notice("n1"))
    state.take_wakes()
    feed(state, a_told_notice("n1"), a_told_notice(None, instance_id="i-n1"))
    assert one(state) == a_notice("n1")
    assert state.take_wakes() == frozenset()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_of_several_deadlines_the_earliest_stands_whatever_the_order(order: tuple[int, ...]) -> None:
    told = [
        a_told_notice("n1", kind="scheduled-change", at=NOW - 60, deadline=NOW + 3600),
        a_told_notice("n1", deadline=NOW + 120),
        a_told_notice("n1", kind="rebalance", at=NOW - 90, deadline=NOW + 600),
    ]
    state = feed(with_nodes(), *(told[n] for n in order))
    assert one(state) == a_notice("n1", since=NOW - 90, deadline=NOW + 120, doomed_at=NOW + 120 - 150, counts_since=NOW)


def test_an_earlier_deadline_wakes_again() -> None:
    state = feed(with_nodes(), a_told_notice("n1", at=NOW - 1, deadline=NOW + 900))
    state.take_wakes()
    feed(state, a_told_notice("n1"))
    assert state.take_wakes() == {"notice"}
    feed(state, a_told_notice("n1", at=NOW - 2, deadline=NOW + 1000))
    assert state.take_wakes() == frozenset()


def test_a_cancelled_notice_is_taken_back_in_any_order() -> None:
    told, cancelled = a_told_notice("n1"), a_told_notice("n1", at=NOW + 1, cancelled=True)
    assert notices(feed(with_nodes(), told, cancelled)) == ()
    assert notices(feed(with_nodes(), cancelled, told)) == ()
    again = a_told_notice("n1", at=NOW + 2, deadline=NOW + 300)
    for order in ((told, cancelled, again), (again, told, cancelled), (cancelled, again, told)):
        assert one(feed(with_nodes(), *order)).deadline == NOW + 300


def test_what_is_taken_back_stays_so_for_five_minutes_though_it_was_told_long_before() -> None:
    told = a_told_notice("n1", kind="scheduled-change", deadline=NOW + 86_400.0, event="first")
    for event in ("first", ""):
        state = feed(with_nodes(), told)
        feed(state, replace(told, at=NOW + 900, cancelled=True, event=event), now=NOW + 900)
        feed(state, SourceState("nodes", NOW + 1199), now=NOW + 1199)  # looks at what it may forget
        feed(state, replace(told, at=NOW + 300), now=NOW + 1199)
        assert notices(state, NOW + 1199) == ()


def test_what_was_told_by_node_or_by_instance_is_taken_back_by_either_name() -> None:
    by_node, by_instance = a_told_notice("n1"), a_told_notice(None, instance_id="i-n1")
    for told, taking_back, event in (
        (by_node, by_instance, ""),
        (by_instance, by_node, ""),
        (by_instance, by_node, "first"),
    ):
        end = replace(taking_back, at=NOW + 1, cancelled=True)
        for order in permutations((replace(told, event=event), end)):
            assert notices(feed(with_nodes(), *order)) == ()
            waiting = feed(a_state(POLICY, a_cluster_node("n2")), *order)
            assert notices(feed(waiting, changed(a_cluster_node("n1")))) == ()


def test_a_cancellation_takes_back_only_its_own_kind() -> None:
    state = feed(with_nodes(), a_told_notice("n1"), a_told_notice("n1", at=NOW + 1, kind="rebalance", cancelled=True))
    assert one(state) == a_notice("n1")


def test_of_two_events_of_one_kind_the_end_of_one_leaves_the_other() -> None:
    first = a_told_notice("n1", kind="scheduled-change", deadline=NOW + 900, event="first")
    second = a_told_notice("n1", kind="scheduled-change", deadline=NOW + 3600, event="second")
    ends = [replace(each, at=NOW + 1, cancelled=True) for each in (first, second)]
    for order in permutations((first, second, ends[0])):
        assert one(feed(with_nodes(), *order)).deadline == NOW + 3600
    for order in permutations((first, second, *ends)):
        assert notices(feed(with_nodes(), *order)) == ()


def test_an_event_told_again_with_another_date_counts_at_that_date_in_any_order() -> None:
    first = a_told_notice("n1", kind="scheduled-change", deadline=NOW + 3600, event="first")
    for seconds in (7 * 86_400, 900):  # put off by a week, or brought forward
        moved = replace(first, at=NOW + 60, deadline=NOW + seconds)
        again = replace(moved, at=NOW + 120)
        for order in permutations((first, moved, again)):
            view = one(feed(with_nodes(), *order))
            assert (view.since, view.deadline) == (NOW + 60, NOW + seconds)


def test_who_takes_back_without_naming_an_event_takes_back_all_of_that_kind() -> None:
    told = [a_told_notice("n1", kind="scheduled-change", event=event) for event in ("", "first", "second")]
    end = a_told_notice("n1", kind="scheduled-change", at=NOW + 1, cancelled=True)
    for order in permutations((*told, end)):
        assert notices(feed(with_nodes(), *order)) == ()
    later = a_told_notice("n1", kind="scheduled-change", at=NOW + 2, event="first")
    assert one(feed(with_nodes(), *told, end, later)).since == NOW + 2


def test_who_names_an_event_takes_back_no_notice_that_names_none() -> None:
    told, end = a_told_notice("n1"), a_told_notice("n1", at=NOW + 1, cancelled=True, event="first")
    assert one(feed(with_nodes(), told, end)) == a_notice("n1")


def test_events_that_wait_for_their_node_end_one_by_one() -> None:
    told = [a_told_notice("late", deadline=NOW + 900 * n, event=f"{n}") for n in (1, 2)]
    state = feed(with_nodes(), *told, replace(told[0], at=NOW + 1, cancelled=True))
    feed(state, changed(a_cluster_node("late")))
    assert one(state).deadline == NOW + 1800
    waiting = feed(with_nodes(), *told, a_told_notice("late", at=NOW + 1, cancelled=True))
    assert notices(feed(waiting, changed(a_cluster_node("late")))) == ()


def test_a_flood_of_events_of_one_node_is_bounded() -> None:
    state = with_nodes()
    state.apply_all([a_told_notice("n1", event=f"{n}") for n in range(100)], NOW)
    assert state.counters()["too-many-notices"] == 100 - EVENTS_AT_MOST


def test_a_notice_waits_five_minutes_for_its_node() -> None:
    state = feed(with_nodes(), a_told_notice(None, instance_id="i-late", deadline=NOW + 1000))
    assert notices(state) == ()
    late = a_cluster_node("late", ready_changed_at=NOW + 200)
    feed(state, changed(late), now=NOW + 200)
    assert one(state, NOW + 200).node == "late"
    assert "notice" in state.take_wakes()


def test_a_notice_for_nobodys_node_is_dropped_and_counted() -> None:
    state = feed(with_nodes(), a_told_notice("foreign"))
    feed(state, changed(a_cluster_node("n1", resource_version="2")), now=NOW + 301)
    assert state.counters()["unmatched-notice"] == 1
    feed(state, changed(a_cluster_node("foreign")), now=NOW + 302)
    assert notices(state, NOW + 302) == ()


def test_a_flood_of_notices_for_unknown_nodes_is_bounded() -> None:
    state = with_nodes()
    state.apply_all([a_told_notice(f"x{n}") for n in range(5_100)], NOW)
    assert state.counters()["too-many-notices"] == 100


def reborn(**overrides: object) -> Node:
    """Another machine of the name n1."""
    new = a_cluster_node("n1", uid="uid-reborn", provider_id="aws:///eu-west-1a/i-reborn")
    return replace(new, **overrides)


def test_a_notice_ends_with_its_node_where_nothing_of_ours_runs_there() -> None:
    state = a_state(POLICY, a_cluster_node("n1"), a_ready_pod("x", workload="x", node="n1"))
    feed(state, a_told_notice("n1"), gone(a_cluster_node("n1")))
    assert notices(state) == ()
    feed(state, changed(reborn(ready_changed_at=NOW + 30)))
    assert notices(state) == ()


def test_a_notice_does_not_pass_to_a_node_made_anew_whose_end_nobody_told() -> None:
    state = feed(with_nodes(), a_told_notice("n1"))
    feed(state, changed(reborn(resource_version="9")))
    assert notices(state) == ()


def test_a_notice_is_about_the_machine_whose_kubelet_registers_again_until_it_is_taken() -> None:
    """Somebody deletes the Node of a spot instance, and nothing of ours runs there meanwhile."""
    again = a_cluster_node("n1", uid="uid-again", ready_changed_at=NOW + 30)
    for seconds, standing in ((30, True), (119, True), (121, False)):
        state = feed(a_state(POLICY, a_cluster_node("n1")), a_told_notice("n1"), gone(a_cluster_node("n1")))
        for second in range(seconds):  # looks at what it may forget
            feed(state, SourceState("nodes", NOW + second), now=NOW + second)
        feed(state, changed(again), now=NOW + seconds)
        assert (notices(state, NOW + seconds) != ()) is standing


def test_a_late_notice_does_not_doom_a_new_node_of_the_old_name() -> None:
    new = a_cluster_node("n1", uid="uid-reborn", ready_changed_at=NOW - 30)
    state = feed(a_state(POLICY, new), a_told_notice("n1", at=NOW - 400, deadline=NOW - 280))
    assert notices(state) == ()
    assert state.take_wakes() == frozenset()


def test_a_node_that_is_still_ready_ten_minutes_after_the_deadline_was_not_taken() -> None:
    state = feed(with_nodes(), a_told_notice("n1"))
    assert one(state, NOW + 120 + 599) == a_notice("n1")
    assert notices(state, NOW + 120 + 600) == ()
    dying = feed(with_nodes(), a_told_notice("n1"))
    feed(dying, changed(a_cluster_node("n1", resource_version="2", ready=False, ready_changed_at=NOW + 125)))
    assert one(dying, NOW + 120 + 601).node


def test_a_node_that_failed_at_its_deadline_stays_doomed_until_it_is_ready_again() -> None:
    state = feed(with_nodes(), a_told_notice("n1"))
    feed(state, changed(a_cluster_node("n1", resource_version="2", ready=False, ready_changed_at=NOW + 121)))
    assert one(state, NOW + 130).node
    feed(state, changed(a_cluster_node("n1", resource_version="3", ready=True, ready_changed_at=NOW + 180)))
    assert notices(state, NOW + 180) == ()


# --- seen


@pytest.mark.parametrize("reason", ["Underutilized", "Empty", "Drifted"])
def test_karpenters_taint_is_a_voluntary_notice_since_it_was_seen_where_karpenter_says_so(reason: str) -> None:
    tainted = a_karpenter_node("s1", resource_version="2", taints=(DISRUPTED,))
    claim = a_claim("spot-x1", node="s1", disruption_reason=reason)
    state = feed(with_nodes(), changed(claim), changed(tainted, at=NOW - 3))
    expected = NoticeView(
        node="s1", kind="disruption", since=NOW - 3, deadline=NOW - 3, voluntary=True, karpenter=True,
        source="karpenter.sh",
    )  # fmt: skip
    assert one(state) == expected
    assert "notice" in state.take_wakes()
    feed(state, changed(replace(tainted, resource_version="3"), at=NOW + 5))
    assert one(state).since == NOW - 3
    feed(state, changed(a_karpenter_node("s1", resource_version="4")))
    assert notices(state) == ()


def test_a_spot_notice_makes_karpenters_taint_involuntary_and_keeps_the_clouds_deadline_beside_it() -> None:
    state = feed(with_nodes(), a_told_notice("s1"))
    feed(state, changed(a_karpenter_node("s1", resource_version="2", taints=(DISRUPTED,)), at=NOW + 2))
    assert one(state) == a_notice("s1", deadline=NOW + 2, karpenter=True, told_deadline=NOW + 120)


def test_a_taint_whose_claim_is_not_known_is_not_voluntary() -> None:
    tainted = a_karpenter_node("s1", resource_version="2", taints=(DISRUPTED,))
    assert not one(feed(with_nodes(), changed(a_claim("other", node="s2")), changed(tainted))).voluntary


def test_between_karpenters_taint_and_its_reason_nothing_is_concluded_for_five_seconds() -> None:
    claim = a_claim("spot-x1", node="s1")
    tainted = a_karpenter_node("s1", resource_version="2", taints=(DISRUPTED,))
    state = feed(with_nodes(), changed(claim), changed(tainted))
    assert notices(state, NOW + 4.9) == ()
    assert not one(state, NOW + 5).voluntary
    feed(state, changed(replace(claim, resource_version="2", disruption_reason="Underutilized")))
    assert one(state, NOW + 1).voluntary
    assert state.take_wakes() == {"notice"}


@pytest.mark.parametrize(("reason", "voluntary"), [(None, False), ("Drifted", True), ("Unhealthy", False)])
def test_a_deletion_is_voluntary_only_where_karpenter_gave_its_reason(reason: str | None, voluntary: bool) -> None:  # noqa: FBT001  a value of the table
    # Interruption, expiry and a person's delete give none: such a loss wants its replacement asked.
    claim = a_claim("spot-x1", node="s1", deleting_at=NOW, disruption_reason=reason)
    tainted = a_karpenter_node("s1", resource_version="2", taints=(DISRUPTED,))
    assert one(feed(with_nodes(), changed(claim), changed(tainted))).voluntary is voluntary


def test_a_node_claim_being_deleted_dooms_its_node() -> None:
    claim = a_claim("spot-x1", node="s1", initialized=True)
    state = feed(with_nodes(), changed(claim))
    assert notices(state) == ()
    feed(state, changed(replace(claim, resource_version="2", deleting_at=NOW + 4)), now=NOW + 5)
    assert one(state).deadline == NOW + 4
    assert not one(state).voluntary
    assert state.take_wakes() == {"notice"}
    feed(state, gone(claim))
    assert notices(state) == ()


def test_a_node_claim_without_node_name_is_found_by_its_instance() -> None:
    claim = a_claim("spot-x1", provider_id="aws:///eu-west-1b/i-s1", deleting_at=NOW)
    assert one(feed(with_nodes(), changed(claim))).node == "s1"


def test_a_reason_that_is_none_of_karpenters_three_is_not_voluntary() -> None:
    claim = a_claim("spot-x1", node="s1", deleting_at=NOW, disruption_reason="SpotInterrupted")
    assert not one(feed(with_nodes(), changed(claim))).voluntary


def test_only_what_karpenter_acts_on_is_left_to_karpenter() -> None:
    assert not one(feed(with_nodes(), a_told_notice("s1", kind="rebalance"))).karpenter
    assert one(feed(with_nodes(), a_told_notice("s1", kind="state-change"))).karpenter
    assert not one(feed(with_nodes(), a_told_notice("n1", kind="state-change"))).karpenter


# --- decided


def a_drain(subject: str, kind: str = "node", **overrides: object) -> Override:
    return replace(an_override("drain", subject, subject_kind=kind), **overrides)


def test_a_drained_node_is_under_notice_until_the_override_ends() -> None:
    state = feed(with_nodes(), changed(a_drain("n2")))
    expected = NoticeView(
        node="n2", kind="drain", since=NOW - 60, deadline=NOW - 60, source="override/serving/drain-n2"
    )
    assert one(state) == expected
    assert state.take_wakes() == {"override", "notice"}
    assert one(state, NOW + 3599).node
    assert notices(state, NOW + 3600) == ()


def test_a_drained_pool_is_every_node_of_it() -> None:
    state = feed(with_nodes(), changed(a_drain("a100", "pool")))
    assert [notice.node for notice in notices(state)] == ["n1", "n2"]
    feed(state, changed(a_cluster_node("n3")))
    assert [notice.node for notice in notices(state)] == ["n1", "n2", "n3"]
    feed(state, listed("overrides"))
    assert notices(state) == ()


def test_a_drain_of_a_node_that_is_not_there_is_no_notice() -> None:
    assert notices(feed(with_nodes(), changed(a_drain("n9")))) == ()


def test_a_drain_that_is_refused_for_its_length_is_no_notice() -> None:
    state = feed(with_nodes(), changed(a_drain("n2", expires_at=NOW - 60 + 86_406)))
    assert notices(state) == ()
    state.set_policy(a_policy(pools=POLICY.pools, overrides={"max_seconds": 90_000.0}), NOW)
    assert one(state).node == "n2"
