"""Cluster Autoscaler's status: YAML in one ConfigMap, since 1.30; before that it was prose, which is not read."""

import msgspec
from msgspec import Struct

from rebalancer.domain.node_groups import AutoscalerStatus, NodeGroup
from rebalancer.ingest.instants import epoch
from rebalancer.ingest.objects.meta import Metadata

ADDS_NONE = frozenset({"Backoff"})  # status of a scale-up: after one that failed there is none for a while
MAX_MESSAGE_CHARACTERS = 300
MINUTE = 60.0


class _Registered(Struct, frozen=True, gc=False):
    total: int = 0


class _Counts(Struct, frozen=True, gc=False):
    registered: _Registered = _Registered()


class _Health(Struct, frozen=True, gc=False, rename="camel"):
    status: str = ""
    node_counts: _Counts = _Counts()
    cloud_provider_target: int = 0
    max_size: int = 0


class _Backoff(Struct, frozen=True, gc=False, rename="camel"):
    error_code: str = ""
    error_message: str = ""


class _ScaleUp(Struct, frozen=True, gc=False, rename="camel"):
    status: str = ""
    backoff_info: _Backoff = _Backoff()


class _ScaleDown(Struct, frozen=True, gc=False):
    candidates: int = 0


class _Group(Struct, frozen=True, gc=False, rename="camel"):
    name: str
    health: _Health = _Health()
    scale_up: _ScaleUp = _ScaleUp()
    scale_down: _ScaleDown = _ScaleDown()


class _Probed(Struct, frozen=True, gc=False, rename="camel"):
    last_probe_time: str = ""


class _Whole(Struct, frozen=True, gc=False):
    health: _Probed = _Probed()


class _Status(Struct, frozen=True, gc=False, rename="camel"):
    autoscaler_status: str  # prose has none
    time: str = ""
    cluster_wide: _Whole = _Whole()
    node_groups: tuple[_Group, ...] | None = None


class _Data(Struct, frozen=True, gc=False):
    status: str = ""


class StatusWire(Struct, frozen=True, gc=False):
    """`v1` ConfigMap `cluster-autoscaler-status`, the part that matters."""

    metadata: Metadata
    data: _Data | None = None


def autoscaler_status(wire: StatusWire) -> AutoscalerStatus:
    """Raises ValueError where the status is no YAML of that shape."""
    meta = wire.metadata
    try:
        text = wire.data.status if wire.data is not None else ""
        status = msgspec.yaml.decode(text, type=_Status | None) or _Status("")
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"its status is not as Cluster Autoscaler 1.30 and newer write it: {error}") from error
    return AutoscalerStatus(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        told_at=_told_at(status),
        groups=tuple(_group(group) for group in status.node_groups or ()),
    )


def _told_at(status: _Status) -> float | None:
    """The minute in which it was written: that comes every 10 s, and nobody needs it so exactly. Raises ValueError.

    By `2026-10-02 14:29:22.999645779 +0000 UTC`, else by when Cluster Autoscaler looked at all nodes last.
    """
    day, _, time = status.time.partition(" ")
    text = f"{day}T{time[:5]}:00Z" if time.endswith("+0000 UTC") else status.cluster_wide.health.last_probe_time
    return MINUTE * (epoch(text) // MINUTE) if text else None


def _group(group: _Group) -> NodeGroup:
    health = group.health
    return NodeGroup(
        name=group.name,
        nodes=health.node_counts.registered.total,
        target=health.cloud_provider_target,
        most=health.max_size,
        refuses=_refuses(group),
        leaving=group.scale_down.candidates,
    )


def _refuses(group: _Group) -> str:
    """Why it adds no nodes now, as a clause."""
    if group.scale_up.status in ADDS_NONE:
        why = group.scale_up.backoff_info
        reason = ": ".join(filter(None, (why.error_code, why.error_message)))[:MAX_MESSAGE_CHARACTERS]
        return f"after a scale-up that failed it adds none for a while ({reason or 'it does not say why'})"
    if group.health.status == "Unhealthy":
        return "it is unhealthy, and Cluster Autoscaler adds none to it"
    return ""
