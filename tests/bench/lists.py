"""A cold start's lists: the bytes of 10,000 pods and 1,000 nodes to values of the domain."""

import json
from typing import Any

from rebalancer.domain.cluster import SOURCES, ClusterObject, Workload
from rebalancer.domain.events import ObjectsListed
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.objects import SHAPES, Unusable, value_of
from rebalancer.kube.wire import decode_list
from tests.bench.scale import REPLICAS
from tests.bench.timing import Times, measure

Json = dict[str, Any]

PODS, NODES = 10_000, 1_000
PADDING = {f"annotation.example.com/{number}": "x" * 60 for number in range(20)}  # about what real pods carry


def list_times(runs: int) -> Times:
    """Times of list bytes -> domain values, both lists."""
    bodies = {"pods": _pods(PODS), "nodes": _nodes()}

    def run(_: int) -> None:
        for source, body in bodies.items():
            _values(source, body)

    return measure(run, runs, warm_up=1)


def listed(models: int, at: float) -> list[ObjectsListed]:
    """What a start hears of Kubernetes: pods and nodes by way of their bytes, a Deployment per model, no others."""
    found: dict[str, tuple[ClusterObject, ...]] = {
        "pods": _values("pods", _pods(models * REPLICAS)),
        "nodes": _values("nodes", _nodes()),
        "deployments": tuple(_workload(f"m{number:04d}") for number in range(models)),
    }
    return [ObjectsListed(source, at, found.get(source, ())) for source in SOURCES]


def _values(source: str, body: bytes) -> tuple[ClusterObject, ...]:
    values = []
    for wire in decode_list(body, SHAPES[source].wire).items:
        value = value_of(source, wire)
        if isinstance(value, Unusable):
            raise TypeError(f"the canned {source} are unusable: {value}")
        values.append(value)
    return tuple(values)


def _workload(name: str) -> Workload:
    ref = WorkloadRef("serving", "Deployment", name)
    return Workload(ref, f"uid-{name}", "1", REPLICAS, gpus={"nvidia.com/gpu": 1}, node_selector={"pool": "p0"})


def _list(kind: str, items: list[Json]) -> bytes:
    return json.dumps(
        {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "77"}, "items": items}
    ).encode()


def _pods(pods: int) -> bytes:
    return _list("PodList", [pod(number, REPLICAS) for number in range(pods)])


def pod(number: int, per_node: int) -> Json:
    """A Ready pod with one GPU: the ten of a model are numbered one after another, and so are those of a node."""
    model = f"m{number // REPLICAS:04d}"
    container = {
        "name": "server",
        "image": "registry.example/vllm:v1",
        "env": [{"name": f"VARIABLE_{each}", "value": "some value"} for each in range(12)],
        "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1", "cpu": "4"}},
    }
    since = "2026-11-20T10:00:00Z"
    return {
        "metadata": {
            "name": f"{model}-5f9c-{number}",
            "namespace": "serving",
            "uid": f"00000000-0000-0000-0000-{number:012d}",
            "resourceVersion": str(number),
            "creationTimestamp": since,
            "labels": {"app": model, "pod-template-hash": "5f9c"},
            "annotations": PADDING,
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{model}-5f9c",
                    "uid": "rs",
                    "controller": True,
                }
            ],
        },
        "spec": {"nodeName": f"n{number // per_node}", "containers": [container], "terminationGracePeriodSeconds": 30},
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": since}
                for kind in ("Initialized", "PodScheduled", "ContainersReady", "Ready")
            ],
        },
    }


def _nodes() -> bytes:
    return _list("NodeList", [node(number) for number in range(NODES)])


def node(number: int) -> Json:
    """A Ready node of 8 GPUs in pool p0."""
    since = "2026-11-20T10:00:00Z"
    return {
        "metadata": {
            "name": f"n{number}",
            "uid": f"node-{number}",
            "resourceVersion": str(number),
            "labels": {"pool": "p0", "kubernetes.io/hostname": f"n{number}"},
            "annotations": PADDING,
        },
        "spec": {"providerID": f"aws:///us-east-1a/i-{number:017x}"},
        "status": {
            "allocatable": {"cpu": "96", "memory": "1000Gi", "nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
            "images": [{"names": [f"registry.example/image-{each}:v1"], "sizeBytes": 1} for each in range(30)],
        },
    }
