"""Kubernetes objects to values of `domain.cluster`. Wire shapes name only the fields in use; the rest is skipped."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from msgspec import Struct

from rebalancer.domain.cluster import ClusterObject
from rebalancer.ingest.objects import (
    autoscalers,
    devices,
    jobs,
    kueue,
    node_groups,
    nodes,
    people,
    pods,
    quotas,
    targets,
)
from rebalancer.ingest.objects.targets import ScalePaths
from rebalancer.kube.resources import Resource


class Unusable(Struct, frozen=True):
    """An object that is there but cannot be understood; `why` is for people."""

    source: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.source} {self.name}: {self.why}"


class WireShape(NamedTuple):
    """How a source's objects look on the wire, and what makes values of them."""

    wire: type[Any]
    value: Callable[[Any], ClusterObject]


# Keys as in `domain.cluster.SOURCES`.
SHAPES: dict[str, WireShape] = {
    "nodes": WireShape(nodes.NodeWire, nodes.node),
    "pods": WireShape(pods.PodWire, pods.pod),
    "deployments": WireShape(targets.DeploymentWire, targets.deployment),
    "hpas": WireShape(autoscalers.HpaWire, autoscalers.hpa),
    "scaledobjects": WireShape(autoscalers.ScaledObjectWire, autoscalers.scaled_object),
    "podautoscalers": WireShape(autoscalers.PodAutoscalerWire, autoscalers.pod_autoscaler),
    "nodepools": WireShape(nodes.NodePoolWire, nodes.node_pool),
    "nodeclaims": WireShape(nodes.NodeClaimWire, nodes.node_claim),
    "overrides": WireShape(people.OverrideWire, people.override),
    "writestops": WireShape(people.WriteStopWire, people.write_stop),
    "resourcequotas": WireShape(quotas.ResourceQuotaWire, quotas.resource_quota),
    "limitranges": WireShape(quotas.LimitRangeWire, quotas.limit_range),
    "priorityclasses": WireShape(quotas.PriorityClassWire, quotas.priority_class),
    "jobs": WireShape(jobs.JobWire, jobs.job),
    "localqueues": WireShape(kueue.LocalQueueWire, kueue.local_queue),
    "clusterqueues": WireShape(kueue.ClusterQueueWire, kueue.cluster_queue),
    "cohorts": WireShape(kueue.CohortWire, kueue.cohort),
    "resourceflavors": WireShape(kueue.ResourceFlavorWire, kueue.resource_flavor),
}
# Keys as in `domain.cluster.sources_beside`.
SHAPES_BESIDE: dict[str, WireShape] = {
    "deviceclasses": WireShape(devices.DeviceClassWire, devices.device_class),
    "resourceslices": WireShape(devices.ResourceSliceWire, devices.resource_slice),
    "resourceclaims": WireShape(devices.ResourceClaimWire, devices.resource_claim),
    "resourceclaimtemplates": WireShape(devices.ClaimTemplateWire, devices.claim_template),
    "autoscalerstatus": WireShape(node_groups.StatusWire, node_groups.autoscaler_status),
}


STATEFUL_SETS = WireShape(targets.StatefulSetWire, targets.stateful_set)
REPLICA_SETS = WireShape(targets.DeploymentWire, targets.replica_set)


def shape_of(resource: Resource, paths: ScalePaths) -> WireShape:
    """How the targets of a custom kind look, whose scale stands at `paths`."""
    return WireShape(targets.TargetWire, partial(targets.custom, resource=resource, paths=paths))


def value_of(source: str, wire: Any, shape: WireShape | None = None) -> ClusterObject | Unusable:  # noqa: ANN401  any wire shape
    """The value of one decoded object of `source`, which looks as `shape` says."""
    try:
        return (shape or SHAPES.get(source) or SHAPES_BESIDE[source]).value(wire)
    except ValueError as error:
        meta = wire.metadata
        return Unusable(source, "/".join(filter(None, (meta.namespace, meta.name))), str(error))
