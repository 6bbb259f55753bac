"""Manifests in which no trap is, to be bent by tests: a model on one GPU under KEDA, and what stands around it."""

from typing import Any

from tests.builders import NAMESPACE

Manifest = dict[str, Any]

METADATA = {"query": "sum(vllm:num_requests_running)", "threshold": "4", "ignoreNullValues": "false"}
PROMETHEUS = {"type": "prometheus", "metadata": METADATA}
NODE_CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}


def a_manifest(api_version: str, kind: str, name: str, spec: Manifest | None = None, **meta: object) -> Manifest:
    metadata = {"namespace": NAMESPACE, "name": name, **meta}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec or {}}


def a_scaled_object(
    *triggers: Manifest, name: str = "b", annotations: Manifest | None = None, **spec: object
) -> Manifest:
    """Of Deployment b, between 1 and 8; a `spec` field of None is left out."""
    told: Manifest = {"scaleTargetRef": {"name": "b"}, "minReplicaCount": 1, "maxReplicaCount": 8, **spec}
    told = {key: each for key, each in told.items() if each is not None}
    told["triggers"] = list(triggers) or [PROMETHEUS]
    return a_manifest("keda.sh/v1alpha1", "ScaledObject", name, told, annotations=annotations or {})


def a_trigger(**metadata: str) -> Manifest:
    """Prometheus, with what is given; a field of `metadata` as in YAML."""
    return {"type": "prometheus", "metadata": METADATA | metadata}


def an_hpa(name: str = "b", target: str = "b", **meta: object) -> Manifest:
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}, "maxReplicas": 4}
    return a_manifest("autoscaling/v2", "HorizontalPodAutoscaler", name, spec, **meta)


def a_deployment(
    name: str = "b",
    replicas: int = 2,
    gpus: int = 1,
    container: Manifest | None = None,
    annotations: Manifest | None = None,
    pod: Manifest | None = None,
) -> Manifest:
    """Pods labelled `app: NAME` with `gpus` GPUs each, bound to the nodes of pool a100; `pod` goes into their spec."""
    count = {"nvidia.com/gpu": str(gpus)}
    served = {"name": "vllm", "image": "vllm", "resources": {"requests": count, "limits": count}} | (container or {})
    spec = {"nodeSelector": {"pool": "a100"}, "containers": [served]} | (pod or {})
    template = {"metadata": {"labels": {"app": name}, "annotations": annotations or {}}, "spec": spec}
    told = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return a_manifest("apps/v1", "Deployment", name, told)


def a_budget(name: str = "b", app: str = "b", **spec: object) -> Manifest:
    told = {"selector": {"matchLabels": {"app": app}}, **(spec or {"maxUnavailable": 1})}
    return a_manifest("policy/v1", "PodDisruptionBudget", name, told)


def a_quota(gpus: int) -> Manifest:
    return a_manifest("v1", "ResourceQuota", "gpus", {"hard": {"requests.nvidia.com/gpu": str(gpus), "pods": "3"}})


def a_node_pool(
    requirements: dict[str, list[str]] | None = None,
    template: Manifest | None = None,
    labels: Manifest | None = None,
    **disruption: object,
) -> Manifest:
    """NodePool `spot`, though of g6 on-demand, that consolidates after an hour; a requirement of [] is left out."""
    asked = {"karpenter.k8s.aws/instance-family": ["g6"], "karpenter.sh/capacity-type": ["on-demand"]} | (
        requirements or {}
    )
    listed = [{"key": key, "operator": "In", "values": values} for key, values in asked.items() if values]
    spec = {
        "template": {
            "metadata": {"labels": labels or {}},
            "spec": {"nodeClassRef": NODE_CLASS, "requirements": listed, **(template or {})},
        },
        "disruption": {"consolidateAfter": "1h"} | disruption,
    }
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "spot"}, "spec": spec}


def a_gpu_node(labels: dict[str, str] | None = None, allocatable: int = 8) -> Manifest:
    """Node n1."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.present": "true"} | (labels or {})},
        "status": {"allocatable": {"cpu": "8"} | ({"nvidia.com/gpu": str(allocatable)} if allocatable else {})},
    }


def a_running_pod(node: str = "n1", name: str = "b-1") -> Manifest:
    """A pod of Deployment b."""
    owner = {"kind": "ReplicaSet", "name": "b-7f", "controller": True}
    spec = a_deployment()["spec"]["template"]["spec"] | {"nodeName": node}
    pod = a_manifest("v1", "Pod", name, spec, labels={"app": "b"}, ownerReferences=[owner])
    return pod | {"status": {"phase": "Running"}}


def a_rule(expr: str, alert: str = "GpuMemoryHigh") -> Manifest:
    groups = [{"name": "gpu", "rules": [{"alert": alert, "expr": expr}]}]
    return a_manifest("monitoring.coreos.com/v1", "PrometheusRule", "gpu", {"groups": groups})


def an_exporter(
    env: dict[str, str] | None = None, args: list[str] | None = None, image: str = "dcgm-exporter:4"
) -> Manifest:
    listed = [{"name": key, "value": told} for key, told in (env or {}).items()]
    container = {"name": "exporter", "image": image, "env": listed, "args": args or []}
    template = {"metadata": {"labels": {"app": "dcgm"}}, "spec": {"containers": [container]}}
    told = {"selector": {"matchLabels": {"app": "dcgm"}}, "template": template}
    return a_manifest("apps/v1", "DaemonSet", "dcgm", told)


def a_pod_monitor(interval: str, app: str = "b", **spec: object) -> Manifest:
    told = {"selector": {"matchLabels": {"app": app}}, "podMetricsEndpoints": [{"interval": interval}], **spec}
    return a_manifest("monitoring.coreos.com/v1", "PodMonitor", "models", told)


def a_service_monitor(interval: str) -> list[Manifest]:
    """With the Service that it is about, in front of Deployment b."""
    service = a_manifest("v1", "Service", "b", {"selector": {"app": "b"}}, labels={"of": "b"})
    told = {"selector": {"matchLabels": {"of": "b"}}, "endpoints": [{"interval": interval}]}
    return [service, a_manifest("monitoring.coreos.com/v1", "ServiceMonitor", "models", told)]
