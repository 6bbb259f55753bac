"""Nodes, and Karpenter's NodePools and NodeClaims."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec
from msgspec import Struct

from rebalancer.domain.cluster import (
    DisruptionBudget,
    Node,
    NodeClaim,
    NodeCondition,
    NodePool,
    SavedNodePool,
    Taint,
)
from rebalancer.domain.gpu_shapes import REGISTERED_BY
from rebalancer.domain.quantities import Quantities
from rebalancer.ingest.objects.images import full_name
from rebalancer.ingest.objects.meta import (
    Annotated,
    Condition,
    condition,
    created_at,
    extended,
    instant,
    saved,
)

CORDONED_BY = "rebalancer.io/cordoned-by"
NODE_POOL_LABEL = "karpenter.sh/nodepool"
# Of every node, and no sign that it will go.
EVERYDAY_CONDITIONS = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
MAX_MESSAGE_CHARACTERS = 300


class _Taint(Struct, frozen=True, gc=False):
    key: str
    effect: str
    value: str = ""


class _NodeSpec(Struct, frozen=True, gc=False, rename={"provider_id": "providerID"}):
    provider_id: str = ""
    taints: tuple[_Taint, ...] | None = None
    unschedulable: bool = False


class _Image(Struct, frozen=True, gc=False):
    names: tuple[str, ...] | None = None


class _NodeStatus(Struct, frozen=True, gc=False):
    allocatable: Quantities | None = None
    images: tuple[_Image, ...] | None = None
    conditions: tuple[Condition, ...] | None = None


class NodeWire(Struct, frozen=True, gc=False):
    """`v1` Node, the part that matters."""

    metadata: Annotated
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


class _Saved(Struct, frozen=True, gc=False):
    """How the annotation spells `SavedNodePool`."""

    limits: Quantities | None = None
    budgets: tuple[DisruptionBudget, ...] | None = None
    by: str = ""


class _Disruption(Struct, frozen=True, gc=False):
    budgets: tuple[DisruptionBudget, ...] | None = None


class _NodePoolSpec(Struct, frozen=True, gc=False):
    limits: Quantities | None = None
    weight: int | None = None
    replicas: int | None = None
    disruption: _Disruption = _Disruption()


class _NodePoolStatus(Struct, frozen=True, gc=False):
    resources: Quantities | None = None
    conditions: tuple[Condition, ...] | None = None


class NodePoolWire(Struct, frozen=True, gc=False):
    """`karpenter.sh/v1` NodePool, the part that matters."""

    metadata: Annotated
    spec: _NodePoolSpec = _NodePoolSpec()
    status: _NodePoolStatus = _NodePoolStatus()


class _Requests(Struct, frozen=True, gc=False):
    requests: Quantities | None = None


class _NodeClaimSpec(Struct, frozen=True, gc=False):
    resources: _Requests = _Requests()


class _NodeClaimStatus(Struct, frozen=True, gc=False, rename={"node_name": "nodeName", "provider_id": "providerID"}):
    node_name: str = ""
    provider_id: str = ""
    allocatable: Quantities | None = None
    capacity: Quantities | None = None
    conditions: tuple[Condition, ...] | None = None


class NodeClaimWire(Struct, frozen=True, gc=False):
    """`karpenter.sh/v1` NodeClaim, the part that matters."""

    metadata: Annotated
    spec: _NodeClaimSpec = _NodeClaimSpec()
    status: _NodeClaimStatus = _NodeClaimStatus()


def node(wire: NodeWire) -> Node:
    """Raises ValueError."""
    meta, spec, status = wire.metadata, wire.spec, wire.status
    ready = condition(status.conditions, "Ready")
    return Node(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        provider_id=spec.provider_id,
        labels=meta.labels or {},
        taints=tuple(Taint(one.key, one.value, one.effect) for one in spec.taints or ()),
        allocatable=extended(status.allocatable),
        ready=ready is not None and ready.status == "True",
        ready_changed_at=None if ready is None else instant(ready.last_transition_time),
        unschedulable=spec.unschedulable,
        deleting=meta.deletion_timestamp is not None,
        conditions=tuple(_condition(one) for one in status.conditions or () if not _everyday(one)),
        created_at=instant(meta.creation_timestamp),
        images=_shared(tuple(sorted(full_name(name) for one in status.images or () for name in one.names or ()))),
        registered=_registered(meta.annotations or {}),
        cordoned_by=(meta.annotations or {}).get(CORDONED_BY, ""),
    )


@lru_cache(maxsize=1024)
def _shared(images: tuple[str, ...]) -> tuple[str, ...]:
    """Nodes that run the same share one value."""
    return images


def _registered(annotations: Mapping[str, str]) -> dict[str, int]:
    """Cards by who sells them in parts. They are listed as `ID,...:ID,...:`, in newer releases as JSON."""
    return {who: _cards(annotations[key]) for key, who in REGISTERED_BY.items() if key in annotations}


def _cards(text: str) -> int:
    try:
        return len(msgspec.json.decode(text, type=list[msgspec.Raw]))
    except ValueError:
        return sum(bool(card.strip()) for card in text.split(":"))


def _everyday(wire: Condition) -> bool:
    return wire.type in EVERYDAY_CONDITIONS or (wire.type, wire.status) == ("Ready", "True")


def _condition(wire: Condition) -> NodeCondition:
    """Raises ValueError."""
    message = ": ".join(filter(None, (wire.reason, wire.message)))[:MAX_MESSAGE_CHARACTERS]
    return NodeCondition(wire.type, wire.status, message, instant(wire.last_transition_time))


def node_pool(wire: NodePoolWire) -> NodePool:
    """Raises ValueError."""
    meta, spec = wire.metadata, wire.spec
    ready = condition(wire.status.conditions, "Ready")
    return NodePool(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        limits=extended(spec.limits),
        used=extended(wire.status.resources),
        weight=spec.weight or 0,
        budgets=spec.disruption.budgets,
        ready=ready is None or ready.status == "True",
        saved=_saved(meta),
        fixed=spec.replicas,
    )


def _saved(meta: Annotated) -> SavedNodePool | None:
    saved_keys = saved(meta, _Saved)
    if saved_keys is None:
        return None
    limits = None if saved_keys.limits is None else {name: str(number) for name, number in saved_keys.limits.items()}
    return SavedNodePool(limits, saved_keys.budgets, saved_keys.by)


def node_claim(wire: NodeClaimWire) -> NodeClaim:
    """Raises ValueError."""
    meta, status = wire.metadata, wire.status
    initialized = condition(status.conditions, "Initialized")
    disrupted = condition(status.conditions, "DisruptionReason")
    return NodeClaim(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        node_pool=(meta.labels or {}).get(NODE_POOL_LABEL, ""),
        # What the machine brings, as soon as that is known; until then what was asked of it.
        gpus=extended(status.allocatable) or extended(status.capacity) or extended(wire.spec.resources.requests),
        node=status.node_name or None,
        provider_id=status.provider_id,
        created_at=created_at(meta),
        initialized=initialized is not None and initialized.status == "True",
        failed=_failure(status.conditions or ()),
        deleting_at=instant(meta.deletion_timestamp),
        disruption_reason=disrupted.reason if disrupted is not None and disrupted.status == "True" else None,
    )


def _failure(conditions: Iterable[Condition]) -> str | None:
    """Why the machine cannot be had, in Karpenter's words; None while it still may come."""
    for one in conditions:
        unlaunched = one.type == "Launched" and one.status == "False"
        no_capacity = "InsufficientCapacity" in f"{one.type} {one.reason}" and one.type != "Launched"
        if unlaunched or (no_capacity and one.status == "True"):
            return one.message or one.reason or one.type
    return None
