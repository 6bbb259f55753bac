"""Finds the objects that carry an installation's annotation, and whether the policy in force names them."""

from collections.abc import Iterator

from rebalancer.domain.autoscalers import Hpa, Originals, ScaledObject
from rebalancer.domain.cluster import NodePool, SavedNodePool
from rebalancer.domain.pinned import KINDS, Pinned, state_of
from rebalancer.domain.policy import Policy
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state.objects import Objects

Carrier = ScaledObject | Hpa | NodePool


def pinned_objects(objects: Objects, policy: Policy, installation: str) -> tuple[Pinned, ...]:
    """The objects that concern `installation`, in order."""
    pins = (_pinned(obj, saved, installation, named=named) for obj, saved, named in _saved(objects, policy))
    return tuple(sorted(each for each in pins if each is not None))


def _saved(objects: Objects, policy: Policy) -> Iterator[tuple[Carrier, Originals | SavedNodePool, bool]]:
    """Each object that carries the annotation, and whether `policy` wants it written; KEDA's copy on its HPA is none.

    Bounds of ours that no plan moves any more would pin an autoscaler that owns its target (actuation scale, which is
    refused then) or is to follow our answer (metric): it has its own back.
    """
    written = (model for model in policy.models if model.actuation == "bounds")
    targets = {WorkloadRef(model.namespace, one.kind, one.name) for model in written for one in model.targets}
    node_pools = {name for pool in policy.pools for name in pool.node_pools}
    for scaled in objects.all(ScaledObject):
        if scaled.originals is not None:
            yield scaled, scaled.originals, scaled.target in targets
    for hpa in objects.all(Hpa):
        if hpa.originals is not None and hpa.owner_scaled_object is None:
            yield hpa, hpa.originals, hpa.target in targets
    for node_pool in objects.all(NodePool):
        if node_pool.saved is not None:
            yield node_pool, node_pool.saved, node_pool.name in node_pools


def _pinned(obj: Carrier, saved: Originals | SavedNodePool, installation: str, *, named: bool) -> Pinned | None:
    state = state_of(saved.by, installation, named_by_policy=named)
    if state is None:
        return None
    return Pinned(KINDS[type(obj)], getattr(obj, "namespace", ""), obj.name, obj.uid, saved.by, state)
