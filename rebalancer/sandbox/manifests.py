"""The simulated cluster's things as Kubernetes objects: `whole` when they are new, `news` what changes afterwards.

`news` never holds what others write (a Deployment's replicas, a NodePool's limits, annotations): merged into the
object, it leaves that alone.
"""

from typing import NamedTuple

from rebalancer.sandbox.api import Obj
from rebalancer.sandbox.api.objects import merged, stamp
from rebalancer.sandbox.api.resources import DEPLOYMENTS, NODECLAIMS, NODEPOOLS, NODES, PODS, ServedResource
from rebalancer.world import Deployment, WorldNode, WorldNodeClaim, WorldNodePool, WorldPod
from rebalancer.world.cluster import template_hash

TERMINATION_FINALIZER = "karpenter.sh/termination"
NODE_POOL_LABEL = "karpenter.sh/nodepool"


class Manifest(NamedTuple):
    """One thing as an object: where it lives, what it is, and what of it changes.

    resource: the resource that the object is of.
    namespace: its namespace, "" where the resource has none.
    name: `metadata.name` of the object.
    fixed: the part of the object that is written when it is new and left alone afterwards.
    news: the part that is merged into the object whenever the thing has changed.
    """

    resource: ServedResource
    namespace: str
    name: str
    fixed: Obj
    news: Obj

    @property
    def whole(self) -> Obj:
        """The complete object."""
        return merged(self.fixed, self.news)


def manifest(thing: object) -> Manifest:
    """Raises TypeError for what is nothing of a cluster."""
    match thing:
        case WorldPod():
            return _pod(thing)
        case Deployment():
            return _deployment(thing)
        case WorldNode():
            return _node(thing)
        case WorldNodePool():
            return _node_pool(thing)
        case WorldNodeClaim():
            return _node_claim(thing)
        case _:
            raise TypeError(f"{thing!r} is nothing that a cluster is made of")


def namespace(name: str) -> Obj:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": "Active"}}


def _typed(resource: ServedResource, uid: str, name: str, created_at: float, **metadata: object) -> Obj:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "uid": uid, "creationTimestamp": stamp(created_at), **metadata},
    }


def _condition(kind: str, since: float | None) -> Obj:
    """True since an instant, or False while there is none."""
    if since is None:
        return {"type": kind, "status": "False"}
    return {"type": kind, "status": "True", "lastTransitionTime": stamp(since)}


def _pod_spec(owner: Deployment) -> Obj:
    devices = {owner.resource: str(owner.gpus)}
    return {
        "containers": [
            {
                "name": "server",
                "image": f"registry.invalid/{owner.model}:1",
                "resources": {"limits": devices, "requests": devices},
            }
        ],
        "nodeSelector": owner.node_selector,
        "tolerations": [
            {"key": one.key, "operator": one.operator, "value": one.value, "effect": one.effect}
            for one in owner.tolerations
        ],
        "terminationGracePeriodSeconds": owner.grace_seconds,
    }


def _pod(pod: WorldPod) -> Manifest:
    space, name = pod.key
    replica_set = f"{pod.owner.ref.name}-{template_hash(pod.owner)}"
    fixed = _typed(
        PODS,
        pod.uid,
        name,
        pod.created_at,
        namespace=space,
        labels={"app": pod.owner.ref.name, "pod-template-hash": template_hash(pod.owner)},
        ownerReferences=[
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": replica_set,
                "uid": pod.owner.uid,
                "controller": True,
            }
        ],
    )
    news: Obj = {
        "status": {
            "phase": "Pending" if pod.node is None else "Running",
            "conditions": [_condition("PodScheduled", pod.placed_at), _condition("Ready", pod.ready_at)],
        }
    }
    if pod.node is not None:
        news["spec"] = {"nodeName": pod.node.name}
    if pod.ends_at is not None:
        news["metadata"] = {
            "deletionTimestamp": stamp(pod.ends_at),
            "deletionGracePeriodSeconds": pod.owner.grace_seconds,
        }
    return Manifest(PODS, space, name, {**fixed, "spec": _pod_spec(pod.owner)}, news)


def _deployment(owner: Deployment) -> Manifest:
    space, name = owner.ref.namespace, owner.ref.name
    labels = {"app": name}
    spec = {
        "replicas": owner.replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": _pod_spec(owner)},
    }
    active, ready = len(owner.active), sum(1 for pod in owner.active if pod.ready)
    counts = {"replicas": active, "updatedReplicas": active, "readyReplicas": ready, "availableReplicas": ready}
    least = owner.replicas - owner.replicas // 4  # of the default maxUnavailable, 25 %, whole pods
    available = {"type": "Available", "status": "True" if ready >= least else "False"}
    fixed = _typed(DEPLOYMENTS, owner.uid, name, owner.created_at, namespace=space, labels=labels)
    return Manifest(
        DEPLOYMENTS, space, name, {**fixed, "spec": spec}, {"status": {**counts, "conditions": [available]}}
    )


def _node(node: WorldNode) -> Manifest:
    fixed = _typed(
        NODES, node.uid, node.name, node.created_at, labels={"kubernetes.io/hostname": node.name, **node.labels}
    )
    devices = {node.resource: str(node.gpus), "cpu": "96", "memory": "768Gi", "pods": "110"}
    taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints]
    news = {
        "spec": {"taints": taints},
        "status": {"capacity": devices, "allocatable": devices, "conditions": [_condition("Ready", node.created_at)]},
    }
    return Manifest(NODES, "", node.name, {**fixed, "spec": {"providerID": node.provider_id}}, news)


def _node_pool(pool: WorldNodePool) -> Manifest:
    spec = {
        "limits": {} if pool.limit is None else {pool.resource: str(pool.limit)},
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1h", "budgets": [{"nodes": "10%"}]},
        "template": {"metadata": {"labels": pool.labels}},
    }
    fixed = _typed(NODEPOOLS, pool.uid, pool.name, pool.created_at)
    news = {
        "status": {
            "resources": {pool.resource: str(pool.used)},
            "conditions": [_condition("Ready", pool.created_at)],
        }
    }
    return Manifest(NODEPOOLS, "", pool.name, {**fixed, "spec": spec}, news)


def _node_claim(claim: WorldNodeClaim) -> Manifest:
    pool = claim.node_pool
    fixed = _typed(
        NODECLAIMS,
        claim.uid,
        claim.name,
        claim.created_at,
        labels={NODE_POOL_LABEL: pool.name},
        finalizers=[TERMINATION_FINALIZER],
    )
    up = None if claim.node is None else claim.node.created_at
    news: Obj = {
        "status": {
            "nodeName": "" if claim.node is None else claim.node.name,
            "providerID": claim.provider_id,
            "capacity": {pool.resource: str(pool.gpus_per_node)},
            "conditions": [_condition("Launched", claim.created_at), _condition("Initialized", up)],
        }
    }
    if claim.deleted_at is not None:
        news["metadata"] = {"deletionTimestamp": stamp(claim.deleted_at)}
    devices = {pool.resource: str(pool.gpus_per_node)}
    return Manifest(NODECLAIMS, "", claim.name, {**fixed, "spec": {"resources": {"requests": devices}}}, news)
