"""EventBridge events of AWS that take capacity away. Each kind is one row of the table below."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct

from rebalancer.domain.events import CapacityNotice, Position
from rebalancer.ingest.envelope import Attribute, refuse_ahead
from rebalancer.ingest.instants import epoch
from rebalancer.ingest.rejected import Reason, RejectedError, explain

# AWS announces an interruption two minutes ahead of it, counted from the event's time, whenever it reaches us.
WARNING_SECONDS = 120.0
# `pending` and `running` take nothing away.
LEAVING = frozenset({"stopping", "stopped", "shutting-down", "terminated"})

InstanceId = Annotated[str, Meta(min_length=1, max_length=64)]


class _Event(Struct, frozen=True, rename={"detail_type": "detail-type"}):
    id: Attribute
    detail_type: str
    source: str
    time: str
    detail: msgspec.Raw


class _Instance(Struct, frozen=True, rename="kebab"):
    """The instance is in `detail`: the ARN in `resources` may hold a zone and no account."""

    instance_id: InstanceId


class _StateChange(_Instance, frozen=True, rename="kebab"):
    state: str


class _Entity(Struct, frozen=True, rename="camel"):
    """`status`: PENDING, RESOLVED and others, in some events only."""

    entity_value: InstanceId
    status: str = ""


class _Health(Struct, frozen=True, rename="camel"):
    """`status_code`: upcoming, open or closed, absent in old events. It lasts from `start_time` to `end_time`.

    `event_arn` stays the same over all that AWS tells of one event; each telling has another `id` in EventBridge.
    """

    service: str
    event_type_category: str
    status_code: str = ""
    start_time: str | None = None
    end_time: str | None = None
    affected_entities: tuple[_Entity, ...] = ()
    event_arn: str = ""


class _Lifecycle(Struct, frozen=True, rename={"instance_id": "EC2InstanceId"}):
    instance_id: InstanceId


class Loss(NamedTuple):
    """Which instances go, and when: from `deadline` on, until `ends_at` where that is told. Those `spared` stay.

    `event`: what is told of it later has the same; "" where the source tells it once.
    """

    deadline: float
    instance_ids: tuple[str, ...]
    ends_at: float | None = None
    spared: frozenset[str] = frozenset()
    event: str = ""


NOTHING = Loss(0.0, ())


def _in_two_minutes(detail: _Instance | _Lifecycle, at: float) -> Loss:
    return Loss(at + WARNING_SECONDS, (detail.instance_id,))


def _state_change(detail: _StateChange, at: float) -> Loss:
    return Loss(at, (detail.instance_id,)) if detail.state in LEAVING else NOTHING


def _health(detail: _Health, at: float) -> Loss:
    """AWS tells the end of what it has planned by the same event: closed, resolved for an instance, or over by then."""
    if detail.service != "EC2" or detail.event_type_category != "scheduledChange":
        return NOTHING
    deadline = at if detail.start_time is None else _health_time(detail.start_time)
    ends_at = None if detail.end_time is None else _health_time(detail.end_time)
    over = detail.status_code.lower() == "closed" or (ends_at is not None and ends_at <= at)
    instances = tuple(dict.fromkeys(entity.entity_value for entity in detail.affected_entities))
    resolved = {one.entity_value for one in detail.affected_entities if over or one.status.upper() == "RESOLVED"}
    return Loss(deadline, instances, ends_at, frozenset(resolved), detail.event_arn)


def _health_time(text: str) -> float:
    """AWS Health writes `Sat, 05 Jun 2027 15:10:09 GMT`, its newer events RFC 3339. Raises ValueError."""
    if text.endswith("GMT"):
        return datetime.strptime(text, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC).timestamp()
    return epoch(text)


Read: TypeAlias = Callable[[msgspec.Raw, float], Loss]


def _row(shape: type[msgspec.Struct], meaning: Callable[..., Loss]) -> Read:
    decode = msgspec.json.Decoder(shape).decode
    return lambda detail, at: meaning(decode(detail), at)


# (source, detail-type) -> our kind, and how to read the detail
TABLE: dict[tuple[str, str], tuple[str, Read]] = {
    ("aws.ec2", "EC2 Spot Instance Interruption Warning"): ("spot-interruption", _row(_Instance, _in_two_minutes)),
    ("aws.ec2", "EC2 Instance Rebalance Recommendation"): ("rebalance", _row(_Instance, _in_two_minutes)),
    ("aws.ec2", "EC2 Instance State-change Notification"): ("state-change", _row(_StateChange, _state_change)),
    ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"): (
        "reservation-interruption",
        _row(_Instance, _in_two_minutes),
    ),
    ("aws.health", "AWS Health Event"): ("scheduled-change", _row(_Health, _health)),
    # The hook's own time-out is not in the event and may be an hour; two minutes is when the group may be done.
    ("aws.autoscaling", "EC2 Instance-terminate Lifecycle Action"): ("state-change", _row(_Lifecycle, _in_two_minutes)),
}

_event = msgspec.json.Decoder(_Event).decode


def decode_eventbridge(value: bytes, position: Position, now: float) -> tuple[CapacityNotice, ...]:
    """The notices in an EventBridge event, none when it takes nothing away. Raises RejectedError."""
    event, at = _open(value)
    refuse_ahead(at, now)
    row = TABLE.get((event.source, event.detail_type))
    if row is None:
        known = ", ".join(sorted({detail_type for _, detail_type in TABLE}))
        detail = f"detail-type {event.detail_type!r} of {event.source!r} is not read here: send one of {known}"
        raise RejectedError(Reason.UNKNOWN_TYPE, detail)
    kind, read = row
    try:
        loss = read(event.detail, at)
    except (ValueError, RecursionError) as error:
        explain(error, event.detail, Reason.INVALID_DATA, root="$.detail")
    return tuple(
        CapacityNotice(
            source=event.source,
            id=event.id,
            at=at,
            kind=kind,
            deadline=loss.deadline,
            instance_id=instance,
            cancelled=instance in loss.spared,
            position=position,
            ends_at=loss.ends_at,
            event=loss.event,
        )
        for instance in loss.instance_ids
    )


def _open(value: bytes) -> tuple[_Event, float]:
    """The event and its time. Without an envelope we know, it may be anything: it is no CloudEvent either."""
    try:
        event = _event(value)
        return event, epoch(event.time)
    except msgspec.ValidationError as error:
        detail = f"no CloudEvents headers, and no EventBridge event: {error}"
        raise RejectedError(Reason.NOT_CLOUDEVENT, detail) from error
    except (ValueError, RecursionError) as error:
        explain(error, value, Reason.NOT_JSON)
