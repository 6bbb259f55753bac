"""The gate's way into a simulated cluster: its API verbs, answered in memory at the world's `now`.

Preconditions hold as on a real server: a write names the revision it saw, another uid is another object. Nothing is
lost or late here unless `refuses` says so, and Kubernetes Events are taken and forgotten.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from rebalancer.act.deletion_cost import ANNOTATION as DELETION_COST
from rebalancer.act.drain import CORDONED_BY
from rebalancer.act.scaled_object import PAUSED
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.kube.errors import Conflict, Invalid, NotFound
from rebalancer.kube.reader import Listing
from rebalancer.kube.resources import (
    DEPLOYMENTS,
    HPAS,
    NODEPOOLS,
    NODES,
    PODS,
    SCALEDOBJECTS,
    WRITESTOPS,
    Object,
    Ref,
    Resource,
)
from rebalancer.kube.wire import RAW, T
from rebalancer.world.faults import CORDONED
from rebalancer.world.karpenter import WorldNodePool
from rebalancer.world.things import Deployment, WorldHpa, WorldNode, WorldScaledObject
from rebalancer.world.world import World


class WorldPort:
    """Implements `rebalancer.act.port.Port`.

    `refuses` is asked before every write; it raises a KubeError where a webhook or a server in trouble would.
    """

    def __init__(self, world: World, refuses: Callable[[Ref], None] = lambda _: None) -> None:
        self._world = world
        self._refuses = refuses

    async def get(self, ref: Ref) -> Object:
        """An HPA, a ScaledObject, a NodePool or a Node. Raises NotFound."""
        if ref.resource == NODES:
            return self._node(self._node_named(ref))
        return self._shown(self._thing(ref))

    async def get_scale(self, ref: Ref) -> Object:
        """The Scale of a Deployment. Raises NotFound."""
        return self._scale(self._deployment(ref))

    async def list(self, resource: Resource, namespace: str | None = None, *, into: type[T] = RAW) -> Listing[T]:
        """Targets and autoscalers of a namespace, and write stops, which nobody makes. Raises NotFound for others."""
        objects: list[Object] = []
        if resource in {HPAS, SCALEDOBJECTS}:
            things: Iterable[WorldHpa | WorldScaledObject] = (
                self._world.hpas.values() if resource == HPAS else self._world.scaled_objects.values()
            )
            objects = [self._shown(thing) for thing in things if namespace in {None, thing.namespace}]
        elif resource == DEPLOYMENTS:
            owners = self._world.deployments.values()
            objects = [self._counted(each) for each in owners if namespace in {None, each.ref.namespace}]
        elif resource != WRITESTOPS:
            raise NotFound(f"list {resource}: the simulated cluster has none")
        return Listing([msgspec.convert(each, into) for each in objects], str(self._world.now), [])

    async def create(self, resource: Resource, obj: Object) -> Object:  # noqa: ARG002  # of any kind
        """Take it and forget it."""
        return obj

    async def put_scale(self, ref: Ref, replicas: int, resource_version: str) -> Object:
        """Set a Deployment's replicas. Raises NotFound and Conflict."""
        deployment = self._deployment(ref)
        self._refuses(ref)
        self._at_revision(ref, deployment, resource_version)
        self._world.scale(deployment.ref, replicas)
        return self._scale(deployment)

    async def patch(self, ref: Ref, body: Any, *, resource_version: str | None = None) -> Object:  # noqa: ANN401  # JSON
        """Bounds of an autoscaler, a NodePool's limits and budgets, a pod's cost, a cordon. Raises KubeError."""
        self._refuses(ref)
        if ref.resource == PODS:
            return self._patch_pod(ref, body)
        if ref.resource == NODES:
            return self._patch_node(ref, body, resource_version)
        thing = self._thing(ref)
        if resource_version is not None:
            self._at_revision(ref, thing, resource_version)
        obj = _merged(self._shown(thing), body)
        spec, annotations = obj["spec"], obj["metadata"]["annotations"]
        if isinstance(thing, WorldHpa):
            self._world.set_bounds(thing, spec["minReplicas"], spec["maxReplicas"], annotations)
        elif isinstance(thing, WorldScaledObject):
            notes = {key: text for key, text in annotations.items() if key != PAUSED}
            self._world.set_bounds(thing, spec.get("minReplicaCount"), spec.get("maxReplicaCount"), notes)
        else:
            limit = (spec.get("limits") or {}).get(thing.resource)
            budgets = (spec.get("disruption") or {}).get("budgets")
            self._world.set_node_pool(thing, None if limit is None else int(limit), budgets, annotations)
        return self._shown(thing)

    async def patch_status(self, ref: Ref, body: Object, *, resource_version: str | None = None) -> Object:  # noqa: ARG002  # as the port has it
        """Raises NotFound: the simulated cluster has no overrides."""
        raise NotFound(f"{ref.path}: the simulated cluster has none")

    async def evict(self, pod: Ref, uid: str) -> None:
        """End that very pod; there are no disruption budgets but `refuses`. Raises NotFound and Conflict."""
        await self.delete(pod, uid=uid)

    async def delete(self, ref: Ref, *, uid: str | None = None, grace_seconds: int | None = None) -> None:
        """End a pod within that grace. Raises NotFound and Conflict."""
        self._refuses(ref)
        pod = self._world.pods.get((ref.namespace or "", ref.name)) if ref.resource == PODS else None
        if pod is None:
            raise NotFound(ref.path)
        if uid not in {None, pod.uid}:
            raise Conflict(f"{ref.path} is another pod now")
        self._world.delete_pod(ref.namespace or "", ref.name, grace_seconds)

    # --- what there is

    def _deployment(self, ref: Ref) -> Deployment:
        key = WorkloadRef(ref.namespace or "", DEPLOYMENTS.kind, ref.name)
        if ref.resource != DEPLOYMENTS or key not in self._world.deployments:
            raise NotFound(ref.path)
        return self._world.deployments[key]

    def _thing(self, ref: Ref) -> WorldHpa | WorldScaledObject | WorldNodePool:
        thing: WorldHpa | WorldScaledObject | WorldNodePool | None = None
        if ref.resource == HPAS:
            thing = self._world.hpas.get((ref.namespace or "", ref.name))
        elif ref.resource == SCALEDOBJECTS:
            thing = self._world.scaled_objects.get((ref.namespace or "", ref.name))
        elif ref.resource == NODEPOOLS:
            thing = self._world.node_pools.get(ref.name)
        if thing is None:
            raise NotFound(ref.path)
        return thing

    def _at_revision(self, ref: Ref, thing: object, resource_version: str) -> None:
        now = str(self._world.revision(thing))
        if now != resource_version:
            raise Conflict(f"{ref.path} is at {now}, not {resource_version}")

    def _node_named(self, ref: Ref) -> WorldNode:
        node = self._world.nodes.get(ref.name)
        if node is None or not node.listed:
            raise NotFound(ref.path)
        return node

    def _patch_node(self, ref: Ref, body: Object, resource_version: str | None) -> Object:
        node = self._node_named(ref)
        if resource_version is not None:
            self._at_revision(ref, node, resource_version)
        off = not body["spec"]["unschedulable"]
        self._world.faults.cordon(node, off=off, by=body["metadata"]["annotations"][CORDONED_BY] or "")
        return self._node(node)

    def _patch_pod(self, ref: Ref, body: Object) -> Object:
        pod = self._world.pods.get((ref.namespace or "", ref.name))
        if pod is None:
            raise NotFound(ref.path)
        if body["metadata"]["uid"] != pod.uid:
            raise Conflict(f"{ref.path} is another pod now")
        cost = body["metadata"]["annotations"][DELETION_COST]
        self._world.set_deletion_cost(ref.namespace or "", ref.name, None if cost is None else int(cost))
        return body

    # --- how it is shown

    def _scale(self, deployment: Deployment) -> Object:
        return {
            "metadata": self._metadata(deployment.ref.name, deployment.uid, deployment),
            "spec": {"replicas": deployment.replicas},
        }

    def _counted(self, deployment: Deployment) -> Object:
        """With its pods that are to stay, as a ReplicaSet counts them."""
        pods = sum(pod.deleted_at is None and not pod.failed for pod in deployment.pods.values())
        return self._scale(deployment) | {"status": {"replicas": pods}}

    def _shown(self, thing: WorldHpa | WorldScaledObject | WorldNodePool) -> Object:
        metadata = self._metadata(thing.name, thing.uid, thing)
        metadata["annotations"] = dict(thing.annotations)
        if isinstance(thing, WorldNodePool):
            return self._node_pool(thing, metadata)
        metadata["namespace"] = thing.namespace
        owned = {"kind": thing.target.kind, "name": thing.target.name}
        if isinstance(thing, WorldHpa):
            if thing.owner is not None:
                metadata["ownerReferences"] = [{"kind": "ScaledObject", "name": thing.owner}]
            return {
                "metadata": metadata,
                "spec": {"scaleTargetRef": owned, "minReplicas": thing.minimum, "maxReplicas": thing.maximum},
            }
        if thing.paused:
            metadata["annotations"][PAUSED] = "true"
        bounds = {"minReplicaCount": thing.minimum, "maxReplicaCount": thing.maximum}
        return {
            "metadata": metadata,
            "spec": {"scaleTargetRef": owned, **{key: value for key, value in bounds.items() if value is not None}},
        }

    def _node(self, node: WorldNode) -> Object:
        marks = {CORDONED_BY: node.cordoned_by} if node.cordoned_by else {}
        spec = {"unschedulable": True} if CORDONED in node.taints else {}
        return {"metadata": {**self._metadata(node.name, node.uid, node), "annotations": marks}, "spec": spec}

    def _node_pool(self, thing: WorldNodePool, metadata: Object) -> Object:
        spec: Object = {} if thing.limit is None else {"limits": {thing.resource: str(thing.limit)}}
        if thing.budgets is not None:
            spec["disruption"] = {"budgets": thing.budgets}
        return {"metadata": metadata, "spec": spec, "status": {"resources": {thing.resource: str(thing.used)}}}

    def _metadata(self, name: str, uid: str, thing: object) -> Object:
        return {"name": name, "uid": uid, "resourceVersion": str(self._world.revision(thing))}


def _merged(obj: Object, patch: Object) -> Object:
    """A JSON merge patch (RFC 7386): null removes a key, objects are merged, all else replaces."""
    if not isinstance(patch, dict):
        raise Invalid("a merge patch is an object")
    merged = dict(obj)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merged(merged.get(key) or {}, value)
        else:
            merged[key] = value
    return merged
