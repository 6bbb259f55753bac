"""Jobs: when they end, and what made them."""

from msgspec import Struct

from rebalancer.domain.jobs import Job
from rebalancer.ingest.objects.meta import Annotated, instant


class _JobSpec(Struct, frozen=True, gc=False, rename="camel"):
    active_deadline_seconds: int | None = None


class _JobStatus(Struct, frozen=True, gc=False, rename="camel"):
    start_time: str | None = None


class JobWire(Struct, frozen=True, gc=False):
    """`batch/v1` Job, the part that matters."""

    metadata: Annotated
    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()


def job(wire: JobWire) -> Job:
    """Raises ValueError."""
    meta, started, seconds = wire.metadata, instant(wire.status.start_time), wire.spec.active_deadline_seconds
    owner = next((one for one in meta.owner_references or () if one.controller), None)
    return Job(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        ends_at=None if started is None or seconds is None else started + seconds,
        above=() if owner is None else (owner.kind, owner.name),
    )
