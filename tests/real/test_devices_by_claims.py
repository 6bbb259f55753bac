"""GPUs that a DRA driver brings: the real API server keeps the slices, the real scheduler allocates, we count."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rebalancer.ingest.watches import Watches
from rebalancer.kube.access import Access
from rebalancer.kube.client import KubeClient
from rebalancer.loop.clock import RealClock
from rebalancer.state import ClusterState
from tests.builders import a_model, a_policy, a_pool
from tests.testbed.kube import Kube
from tests.testbed.line import chosen_line
from tests.testbed.objects import deployment, gpu_node
from tests.testbed.stack import Stack

Json = dict[str, Any]
API = "resource.k8s.io/v1"


@pytest.fixture
def access(cluster: Stack) -> Access:
    """All rights."""
    there = cluster.control_plane.access
    return Access(there.server, f"Bearer {there.token}", tls=ssl.create_default_context(cadata=there.ca))


@pytest.fixture
async def door(access: Access) -> AsyncIterator[KubeClient]:
    """Our client."""
    async with KubeClient(access, RealClock(), random.Random(1)) as client:
        yield client


@pytest.fixture
async def driver(kube: Kube, namespace: str) -> AsyncIterator[str]:
    """Name of a driver of the test's own, and of its DeviceClass; what it published goes with the test."""
    name = f"gpu.{namespace}.test"
    yield name
    for one in await kube.items("ResourceSlice"):
        if one["spec"]["driver"] == name:
            await kube.delete("ResourceSlice", one["metadata"]["name"])
    for kind in ("gpu", "mig"):
        await kube.delete("DeviceClass", f"{kind}.{name}")


def a_class(driver: str, kind: str, **spec: object) -> Json:
    wanted = f"device.driver == '{driver}' && device.attributes['{driver}'].type == '{kind}'"
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": f"{kind}.{driver}"},
        "spec": {"selectors": [{"cel": {"expression": wanted}}], **spec},
    }


def a_device(name: str, kind: str, card: str, slices: int) -> Json:
    return {
        "name": name,
        "attributes": {"type": {"string": kind}},
        "capacity": {"memory": {"value": f"{slices * 10}Gi"}},
        "consumesCounters": [{"counterSet": card, "counters": {"slices": {"value": str(slices)}}}],
    }


def slices_of(driver: str, node: str, cards: int) -> list[Json]:
    """Cards of 8 slices: each whole, or as two devices of 4; what one way takes is not there for the other."""
    names = [f"card-{n}" for n in range(cards)]
    devices = [a_device(card, "gpu", card, 8) for card in names]
    devices += [a_device(f"{card}-half-{n}", "mig", card, 4) for card in names for n in range(2)]
    counters = [{"name": card, "counters": {"slices": {"value": "8"}}} for card in names]
    apart = [{"devices": devices}, {"sharedCounters": counters}]
    specs = apart if chosen_line().counters_apart else [{"devices": devices, "sharedCounters": counters}]
    pool = {"name": node, "generation": 1, "resourceSliceCount": len(specs)}
    return [
        {
            "apiVersion": API,
            "kind": "ResourceSlice",
            "metadata": {"name": f"{driver}-{number}"},
            "spec": {"driver": driver, "nodeName": node, "pool": pool, **spec},
        }
        for number, spec in enumerate(specs)
    ]


def by_claims(manifest: Json, template: str) -> Json:
    """The Deployment with pods that claim a device in place of an extended resource."""
    spec = manifest["spec"]["template"]["spec"]
    spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
    spec["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return manifest


async def _until(holds: Callable[[], object], wanted: object, seconds: float = 40.0) -> None:
    try:
        async with asyncio.timeout(seconds):
            while holds() != wanted:
                await asyncio.sleep(0.1)
    except TimeoutError:
        pytest.fail(f"{holds()} is not {wanted} after {seconds:.0f} s")


async def test_gpus_by_claims_are_counted_once_however_pods_ask_for_them(
    door: KubeClient, kube: Kube, namespace: str, ours: dict[str, str], driver: str
) -> None:
    """Three cards: the model claims one by a template, a stranger half of another, the last goes by another name."""
    node, template = f"{namespace}-n1", "one-gpu"
    extended = f"{namespace}.test/gpu"
    manifest = gpu_node(node, labels=ours)
    for part in ("capacity", "allocatable"):
        manifest["status"][part] = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    await kube.create(manifest)
    await kube.create(a_class(driver, "gpu", extendedResourceName=extended))
    await kube.create(a_class(driver, "mig"))
    for one in slices_of(driver, node, cards=3):
        await kube.create(one)
    for kind in ("gpu", "mig"):
        request = {"name": "gpu", "exactly": {"deviceClassName": f"{kind}.{driver}"}}
        name = template if kind == "gpu" else "half-a-gpu"
        claim = {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
        await kube.create({"apiVersion": API, "kind": "ResourceClaimTemplate", **claim})

    own = a_pool("gpus", 8, node_labels=ours, device_class=f"gpu.{driver}", resource=extended)
    policy = a_policy(a_model("b", namespace=namespace, pools=("gpus",)), pools=(own,))
    clock = RealClock()
    state = ClusterState(policy, started_at=clock.now())

    def seen() -> tuple[int, int, int, int | None]:
        """GPUs of the pool, those that others hold, what the model's template asks for, and what its pods hold."""
        snapshot = state.peek(clock.now())
        nodes, target = snapshot.pools[0].nodes, snapshot.models[0].targets[0]
        gpus, others = sum(each.gpus for each in nodes), sum(each.foreign_gpus for each in nodes)
        return gpus, others, target.gpus_per_pod, target.running_gpus

    watches = Watches(door, clock, random.Random(1), lambda events: state.apply_all(events, clock.now()))
    watches.follow(policy)
    task = asyncio.create_task(watches.run())
    try:
        await _until(seen, (3, 0, 0, None))
        await kube.apply(by_claims(deployment("b", namespace, 1, node_labels=ours), template))
        await _until(seen, (3, 0, 1, 1))
        await kube.apply(by_claims(deployment("x", namespace, 1, node_labels=ours), "half-a-gpu"))
        await _until(seen, (2, 0, 1, 1))
        asks = deployment("y", namespace, 1, node_labels=ours)
        asks["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {extended: "1"}}
        await kube.apply(asks)
        await _until(seen, (2, 1, 1, 1))
        await kube.apply(by_claims(deployment("b", namespace, 2, node_labels=ours), template))
        assert len(await kube.wait_ready(3, namespace)) == 3  # no card is left for the second of b
        assert seen() == (2, 1, 1, 1)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
