"""From one replica that is replaced to two that roll, and back: by helm, on the real API server and its controllers."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.chart.helm import CHART, RELEASE, helm, values
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import gpu_node
from tests.testbed.stack import Stack

SELECTED = "app.kubernetes.io/name=rebalancer"
COMMON = {
    "writeMode": "act",
    "actuation.scale": True,
    "kafka.bootstrap": "kafka:9092",
    "handBack.enabled": False,
    "admissionPolicies.enabled": False,
}
ONE = {"replicas": 1, "journal.persistence.enabled": True}
TWO = {"replicas": 2, "journal.persistence.enabled": False}


@pytest.fixture
async def release(cluster: Stack, kube: Kube, crds: None, namespace: str, ours: dict[str, str]) -> AsyncIterator[Json]:
    """What to tell helm of the cluster; there are two nodes to stand on."""
    for name in ("a", "b"):
        await kube.create(gpu_node(f"{namespace}-{name}", gpus=1, labels=ours))
    volumes = [_volume(namespace, number) for number in (1, 2)]  # a claim that is made anew takes another one
    for volume in volumes:
        await kube.create(volume)
    where = {"kubeconfig": str(await asyncio.to_thread(cluster.kubeconfig)), "namespace": namespace, "labels": ours}
    yield where
    await asyncio.to_thread(helm, "uninstall", RELEASE, *_where(where))
    for volume in volumes:
        await kube.delete("PersistentVolume", volume["metadata"]["name"])


def _volume(name: str, number: int) -> Json:
    """For the journal of one replica; nothing here mounts it."""
    spec = {
        "storageClassName": name,
        "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/nothing-mounts-it"},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{name}-{number}"}, "spec": spec}


def _where(release: Json) -> list[str]:
    return ["--kubeconfig", release["kubeconfig"], "--namespace", release["namespace"], "--no-hooks"]


async def _put(verb: str, release: Json, shape: Json) -> None:
    own = {"nodeSelector": release["labels"], "fullnameOverride": release["namespace"]}
    given = COMMON | shape | own | {"journal.persistence.storageClassName": release["namespace"]}
    await asyncio.to_thread(helm, verb, RELEASE, str(CHART), *_where(release), "--skip-crds", *values(given))


async def _rolled_out(kube: Kube, release: Json, replicas: int) -> Json:
    async def so() -> Json | None:
        (found,) = await kube.items("Deployment", release["namespace"], SELECTED)
        status = found.get("status", {})
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        counts = {status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas")}
        return found if seen and counts == {replicas} else None

    return await kube.wait_for(so, f"{replicas} replicas of the chart are Ready", 90.0)


async def _strategy(kube: Kube, release: Json, replicas: int) -> str:
    return str((await _rolled_out(kube, release, replicas))["spec"]["strategy"]["type"])


@pytest.mark.timeout(240, func_only=True)
async def test_one_replica_becomes_two_and_one_again(kube: Kube, release: Json) -> None:
    await _put("install", release, ONE)
    assert await _strategy(kube, release, 1) == "Recreate"
    (first,) = await kube.ready_pods(release["namespace"], SELECTED)

    await _put("upgrade", release, TWO)
    assert await _strategy(kube, release, 2) == "RollingUpdate"
    both = await kube.ready_pods(release["namespace"], SELECTED)
    names = {pod["metadata"]["name"] for pod in both}
    assert (len(names), first["metadata"]["name"] in names) == (2, False)
    assert len({pod["spec"]["nodeName"] for pod in both}) == 2, "apart from each other"
    assert len(await kube.items("PodDisruptionBudget", release["namespace"])) == 1

    await _put("upgrade", release, ONE)
    assert await _strategy(kube, release, 1) == "Recreate"
    assert await kube.items("PodDisruptionBudget", release["namespace"]) == []
