"""Nodes with GPUs, and the ones that a NodePool without nodes would bring."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rebalancer.domain.cluster import Node, NodePool, Taint
from rebalancer.survey.first_policy.labels import CAPACITIES, PRODUCTS
from rebalancer.survey.first_policy.placement import Place, lasting
from rebalancer.survey.first_policy.things import Things, gpus, items, mapping
from rebalancer.survey.objects import Object

NODE_POOL: Final = "karpenter.sh/nodepool"
_COUNTS: Final = ("karpenter.k8s.aws/instance-gpu-count",)
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_NVIDIA: Final = "nvidia.com/gpu"

_CAPACITY: Final = {
    "spot": "spot", "preemptible": "spot", "on-demand": "on-demand", "on_demand": "on-demand", "normal": "on-demand",
    "ondemand": "on-demand", "regular": "on-demand", "standard": "on-demand",
    "reserved": "reserved", "capacity_block": "reserved",
}  # fmt: skip


def places_of(things: Things) -> tuple[Place, ...]:
    """Every node that offers GPUs, then one place for each NodePool of GPUs that has no node now."""
    nodes = tuple(
        Place(node.name, node.labels, lasting(node.taints), gpus(node.allocatable), _node_pool(node))
        for node in things.nodes
        if gpus(node.allocatable)
    )
    inhabited = {place.node_pool for place in nodes}
    coming = (_coming(node_pool, raw) for node_pool, raw in things.node_pools if node_pool.name not in inhabited)
    return (*nodes, *(place for place in coming if place is not None))


def _node_pool(node: Node) -> str:
    """The NodePool behind it, "" without one: a label can say what no object is called."""
    name = node.node_pool or ""
    return name if _NAME.fullmatch(name) else ""


def capacity_of(labels: Mapping[str, str]) -> tuple[str, str]:
    """on-demand, reserved or spot, and the label that says so ("" where none does: on-demand is a guess then)."""
    for key in CAPACITIES:
        if (value := labels.get(key, "").lower()) and value != "false":
            found = "spot" if value == "true" else _CAPACITY.get(value)
            if found:
                return found, key
    return "on-demand", ""


def product_of(labels: Mapping[str, str]) -> str:
    """What the GPUs are, "" where no label says."""
    return next((labels[key] for key in PRODUCTS if labels.get(key)), "")


def resource_of(place: Place, wanted: Counter[str]) -> str:
    """What counts as one GPU there: of several resources the one that workloads ask for most, then the most devices."""
    return max(sorted(place.gpus), key=lambda name: (wanted[name], place.gpus[name]))


def _coming(node_pool: NodePool, raw: Object) -> Place | None:
    """What it would bring, as far as its template says; None for a NodePool without GPUs."""
    template = mapping(mapping(raw.get("spec")).get("template"))
    required = list(_required(template))
    labels = {key: values[0] for key, operator, values in required if operator == "In" and len(values) == 1}
    labels |= {str(key): str(value) for key, value in mapping(mapping(template.get("metadata")).get("labels")).items()}
    count = next((int(labels[key]) for key in _COUNTS if labels.get(key, "").isdecimal()), 0)
    resource = next(iter(sorted(gpus(node_pool.limits))), "")
    if not resource and not count and not any("gpu" in key for key, _, _ in required):
        return None
    taints = tuple(_taints(template))
    return Place(
        "", {**labels, NODE_POOL: node_pool.name}, lasting(taints), {resource or _NVIDIA: count or 1}, node_pool.name
    )


def _required(template: Mapping[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    for each in items(mapping(template.get("spec")).get("requirements")):
        values = each.get("values")
        texts = [str(one) for one in values] if isinstance(values, list) else []
        yield str(each.get("key")), str(each.get("operator")), texts


def _taints(template: Mapping[str, Any]) -> Iterator[Taint]:
    for each in items(mapping(template.get("spec")).get("taints")):
        yield Taint(str(each.get("key", "")), str(each.get("value", "")), str(each.get("effect", "")))
