"""Somebody else sets the replicas that the service sets: the API server's own notes say who, and the service yields."""

import asyncio
import time

from tests.real.occupancy import scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service, lacking
from tests.real.traffic import Traffic
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment, gpu_node

GPUS = 6
SEEN_SECONDS = 30.0


async def test_after_two_changes_by_somebody_else_it_stands_down_and_names_them(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    """Both models need 2 of their 3; somebody sets 1 for chat, again and again, and then chat needs more."""
    await kube.create(gpu_node(f"{namespace}-a", gpus=GPUS, labels=ours))
    for name in ("chat", "code"):
        await kube.apply(deployment(name, namespace, 2, node_labels=ours))
    await kube.wait_ready(4, namespace)
    models = [model(name, namespace, floor=1, entitlement=3, most=6) for name in ("chat", "code")]
    await service.policy(policy([pool("gpus", ours, GPUS)], models))
    await asyncio.gather(traffic.past("chat", running=15), traffic.past("code", running=15))
    await service.start()
    for changes, replicas in ((1, 4), (2, 1)):
        await kube.patch("Deployment", "chat", {"spec": {"replicas": replicas}}, namespace, "scale")
        await _counted(service, changes)
    refusal = await service.refused(kube, "foreign", "chat")
    yielded_at = time.time()
    stored = await kube.get("Deployment", "chat", namespace)
    managers = {
        entry["manager"] for entry in stored["metadata"]["managedFields"] if entry.get("subresource") == "scale"
    }
    assert refusal["numbers"]["manager"] in managers - {"rebalancer"}
    traffic.says("chat", running=35)
    await service.planned(
        kube,
        "what it waits for is told",
        lambda plan: "foreign" in {one["constraint"] for one in lacking(plan, "chat")},
    )
    assert [at for at, _ in scaled(await service.writes(kube), "chat") if at > yielded_at + 1.0] == []


async def _counted(service: Service, changes: int) -> None:
    name = 'rebalancer_foreign_changes_total{model="chat"}'
    async with asyncio.timeout(SEEN_SECONDS):
        while (await service.metrics()).get(name, 0) < changes:
            await asyncio.sleep(0.1)
