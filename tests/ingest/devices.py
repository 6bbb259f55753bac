"""Objects of resource.k8s.io/v1 as the API server shows them, and states that know them."""

from typing import Any

import msgspec

from rebalancer.domain.cluster import DEVICE_SOURCES, SOURCES, ClusterObject
from rebalancer.domain.policy import Policy
from rebalancer.ingest.objects import SHAPES, SHAPES_BESIDE, Unusable, value_of
from rebalancer.state import ClusterState
from tests.builders import NOW
from tests.state.objects import a_state, feed, listed

CLASS = "gpu.nvidia.com"
SOURCE_OF_KIND = {
    "Node": "nodes",
    "Pod": "pods",
    "Deployment": "deployments",
    "DeviceClass": "deviceclasses",
    "ResourceSlice": "resourceslices",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
}


def read(manifest: dict[str, Any]) -> ClusterObject:
    """The value of one manifest, which must be readable."""
    source = SOURCE_OF_KIND[manifest["kind"]]
    shape = SHAPES.get(source) or SHAPES_BESIDE[source]
    found = value_of(source, msgspec.json.decode(msgspec.json.encode(manifest), type=shape.wire))
    assert not isinstance(found, Unusable), found
    return found


def with_devices(policy: Policy, *manifests: dict[str, Any] | ClusterObject) -> ClusterState:
    """A state in which everything is listed, devices by claims included."""
    values = [read(one) if isinstance(one, dict) else one for one in manifests]
    others = [one for one in values if isinstance(one, tuple(SOURCES.values()))]
    state = a_state(policy, *others)
    for source, kind in DEVICE_SOURCES.items():
        feed(state, listed(source, *(one for one in values if isinstance(one, kind))), now=NOW)
    return state


def a_device_class(
    expression: str = f"device.driver == '{CLASS}'", name: str = CLASS, **spec: object
) -> dict[str, Any]:
    return {
        "kind": "DeviceClass",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"selectors": [{"cel": {"expression": expression}}], **spec},
    }


def a_device(name: str, kind: str = "gpu", memory: str = "80Gi", **more: object) -> dict[str, Any]:
    return {
        "name": name,
        "attributes": {"type": {"string": kind}},
        "capacity": {"memory": {"value": memory}},
        **more,
    }


def a_slice(
    *devices: dict[str, Any], node: str = "n1", name: str = "s1", pool: dict[str, Any] | None = None, **spec: object
) -> dict[str, Any]:
    of = {"name": node, "generation": 1, "resourceSliceCount": 1, **(pool or {})}
    return {
        "kind": "ResourceSlice",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"driver": CLASS, "nodeName": node, "pool": of, "devices": list(devices), **spec},
    }


def a_claim(
    name: str, devices: tuple[str, ...], pods: tuple[str, ...] = (), node: str = "n1", *, admin: bool = False
) -> dict[str, Any]:
    """A claim that holds `devices` of `node`, reserved for pods of these names (their UIDs are `uid-NAME`)."""
    results = [
        {"driver": CLASS, "pool": node, "device": each, "request": "gpu", "adminAccess": admin} for each in devices
    ]
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "serving", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods],
        },
    }


def a_claim_template(name: str = "single-gpu", **exactly: object) -> dict[str, Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS, **exactly}}
    return {
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "serving", "uid": f"uid-{name}"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
