"""Scheduled Events of Azure: as its metadata service (IMDS) answers, and as Event Grid sends them.

An instance of a scale set is named `SCALESET_NUMBER` in both. The number alone says nothing: every scale set counts
from 0.
"""

from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from rebalancer.domain.notice_kinds import NoticeKind
from rebalancer.ingest.envelope import refuse_ahead
from rebalancer.ingest.instants import cloud_time
from rebalancer.ingest.losses import InstanceLoss, ToldLoss
from rebalancer.ingest.rejected import Reason, RejectedError, explain
from rebalancer.ingest.wrappings import Message, Sent

IMDS_SOURCE = "azure.imds"
GRID_SOURCE = "azure.eventgrid"
OVER = frozenset({"completed", "canceled", "cancelled"})
NEVER = "0001-01-01"  # how .NET writes that there is no time


class AzureRow(NamedTuple):
    """What one type of scheduled event means. `kind` None: it takes nothing away."""

    kind: NoticeKind | None
    says: str


TABLE: dict[str, AzureRow] = {
    "Preempt": AzureRow("spot-interruption", "`NotBefore`, at least 30 s ahead"),
    "Reboot": AzureRow("scheduled-change", "`NotBefore`"),
    "Redeploy": AzureRow("scheduled-change", "`NotBefore`"),
    "Terminate": AzureRow("state-change", "`NotBefore`"),
    "Freeze": AzureRow(None, "the machine pauses for some seconds"),
}


class _Scheduled(Struct, frozen=True, rename="pascal"):
    """One event. `not_before`: RFC 1123, empty once it has started. `resources`: names of machines."""

    event_id: str
    event_type: str
    resources: tuple[str, ...] = ()
    event_status: str = ""
    resource_type: str = "VirtualMachine"
    not_before: str = ""


class _Answer(Struct, frozen=True, rename="pascal"):
    document_incarnation: int
    events: tuple[msgspec.Raw, ...] = ()


class _OfCluster(Struct, frozen=True, rename="camel"):
    """A scheduled event of AKS speaks of the cluster, never of a node."""

    event_id: str
    resource_type: Literal["ManagedCluster"]


class _Info(Struct, frozen=True):
    type: str
    properties: msgspec.Raw


class _Told(Struct, frozen=True, rename={"resource_info": "resourceInfo"}):
    resource_info: _Info


_answer = msgspec.json.Decoder(_Answer).decode
_decode = msgspec.json.Decoder(_Told).decode
_scheduled = msgspec.json.Decoder(_Scheduled).decode
_of_cluster = msgspec.json.Decoder(_OfCluster).decode
AKS_TYPE = "microsoft.containerservice/managedclusters/scheduledevents"


def read_answer(message: Message, now: float) -> list[ToldLoss | RejectedError]:
    """What an answer of the metadata service says, event by event. Raises RejectedError and ValueError."""
    answer, at = _answer(message.data), refuse_ahead(message.sent.at, now)
    losses: list[ToldLoss | RejectedError] = []
    for place, raw in enumerate(answer.events):
        try:
            losses.append(_of_answer(raw, f"{message.path}.Events[{place}]", answer.document_incarnation, at))
        except RejectedError as rejected:
            losses.append(rejected)
    return losses


def _of_answer(raw: msgspec.Raw, path: str, incarnation: int, at: float) -> ToldLoss:
    """Raises RejectedError."""
    try:
        event = _scheduled(raw)
        return ToldLoss(_loss(event, at), Sent(IMDS_SOURCE, f"{event.event_id}/{incarnation}", at))
    except (ValueError, RecursionError) as error:
        explain(error, raw, Reason.INVALID_DATA, root=path)


def read_grid(message: Message, now: float) -> list[ToldLoss]:
    """What Event Grid says, by CloudEvents or its own schema. Raises RejectedError and ValueError."""
    info, at = _decode(message.data).resource_info, refuse_ahead(message.sent.at, now)
    sent = Sent(GRID_SOURCE, message.sent.id, at)
    if info.type.lower() == AKS_TYPE:
        _of_cluster(info.properties)
        return [ToldLoss(None, sent)]
    return [ToldLoss(_loss(_scheduled(info.properties), at), sent)]


def _loss(event: _Scheduled, at: float) -> InstanceLoss | None:
    row = TABLE.get(event.event_type)
    if row is None:
        detail = f"EventType {event.event_type!r} of Azure is not read here: one of {', '.join(TABLE)} is"
        raise RejectedError(Reason.UNKNOWN_TYPE, detail)
    if row.kind is None or event.resource_type != "VirtualMachine":
        return None
    instances = tuple(dict.fromkeys(name[:253].lower() for name in event.resources if name))
    status = event.event_status.lower()
    known = event.not_before and not event.not_before.startswith(NEVER) and status != "started"
    deadline = cloud_time(event.not_before) if known else at
    spared = frozenset(instances) if status in OVER else frozenset()
    return InstanceLoss(row.kind, deadline, instances, spared=spared, event=event.event_id[:253])
