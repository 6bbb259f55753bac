"""One event, however it was carried to Kafka: the same notice comes out."""

import json
from itertools import product

import pytest

from rebalancer.domain.events import CapacityNotice, Position, Rejection
from rebalancer.ingest.envelope import Headers
from rebalancer.ingest.notices import Partly, decode_notice
from rebalancer.ingest.wrappings import MAX_LAYERS, MAX_MESSAGES
from tests.ingest.wire import NOTICE_TYPE, NOW, STRUCTURED, binary_headers, eventbridge, notice
from tests.ingest.wrapped import WRAPPINGS

HERE = Position("rebalancer.notices", 0, 7)
INSTANCE = "i-0b662ef9931388ba0"
SPOT = eventbridge("EC2 Spot Instance Interruption Warning", {"instance-id": INSTANCE})
EXPECTED = CapacityNotice(
    source="aws.ec2",
    id="7bf73129-1428-4cd3-a780-95db273d1602",
    at=NOW - 30,
    kind="spot-interruption",
    deadline=NOW + 90,
    instance_id=INSTANCE,
    position=HERE,
)


def decode(value: bytes, headers: Headers = ()) -> tuple[CapacityNotice, ...] | Partly | Rejection:
    return decode_notice(value, headers, HERE, NOW - 10, NOW)


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_an_event_is_the_same_in_any_wrapping(wrapping: str) -> None:
    assert decode(WRAPPINGS[wrapping](SPOT)) == (EXPECTED,)


def test_wrappings_may_stand_in_wrappings() -> None:
    for outer, inner in product(WRAPPINGS.values(), repeat=2):
        assert decode(outer(inner(SPOT))) == (EXPECTED,)


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_our_own_notice_may_be_carried_too(wrapping: str) -> None:
    (found,) = decode(WRAPPINGS[wrapping](notice()))  # type: ignore[misc]  # a Rejection fails to unpack
    assert (found.source, found.node, found.kind) == ("vllm/llama-70b-0", "n1", "spot-interruption")


def test_a_cloud_event_carries_it_in_binary_mode_and_with_its_header() -> None:
    body = json.dumps({"MessageId": "m", "Body": SPOT.decode()}).encode()
    assert decode(body, binary_headers(type=b"com.amazon.sqs.message")) == (EXPECTED,)
    assert decode(WRAPPINGS["a CloudEvent"](SPOT), STRUCTURED) == (EXPECTED,)


@pytest.mark.parametrize(
    ("wrapping", "at"),
    [
        ("plain", NOW - 10),  # the record's own time
        ("SNS", NOW - 20),
        ("SQS as Lambda has it", NOW - 20),
        ("a CloudEvent", NOW - 20),
    ],
)
def test_an_event_without_its_time_has_that_of_its_wrapping(wrapping: str, at: float) -> None:
    value = eventbridge("EC2 Spot Instance Interruption Warning", {"instance-id": INSTANCE}, time="")
    (found,) = decode(WRAPPINGS[wrapping](value))  # type: ignore[misc]  # a Rejection fails to unpack
    assert (found.at, found.deadline) == (at, at + 120)


def test_of_several_messages_each_is_read_and_a_bad_one_costs_only_itself() -> None:
    other = eventbridge("EC2 Spot Instance Interruption Warning", {"instance-id": "i-2"}, id="other")
    noise = eventbridge("EC2 Instance-launch Lifecycle Action", {}, source="aws.autoscaling")
    bodies = [SPOT.decode(), "Hello from SNS!", noise.decode(), other.decode()]
    found = decode(json.dumps([{"messageId": f"{n}", "body": body} for n, body in enumerate(bodies)]).encode())
    assert isinstance(found, Partly)
    assert [one.instance_id for one in found.notices] == [INSTANCE, "i-2"]
    assert (found.rejection.reason, "`$[1].body`" in found.rejection.detail) == ("not-json", True), found.rejection


@pytest.mark.parametrize(
    ("value", "reason", "said"),
    [
        (b"[" * (MAX_LAYERS + 1) + b"]" * (MAX_LAYERS + 1), "too-deep", f"{MAX_LAYERS} wrappings"),
        (b"[" + b",".join([b"{}"] * (MAX_MESSAGES + 1)) + b"]", "too-large", f"{MAX_MESSAGES} messages"),
        (b"5", "not-cloudevent", "no JSON object at `$`"),
        (b"[null]", "not-cloudevent", "`$[0]`"),
        (b"", "not-json", "`$`"),
        (b'{"Records": {"a": 1}}', "not-cloudevent", "`$.Records`"),
        (b'{"specversion": "1.0"}', "bad-envelope", "type"),
        (b'"{\\"a\\": 1, \\"a\\": 2}"', "duplicate-key", "a"),
        (
            b'{"text": "[NTH][Instance Interruption] EventID: a - Kind: SPOT_ITN"}',
            "not-cloudevent",
            "not an event: NTH webhook text",
        ),
    ],
)
def test_what_no_wrapping_holds_is_rejected_with_its_place(value: bytes, reason: str, said: str) -> None:
    found = decode(value)
    assert isinstance(found, Rejection)
    assert (found.reason, said in found.detail) == (reason, True), found


def test_a_type_of_ours_is_not_looked_into() -> None:
    """Our own data is judged as a whole: a key of somebody's wrapping in it is a mistake in it."""
    data = json.dumps({"kind": "rebalance", "node": "n1", "deadline": "2027-01-15T08:00:00Z"})
    found = decode(json.dumps({"body": data}).encode(), binary_headers(type=NOTICE_TYPE.encode()))
    assert isinstance(found, Rejection)
    assert found.reason == "invalid-data"
