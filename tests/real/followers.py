"""Models whose ScaledObjects ask us for their replicas, by KEDA's own trigger with a bearer token."""

from typing import Any

import aiohttp

from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import deployment, gpu_node, scaled_object

GPUS = 8
FLOOR = 2  # of code
SECRET = "trigger"
FOLLOWS_AT_ONCE = {
    "scaleUp": {"tolerance": "0"},
    "scaleDown": {"tolerance": "0", "stabilizationWindowSeconds": 0},
}


def trigger(url: str, **more: str) -> Json:
    """The trigger of docs/metric.md; `more` of its metadata."""
    metadata = {"url": url, "valueLocation": "replicas", "targetValue": "1", "authMode": "bearer", **more}
    return {"type": "metrics-api", "metadata": metadata, "authenticationRef": {"name": SECRET}}


def own_trigger(service: Service, name: str) -> Json:
    """That asks this one replica of ours."""
    return trigger(f"http://127.0.0.1:{service.settings['API_PORT']}/v1/models/{name}/desired/gpus")


def authentication(namespace: str) -> tuple[Json, Json]:
    """The token that KEDA sends, as a person would have it."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": namespace},
        "stringData": {"token": "of-a-service-account"},
    }
    reference = {"parameter": "token", "name": SECRET, "key": "token"}
    granted = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "TriggerAuthentication",
        "metadata": {"name": SECRET, "namespace": namespace},
        "spec": {"secretTargetRef": [reference]},
    }
    return secret, granted


def follower(name: str, namespace: str, minimum: int, maximum: int, asks: Json) -> Json:
    """A ScaledObject that follows `asks` at once, and keeps what runs while nobody answers."""
    return scaled_object(
        name,
        namespace,
        minimum,
        maximum,
        [asks],
        fallback={"failureThreshold": 1, "replicas": FLOOR, "behavior": "currentReplicasIfHigher"},
        advanced={"horizontalPodAutoscalerConfig": {"behavior": FOLLOWS_AT_ONCE}},
    )


async def two_followers(
    kube: Kube, service: Service, namespace: str, ours: dict[str, str], asks: dict[str, Json]
) -> None:
    """Two nodes of 4 GPUs, full of replicas of two models that follow us. `asks`: the trigger of each."""
    for name in ("a", "b"):
        await kube.create(gpu_node(f"{namespace}-{name}", gpus=GPUS // 2, labels=ours))
    for name, replicas in (("chat", 2), ("code", 6)):
        await kube.apply(deployment(name, namespace, replicas, node_labels=ours, load_seconds=1, end_seconds=1))
    await kube.wait_ready(GPUS, namespace)
    await kube.apply(*authentication(namespace))
    await kube.apply(
        follower("chat", namespace, 1, 8, asks["chat"]), follower("code", namespace, FLOOR, 8, asks["code"])
    )
    models = [
        model("chat", namespace, 1, 4, 8, actuation="metric"),
        model("code", namespace, FLOOR, 4, 8, actuation="metric"),
    ]
    await service.policy(policy([pool("gpus", ours, GPUS)], models))


async def replicas(kube: Kube, namespace: str, name: str, count: int, seconds: float = 60) -> None:
    """Wait until the Deployment is asked for that many."""

    async def reached() -> bool:
        scale = await kube.get("Deployment", name, namespace, "scale")
        return bool(scale["spec"].get("replicas", 0) == count)

    await kube.wait_for(reached, f"{name} at {count} replicas", seconds)


async def answer(service: Service, name: str) -> tuple[int, Any]:
    """What this replica of ours answers KEDA. Raises aiohttp.ClientError while it is away."""
    url = f"http://127.0.0.1:{service.settings['API_PORT']}/v1/models/{name}/desired/gpus"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.json()
