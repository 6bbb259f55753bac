"""GPUs change hands between models whose ScaledObjects ask us for their replicas: the audit log has no write of ours.

The trigger is KEDA's own, with a bearer token by a TriggerAuthentication, and the HPA is the real one.
"""

import asyncio
from typing import Any

import aiohttp

from tests.real.occupancy import Pods, failed, scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.audit import AuditLog
from tests.testbed.keda import Keda
from tests.testbed.kube import Json, Kube, is_ready
from tests.testbed.objects import deployment, gpu_node, scaled_object

GPUS = 8
FLOOR = 2  # of code
SECRET = "trigger"
FOLLOWS_AT_ONCE = {
    "scaleUp": {"tolerance": "0"},
    "scaleDown": {"tolerance": "0", "stabilizationWindowSeconds": 0},
}


def _trigger(service: Service, name: str) -> Json:
    url = f"http://127.0.0.1:{service.settings['API_PORT']}/v1/models/{name}/desired/gpus"
    told = {"url": url, "valueLocation": "replicas", "targetValue": "1", "authMode": "bearer"}
    return {"type": "metrics-api", "metadata": told, "authenticationRef": {"name": SECRET}}


def _authentication(namespace: str) -> tuple[Json, Json]:
    """The token that KEDA sends, as a person would have it."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": namespace},
        "stringData": {"token": "of-a-service-account"},
    }
    reference = {"parameter": "token", "name": SECRET, "key": "token"}
    authentication = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "TriggerAuthentication",
        "metadata": {"name": SECRET, "namespace": namespace},
        "spec": {"secretTargetRef": [reference]},
    }
    return secret, authentication


def _follower(service: Service, name: str, namespace: str, minimum: int, maximum: int) -> Json:
    return scaled_object(
        name,
        namespace,
        minimum,
        maximum,
        [_trigger(service, name)],
        fallback={"failureThreshold": 1, "replicas": FLOOR, "behavior": "currentReplicasIfHigher"},
        advanced={"horizontalPodAutoscalerConfig": {"behavior": FOLLOWS_AT_ONCE}},
    )


async def _world(kube: Kube, service: Service, namespace: str, ours: dict[str, str]) -> None:
    """Two nodes of 4 GPUs, full of replicas of two models that follow us."""
    for name in ("a", "b"):
        await kube.create(gpu_node(f"{namespace}-{name}", gpus=GPUS // 2, labels=ours))
    for name, replicas in (("chat", 2), ("code", 6)):
        await kube.apply(deployment(name, namespace, replicas, node_labels=ours, load_seconds=1, end_seconds=1))
    await kube.wait_ready(GPUS, namespace)
    await kube.apply(*_authentication(namespace))
    await kube.apply(_follower(service, "chat", namespace, 1, 8), _follower(service, "code", namespace, FLOOR, 8))
    models = [
        model("chat", namespace, 1, 4, 8, actuation="metric"),
        model("code", namespace, FLOOR, 4, 8, actuation="metric"),
    ]
    await service.policy(policy([pool("gpus", ours, GPUS)], models))


async def _replicas(kube: Kube, namespace: str, name: str, count: int, seconds: float = 60) -> None:
    async def reached() -> bool:
        scale = await kube.get("Deployment", name, namespace, "scale")
        return bool(scale["spec"].get("replicas", 0) == count)

    await kube.wait_for(reached, f"{name} at {count} replicas", seconds)


async def _answer(service: Service, name: str) -> tuple[int, Any]:
    url = f"http://127.0.0.1:{service.settings['API_PORT']}/v1/models/{name}/desired/gpus"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.json()


async def test_a_surge_moves_models_that_follow_our_answer_there_and_back_and_nothing_of_theirs_is_written(
    keda: Keda, service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str, ours: dict[str, str]
) -> None:
    await _world(kube, service, namespace, ours)
    await asyncio.gather(traffic.past("chat", running=15), traffic.past("code", running=55))
    await service.start()
    traffic.says("code", running=35)
    traffic.says("chat", running=38)
    await kube.wait_ready(4, namespace, "app=chat", 90)
    await kube.wait_ready(4, namespace, "app=code")
    traffic.says("chat", running=5)
    traffic.says("code", running=55)
    await _replicas(kube, namespace, "code", 6, 90)
    await kube.wait_ready(6, namespace, "app=code")
    status, body = await _answer(service, "code")
    assert (status, body["replicas"]) == (200, 6)
    writes = await service.writes(kube)
    assert failed(writes) == []
    written = {(write.resource, write.subresource, write.name) for write in writes}
    assert {name for resource, _, name in written if resource != "pods"} == set(), "not to it, nor beside it"
    everybody = await asyncio.to_thread(audit.writes, namespace=namespace)
    assert Pods.of(everybody).most() <= GPUS, "no pod was ever asked for that had no GPU"
    assert min(replicas for _, replicas in scaled(everybody, "code")) >= FLOOR
    await service.kill()

    async def falls_back() -> bool:
        return is_ready(await kube.get("ScaledObject", "code", namespace), "Fallback")

    await kube.wait_for(falls_back, "KEDA takes its fallback while nobody answers", 60)
    await service.start()

    async def follows_again() -> bool:
        return not is_ready(await kube.get("ScaledObject", "code", namespace), "Fallback")

    await kube.wait_for(follows_again, "KEDA follows our answer again", 60)
    status, body = await _answer(service, "code")
    assert (status, body["replicas"]) == (200, 6), "a new start goes on with the number of the one before"
    later = await asyncio.to_thread(audit.writes, namespace=namespace)
    assert scaled(later, "code") == scaled(everybody, "code"), "neither its absence nor its return moved anybody"
