"""Nodes with GPUs, and the ones that a NodePool without nodes would bring."""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from rebalancer.domain.cluster import Node, NodePool, Taint
from rebalancer.domain.gpu_shapes import SLICED_BY, Isolation, offer
from rebalancer.domain.pool_view import NodeView
from rebalancer.ingest.objects.nodes import NODE_POOL_LABEL
from rebalancer.planning.facts.landing import may_land
from rebalancer.survey.accelerators import gpus
from rebalancer.survey.first_policy.labels import CAPACITIES, PRODUCTS
from rebalancer.survey.first_policy.things import Things
from rebalancer.survey.first_policy.workloads import GpuWorkload
from rebalancer.survey.node_pools import brings_gpus
from rebalancer.survey.objects import Object
from rebalancer.survey.parts import items, mapped, part, requirements, text

_COUNTS: Final = ("karpenter.k8s.aws/instance-gpu-count",)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_NVIDIA: Final = "nvidia.com/gpu"
_ISOLATIONS: Final[tuple[Isolation, ...]] = ("hard", "soft")

_CAPACITY: Final = {
    "spot": "spot", "preemptible": "spot", "on-demand": "on-demand", "on_demand": "on-demand", "normal": "on-demand",
    "ondemand": "on-demand", "regular": "on-demand", "standard": "on-demand",
    "reserved": "reserved", "capacity_block": "reserved",
}  # fmt: skip


_PASSING: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "karpenter.sh/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)
"""Taints that come and go with a node's state: they say nothing about whom it is for."""


@dataclass(frozen=True)
class NodePlace:
    """A node, or a node that a NodePool without any would bring.

    name: of the node, "" for one that is yet to come.
    labels: labels that the node has, or would come with.
    taints: those that stay.
    gpus: accelerators by resource; of a node that is yet to come one where nobody tells.
    node_pool: Karpenter's NodePool behind it, "" without one.
    counted: whether a node or its NodePool tells how many GPUs it has.
    registered: cards by who sells them in parts, as `domain.cluster.Node` has them.
    """

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    gpus: dict[str, int]
    node_pool: str = ""
    counted: bool = True
    registered: Mapping[str, int] = field(default_factory=dict)

    def takes(self, workload: GpuWorkload) -> bool:
        """Whether the scheduler may put the workload's pods there, whatever is free."""
        return bool(self.gpus.get(workload.resource)) and may_land(workload.placement, self._node)

    @cached_property
    def _node(self) -> NodeView:
        return NodeView(self.name, 0, ready=True, schedulable=True, labels=self.labels, taints=self.taints)


class Counting(NamedTuple):
    """What a pool says so that the devices of a node count: its isolation, and the label that names their MIG profile.

    `sliced`: that label and its value, () where no nodeLabels have to name it. `refused`: why none of them counts all
    the same, "" where they do.
    """

    isolation: Isolation
    sliced: tuple[tuple[str, str], ...]
    refused: str


def counting_of(place: NodePlace, resource: str) -> Counting:
    """The least that a pool of `resource` has to say for the place."""
    refused: list[str] = []
    named = (((label, place.labels[label]),) for label in SLICED_BY if label in place.labels)
    for sliced in ((), *named):
        for isolation in _ISOLATIONS:
            offered = offer(resource, isolation, dict(sliced), place.labels, place.gpus, place.registered)
            if not offered.refused:
                return Counting(isolation, sliced, "")
            refused.append(offered.refused)
    return Counting("hard", (), refused[0])


def lasting(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """The taints that keep pods away as long as the node lives."""
    return tuple(one for one in taints if not one.key.startswith(_PASSING))


def places_of(things: Things, workloads: Sequence[GpuWorkload]) -> tuple[NodePlace, ...]:
    """Every node that offers GPUs, then one place for each NodePool of GPUs that has no node now."""
    nodes = tuple(
        NodePlace(
            node.name,
            node.labels,
            lasting(node.taints),
            gpus(node.allocatable),
            _node_pool(node),
            registered=node.registered,
        )
        for node in things.nodes
        if gpus(node.allocatable)
    )
    inhabited = {place.node_pool for place in nodes}
    coming = (
        _coming(node_pool, raw, workloads) for node_pool, raw in things.node_pools if node_pool.name not in inhabited
    )
    return (*nodes, *(place for place in coming if place is not None))


def _node_pool(node: Node) -> str:
    """The NodePool behind it, "" without one: a label can say what no object is called."""
    name = node.node_pool or ""
    return name if _NAME.fullmatch(name) else ""


def capacity_of(labels: Mapping[str, str]) -> tuple[str, str]:
    """on-demand, reserved or spot, and the label that says so ("" where none does: on-demand is a guess then)."""
    for key in CAPACITIES:
        if (value := labels.get(key, "").lower()) and value != "false":
            capacity = "spot" if value == "true" else _CAPACITY.get(value)
            if capacity:
                return capacity, key
    return "on-demand", ""


def product_of(labels: Mapping[str, str]) -> str:
    """What the GPUs are, "" where no label says."""
    return next((labels[key] for key in PRODUCTS if labels.get(key)), "")


def resources_of(place: NodePlace, wanted: Container[str]) -> list[str]:
    """What counts as one GPU there: each resource that workloads ask for, else the one with the most devices."""
    names = sorted(place.gpus)
    return [name for name in names if name in wanted] or [max(names, key=lambda name: place.gpus[name])]


def _coming(node_pool: NodePool, raw: Object, workloads: Sequence[GpuWorkload]) -> NodePlace | None:
    """What it would bring, as far as its template says; None for a NodePool without GPUs."""
    template = part(raw, "spec", "template")
    required = requirements(template, "spec", "requirements")
    labels = {one.key: one.values[0] for one in required if one.operator == "In" and len(one.values) == 1}
    labels |= mapped(template, "metadata", "labels")
    count = next((int(labels[key]) for key in _COUNTS if labels.get(key, "").isdecimal()), 0)
    by_name = [each.resource for each in workloads if _selects(each, node_pool.name)]
    if not count and not by_name and not brings_gpus(raw):
        return None
    resource = next(iter((*sorted(gpus(node_pool.limits)), *by_name)), _NVIDIA)
    taints = tuple(
        Taint(text(each, "key"), text(each, "value"), text(each, "effect"))
        for each in items(template, "spec", "taints")
    )
    return NodePlace(
        "",
        {**labels, NODE_POOL_LABEL: node_pool.name},
        lasting(taints),
        {resource: count or 1},
        node_pool.name,
        counted=bool(count),
    )


def _selects(workload: GpuWorkload, node_pool: str) -> bool:
    """Whether its pods ask for the nodes of a NodePool by its name."""
    required = (one for term in workload.placement.terms for one in term.labels if one.operator == "In")
    named = [*workload.placement.selector, *((one.key, value) for one in required for value in one.values)]
    return (NODE_POOL_LABEL, node_pool) in named
