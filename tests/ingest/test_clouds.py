"""Azure's and GCP's words for capacity that goes, and an Auto Scaling group's own."""

import json
from typing import Any

import pytest

from rebalancer.domain.events import CapacityNotice, Position, Rejection
from rebalancer.ingest.azure import TABLE as AZURE
from rebalancer.ingest.gcp import TABLE as GCP
from rebalancer.ingest.notices import STALE_SECONDS, Partly, decode_notice
from tests.ingest.wire import NOW, eventbridge, notice

HERE = Position("rebalancer.notices", 0, 7)
STARTS = "Fri, 15 Jan 2027 08:05:00 GMT"


def decode(value: object) -> Any:  # noqa: ANN401  notices or a Rejection, as each test expects
    return decode_notice(json.dumps(value).encode(), (), HERE, NOW - 10, NOW)


def imds(**event: object) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "EventId": "A123BC45",
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": ["aks-GPU-1-vmss_0", "aks-gpu-1-vmss_7"],
        "EventStatus": "Scheduled",
        "NotBefore": STARTS,
        "DurationInSeconds": -1,
    }
    return {"DocumentIncarnation": 4, "Events": [whole | event]}


def grid(kind: str, properties: dict[str, Any]) -> dict[str, Any]:
    info = {"id": "/subscriptions/s/providers/x", "type": kind, "properties": properties}
    return {
        "id": "grid-1",
        "topic": "/subscriptions/s",
        "eventType": "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted",
        "eventTime": "2027-01-15T07:59:40.9584103Z",
        "data": {"resourceInfo": info, "apiVersion": "2024-07-01"},
    }


@pytest.mark.parametrize(
    ("event_type", "kind"),
    [
        ("Preempt", "spot-interruption"),
        ("Reboot", "scheduled-change"),
        ("Redeploy", "scheduled-change"),
        ("Terminate", "state-change"),
    ],
)
def test_a_scheduled_event_of_azure_names_machines_with_their_scale_set(event_type: str, kind: str) -> None:
    assert event_type in AZURE
    found = decode(imds(EventType=event_type))
    assert [one.instance_id for one in found] == ["aks-gpu-1-vmss_0", "aks-gpu-1-vmss_7"]
    assert {(one.kind, one.deadline, one.at, one.event) for one in found} == {(kind, NOW + 300, NOW - 10, "A123BC45")}


def test_a_scheduled_event_that_has_started_goes_now_and_one_that_is_over_is_taken_back() -> None:
    (found, _) = decode(imds(EventStatus="Started", NotBefore=""))
    assert (found.deadline, found.cancelled) == (NOW - 10, False)
    for status in ("Completed", "Canceled"):
        assert all(one.cancelled for one in decode(imds(EventStatus=status)))


@pytest.mark.parametrize("event", [{"EventType": "Freeze"}, {"ResourceType": "VirtualMachineScaleSet"}])
def test_a_freeze_takes_nothing_away(event: dict[str, Any]) -> None:
    assert decode(imds(**event)) == ()


@pytest.mark.parametrize(
    ("other", "reason", "said"),
    [
        ({"EventType": "Resize"}, "unknown-type", "'Resize'"),
        ({"NotBefore": "soon"}, "invalid-data", "`$.Events[0]`"),
        ({"EventId": 7}, "invalid-data", "`$.Events[0].EventId`"),
        ({"EventType": "Reboot", "NotBefore": "Fri, 15 Jan 2027 06:00:00 GMT"}, "stale", "06:59:00Z"),
    ],
)
def test_an_event_of_an_answer_that_says_nothing_loses_none_beside_it(
    other: dict[str, Any], reason: str, said: str
) -> None:
    answer = imds(**other)
    answer["Events"] += imds()["Events"]
    found = decode_notice(json.dumps(answer).encode(), (), HERE, NOW - STALE_SECONDS - 60, NOW)
    assert isinstance(found, Partly)
    assert [one.instance_id for one in found.notices] == ["aks-gpu-1-vmss_0", "aks-gpu-1-vmss_7"]
    assert (found.rejection.reason, said in found.rejection.detail) == (reason, True), found.rejection


def test_event_grid_sends_the_same_in_its_own_schema() -> None:
    found = decode(grid("microsoft.maintenance/scheduledEvents", imds()["Events"][0]))
    assert [(one.instance_id, one.id, one.source) for one in found] == [
        ("aks-gpu-1-vmss_0", "grid-1", "azure.eventgrid"),
        ("aks-gpu-1-vmss_7", "grid-1", "azure.eventgrid"),
    ]
    assert found[0].at == pytest.approx(NOW - 19.0415897, abs=1e-5)


@pytest.mark.parametrize(("method", "row"), list(GCP.items()))
def test_a_system_event_of_gcp_names_its_instance_last(method: str, row: Any) -> None:  # noqa: ANN401  a row of the table
    entry = {
        "protoPayload": {"methodName": method, "resourceName": "projects/p/zones/europe-west1-c/instances/gke-gpu-1"},
        "insertId": "entry-1",
        "timestamp": "2027-01-15T07:59:50.123456789Z",
    }
    found = decode(entry)
    expected = [] if row.kind is None else [("gke-gpu-1", row.kind, pytest.approx(NOW - 9.876544 + row.seconds))]
    assert [(one.instance_id, one.kind, one.deadline) for one in found] == expected


HOOK = {
    "AutoScalingGroupName": "gpus",
    "Service": "AWS Auto Scaling",
    "Time": "2027-01-15T07:59:30.500Z",
    "RequestId": "request-1",
    "LifecycleActionToken": "token",
    "EC2InstanceId": "i-1",
    "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
}


def test_an_auto_scaling_group_speaks_without_eventbridge_too() -> None:
    assert decode(HOOK) == (
        CapacityNotice(
            source="aws.autoscaling",
            id="request-1",
            at=NOW - 29.5,
            kind="state-change",
            deadline=NOW + 90.5,
            instance_id="i-1",
            position=HERE,
        ),
    )


@pytest.mark.parametrize(
    "noise",
    [
        HOOK | {"LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING"},
        {"AutoScalingGroupName": "gpus", "Event": "autoscaling:TEST_NOTIFICATION", "Time": "2027-01-15T07:59:30Z"},
        json.loads(eventbridge("EC2 Instance-launch Lifecycle Action", {}, source="aws.autoscaling")),
        json.loads(eventbridge("EC2 Instance Terminate Successful", {}, source="aws.autoscaling")),
    ],
    ids=["launching", "test", "launch by EventBridge", "after the fact"],
)
def test_what_takes_nothing_away_is_no_dead_letter(noise: object) -> None:
    assert decode(noise) == ()


@pytest.mark.parametrize(
    ("value", "reason", "said"),
    [
        (imds(EventType="Vanish"), "unknown-type", "Vanish"),
        (imds(NotBefore="soon"), "invalid-data", "$"),
        (imds(Resources="one"), "invalid-data", "Events"),
        (grid("microsoft.maintenance/scheduledEvents", {}), "invalid-data", "$.data"),
        (
            {"protoPayload": {"methodName": "v1.compute.instances.insert", "resourceName": "a"}},
            "unknown-type",
            "insert",
        ),
        (
            {"protoPayload": {"methodName": "compute.instances.preempted", "resourceName": "a/"}},
            "invalid-data",
            "resourceName",
        ),
        (HOOK | {"LifecycleTransition": "autoscaling:ELSE"}, "unknown-type", "ELSE"),
        (HOOK | {"EC2InstanceId": ""}, "invalid-data", "EC2InstanceId"),
        (HOOK | {"Time": "2027-01-15T08:01:00Z"}, "time-ahead", "60 s"),
    ],
)
def test_what_cannot_be_read_is_rejected_in_words(value: object, reason: str, said: str) -> None:
    found = decode(value)
    assert isinstance(found, Rejection), found
    assert (found.reason, said in found.detail) == (reason, True), found


def test_a_notice_that_was_over_an_hour_ago_is_told_as_stale_and_taken_back_ones_are_not() -> None:
    warning = "EC2 Spot Instance Interruption Warning"
    found = decode(json.loads(eventbridge(warning, {"instance-id": "i-1"}, time="1970-01-01T00:00:00Z")))
    assert isinstance(found, Rejection)
    assert (found.reason, f"1970-01-01T00:02:00Z, more than {STALE_SECONDS:.0f} s ago" in found.detail) == (
        "stale",
        True,
    )
    assert decode(json.loads(notice(deadline="2027-01-15T06:59:00Z"))) != ()  # told just now
    old = json.loads(notice(deadline=None, cancelled=True)) | {"time": "2027-01-15T06:00:00Z"}
    assert decode(old)[0].cancelled
