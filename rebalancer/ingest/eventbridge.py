"""Events of AWS that take capacity away, by EventBridge or from an Auto Scaling group itself.

Each kind of event is one row of `TABLE`.
"""

from collections.abc import Callable
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct

from rebalancer.domain.notice_kinds import NoticeKind
from rebalancer.ingest.envelope import Attribute, refuse_ahead
from rebalancer.ingest.instants import cloud_time, epoch
from rebalancer.ingest.losses import InstanceLoss, ToldLoss
from rebalancer.ingest.rejected import Reason, RejectedError, explain
from rebalancer.ingest.wrappings import Message, Sent

# AWS announces an interruption two minutes ahead of it, counted from the event's time, whenever it reaches us.
WARNING_SECONDS = 120.0
# `pending` and `running` take nothing away.
LEAVING = frozenset({"stopping", "stopped", "shutting-down", "terminated"})
TERMINATING = "autoscaling:EC2_INSTANCE_TERMINATING"
LAUNCHING = "autoscaling:EC2_INSTANCE_LAUNCHING"
TEST = "autoscaling:TEST_NOTIFICATION"  # sent once, when somebody adds the hook

MAX_INSTANCE_CHARACTERS = 64
InstanceId = Annotated[str, Meta(min_length=1, max_length=MAX_INSTANCE_CHARACTERS)]


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
    """`entity_value`: an instance's id, its ARN, or anything else; `status`: PENDING, RESOLVED and others, or none."""

    entity_value: str = ""
    status: str = ""

    @property
    def instance(self) -> str:
        """The id of the instance that it is, "" where it is none."""
        last = self.entity_value.rpartition("/")[2]
        return last if last.startswith("i-") and len(last) <= MAX_INSTANCE_CHARACTERS else ""


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


class _Hook(Struct, frozen=True, rename="pascal"):
    """A lifecycle hook's own message, which a group sends to SQS or SNS without EventBridge."""

    lifecycle_transition: str = ""
    event: str = ""
    request_id: str = ""
    time: str = ""


Read: TypeAlias = Callable[[msgspec.Raw, float], InstanceLoss | None]


class EventBridgeRow(NamedTuple):
    """How one kind of event is read. `kind` None: it takes nothing away, and is no mistake either."""

    kind: NoticeKind | None
    read: Read
    says: str


def _reads(shape: type[Struct], meaning: Callable[..., InstanceLoss | None]) -> Read:
    decode = msgspec.json.Decoder(shape).decode
    return lambda detail, at: meaning(decode(detail), at)


def _warned(kind: NoticeKind, says: str, shape: type[_Instance | _Lifecycle] = _Instance) -> EventBridgeRow:
    """A row of events that come two minutes ahead."""
    return EventBridgeRow(
        kind, _reads(shape, lambda detail, at: InstanceLoss(kind, at + WARNING_SECONDS, (detail.instance_id,))), says
    )


def _nothing(says: str) -> EventBridgeRow:
    return EventBridgeRow(None, lambda _detail, _at: None, says)


def _state_change(detail: _StateChange, at: float) -> InstanceLoss | None:
    """Karpenter's tests and some bridges write `Shutting-Down`."""
    return InstanceLoss("state-change", at, (detail.instance_id,)) if detail.state.lower() in LEAVING else None


def _health(detail: _Health, at: float) -> InstanceLoss | None:
    """AWS tells the end of what it has planned by the same event: closed, resolved for an instance, or over by then."""
    if detail.service != "EC2" or detail.event_type_category != "scheduledChange":
        return None
    deadline = at if detail.start_time is None else cloud_time(detail.start_time)
    ends_at = None if detail.end_time is None else cloud_time(detail.end_time)
    over = detail.status_code.lower() == "closed" or (ends_at is not None and ends_at <= at)
    entities = [one for one in detail.affected_entities if one.instance]
    instances = tuple(dict.fromkeys(one.instance for one in entities))
    resolved = {one.instance for one in entities if over or one.status.upper() == "RESOLVED"}
    return InstanceLoss("scheduled-change", deadline, instances, ends_at, frozenset(resolved), detail.event_arn)


# The hook's own time-out is not in the event and may be an hour; two minutes is when the group may be done.
_TERMINATES = _warned("state-change", "event's time + 120 s", _Lifecycle)

# (source, detail-type) -> how it is read
TABLE: dict[tuple[str, str], EventBridgeRow] = {
    ("aws.ec2", "EC2 Spot Instance Interruption Warning"): _warned("spot-interruption", "event's time + 120 s"),
    ("aws.ec2", "EC2 Instance Rebalance Recommendation"): _warned("rebalance", "none: it stands for 12 minutes"),
    ("aws.ec2", "EC2 Instance State-change Notification"): EventBridgeRow(
        "state-change", _reads(_StateChange, _state_change), "event's time; `pending` and `running` are none"
    ),
    ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"): _warned(
        "reservation-interruption", "event's time + 120 s"
    ),
    ("aws.health", "AWS Health Event"): EventBridgeRow(
        "scheduled-change",
        _reads(_Health, _health),
        "`startTime`, of category `scheduledChange` of EC2; taken back by `closed`, `RESOLVED` or a passed `endTime`",
    ),
    ("aws.autoscaling", "EC2 Instance-terminate Lifecycle Action"): _TERMINATES,
    ("aws.autoscaling", "EC2 Instance-launch Lifecycle Action"): _nothing("a launch"),
    ("aws.autoscaling", "EC2 Instance Launch Successful"): _nothing("a launch"),
    ("aws.autoscaling", "EC2 Instance Launch Unsuccessful"): _nothing("a launch"),
    ("aws.autoscaling", "EC2 Instance Terminate Successful"): _nothing("it is over; the Node says so itself"),
    ("aws.autoscaling", "EC2 Instance Terminate Unsuccessful"): _nothing("it did not happen"),
}
HOOKS: dict[str, EventBridgeRow] = {
    TERMINATING: _TERMINATES,
    LAUNCHING: _nothing("a launch"),
    TEST: _nothing("a test"),
}

_event = msgspec.json.Decoder(_Event).decode
_hook = msgspec.json.Decoder(_Hook).decode


def read_eventbridge(message: Message, now: float) -> list[ToldLoss]:
    """What an EventBridge event takes away. Raises RejectedError."""
    event, at = _opened(message)
    refuse_ahead(at, now)
    row = TABLE.get((event.source, event.detail_type))
    if row is None:
        known = ", ".join(sorted({detail_type for (_, detail_type), row in TABLE.items() if row.kind is not None}))
        detail = f"detail-type {event.detail_type!r} of {event.source!r} is not read here: send one of {known}"
        raise RejectedError(Reason.UNKNOWN_TYPE, detail)
    return [ToldLoss(_read(row, event.detail, at, f"{message.path}.detail"), Sent(event.source, event.id, at))]


def read_hook(message: Message, now: float) -> list[ToldLoss]:
    """What a lifecycle hook's own message takes away. Raises RejectedError and ValueError."""
    hook = _hook(message.data)
    row = HOOKS.get(hook.lifecycle_transition) or HOOKS.get(hook.event)
    if row is None:
        transition = hook.lifecycle_transition or hook.event
        raise RejectedError(
            Reason.UNKNOWN_TYPE, f"{transition!r} at `{message.path}` is not read here: send {TERMINATING}"
        )
    at = refuse_ahead(epoch(hook.time) if hook.time else message.sent.at, now)
    sent = Sent("aws.autoscaling", hook.request_id[:1024] or message.sent.id, at)
    return [ToldLoss(_read(row, message.data, at, message.path), sent)]


def _read(row: EventBridgeRow, detail: msgspec.Raw, at: float, path: str) -> InstanceLoss | None:
    try:
        return row.read(detail, at)
    except (ValueError, RecursionError) as error:
        explain(error, detail, Reason.INVALID_DATA, root=path)


def _opened(message: Message) -> tuple[_Event, float]:
    """The event and its time, which is its wrapping's where it is empty. Raises RejectedError."""
    try:
        event = _event(message.data)
        return event, epoch(event.time) if event.time else message.sent.at
    except msgspec.ValidationError as error:
        detail = f"no CloudEvents headers, and no EventBridge event: {error}"
        raise RejectedError(Reason.NOT_CLOUDEVENT, detail) from error
