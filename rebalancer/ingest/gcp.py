"""System events in GCP's audit log that take an instance away, as a log sink hands them on."""

from typing import NamedTuple

import msgspec
from msgspec import Struct

from rebalancer.domain.notice_kinds import NoticeKind
from rebalancer.ingest.envelope import refuse_ahead
from rebalancer.ingest.instants import epoch
from rebalancer.ingest.losses import InstanceLoss, ToldLoss
from rebalancer.ingest.rejected import Reason, RejectedError
from rebalancer.ingest.wrappings import Message, Sent

SOURCE = "gcp.audit-log"
MAX_NAME_CHARACTERS = 63  # of an instance
WARNING_SECONDS = 30.0  # from the signal of a preemption until the machine is off


class GcpRow(NamedTuple):
    """What one method means: the capacity goes so many seconds later. `kind` None: it takes nothing away."""

    kind: NoticeKind | None
    says: str
    seconds: float = 0.0


TABLE: dict[str, GcpRow] = {
    "compute.instances.preempted": GcpRow("spot-interruption", "entry's time + 30 s", WARNING_SECONDS),
    "compute.instances.terminateOnHostMaintenance": GcpRow("state-change", "entry's time"),
    "compute.instances.hostError": GcpRow("state-change", "entry's time"),
    "compute.instances.guestTerminate": GcpRow("state-change", "entry's time"),
    "compute.instances.migrateOnHostMaintenance": GcpRow(None, "the machine moves alive"),
    "compute.instances.automaticRestart": GcpRow(None, "it is over; the Node says so itself"),
}


class _Payload(Struct, frozen=True, rename="camel"):
    method_name: str
    resource_name: str


class _Entry(Struct, frozen=True, rename="camel"):
    proto_payload: _Payload
    insert_id: str = ""
    timestamp: str = ""


_entry = msgspec.json.Decoder(_Entry).decode


def read_entry(message: Message, now: float) -> list[ToldLoss]:
    """What an entry says of the instance that it names last: `projects/P/zones/Z/instances/NAME`.

    Raises RejectedError and ValueError.
    """
    entry = _entry(message.data)
    payload = entry.proto_payload
    row = TABLE.get(payload.method_name.removeprefix("v1.").removeprefix("beta."))
    if row is None:
        detail = f"methodName {payload.method_name!r} of GCP is not read here: one of {', '.join(TABLE)} is"
        raise RejectedError(Reason.UNKNOWN_TYPE, detail)
    at = refuse_ahead(epoch(entry.timestamp) if entry.timestamp else message.sent.at, now)
    sent = Sent(SOURCE, entry.insert_id[:1024] or message.sent.id, at)
    name = payload.resource_name.rpartition("/")[2]
    if row.kind is None:
        return [ToldLoss(None, sent)]
    if not 0 < len(name) <= MAX_NAME_CHARACTERS:
        raise RejectedError(Reason.INVALID_DATA, f"no instance in resourceName {payload.resource_name[:60]!r}")
    return [ToldLoss(InstanceLoss(row.kind, at + row.seconds, (name,)), sent)]
