"""Signed overrides from Kafka: who signed it decides. Pure but for the keys, which are handed in; no input raises.

A record is a CloudEvent of type `io.rebalancer.override.v1` with the record headers `keyid` and `signature`: in hex,
the HMAC-SHA256 under that key of `signed_bytes`. To sign one by hand:

    data = {"kind": "pin", "target": {"model": "code"}, "value": 4, "reason": "launch day", "forSeconds": 1800}
    headers, value = signed_record("runbook", secret, "prod-eu", "evt-1", "2027-01-15T08:00:00Z", data)

The signature covers the event's id and time and the cluster's name: it is good for one event, in one cluster, until
`notAfter` of the data, else 5 min after the event's time. The object made of it is named after its id, so that a
replay finds it; its actor is `kafka:KEYID`, and it lasts `forSeconds` from the event's time on.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NoReturn

import msgspec
from msgspec import Meta, Struct

from rebalancer.domain.events import Position, Rejection
from rebalancer.ingest.decode import Name, decode_override
from rebalancer.ingest.envelope import Envelope, Headers, refuse_ahead, unwrap
from rebalancer.ingest.instants import epoch
from rebalancer.ingest.rejected import Reason, RejectedError, explain, refuse_duplicate_keys

OVERRIDE_TYPE: Final = "io.rebalancer.override.v1"
FRESH_SECONDS: Final = 300.0
LONGEST_SECONDS: Final = 3600.0  # notAfter may lie this far behind the event's time
LEAST_KEY_BYTES: Final = 32

Keys = Mapping[str, bytes]


class SignedOverride(Struct, frozen=True):
    """An override whose signature is good.

    keyid: name of the key that signed it.
    id: the event's id, as its sender chose it.
    at: UTC epoch seconds of the event's time.
    until: UTC epoch seconds by which it must be an object.
    kind: kind of the override.
    reason: why, in the sender's words.
    model: id of the model, None where the target names none.
    node: name of the node, None where the target names none.
    pool: name of the pool, None where the target names none.
    value: replicas of a pin, a cap or a floor; None where none were sent.
    seconds: how long it lasts, None: the policy's default.
    namespace: namespace for the object; None: the model's, or our own where it is about no model.
    allow_below_floor: whether a pin or a cap may take the model below its floor.
    position: where the record stands in Kafka.
    """

    keyid: str
    id: str
    at: float
    until: float
    kind: str
    reason: str
    model: str | None
    node: str | None
    pool: str | None
    value: int | None
    seconds: float | None
    namespace: str | None
    allow_below_floor: bool
    position: Position


class _Target(Struct, frozen=True, forbid_unknown_fields=True):
    model: Name | None = None
    node: Name | None = None
    pool: Name | None = None


class _Data(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Whole numbers only: their spelling is the same for everybody who signs."""

    kind: Literal["pause", "freeze", "pin", "cap", "floor", "drain", "exclude", "standUp"]
    target: _Target
    reason: Annotated[str, Meta(min_length=1, max_length=256)]
    value: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    for_seconds: Annotated[int, Meta(ge=1, le=604_800)] | None = None
    namespace: Name | None = None
    allow_below_floor: bool = False
    not_after: str | None = None


class _Timed(Struct, frozen=True):
    time: str | None = None


_data = msgspec.json.Decoder(_Data).decode
_timed = msgspec.json.Decoder(_Timed).decode


def signed_bytes(cluster: str, event_id: str, time: str, data: Mapping[str, Any]) -> bytes:
    """What is signed: canonical JSON (RFC 8785, whole numbers and text) of the four. `time` as the event spells it."""
    whole = {"cluster": cluster, "data": data, "id": event_id, "time": time}
    return json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sign(secret: bytes, cluster: str, event_id: str, time: str, data: Mapping[str, Any]) -> str:
    """The `signature` header."""
    return hmac.new(secret, signed_bytes(cluster, event_id, time, data), hashlib.sha256).hexdigest()


def signed_record(  # noqa: PLR0913  all that is signed, and by whom
    keyid: str, secret: bytes, cluster: str, event_id: str, time: str, data: Mapping[str, Any]
) -> tuple[list[tuple[str, bytes]], bytes]:
    """(headers, value) of a record for the topic `overrides`."""
    event = {
        "specversion": "1.0",
        "type": OVERRIDE_TYPE,
        "source": keyid,
        "id": event_id,
        "time": time,
        "datacontenttype": "application/json",
        "data": data,
    }
    headers = [
        ("content-type", b"application/cloudevents+json"),
        ("keyid", keyid.encode()),
        ("signature", sign(secret, cluster, event_id, time, data).encode()),
    ]
    return headers, json.dumps(event, ensure_ascii=False).encode()


class Signatures:
    """Decodes the topic `overrides`. Without keys every record is rejected. `keys` may be replaced at any time."""

    def __init__(self, cluster: str, keys: Keys) -> None:
        self.keys = keys
        self._cluster = cluster

    def decode(
        self, value: bytes, headers: Headers, position: Position, kafka_timestamp: float, now: float
    ) -> SignedOverride | Rejection:
        """One record of the topic `overrides`. Kafka's timestamp is nobody's word."""
        named = {name.lower(): text or b"" for name, text in headers}
        if not self.keys or "signature" not in named:
            return decode_override(value, headers, position, kafka_timestamp, now)
        try:
            return self._decode(_unwrap(value, headers), value, named, position, now)
        except RejectedError as rejected:
            return rejected.at(position, now)

    def _decode(
        self, envelope: Envelope, value: bytes, named: Mapping[str, bytes], position: Position, now: float
    ) -> SignedOverride:
        """How old it is says the time that was signed, wherever else the record may name one."""
        time = _time_text(value, named)
        keyid = self._check(envelope, time, named)
        try:
            at = epoch(time)
        except ValueError as error:
            explain(error, b"", Reason.BAD_ENVELOPE, root="$.time")
        return _fresh(_override(envelope, keyid, refuse_ahead(at, now), position), now)

    def _check(self, envelope: Envelope, time: str, named: Mapping[str, bytes]) -> str:
        """The id of the key that signed the event. Raises RejectedError."""
        keyid = named.get("keyid", b"").decode(errors="replace")
        secret = self.keys.get(keyid)
        if secret is None:
            raise RejectedError(Reason.OVERRIDE_SIGNATURE, f"no key {keyid[:64]!r} is known here")
        expected = sign(secret, self._cluster, envelope.id, time, _plain(envelope.data))
        if not hmac.compare_digest(expected.encode(), named["signature"].lower()):
            what = f"the signature by {keyid} is not of this event in cluster {self._cluster!r}"
            raise RejectedError(Reason.OVERRIDE_SIGNATURE, what)
        return keyid


def _unwrap(value: bytes, headers: Headers) -> Envelope:
    envelope = unwrap(value, headers)
    if envelope is None or envelope.type != OVERRIDE_TYPE:
        raise RejectedError(Reason.UNKNOWN_TYPE, f"send a CloudEvent of type {OVERRIDE_TYPE}")
    refuse_duplicate_keys(value)
    return envelope


def _time_text(value: bytes, named: Mapping[str, bytes]) -> str:
    """The event's time as it was sent: that is what was signed. Raises RejectedError."""
    binary = "ce_type" in named
    text = named.get("ce_time", b"").decode(errors="replace") if binary else _timed(value).time
    if not text:
        raise RejectedError(Reason.NO_TIME, "a signed override needs CloudEvents `time`: how old it is counts")
    return text


def _plain(data: msgspec.Raw) -> dict[str, Any]:
    """The data as it is signed. Raises RejectedError."""
    try:
        fields = json.loads(bytes(data), parse_float=_no_fraction, parse_constant=_no_fraction)
        fields_text = json.dumps(fields, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        explain(error, data, Reason.INVALID_DATA, root="$.data")
    if not isinstance(fields, dict):
        raise RejectedError(Reason.INVALID_DATA, f"data of {len(fields_text)} bytes at `$.data` is no object")
    return fields


def _no_fraction(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is no whole number, and others are spelled in many ways: send whole seconds")


def _override(envelope: Envelope, keyid: str, at: float, position: Position) -> SignedOverride:
    try:
        data = _data(envelope.data)
        until = at + FRESH_SECONDS if data.not_after is None else min(epoch(data.not_after), at + LONGEST_SECONDS)
    except (ValueError, RecursionError) as error:
        explain(error, envelope.data, Reason.INVALID_DATA, root="$.data")
    return SignedOverride(
        keyid=keyid,
        id=envelope.id,
        at=at,
        until=until,
        kind=data.kind,
        reason=data.reason,
        model=data.target.model,
        node=data.target.node,
        pool=data.target.pool,
        value=data.value,
        seconds=data.for_seconds,
        namespace=data.namespace,
        allow_below_floor=data.allow_below_floor,
        position=position,
    )


def _fresh(signed: SignedOverride, now: float) -> SignedOverride:
    """Raises RejectedError when it is too late for it."""
    if now > signed.until:
        raise RejectedError(Reason.OVERRIDE_LATE, f"{now - signed.until:.0f} s too late: sign it again")
    return signed
