"""Capacity notices: our own events and all kinds of EventBridge's that contracts with AWS name."""

import json
from typing import Any

import pytest

from rebalancer.domain.events import CapacityNotice, Position, Rejection
from rebalancer.ingest.envelope import Headers
from rebalancer.ingest.eventbridge import TABLE
from rebalancer.ingest.notices import Partly, decode_notice
from tests.ingest.wire import (
    AT_EPOCH,
    NOTICE_TYPE,
    NOW,
    STRUCTURED,
    TOO_DEEP,
    binary_headers,
    event,
    eventbridge,
    notice,
)

HERE = Position("rebalancer.notices", 0, 7)
INSTANCE = "i-0b662ef9931388ba0"
SENT = NOW - 30  # `time` of the EventBridge events


def decode(value: bytes, headers: Headers = ()) -> tuple[CapacityNotice, ...] | Rejection:
    decoded = decode_notice(value, headers, HERE, NOW - 10, NOW)
    assert not isinstance(decoded, Partly)
    return decoded


def notices(value: bytes, headers: Headers = ()) -> tuple[CapacityNotice, ...]:
    decoded = decode(value, headers)
    assert isinstance(decoded, tuple), decoded
    return decoded


def rejected(value: bytes, headers: Headers = ()) -> Rejection:
    decoded = decode(value, headers)
    assert isinstance(decoded, Rejection), decoded
    return decoded


def test_our_own_notice_names_a_node_and_when_it_goes() -> None:
    assert notices(notice(), STRUCTURED) == (
        CapacityNotice(
            source="vllm/llama-70b-0",
            id="id-1",
            at=AT_EPOCH,
            kind="spot-interruption",
            deadline=AT_EPOCH + 120,
            node="n1",
            position=HERE,
        ),
    )


def test_our_own_notice_may_name_an_instance_be_voluntary_and_come_in_binary_mode() -> None:
    data = {"kind": "disruption", "instanceId": INSTANCE, "deadline": "2027-01-15T08:00:00Z", "voluntary": True}
    (found,) = notices(json.dumps(data).encode(), binary_headers(type=NOTICE_TYPE.encode()))
    assert (found.node, found.instance_id, found.kind, found.voluntary) == (None, INSTANCE, "disruption", True)


def test_a_notice_taken_back_needs_no_deadline() -> None:
    (found,) = notices(notice(deadline=None, cancelled=True), STRUCTURED)
    assert (found.cancelled, found.deadline) == (True, AT_EPOCH)


@pytest.mark.parametrize(
    ("value", "reason", "said"),
    [
        (notice(node=None), "invalid-data", "say which node"),
        (notice(deadline=None), "invalid-data", "say when"),
        (notice(deadline="in two minutes"), "invalid-data", "RFC3339"),
        (notice(deadline=NOW), "invalid-data", "$.data.deadline"),
        (notice(kind="meteor"), "invalid-data", "$.data.kind"),
        (notice(voluntary="yes"), "invalid-data", "$.data.voluntary"),
        (notice(zone="a"), "invalid-data", "zone"),
        (event(), "unknown-type", NOTICE_TYPE),
        (notice() + b"x", "not-json", "trailing"),
        (notice().replace(b'"node"', b'"kind": "rebalance", "node"'), "duplicate-key", "kind"),
        (b" " * 70_000, "too-large", "70000"),
    ],
)
def test_a_notice_that_cannot_be_used_is_rejected_in_words(value: bytes, reason: str, said: str) -> None:
    found = rejected(value, STRUCTURED)
    assert (found.reason, said in found.detail) == (reason, True), found


# --- EventBridge


@pytest.mark.parametrize(
    ("detail_type", "kind"),
    [
        ("EC2 Spot Instance Interruption Warning", "spot-interruption"),
        ("EC2 Capacity Reservation Instance Interruption Warning", "reservation-interruption"),
        ("EC2 Instance Rebalance Recommendation", "rebalance"),
    ],
)
def test_a_warning_counts_two_minutes_from_the_event_s_time(detail_type: str, kind: str) -> None:
    (found,) = notices(eventbridge(detail_type, {"instance-id": INSTANCE, "instance-action": "terminate"}))
    assert found == CapacityNotice(
        source="aws.ec2",
        id="7bf73129-1428-4cd3-a780-95db273d1602",
        at=SENT,
        kind=kind,
        deadline=SENT + 120,
        instance_id=INSTANCE,
        position=HERE,
        confidence="possible" if kind == "rebalance" else "certain",
    )


@pytest.mark.parametrize("state", ["stopping", "stopped", "shutting-down", "terminated", "Shutting-Down"])
def test_an_instance_that_stops_goes_at_once(state: str) -> None:
    (found,) = notices(eventbridge("EC2 Instance State-change Notification", {"instance-id": INSTANCE, "state": state}))
    assert (found.kind, found.deadline, found.instance_id) == ("state-change", SENT, INSTANCE)


@pytest.mark.parametrize("state", ["pending", "running"])
def test_an_instance_that_starts_is_no_notice(state: str) -> None:
    value = eventbridge("EC2 Instance State-change Notification", {"instance-id": INSTANCE, "state": state})
    assert notices(value) == ()


HEALTH: dict[str, Any] = {
    "eventArn": "arn:aws:health:us-east-1::event/EC2/x",
    "service": "EC2",
    "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
    "eventTypeCategory": "scheduledChange",
    "startTime": "Sat, 16 Jan 2027 08:00:00 GMT",
    "affectedEntities": [{"entityValue": "i-1"}, {"entityValue": "i-2"}, {"entityValue": "i-1"}],
}


@pytest.mark.parametrize(
    "start", ["Sat, 16 Jan 2027 08:00:00 GMT", "2027-01-16T08:00:00Z", "2027-01-16T09:00:00+01:00"]
)
def test_a_scheduled_change_dooms_every_instance_it_names_at_its_start(start: str) -> None:
    found = notices(eventbridge("AWS Health Event", HEALTH | {"startTime": start}, source="aws.health"))
    assert [one.instance_id for one in found] == ["i-1", "i-2"]
    assert {(one.kind, one.deadline) for one in found} == {("scheduled-change", NOW + 86_400)}


@pytest.mark.parametrize(("status", "cancelled"), [("upcoming", False), ("open", False), ("closed", True)])
def test_a_scheduled_change_that_is_closed_takes_its_notice_back(status: str, cancelled: bool) -> None:  # noqa: FBT001  a value of the table
    found = notices(eventbridge("AWS Health Event", HEALTH | {"statusCode": status}, source="aws.health"))
    assert [(one.instance_id, one.kind, one.at, one.cancelled) for one in found] == [
        ("i-1", "scheduled-change", SENT, cancelled),
        ("i-2", "scheduled-change", SENT, cancelled),
    ]


def test_all_that_is_told_of_one_health_event_names_it_and_other_events_name_none() -> None:
    told = [HEALTH | {"statusCode": "closed"}, HEALTH, {key: HEALTH[key] for key in HEALTH if key != "eventArn"}]
    found = [notices(eventbridge("AWS Health Event", detail, source="aws.health")) for detail in told]
    assert [{one.event for one in each} for each in found] == [{HEALTH["eventArn"]}, {HEALTH["eventArn"]}, {""}]


def test_of_a_scheduled_change_single_instances_are_resolved() -> None:
    entities = [{"entityValue": "i-1", "status": "RESOLVED"}, {"entityValue": "i-2", "status": "PENDING"}]
    found = notices(eventbridge("AWS Health Event", HEALTH | {"affectedEntities": entities}, source="aws.health"))
    assert [(one.instance_id, one.cancelled) for one in found] == [("i-1", True), ("i-2", False)]


@pytest.mark.parametrize(
    ("end", "ends_at", "cancelled"),
    [("Sat, 16 Jan 2027 12:00:00 GMT", NOW + 100_800, False), ("2027-01-15T07:59:00Z", NOW - 60, True)],
)
def test_a_scheduled_change_ends_with_its_window(end: str, ends_at: float, cancelled: bool) -> None:  # noqa: FBT001  a value of the table
    found = notices(eventbridge("AWS Health Event", HEALTH | {"endTime": end}, source="aws.health"))
    assert {(one.ends_at, one.cancelled) for one in found} == {(ends_at, cancelled)}


@pytest.mark.parametrize("change", [{"service": "RDS"}, {"eventTypeCategory": "issue"}, {"affectedEntities": []}])
def test_other_health_events_take_nothing_away(change: dict[str, Any]) -> None:
    assert notices(eventbridge("AWS Health Event", HEALTH | change, source="aws.health")) == ()


@pytest.mark.parametrize("odd", ["", "arn:aws:rds:ap-southeast-1:123456789012:db:production-orders-database-replica-2"])
def test_what_is_no_instance_of_a_health_event_costs_its_instances_nothing(odd: str) -> None:
    arn = "arn:aws:ec2:ap-southeast-1:123456789012:instance/i-0123456789abcdef0"
    entities = [{"entityValue": odd}, {"entityValue": "i-1"}, {"status": "PENDING"}, {"entityValue": arn}]
    detail = HEALTH | {"affectedEntities": entities}
    found = notices(eventbridge("AWS Health Event", detail, source="aws.health"))
    assert [one.instance_id for one in found] == ["i-1", "i-0123456789abcdef0"]
    assert notices(eventbridge("AWS Health Event", detail | {"service": "RDS"}, source="aws.health")) == ()


def test_an_instance_that_its_group_ends_is_named_in_its_own_field() -> None:
    detail = {"EC2InstanceId": INSTANCE, "LifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING"}
    (found,) = notices(eventbridge("EC2 Instance-terminate Lifecycle Action", detail, source="aws.autoscaling"))
    assert (found.kind, found.deadline, found.instance_id) == ("state-change", SENT + 120, INSTANCE)


def test_the_instance_is_read_from_the_detail_not_from_the_arn() -> None:
    value = eventbridge(
        "EC2 Spot Instance Interruption Warning",
        {"instance-id": INSTANCE},
        resources=["arn:aws:ec2:us-east-1b:instance/i-other"],
    )
    assert [one.instance_id for one in notices(value)] == [INSTANCE]


@pytest.mark.parametrize(("source", "detail_type"), [key for key, row in TABLE.items() if row.kind is not None])
def test_a_detail_without_its_instance_is_rejected_with_its_path(source: str, detail_type: str) -> None:
    found = rejected(eventbridge(detail_type, {"state": "stopped"}, source=source))
    assert (found.reason, "`$.detail`" in found.detail) == ("invalid-data", True), found


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (eventbridge("EC2 Spot Instance Request Fulfillment", {}), "unknown-type"),
        (eventbridge("EC2 Spot Instance Interruption Warning", {"instance-id": INSTANCE}, source="me"), "unknown-type"),
        (eventbridge("AWS Health Event", HEALTH | {"startTime": "soon"}, source="aws.health"), "invalid-data"),
        (
            eventbridge("AWS Health Event", HEALTH | {"startTime": "Sun, 99 Jan 99999 08:00:00 GMT"}, "aws.health"),
            "invalid-data",
        ),
        (eventbridge("AWS Health Event", {}, time=None), "not-cloudevent"),
        (eventbridge("AWS Health Event", {}, time="2027-01-15T08:00:06Z"), "time-ahead"),
        (b'{"hello": "world"}', "not-cloudevent"),
        (b"spot!", "not-json"),
        (b'{"a":' + b"[" * 50_000, TOO_DEEP),
    ],
)
def test_what_is_neither_kind_of_event_is_rejected(value: bytes, reason: str) -> None:
    found = rejected(value)
    assert found.reason == reason, found


def test_an_old_warning_keeps_its_own_deadline() -> None:
    value = eventbridge(
        "EC2 Spot Instance Interruption Warning", {"instance-id": INSTANCE}, time="2027-01-15T07:00:00Z"
    )
    (found,) = notices(value)
    assert found.deadline == NOW - 3600 + 120
