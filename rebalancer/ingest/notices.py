"""Capacity notices: our own CloudEvents, and the events of clouds as they send them. Pure; no input raises."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from rebalancer.domain.events import CAPACITY_NOTICE_TYPE, CapacityNotice, Position, Rejection
from rebalancer.domain.notice_kinds import KINDS, Confidence, NoticeKind
from rebalancer.ingest.azure import read_answer, read_grid
from rebalancer.ingest.decode import Name
from rebalancer.ingest.envelope import Headers, refuse_ahead, unwrap
from rebalancer.ingest.eventbridge import read_eventbridge, read_hook
from rebalancer.ingest.gcp import read_entry
from rebalancer.ingest.instants import epoch
from rebalancer.ingest.losses import ToldLoss
from rebalancer.ingest.rejected import Reason, RejectedError, explain, refuse_duplicate_keys
from rebalancer.ingest.wrappings import Message, Sent, data_of, messages

# What was over an hour ago is on the Node, if anywhere: as far back as a start without a checkpoint reads notices.
STALE_SECONDS = 3600.0

# The key that tells a message's kind -> who reads it
READERS: dict[str, Callable[[Message, float], Sequence[ToldLoss | RejectedError]]] = {
    "detail-type": read_eventbridge,
    "AutoScalingGroupName": read_hook,
    "DocumentIncarnation": read_answer,
    "resourceInfo": read_grid,
    "protoPayload": read_entry,
}


class NoticeData(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Data of our own notice, version 1.

    kind: why the capacity goes.
    node: name of the node, absent where `instance_id` names the capacity.
    instance_id: the cloud's id of the instance, or its providerID.
    deadline: when it goes, RFC 3339; it may be absent only from a notice that takes an earlier one back.
    voluntary: whether its replacement comes by itself.
    cancelled: whether earlier notices are taken back.
    confidence: how sure it is; absent: what its kind says.
    """

    kind: NoticeKind
    node: Name | None = None
    instance_id: Name | None = None
    deadline: str | None = None
    voluntary: bool = False
    cancelled: bool = False
    confidence: Confidence | None = None


_notice = msgspec.json.Decoder(NoticeData).decode


@dataclass(frozen=True, slots=True)
class Partly:
    """What a record of several messages says, and why the rest of it says nothing."""

    notices: tuple[CapacityNotice, ...]
    rejection: Rejection


def decode_notice(
    value: bytes, headers: Headers, position: Position, kafka_timestamp: float, now: float
) -> tuple[CapacityNotice, ...] | Partly | Rejection:
    """The notices in one record: an AWS Health event may name many instances, a `running` state change means none."""
    notices: list[CapacityNotice] = []
    refused: list[RejectedError] = []
    for message in _messages(value, headers, Sent("", str(position), kafka_timestamp)):
        for one in _read(message, position, now):
            if isinstance(one, RejectedError):
                refused.append(one)
            else:
                notices.append(one)
    if not refused:
        return tuple(notices)
    why = refused[0].at(position, now)
    return Partly(tuple(notices), why) if notices else why


def _messages(value: bytes, headers: Headers, sent: Sent) -> Iterator[Message | RejectedError]:
    try:
        envelope = unwrap(value, headers)
        refuse_duplicate_keys(value)
        yield from messages(value, sent) if envelope is None else data_of(envelope, sent)
    except RejectedError as rejected:
        yield rejected


def _read(message: Message | RejectedError, position: Position, now: float) -> Iterator[CapacityNotice | RejectedError]:
    """What a message says, notice by notice, and what of it says nothing."""
    try:
        if isinstance(message, RejectedError):
            raise message
        if message.sent.type == CAPACITY_NOTICE_TYPE:
            notices = [_own(message, position, now)]
        else:
            notices = []
            for loss in _losses(message, now):
                if isinstance(loss, RejectedError):
                    yield loss
                else:
                    notices += loss.notices(position)
    except RejectedError as rejected:
        yield rejected
    else:
        yield from (_stale(notice, now) or notice for notice in notices)


def _losses(message: Message, now: float) -> Sequence[ToldLoss | RejectedError]:
    read = next((READERS[key] for key in READERS if key in message.keys), None)
    if read is None:
        raise _unknown(message)
    try:
        return read(message, now)
    except (ValueError, RecursionError) as error:
        explain(error, message.data, Reason.INVALID_DATA, root=message.path)


def _unknown(message: Message) -> RejectedError:
    if message.keys == {"text"}:
        detail = "not an event: NTH webhook text, or another for people; docs/notices.md has a webhookTemplate for NTH"
        return RejectedError(Reason.NOT_CLOUDEVENT, detail)
    if message.sent.type:
        detail = f"type {message.sent.type!r} is not read here: send {CAPACITY_NOTICE_TYPE}"
        return RejectedError(Reason.UNKNOWN_TYPE, detail)
    keys = ", ".join(READERS)
    detail = f"no CloudEvents headers, and no event at `{message.path}` that is read here: none of the keys {keys}"
    return RejectedError(Reason.NOT_CLOUDEVENT, detail)


def _stale(notice: CapacityNotice, now: float) -> RejectedError | None:
    """Why a notice is none that was told, and was to come true, so long ago that the Node knows better."""
    last = max(notice.at, notice.deadline, notice.ends_at or 0.0)
    if notice.cancelled or now - last <= STALE_SECONDS:
        return None
    when = datetime.fromtimestamp(last, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    detail = f"it was over at {when}, more than {STALE_SECONDS:.0f} s ago: nothing is done for it"
    return RejectedError(Reason.STALE, detail)


def _own(message: Message, position: Position, now: float) -> CapacityNotice:
    at = refuse_ahead(message.sent.at, now)
    try:
        data = _notice(message.data)
        deadline = at if data.deadline is None else epoch(data.deadline)
    except (ValueError, RecursionError) as error:
        explain(error, message.data, Reason.INVALID_DATA, root=message.path)
    if data.node is None and data.instance_id is None:
        raise RejectedError(
            Reason.INVALID_DATA, f"no `node` and no `instanceId` at `{message.path}`: say which node goes"
        )
    if data.deadline is None and not data.cancelled:
        raise RejectedError(
            Reason.INVALID_DATA, f"no `deadline` at `{message.path}`: say when the node goes (RFC 3339)"
        )
    return CapacityNotice(
        source=message.sent.source,
        id=message.sent.id,
        at=at,
        kind=data.kind,
        deadline=deadline,
        node=data.node,
        instance_id=data.instance_id,
        voluntary=data.voluntary,
        cancelled=data.cancelled,
        position=position,
        confidence=data.confidence or KINDS[data.kind].confidence,
    )
