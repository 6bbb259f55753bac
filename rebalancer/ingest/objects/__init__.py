"""Kubernetes objects to values of `domain.cluster`. Wire shapes name only the fields in use; the rest is skipped."""

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from rebalancer.domain.cluster import ClusterObject
from rebalancer.ingest.objects import autoscalers, nodes, people, pods


class Unusable(Struct, frozen=True):
    """An object that is there but cannot be understood; `why` is for people."""

    source: str
    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.source} {self.name}: {self.why}"


class Shape(NamedTuple):
    """How a source's objects look on the wire, and what makes values of them."""

    wire: type[Any]
    value: Callable[[Any], ClusterObject]


# Keys as in `domain.cluster.SOURCES`.
SHAPES: dict[str, Shape] = {
    "nodes": Shape(nodes.NodeWire, nodes.node),
    "pods": Shape(pods.PodWire, pods.pod),
    "deployments": Shape(pods.DeploymentWire, pods.workload),
    "hpas": Shape(autoscalers.HpaWire, autoscalers.hpa),
    "scaledobjects": Shape(autoscalers.ScaledObjectWire, autoscalers.scaled_object),
    "podautoscalers": Shape(autoscalers.PodAutoscalerWire, autoscalers.pod_autoscaler),
    "nodepools": Shape(nodes.NodePoolWire, nodes.node_pool),
    "nodeclaims": Shape(nodes.NodeClaimWire, nodes.node_claim),
    "overrides": Shape(people.OverrideWire, people.override),
    "writestops": Shape(people.WriteStopWire, people.write_stop),
}


def value_of(source: str, wire: Any) -> ClusterObject | Unusable:  # noqa: ANN401  any source's wire shape
    """The value of one decoded object of `source`."""
    try:
        return SHAPES[source].value(wire)
    except ValueError as error:
        meta = wire.metadata
        return Unusable(source, "/".join(filter(None, (meta.namespace, meta.name))), str(error))
