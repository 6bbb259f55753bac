"""The objects that the tests of the embedded API are about, as small as they can be."""

from typing import Any


def pod(name: str, namespace: str = "chat", node: str = "", **labels: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "vllm", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {**spec, "nodeName": node} if node else spec,
    }


def deployment(name: str, replicas: int, namespace: str = "chat") -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {}},
        "status": {"replicas": replicas},
    }


def scaled_object(name: str, low: int, high: int, namespace: str = "chat") -> dict[str, Any]:
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"scaleTargetRef": {"name": name}, "minReplicaCount": low, "maxReplicaCount": high},
    }


def override(name: str, namespace: str = "chat") -> dict[str, Any]:
    return {
        "apiVersion": "rebalancer.io/v1alpha1",
        "kind": "Override",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "kind": "pin",
            "target": {"model": "llama"},
            "value": 3,
            "reason": "launch day",
            "expiresAt": "2036-01-01T00:00:00Z",
            "actor": "alice",
        },
    }
