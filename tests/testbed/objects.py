"""The Kubernetes objects that tests need, as dicts: GPU nodes, models, ScaledObjects, NodePools.

Names of zones, products and images are made up; label and annotation keys are the real ones.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
# On nodes, NodePools and what they launch: the namespace of the test that made them.
TEST_LABEL = "rebalancer.test/namespace"
ZONES = ("zone-a", "zone-b")
# kwok plays the kubelet of nodes with this annotation only.
FAKE_NODE = "kwok.x-k8s.io/node"
# How long a pod loads before it is Ready, and how long it takes to end after its deletion.
LOAD_DELAY = "pod-ready.stage.kwok.x-k8s.io/delay"
END_DELAY = "pod-delete.stage.kwok.x-k8s.io/delay"
# How long a Job's pod works before it has succeeded.
COMPLETE_DELAY = "pod-complete.stage.kwok.x-k8s.io/delay"


def gpu_node(
    name: str,
    gpus: int = 1,
    *,
    labels: Mapping[str, str] | None = None,
    capacity_type: str = "on-demand",
    zone: str = ZONES[0],
    instance_id: str | None = None,
    cpu: int = 32,
) -> Json:
    """A node with GPUs that kwok makes Ready; with `instance_id` (`i-0abc...`) its providerID is shaped as on AWS."""
    capacity = {"cpu": str(cpu), "memory": "256Gi", "pods": "110", GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {FAKE_NODE: "fake"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": zone,
                "karpenter.sh/capacity-type": capacity_type,
                **(labels or {}),
            },
        },
        "spec": {"providerID": f"aws:///{zone}/{instance_id}"} if instance_id else {},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def deployment(
    name: str,
    namespace: str,
    replicas: int = 1,
    *,
    gpus: int = 1,
    node_labels: Mapping[str, str] | None = None,
    load_seconds: float = 0.0,
    end_seconds: float = 0.0,
    grace_seconds: int = 30,
    labels: Mapping[str, str] | None = None,
) -> Json:
    """A served model: pods labelled `app: <name>` that ask for `gpus` GPUs each.

    A pod is Ready `load_seconds` after it was placed, and gone `end_seconds` after its deletion.
    """
    selector = {"app": name}
    container = {"name": "model", "image": "model:test", "resources": {"limits": {GPU: str(gpus)}}}
    delays = {LOAD_DELAY: f"{load_seconds:g}s", END_DELAY: f"{end_seconds:g}s"}
    pod = {
        "metadata": {"labels": {**selector, **(labels or {})}, "annotations": delays},
        "spec": {
            "containers": [container],
            "nodeSelector": dict(node_labels or {}),
            "terminationGracePeriodSeconds": grace_seconds,
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": {**selector, **(labels or {})}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": selector}, "template": pod},
    }


def stateful_set(name: str, namespace: str, replicas: int = 1, **like: Any) -> Json:  # noqa: ANN401  as of `deployment`
    """As `deployment`, with numbered pods that are all made at once."""
    made = deployment(name, namespace, replicas, **like)
    spec = {**made["spec"], "serviceName": name, "podManagementPolicy": "Parallel"}
    return {**made, "kind": "StatefulSet", "spec": spec}


def leader_worker_set(name: str, namespace: str, groups: int = 1, *, pods: int = 2, **like: Any) -> Json:  # noqa: ANN401  as of `deployment`
    """As `deployment`: each replica is a group of `pods` pods, of which the first leads."""
    made = deployment(name, namespace, groups, **like)
    template = {"size": pods, "workerTemplate": made["spec"]["template"]}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": made["metadata"],
        "spec": {"replicas": groups, "leaderWorkerTemplate": template},
    }


def scaled_object(
    name: str, namespace: str, minimum: int, maximum: int, triggers: Iterable[Json], **spec: object
) -> Json:
    """A ScaledObject of the Deployment of the same name; `spec` adds fields (`pollingInterval=5`, ...)."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"name": name},
            "minReplicaCount": minimum,
            "maxReplicaCount": maximum,
            "triggers": list(triggers),
            **spec,
        },
    }


def hpa(name: str, namespace: str, minimum: int, maximum: int) -> Json:
    """An HPA of the Deployment of the same name. Nobody serves its metric: only its bounds move the replicas."""
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": minimum,
            "maxReplicas": maximum,
            "metrics": [{"type": "Resource", "resource": resource}],
        },
    }


def metrics_api_trigger(url: str, value_location: str, target: str) -> Json:
    """A trigger that asks an HTTP server (a test's own) for a number."""
    metadata = {"url": url, "valueLocation": value_location, "targetValue": target}
    return {"type": "metrics-api", "metadata": metadata}


def node_class(name: str = "default", *, registration_seconds: float = 0.0) -> Json:
    """Karpenter's node class; a node joins `registration_seconds` after its launch (3600: it never comes)."""
    return {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": name},
        "spec": {"nodeRegistrationDelay": f"{registration_seconds:g}s"},
    }


def node_pool(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    capacity_types: Iterable[str] = ("on-demand",),
    instance_types: Iterable[str] = (),
    gpu_limit: int | None = None,
    node_class_name: str = "default",
    consolidate_after: str = "Never",
) -> Json:
    """A NodePool that carries `labels`, as do its nodes; without `instance_types` it takes any.

    To have no capacity for it, name instance types that do not exist: Karpenter then launches nothing.
    """
    requirements: list[Json] = [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": list(capacity_types)}]
    if types := list(instance_types):
        requirements.append({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types})
    class_ref = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": node_class_name}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {
            "limits": {} if gpu_limit is None else {GPU: str(gpu_limit)},
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": consolidate_after},
            "template": {
                "metadata": {"labels": dict(labels or {})},
                "spec": {"nodeClassRef": class_ref, "requirements": requirements, "expireAfter": "Never"},
            },
        },
    }


def instance_type(
    name: str,
    gpus: int,
    *,
    prices: Mapping[str, float],
    zones: Iterable[str] = ZONES,
    cpu: int = 32,
    memory: str = "256Gi",
) -> Json:
    """An entry of Karpenter's instance-type file; `prices` per hour by capacity type.

    A capacity type without a price is not to be had. (The file's own `Available` is of no use: the
    provider sets it for every offering.)
    """
    zones = list(zones)
    offerings = [
        {"Price": price, "Available": True, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
        ]}
        for capacity_type, price in prices.items() for zone in zones
    ]  # fmt: skip
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": str(cpu), "memory": memory, "pods": "110", GPU: str(gpus)},
        "offerings": offerings,
    }
