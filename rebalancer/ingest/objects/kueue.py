"""Kueue's queues, cohorts and flavors (`kueue.x-k8s.io/v1beta2`)."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from rebalancer.domain.kueue import ClusterQueue, Cohort, FlavorQuota, LocalQueue, ResourceFlavor, Used
from rebalancer.domain.quantities import Quantity, thousandths
from rebalancer.ingest.objects.meta import Metadata

ACTIVE = frozenset({None, "None"})  # stop policies that stop nothing


class _ResourceQuota(Struct, frozen=True, gc=False, rename="camel"):
    name: str
    nominal_quota: Quantity = 0
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class _FlavorQuotas(Struct, frozen=True, gc=False):
    name: str
    resources: tuple[_ResourceQuota, ...] = ()


class _Group(Struct, frozen=True, gc=False):
    flavors: tuple[_FlavorQuotas, ...] = ()


class _Preemption(Struct, frozen=True, gc=False, rename="camel"):
    reclaim_within_cohort: str = "Never"


class _ClusterQueueSpec(Struct, frozen=True, gc=False, rename="camel"):
    cohort_name: str = ""
    resource_groups: tuple[_Group, ...] | None = None
    stop_policy: str | None = None
    preemption: _Preemption | None = None


class _UsedResource(Struct, frozen=True, gc=False):
    name: str
    total: Quantity = 0


class _UsedFlavor(Struct, frozen=True, gc=False):
    name: str
    resources: tuple[_UsedResource, ...] = ()


class _ClusterQueueStatus(Struct, frozen=True, gc=False, rename="camel"):
    flavors_reservation: tuple[_UsedFlavor, ...] | None = None


class ClusterQueueWire(Struct, frozen=True, gc=False):
    """ClusterQueue, the part that matters."""

    metadata: Metadata
    spec: _ClusterQueueSpec = _ClusterQueueSpec()
    status: _ClusterQueueStatus = _ClusterQueueStatus()


def cluster_queue(wire: ClusterQueueWire) -> ClusterQueue:
    """Raises ValueError."""
    meta, spec = wire.metadata, wire.spec
    return ClusterQueue(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        cohort=spec.cohort_name,
        quotas=tuple(_quotas(spec.resource_groups or ())),
        used=tuple(
            Used(flavor.name, one.name, thousandths(one.total))
            for flavor in wire.status.flavors_reservation or ()
            for one in flavor.resources
        ),
        stopped=spec.stop_policy not in ACTIVE,
        reclaims=spec.preemption is not None and spec.preemption.reclaim_within_cohort == "Any",
    )


class _CohortSpec(Struct, frozen=True, gc=False, rename="camel"):
    parent_name: str = ""
    resource_groups: tuple[_Group, ...] | None = None


class CohortWire(Struct, frozen=True, gc=False):
    """Cohort, the part that matters."""

    metadata: Metadata
    spec: _CohortSpec = _CohortSpec()


def cohort(wire: CohortWire) -> Cohort:
    """Raises ValueError."""
    meta, spec = wire.metadata, wire.spec
    quotas = tuple(_quotas(spec.resource_groups or ()))
    return Cohort(meta.name, meta.uid, meta.resource_version, spec.parent_name, quotas)


class _LocalQueueSpec(Struct, frozen=True, gc=False, rename="camel"):
    cluster_queue: str = ""
    stop_policy: str | None = None


class LocalQueueWire(Struct, frozen=True, gc=False):
    """LocalQueue, the part that matters."""

    metadata: Metadata
    spec: _LocalQueueSpec = _LocalQueueSpec()


def local_queue(wire: LocalQueueWire) -> LocalQueue:
    """Raises ValueError."""
    meta, spec = wire.metadata, wire.spec
    return LocalQueue(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        queue=spec.cluster_queue,
        stopped=spec.stop_policy not in ACTIVE,
    )


class _FlavorSpec(Struct, frozen=True, gc=False, rename="camel"):
    node_labels: dict[str, str] | None = None


class ResourceFlavorWire(Struct, frozen=True, gc=False):
    """ResourceFlavor, the part that matters."""

    metadata: Metadata
    spec: _FlavorSpec = _FlavorSpec()


def resource_flavor(wire: ResourceFlavorWire) -> ResourceFlavor:
    """Raises ValueError."""
    meta = wire.metadata
    return ResourceFlavor(meta.name, meta.uid, meta.resource_version, wire.spec.node_labels or {})


def _quotas(groups: Iterable[_Group]) -> Iterator[FlavorQuota]:
    for flavor in (flavor for group in groups for flavor in group.flavors):
        for one in flavor.resources:
            yield FlavorQuota(
                flavor=flavor.name,
                resource=one.name,
                nominal=thousandths(one.nominal_quota),
                borrows=None if one.borrowing_limit is None else thousandths(one.borrowing_limit),
                lends=None if one.lending_limit is None else thousandths(one.lending_limit),
            )
