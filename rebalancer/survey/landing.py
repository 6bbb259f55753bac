"""Nodes outside its pool on which the scheduler may put a target's pods."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from rebalancer.domain.cluster import Taint
from rebalancer.domain.policy import Pool
from rebalancer.domain.pool_view import NodeView
from rebalancer.domain.tolerated import tolerated
from rebalancer.ingest.objects.pods import PodTemplateWire, placement_of, tolerations_of
from rebalancer.planning.facts.landing import may_land
from rebalancer.planning.facts.scene import PodPlacement
from rebalancer.survey.accelerators import devices
from rebalancer.survey.case import Case, TargetHome
from rebalancer.survey.first_policy.places import lasting
from rebalancer.survey.objects import Object
from rebalancer.survey.parts import items, mapped, part, text
from rebalancer.survey.templates import Template

SOMEWHERE: Final = "another pool's nodes"


class _GpuNode(NamedTuple):
    """A node, or, for a pool of the policy without one, the node that it would have; the taints of that are unknown."""

    words: str
    view: NodeView
    resources: frozenset[str]


class Elsewhere:
    """Nodes outside a target's pool where its pods could land. Built once for a case, so that nodes are read once."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._seen = [_seen(node) for node in case.survey.of("Node", "")]
        self._unseen = [each for each in map(self._of_pool, case.policy.pools if case.policy else ()) if each]

    def of(self, template: Template, home: TargetHome) -> str:
        """A node outside its pool where a pod may land, in words; "" where the scheduler puts it on none."""
        if not any(home.pool.resource in node.resources for node in self._seen):
            return SOMEWHERE  # no node was seen that could tell
        try:
            landing = self._landing(template, home.pool.resource)
        except msgspec.ValidationError:
            return SOMEWHERE
        ours = home.pool.node_labels.items()
        return next(
            (
                node.words
                for node in (*self._seen, *self._unseen)
                if home.pool.resource in node.resources
                and not ours <= node.view.labels.items()
                and may_land(landing, node.view)
            ),
            "",
        )

    def _landing(self, template: Template, resource: str) -> PodPlacement:
        """The template as the scheduler reads it, with the tolerations that admission gave to the pods that run.

        Raises msgspec.ValidationError.
        """
        wire = _wire(template.spec)
        standing = (tolerations_of(_wire(part(pod, "spec")).spec) for pod in self._case.pods_of(template.owner))
        tolerations = tolerated(tolerations_of(wire.spec), standing, resource)
        return PodPlacement("", tuple((wire.spec.node_selector or {}).items()), tolerations, placement_of(wire).terms)

    def _of_pool(self, pool: Pool) -> _GpuNode | None:
        """The node that a pool without nodes would have, by the labels of the policy; None where it has one."""
        if any(pool.node_labels.items() <= node.view.labels.items() for node in self._seen):
            return None
        view = NodeView(pool.name, 0, ready=True, schedulable=True, labels=pool.node_labels)
        return _GpuNode(f"nodes of pool {pool.name}", view, frozenset({pool.resource}))


def _seen(node: Object) -> _GpuNode:
    name, labels = text(node, "metadata", "name"), mapped(node, "metadata", "labels")
    view = NodeView(name, 0, ready=True, schedulable=True, labels=labels, taints=lasting(tuple(_taints(node))))
    offered = frozenset(key for key, count in devices(part(node, "status", "allocatable")).items() if count > 0)
    return _GpuNode(f"{SOMEWHERE}, such as {name}", view, offered)


def _taints(node: Object) -> Iterator[Taint]:
    return (
        Taint(text(each, "key"), text(each, "value"), text(each, "effect")) for each in items(node, "spec", "taints")
    )


def _wire(spec: Object) -> PodTemplateWire:
    return msgspec.convert({"spec": spec}, PodTemplateWire)
