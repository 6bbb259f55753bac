"""What people ask for: Overrides and WriteStops."""

from typing import Any, Literal

from msgspec import Struct

from rebalancer.domain.people import Override, WriteStop
from rebalancer.ingest.instants import epoch
from rebalancer.ingest.objects.meta import Metadata, created_at

OF_CAPACITY = frozenset({"drain", "exclude"})  # their subject is a node or pool; the other kinds' is a model


class _Target(Struct, frozen=True, gc=False):
    model: str | None = None
    node: str | None = None
    pool: str | None = None


class _OverrideSpec(Struct, frozen=True, gc=False, rename="camel"):
    kind: Literal["pause", "freeze", "pin", "cap", "floor", "drain", "exclude", "standUp"]
    target: _Target
    expires_at: str
    reason: str = ""
    actor: str = ""
    value: int | None = None
    allow_below_floor: bool = False


class _OverrideStatus(Struct, frozen=True, gc=False):
    phase: str = ""
    message: str = ""


class OverrideWire(Struct, frozen=True, gc=False):
    """`rebalancer.io/v1alpha1` Override."""

    metadata: Metadata
    spec: _OverrideSpec
    status: _OverrideStatus = _OverrideStatus()


class WriteStopWire(Struct, frozen=True, gc=False):
    """`rebalancer.io/v1alpha1` WriteStop. Its spec may be anything: one that cannot be read stops all the same."""

    metadata: Metadata
    spec: Any = None


def override(wire: OverrideWire) -> Override:
    """Raises ValueError."""
    meta, spec = wire.metadata, wire.spec
    subject_kind, subject = _subject(spec)
    return Override(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        kind=spec.kind,
        subject=subject,
        subject_kind=subject_kind,
        reason=spec.reason,
        actor=spec.actor,
        created_at=created_at(meta),
        expires_at=epoch(spec.expires_at),
        value=spec.value,
        model=spec.target.model if spec.kind == "exclude" else None,
        allow_below_floor=spec.allow_below_floor,
        phase=wire.status.phase,
        message=wire.status.message,
    )


def write_stop(wire: WriteStopWire) -> WriteStop:
    """Raises ValueError."""
    meta = wire.metadata
    spec = wire.spec if isinstance(wire.spec, dict) else {}
    return WriteStop(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        reason=str(spec.get("reason", "")),
        actor=str(spec.get("actor", "")),
        created_at=created_at(meta),
    )


def _subject(spec: _OverrideSpec) -> tuple[str, str]:
    """(kind, name) of what the override is about. Raises ValueError."""
    if spec.kind not in OF_CAPACITY:
        if not spec.target.model:
            raise ValueError(f"`spec.target.model` is missing: {spec.kind} needs the id of a model")
        return "model", spec.target.model
    if bool(spec.target.node) == bool(spec.target.pool):
        raise ValueError(f"`spec.target` needs a node or a pool, and not both: {spec.kind} is about one of them")
    return ("node", spec.target.node) if spec.target.node else ("pool", spec.target.pool or "")
