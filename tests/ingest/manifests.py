"""Kubernetes objects as the API server sends them, with the fields that nobody here needs."""

from typing import Any

POD_UID = "5f0c6a3e-7a5f-4b0e-9d61-7f6b0f5b8a10"


def meta(name: str, namespace: str = "serving", **more: object) -> dict[str, Any]:
    """Metadata; `more` in camelCase."""
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "1001",
        "creationTimestamp": "2027-01-15T07:00:00Z",
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    } | more


def container(gpus: int | str | None = 1, resource: str = "nvidia.com/gpu", **more: object) -> dict[str, Any]:
    """A container; without GPUs it still asks for CPU."""
    asked = {"cpu": "8", "memory": "64Gi"} | ({} if gpus is None else {resource: str(gpus)})
    return {"name": "vllm", "image": "vllm:1", "resources": {"limits": asked, "requests": asked}} | more


def pod(*containers: dict[str, Any], spec: dict[str, Any] | None = None, **metadata: object) -> dict[str, Any]:
    """A Ready pod of Deployment `llama`."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "llama-7d9f8b6c5d", "uid": "u", "controller": True}
    labels = {"app": "llama", "pod-template-hash": "7d9f8b6c5d"}
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2027-01-15T07:00:01Z"},
        {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": "2027-01-15T07:02:00Z"},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta("llama-7d9f8b6c5d-x1", labels=labels, ownerReferences=[owner]) | metadata,
        "spec": {"containers": list(containers) or [container()], "nodeName": "n1"} | (spec or {}),
        "status": {"phase": "Running", "conditions": conditions, "podIP": "10.0.0.1"},
    }


def deployment(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> dict[str, Any]:
    """Deployment `llama` at rest with 3 replicas."""
    template = {"metadata": {"labels": {"app": "llama"}}, "spec": {"containers": [container()]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta("llama", generation=4),
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "llama"}}, "template": template} | (spec or {}),
        "status": {"observedGeneration": 4, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3} | (status or {}),
    }


def node(
    spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: object
) -> dict[str, Any]:
    """A Ready node with 8 GPUs."""
    conditions = [
        {"type": "MemoryPressure", "status": "False", "lastTransitionTime": "2027-01-15T06:00:00Z"},
        {"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T06:30:00Z", "reason": "KubeletReady"},
    ]
    resources = {"cpu": "95", "memory": "1Ti", "pods": "110", "hugepages-2Mi": "0", "nvidia.com/gpu": "8"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta("n1", "", labels={"gpu": "a100"}) | metadata,
        "spec": {"providerID": "aws:///us-east-1b/i-0b662ef9931388ba0"} | (spec or {}),
        "status": {"allocatable": resources, "capacity": resources, "conditions": conditions} | (status or {}),
    }


def hpa(spec: dict[str, Any] | None = None, **metadata: object) -> dict[str, Any]:
    """An HPA of Deployment `llama`, 2 to 5."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama"}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": meta("llama") | metadata,
        "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 5, "metrics": []} | (spec or {}),
        "status": {"currentReplicas": 3, "desiredReplicas": 4, "conditions": []},
    }


def scaled_object(spec: dict[str, Any] | None = None, **metadata: object) -> dict[str, Any]:
    """A ScaledObject of Deployment `llama` as KEDA shows it once it has made its HPA."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": meta("llama") | metadata,
        "spec": {"scaleTargetRef": {"name": "llama"}, "triggers": [{"type": "cron"}]} | (spec or {}),
        "status": {"hpaName": "keda-hpa-llama", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod_autoscaler(spec: dict[str, Any] | None = None, **metadata: object) -> dict[str, Any]:
    """AIBrix's PodAutoscaler of Deployment `llama`."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama"}
    return {
        "apiVersion": "autoscaling.aibrix.ai/v1alpha1",
        "kind": "PodAutoscaler",
        "metadata": meta("llama") | metadata,
        "spec": {"scaleTargetRef": target, "scalingStrategy": "KPA", "minReplicas": 1, "maxReplicas": 8} | (spec or {}),
    }


def node_pool(spec: dict[str, Any] | None = None, **metadata: object) -> dict[str, Any]:
    """A NodePool limited to 16 GPUs of which 8 are used."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": meta("gpu-spot", "") | metadata,
        "spec": {"limits": {"cpu": "1000", "nvidia.com/gpu": 16}, "weight": 10, "template": {"spec": {}}}
        | (spec or {}),
        "status": {
            "resources": {"cpu": "96", "nodes": "1", "nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def node_claim(status: dict[str, Any] | None = None, **metadata: object) -> dict[str, Any]:
    """A NodeClaim that Karpenter has just made."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": meta("gpu-spot-x", "", labels={"karpenter.sh/nodepool": "gpu-spot"}) | metadata,
        "spec": {"resources": {"requests": {"cpu": "8", "nvidia.com/gpu": "4"}}},
        "status": status or {},
    }


def override(**spec: object) -> dict[str, Any]:
    """An Override; `spec` in camelCase, a field set to None is left out."""
    whole = {
        "kind": "pin",
        "target": {"model": "llama-70b"},
        "value": 3,
        "reason": "launch",
        "expiresAt": "2027-01-15T10:00:00Z",
        "actor": "ada@example.com",
    } | spec
    return {
        "apiVersion": "rebalancer.io/v1alpha1",
        "kind": "Override",
        "metadata": meta("o1"),
        "spec": {name: value for name, value in whole.items() if value is not None},
        "status": {"phase": "InForce", "message": "3 replicas"},
    }


def write_stop(spec: object = None) -> dict[str, Any]:
    """A WriteStop."""
    return {
        "apiVersion": "rebalancer.io/v1alpha1",
        "kind": "WriteStop",
        "metadata": meta("all", ""),
        "spec": {"reason": "incident 7", "actor": "ada@example.com"} if spec is None else spec,
    }
