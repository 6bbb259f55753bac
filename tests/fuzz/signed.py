"""Records of the topic `overrides`: unsigned, with the signature of another record, and signed afresh as spoiled."""

import json
from collections.abc import Iterator
from typing import Any, Final

from rebalancer.domain.events import Position, Rejection
from rebalancer.ingest.envelope import Headers
from rebalancer.ingest.signed import Signatures, SignedOverride, sign, signed_record
from tests.fuzz.decoder import Decoder
from tests.ingest.wire import NOW

CLUSTER, KEYID, SECRET = "prod-eu", "runbook", b"0123456789abcdef0123456789abcdef"
HERE = Position("rebalancer.overrides", 0, 7)
TIME: Final = "2027-01-15T07:59:58.5Z"
ORDERS: Final[tuple[dict[str, Any], ...]] = (
    {"kind": "pin", "target": {"model": "code"}, "value": 4, "reason": "launch day"},
    {
        "kind": "drain",
        "target": {"node": "n1"},
        "reason": "Größe",
        "forSeconds": 1800,
        "notAfter": "2027-01-15T08:30:00Z",
    },
    {"kind": "cap", "target": {"model": "b"}, "value": 0, "reason": "r", "namespace": "a", "allowBelowFloor": True},
)
_decode = Signatures(CLUSTER, {KEYID: SECRET}).decode


def _read(data: bytes) -> object:
    """Unsigned, and by each signature that somebody may have seen, it is what was signed or nothing."""
    assert isinstance(_decode(data, (), HERE, NOW, NOW), Rejection)
    for headers, value in map(_signed, ORDERS):
        override, meant = _decode(data, headers, HERE, NOW, NOW), _decode(value, headers, HERE, NOW, NOW)
        assert isinstance(override, Rejection) or override == meant, override
    return afresh(data)


def afresh(data: bytes) -> list[SignedOverride | Rejection]:
    """What a record is worth whose sender has a key, and signs what is spoiled: in structured mode and in binary."""
    try:
        event = json.loads(data)
        named = {f"ce_{name}": str(event.get(name)) for name in ("specversion", "type", "source", "id", "time")}
        content = json.dumps(event.get("data"), ensure_ascii=False).encode()
        signature = sign(SECRET, CLUSTER, named["ce_id"], named["ce_time"], event.get("data")).encode()
        binary = tuple((name, text.encode()) for name, text in named.items())
    except (ValueError, RecursionError, AttributeError):  # nothing that could be signed
        return []
    structured: Headers = (("content-type", b"application/cloudevents+json"),)
    of_key: Headers = (("keyid", KEYID.encode()), ("signature", signature))
    return [
        _decode(data, (*structured, *of_key), HERE, NOW, NOW),
        _decode(content, (*binary, *of_key), HERE, NOW, NOW),
    ]


def _signed(order: dict[str, Any]) -> tuple[Headers, bytes]:
    headers, value = signed_record(KEYID, SECRET, CLUSTER, "evt-1", TIME, order)
    return tuple(headers), value


def orders() -> Iterator[bytes]:
    """The values of records that are signed well."""
    yield from (value for _, value in map(_signed, ORDERS))


OVERRIDE_RECORDS = Decoder("override-records", orders, _read)
