"""Capacity notices: our own CloudEvents, and EventBridge's JSON as AWS sends it. Pure; no input raises."""

from typing import Literal

import msgspec
from msgspec import Struct

from rebalancer.domain.events import CapacityNotice, Position, Rejection
from rebalancer.ingest.decode import Name
from rebalancer.ingest.envelope import Envelope, Headers, event_time, unwrap
from rebalancer.ingest.eventbridge import decode_eventbridge
from rebalancer.ingest.instants import epoch
from rebalancer.ingest.rejected import Reason, RejectedError, explain, refuse_duplicate_keys

CAPACITY_NOTICE_TYPE = "io.rebalancer.capacity.notice.v1"

Kind = Literal[
    "spot-interruption", "rebalance", "scheduled-change", "reservation-interruption", "state-change", "disruption"
]


class _Notice(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Data of our own notice, version 1. `deadline` may be absent only from one that takes an earlier one back."""

    kind: Kind
    node: Name | None = None
    instance_id: Name | None = None
    deadline: str | None = None
    voluntary: bool = False
    cancelled: bool = False


_notice = msgspec.json.Decoder(_Notice).decode


def decode_notice(
    value: bytes, headers: Headers, position: Position, kafka_timestamp: float, now: float
) -> tuple[CapacityNotice, ...] | Rejection:
    """The notices in one record: an AWS Health event may name many instances, a `running` state change means none."""
    try:
        envelope = unwrap(value, headers)
        refuse_duplicate_keys(value)
        if envelope is None:
            return decode_eventbridge(value, position, now)
        return (_own(envelope, event_time(envelope, kafka_timestamp, now), position),)
    except RejectedError as rejected:
        return rejected.at(position, now)


def _own(envelope: Envelope, at: float, position: Position) -> CapacityNotice:
    if envelope.type != CAPACITY_NOTICE_TYPE:
        detail = f"type {envelope.type!r} is not read here: send {CAPACITY_NOTICE_TYPE}"
        raise RejectedError(Reason.UNKNOWN_TYPE, detail)
    try:
        data = _notice(envelope.data)
        deadline = at if data.deadline is None else epoch(data.deadline)
    except (ValueError, RecursionError) as error:
        explain(error, envelope.data, Reason.INVALID_DATA, root="$.data")
    if data.node is None and data.instance_id is None:
        raise RejectedError(Reason.INVALID_DATA, "no `node` and no `instanceId` at `$.data`: say which node goes")
    if data.deadline is None and not data.cancelled:
        raise RejectedError(Reason.INVALID_DATA, "no `deadline` at `$.data`: say when the node goes (RFC 3339)")
    return CapacityNotice(
        source=envelope.source,
        id=envelope.id,
        at=at,
        kind=data.kind,
        deadline=deadline,
        node=data.node,
        instance_id=data.instance_id,
        voluntary=data.voluntary,
        cancelled=data.cancelled,
        position=position,
    )
