"""Signed overrides: what a good signature is worth, and that nothing else is worth anything."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.domain.events import Position, Rejection
from rebalancer.ingest.signed import (
    FRESH_SECONDS,
    LONGEST_SECONDS,
    Signatures,
    SignedOverride,
    sign,
    signed_bytes,
    signed_record,
)
from tests.ingest.wire import NOW

SECRET = b"0123456789abcdef0123456789abcdef"
CLUSTER = "prod-eu"
HERE = Position("rebalancer.overrides", 0, 7)
TIME = "2027-01-15T07:59:58.5Z"
PIN: dict[str, Any] = {"kind": "pin", "target": {"model": "code"}, "value": 4, "reason": "launch day"}

Record = tuple[list[tuple[str, bytes]], bytes]


def record(data: dict[str, Any] = PIN, time: str = TIME, event_id: str = "evt-1", keyid: str = "runbook") -> Record:
    return signed_record(keyid, SECRET, CLUSTER, event_id, time, data)


def decode(signed: Record, now: float = NOW, cluster: str = CLUSTER) -> SignedOverride | Rejection:
    headers, value = signed
    return Signatures(cluster, {"runbook": SECRET}).decode(value, headers, HERE, now, now)


def reason(signed: Record, now: float = NOW, cluster: str = CLUSTER) -> str:
    decoded = decode(signed, now, cluster)
    assert isinstance(decoded, Rejection)
    assert decoded.position == HERE
    assert decoded.detail
    return decoded.reason


def test_a_good_signature_makes_an_override_of_its_key() -> None:
    decoded = decode(record({**PIN, "forSeconds": 1800, "allowBelowFloor": True, "namespace": "serving"}))
    assert isinstance(decoded, SignedOverride)
    assert (decoded.keyid, decoded.id, decoded.at, decoded.until) == ("runbook", "evt-1", NOW - 1.5, NOW - 1.5 + 300)
    assert (decoded.kind, decoded.model, decoded.value, decoded.seconds) == ("pin", "code", 4, 1800)
    assert (decoded.allow_below_floor, decoded.namespace, decoded.reason) == (True, "serving", "launch day")


def test_a_key_may_end_a_stand_down_too() -> None:
    decoded = decode(record({"kind": "standUp", "target": {"model": "code"}, "reason": "argocd ignores it now"}))
    assert isinstance(decoded, SignedOverride)
    assert (decoded.kind, decoded.model, decoded.value, decoded.seconds) == ("standUp", "code", None, None)


def test_what_is_signed_is_canonical() -> None:
    # Keys by name at every depth, nothing between tokens, text as it is: what RFC 8785 gives for these.
    data = {"value": 4, "reason": 'a "b" \u00e9\n\u001f', "kind": "pin", "target": {"model": "code"}}
    expected = (
        '{"cluster":"c","data":{"kind":"pin","reason":"a \\"b\\" \u00e9\\n\\u001f",'
        '"target":{"model":"code"},"value":4},"id":"i","time":"t"}'
    )
    assert signed_bytes("c", "i", "t", data) == expected.encode()


def test_the_order_of_keys_and_spaces_do_not_matter() -> None:
    headers, value = record()
    event = json.loads(value)
    event["data"] = dict(reversed(event["data"].items()))
    assert isinstance(decode((headers, json.dumps(event, indent=2).encode())), SignedOverride)


def test_binary_mode_is_as_good() -> None:
    signature = sign(SECRET, CLUSTER, "evt-1", TIME, PIN)
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_type", b"io.rebalancer.override.v1"),
        ("ce_source", b"runbook"),
        ("ce_id", b"evt-1"),
        ("ce_time", TIME.encode()),
        ("keyid", b"runbook"),
        ("signature", signature.encode()),
    ]
    assert isinstance(decode((headers, json.dumps(PIN).encode())), SignedOverride)


@pytest.mark.parametrize("part", ["id", "time", "data"])
def test_nothing_of_it_can_be_changed(part: str) -> None:
    headers, value = record()
    event = json.loads(value)
    event[part] = {"id": "evt-2", "time": "2027-01-15T07:59:59Z", "data": {**PIN, "value": 0}}[part]
    assert reason((headers, json.dumps(event).encode())) == "override-signature"


def test_it_is_good_in_its_cluster_alone() -> None:
    assert reason(record(), cluster="prod-us") == "override-signature"


def test_a_time_put_beside_the_signed_one_makes_an_old_record_no_younger() -> None:
    headers, value = record()
    event = json.loads(value)
    event["time"] = "2027-01-15T09:00:00Z"
    both = [*headers, ("ce_type", b"io.rebalancer.override.v1"), ("ce_time", TIME.encode())]
    assert reason((both, json.dumps(event).encode()), now=NOW + 3600) == "override-late"


@pytest.mark.parametrize("keyid", ["nobody", "-", "../runbook"])
def test_a_key_that_is_not_known_signs_nothing(keyid: str) -> None:
    assert reason(record(keyid=keyid)) == "override-signature"


def test_without_keys_or_without_a_signature_it_is_unsigned() -> None:
    headers, value = record()
    off = Signatures(CLUSTER, {}).decode(value, headers, HERE, NOW, NOW)
    assert isinstance(off, Rejection)
    assert off.reason == "override-unsigned"
    assert reason((headers[:1], value)) == "override-unsigned"


def test_it_is_good_for_five_minutes_or_as_long_as_it_says_but_never_over_an_hour() -> None:
    at = NOW - 1.5
    assert reason(record(), now=at + FRESH_SECONDS + 0.1) == "override-late"
    later = record({**PIN, "notAfter": "2027-01-15T08:30:00Z"})
    assert isinstance(decode(later, now=NOW + 1799), SignedOverride)
    assert reason(later, now=NOW + 1801) == "override-late"
    longest = record({**PIN, "notAfter": "2028-01-15T08:30:00Z"})
    assert reason(longest, now=at + LONGEST_SECONDS + 0.1) == "override-late"
    assert reason(record({**PIN, "notAfter": "2027-01-15T07:59:00Z"})) == "override-late"


def test_one_of_the_future_is_rejected() -> None:
    assert reason(record(time="2027-01-15T08:01:00Z")) == "time-ahead"


@pytest.mark.parametrize(
    "data",
    [
        {**PIN, "kind": "push"},
        {**PIN, "value": -1},
        {**PIN, "value": "4"},
        {**PIN, "forSeconds": 0},
        {**PIN, "reason": ""},
        {**PIN, "actor": "alice"},
        {**PIN, "target": {"deployment": "x"}},
        {**PIN, "notAfter": "tomorrow"},
        {**PIN, "value": 4.5},
    ],
)
def test_a_good_signature_on_nonsense_is_nonsense(data: dict[str, Any]) -> None:
    assert reason(record(data)) == "invalid-data"


def test_a_key_that_is_there_twice_is_rejected() -> None:
    headers, value = record()
    assert reason((headers, value.replace(b'"value": 4', b'"value": 0, "value": 4'))) == "duplicate-key"


@given(st.binary(max_size=200), st.binary(max_size=80), st.binary(max_size=20))
def test_no_input_raises(value: bytes, signature: bytes, keyid: bytes) -> None:
    for content in ([("content-type", b"application/cloudevents+json")], [("ce_type", b"x")], []):
        decoded = decode(([*content, ("signature", signature), ("keyid", keyid)], value))
        assert isinstance(decoded, Rejection)


@given(st.integers(0, 400), st.integers(0, 255))
def test_no_other_byte_anywhere_is_as_good(place: int, byte: int) -> None:
    headers, value = record()
    changed = bytearray(value)
    changed[place % len(value)] = byte
    decoded = decode((headers, bytes(changed)))
    original = decode((headers, value))
    # A byte of what is not signed (source, spaces) may differ; what is done about it is then the very same.
    assert isinstance(decoded, Rejection) or decoded == original
