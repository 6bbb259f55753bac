"""What nodes say about their own end by taints, conditions and labels, and what the state makes of it."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from rebalancer.domain.cluster import Node, NodeCondition, Taint
from rebalancer.domain.node_rules import NodeSign
from rebalancer.domain.node_signs import DEFAULT_SIGNS
from rebalancer.domain.snapshot import NoticeView
from rebalancer.state import ClusterState
from rebalancer.state.notices import NoticePast
from tests.builders import NOW, a_policy, a_pool, an_elastic_pool
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
)
from tests.state.test_notices import POLICY, notices, one
from tests.state.test_notices_kept import lists, restarted

FLIPPED = NOW - 200.0
PREEMPT = "Preempt Scheduled: Fri, 15 Jan 2027 08:00:38 GMT. For more information, see the pages. EventId: A1B2-C3"


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, Any]:
    return {"taints": (Taint(key, value, effect),)}


def condition(name: str, status: str = "True", message: str = "") -> dict[str, Any]:
    return {"conditions": (NodeCondition(name, status, message, FLIPPED),)}


def label(key: str, value: str) -> dict[str, Any]:
    return {"labels": {"pool": "a100", key: value}}


def shown(sign: dict[str, Any]) -> ClusterState:
    """A state in which n1 shows `sign` from NOW on, with a pod of b on it that loads in 60 s and ends within 30 s."""
    state = a_state(POLICY, a_cluster_node("n1"), a_cluster_node("n2"), a_ready_pod("b-1"))
    return feed(state, changed(a_cluster_node("n1", resource_version="2", **sign)))


@pytest.mark.parametrize(
    ("sign", "kind", "since", "deadline", "confidence"),
    [
        (taint("aws-node-termination-handler/spot-itn", "a-1"), "spot-interruption", 0, 120, "certain"),
        (taint("aws-node-termination-handler/scheduled-maintenance"), "scheduled-change", 0, 0, "certain"),
        (taint("aws-node-termination-handler/asg-lifecycle-termination"), "state-change", 0, 120, "certain"),
        (taint("aws-node-termination-handler/rebalance-recommendation"), "rebalance", 0, 0, "possible"),
        (taint("cloud.google.com/impending-node-termination"), "state-change", 0, 30, "certain"),
        (label("cloud.google.com/active-node-maintenance", "ONGOING"), "state-change", 0, 0, "certain"),
        (label("cloud.google.com/scheduled-maintenance-time", "1800003600"), "scheduled-change", 0, 3600, "certain"),
        (taint("ToBeDeletedByClusterAutoscaler", "1799999990"), "disruption", 0, -10, "likely"),
        (taint("node.cloudprovider.kubernetes.io/shutdown"), "state-change", 0, 0, "certain"),
        (taint("karpenter.sh/rebooting"), "state-change", 0, 0, "certain"),
        (condition("VMEventScheduled", message=PREEMPT), "spot-interruption", -200, 38, "certain"),
        (condition("PreemptionScheduled", message=PREEMPT), "spot-interruption", -200, 38, "certain"),
        (condition("VMEventScheduled", message="Reboot Started: ."), "scheduled-change", -200, -200, "certain"),
        (condition("PreemptionScheduled", message="SpotRebalance Advisory: soon"), "rebalance", -200, -200, "possible"),
        (condition("Ready", "False", message="node is shutting down"), "state-change", -200, -200, "certain"),
        (
            condition("AcceleratedHardwareReady", "False", message="NvidiaXID79Error: GPU 3"),
            "fault",
            -200,
            400,
            "likely",
        ),
        (condition("XIDErrors", message="XID 79"), "fault", -200, -200, "likely"),
        (condition("KernelDeadlock"), "fault", -200, -200, "likely"),
    ],
    ids=str,
)
def test_a_sign_on_a_node_is_a_notice_of_it(
    sign: dict[str, Any], kind: str, since: float, deadline: float, confidence: str
) -> None:
    state = shown(sign)
    found = one(state)
    assert (found.node, found.kind, found.confidence) == ("n1", kind, confidence)
    assert (found.since - NOW, found.deadline - NOW) == (since, deadline)
    assert state.take_wakes() >= {"notice"}
    feed(state, changed(a_cluster_node("n1", resource_version="3")))
    assert notices(state) == ()


@pytest.mark.parametrize(
    "sign",
    [
        condition("VMEventScheduled", "False", message="VM has no scheduled event"),
        condition("VMEventScheduled", message="Freeze Scheduled: Fri, 15 Jan 2027 08:00:38 GMT."),
        condition("AcceleratedHardwareReady"),
        condition("AcceleratedHardwareReady", "Unknown"),
        condition("XIDErrors", "False"),
        condition("Ready", "False", message="PLEG is not healthy"),
        label("cloud.google.com/active-node-maintenance", "WINDOW"),
        taint("DeletionCandidateOfClusterAutoscaler", effect="PreferNoSchedule"),
        taint("node.kubernetes.io/unreachable"),
        taint("nvidia.com/gpu", "true"),
    ],
    ids=str,
)
def test_what_says_nothing_about_its_end_is_no_notice(sign: dict[str, Any]) -> None:
    state = shown(sign)
    assert (notices(state), state.signs.unknown()) == ((), {})


@pytest.mark.parametrize("value", ["", "soon", "-1", "1799999990000", "1e9", "٣"])
def test_a_time_that_nobody_can_read_is_that_of_the_sign(value: str) -> None:
    assert one(shown(taint("ToBeDeletedByClusterAutoscaler", value))).deadline == NOW
    message = "Reboot Scheduled: Fri, 31 Feb 2027 08:00:38 GMT."
    assert one(shown(condition("VMEventScheduled", message=message))).deadline == FLIPPED


def test_a_fault_is_replaced_in_time_and_a_possible_loss_keeps_its_pods() -> None:
    fault = one(shown(condition("AcceleratedHardwareReady", "False")))
    assert fault.counts(fault.doomed_at or 0.0)
    assert (fault.doomed_at or 0.0) == NOW + 400 - 150
    advice = one(shown(taint("aws-node-termination-handler/rebalance-recommendation")))
    assert not advice.counts(NOW + 1e9)


def test_of_several_facts_the_surest_decide() -> None:
    maintenance = a_told_notice("n1", kind="scheduled-change", deadline=NOW + 86_400)
    advice = taint("aws-node-termination-handler/rebalance-recommendation")
    found = one(feed(shown(advice), maintenance))
    assert (found.kind, found.confidence, found.deadline) == ("scheduled-change", "certain", NOW + 86_400)
    assert found.doomed_at == NOW + 86_400 - 150
    # What is likely is replaced before what is certain comes, and is as likely until then.
    both = feed(shown(condition("XIDErrors")), maintenance)
    assert (one(both).kind, one(both).confidence, one(both).counts(NOW)) == ("fault", "likely", True)
    due = NOW + 86_400 - 150
    assert [(view.kind, view.deadline) for view in notices(both, due)] == [("scheduled-change", NOW + 86_400)]


def test_karpenter_s_taint_is_judged_with_its_claim_and_other_signs_stand_beside_it() -> None:
    state = a_state(POLICY, a_karpenter_node("s1"), a_claim(node="s1", disruption_reason="Drifted"))
    tainted = a_karpenter_node("s1", resource_version="2", taints=(DISRUPTED,))
    assert one(feed(state, changed(tainted))).voluntary
    spot = Taint("aws-node-termination-handler/spot-itn", "a", "NoSchedule")
    both = one(feed(state, changed(replace(tainted, resource_version="3", taints=(DISRUPTED, spot)))))
    assert (both.kind, both.voluntary, both.karpenter) == ("spot-interruption", False, True)


def test_nobody_but_its_cloud_ends_a_node_with_a_fault() -> None:
    state = a_state(POLICY, a_karpenter_node("s1", **condition("XIDErrors")))
    assert not one(state).karpenter


# --- the policy's own rows


def with_rows(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"nodes": {"signs": rows}}


def test_the_policy_s_rows_come_first_and_a_new_policy_counts_at_once() -> None:
    state = shown(taint("example.com/going-away", "9"))
    assert notices(state) == ()
    row: dict[str, Any] = {"taint": "example.com/going-away", "kind": "scheduled-change", "within_seconds": 600.0}
    pools = a_pool(), an_elastic_pool()
    state.set_policy(a_policy(pools=pools, **with_rows(row)), NOW + 5)
    assert (one(state, NOW + 5).kind, one(state, NOW + 5).deadline) == ("scheduled-change", NOW + 605)
    state.set_policy(a_policy(pools=pools, **with_rows(row | {"kind": "none"})), NOW + 9)
    assert notices(state, NOW + 9) == ()


def test_the_policy_may_switch_a_known_sign_off_or_doubt_it() -> None:
    state = shown(condition("XIDErrors"))
    pools = a_pool(), an_elastic_pool()
    for row, expected in (
        ({"condition": "XIDErrors", "kind": "none"}, []),
        ({"condition": "XIDErrors", "kind": "fault", "confidence": "possible"}, ["possible"]),
        ({"condition": "XIDErrors", "kind": "fault", "message": "XID 79", "confidence": "certain"}, ["likely"]),
        ({"condition": "XIDErrors", "value": "False", "kind": "none"}, ["likely"]),
    ):
        state.set_policy(a_policy(pools=pools, **with_rows(row)), NOW)
        assert [view.confidence for view in notices(state)] == expected, row


def test_every_known_row_names_one_place_and_none_stands_behind_one_that_always_fits() -> None:
    always: set[tuple[str, str]] = set()
    for row in DEFAULT_SIGNS:
        assert sum(name is not None for name in (row.taint, row.condition, row.label)) == 1
        assert row.place not in always, row
        if row.value is None and not row.message:
            always.add(row.place)


# --- those that nobody knows


def test_a_sign_that_looks_like_a_notice_is_counted_with_its_nodes() -> None:
    strange = taint("example.com/PreemptionImminent"), condition("GpuErrorDetected"), condition("DiskHealthy", "False")
    nodes = [a_cluster_node(f"n{n}", **sign) for n, sign in enumerate((*strange, strange[0]))]
    state = a_state(POLICY, *nodes)
    assert notices(state) == ()
    assert state.signs.unknown() == {"taint example.com/PreemptionImminent": 2, "condition GpuErrorDetected": 1}
    feed(state, changed(a_cluster_node("n0", resource_version="2")))
    assert state.signs.unknown()["taint example.com/PreemptionImminent"] == 1


@pytest.mark.parametrize(
    ("sign", "unknown"),
    [
        (condition("RemediationReady", "True"), False),
        (condition("RemediationReady", "False"), True),
        (condition("MaintenanceScheduled", "False"), False),
        (condition("MaintenanceScheduled", "Unknown"), False),
        (label("example.com/maintenance", "true"), False),
    ],
    ids=str,
)
def test_a_condition_is_strange_only_while_its_status_is_bad_news(sign: dict[str, Any], unknown: bool) -> None:  # noqa: FBT001  a value of the table
    assert bool(shown(sign).signs.unknown()) is unknown


# --- what it survives


def test_a_restart_keeps_since_when_a_sign_is_seen() -> None:
    node: Node = a_cluster_node("n1", **taint("aws-node-termination-handler/spot-itn"))
    state = a_state(POLICY, node, a_ready_pod("b-1"))  # a minute ago
    before = notices(state)
    assert before[0].deadline == NOW + 60
    for there_before in (True, False):
        events = lists(node, a_ready_pod("b-1"))
        if there_before:
            after = restarted(state, *events, now=NOW + 30)
        else:
            after = feed(ClusterState(POLICY, started_at=NOW + 30), *events, now=NOW + 30)
            after.restore_notices(state.notices_past())
        assert notices(after, NOW + 30) == before


def test_a_checkpoint_of_a_version_without_signs_is_read() -> None:
    old = msgspec.json.decode(b'[{"node": "n1", "tainted_at": 5.0}]', type=tuple[NoticePast, ...])
    assert old[0].signs == {}
    view = msgspec.json.decode(b'{"node": "n1", "kind": "rebalance", "since": 1.0, "deadline": 2.0}', type=NoticeView)
    assert view.confidence == "certain"


def test_a_clock_that_is_set_leaves_a_sign_as_old_as_it_is() -> None:
    state = shown(taint("aws-node-termination-handler/spot-itn"))
    state.stepped(1000.0)
    assert (one(state, NOW + 1000).since, one(state, NOW + 1000).deadline) == (NOW + 1000, NOW + 1120)


def test_a_row_fits_by_value_and_by_reason_or_message() -> None:
    row = NodeSign(condition="X", message="79", kind="fault")
    assert row.fits("True", "NvidiaXID79Error: a critical error")
    assert row.fits("True", "XID 79 on GPU 3")
    assert not row.fits("True", "XID 13")
    assert not row.fits("False", "NvidiaXID79Error")
