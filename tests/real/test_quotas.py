"""Permission to ask, on the real API server: what a full ResourceQuota refuses is asked for by nobody, and named."""

import asyncio
from typing import Any

from tests.real.occupancy import scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.kube import Kube
from tests.testbed.objects import COMPLETE_DELAY, GPU, deployment, gpu_node

GPUS = 8
HARD = 3
ENDS_SECONDS = 3600
SEEN_SECONDS = 30.0

Json = dict[str, Any]


def quota(namespace: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": namespace},
        "spec": {"hard": {f"requests.{GPU}": str(HARD)}},
    }


def job(name: str, namespace: str, labels: dict[str, str]) -> Json:
    """A batch job that holds one GPU and ends within the hour."""
    container = {"name": "train", "image": "train:test", "resources": {"limits": {GPU: "1"}}}
    pod = {"containers": [container], "nodeSelector": labels, "restartPolicy": "Never"}
    works = {COMPLETE_DELAY: f"{ENDS_SECONDS}s"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"activeDeadlineSeconds": ENDS_SECONDS, "template": {"metadata": {"annotations": works}, "spec": pod}},
    }


async def test_a_full_quota_is_named_with_who_holds_it_nothing_pends_and_what_it_frees_is_asked_for(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    """Chat has 2 of 3 GPUs of the quota and needs 4, a job has the third; the node has 8."""
    await kube.create(gpu_node(f"{namespace}-a", gpus=GPUS, labels=ours))
    await kube.create(quota(namespace))
    await kube.wait_for(lambda: _used(kube, namespace, 0), "the quota is counted")
    await kube.apply(deployment("chat", namespace, 2, node_labels=ours, load_seconds=1, end_seconds=1))
    await kube.create(job("train", namespace, ours))
    await kube.wait_ready(HARD, namespace)
    await kube.wait_for(lambda: _used(kube, namespace, HARD), "the quota is full")
    await service.policy(policy([pool("gpus", ours, GPUS)], [model("chat", namespace, 1, 2, 6)]))
    await traffic.past("chat", running=38)
    await service.start()
    why = await _unmet(service, "quota")
    print(why)
    assert f"ResourceQuota {namespace}/gpus has {HARD} of {HARD} requests.{GPU} used by " in why
    assert f"deployment {namespace}/chat 2" in why
    assert f"job {namespace}/train 1 until " in why
    lines = (await service.explain("chat"))["explanation"]
    print("\n".join(lines))
    assert any(line.startswith("quota") for line in lines)
    assert any(line.startswith(f"beside  of pool gpus job {namespace}/train 1 until ") for line in lines)
    await asyncio.sleep(12.0)  # a planning period and more
    assert scaled(await service.writes(kube), "chat") == []
    assert await _failed_creates(kube, namespace) == []
    await kube.delete("Job", "train", namespace, gracePeriodSeconds=0)
    for pod in await kube.items("Pod", namespace, "job-name=train"):
        await kube.delete("Pod", pod["metadata"]["name"], namespace, gracePeriodSeconds=0)
    async with asyncio.timeout(SEEN_SECONDS):
        while not scaled(await service.writes(kube), "chat"):
            await asyncio.sleep(0.2)
    await kube.wait_ready(HARD, namespace)
    assert [to for _, to in scaled(await service.writes(kube), "chat")] == [HARD]
    assert await _failed_creates(kube, namespace) == []
    await _unmet(service, "quota")


async def _used(kube: Kube, namespace: str, gpus: int) -> bool:
    found = await kube.get("ResourceQuota", "gpus", namespace)
    return (found["status"].get("used") or {}).get(f"requests.{GPU}") == str(gpus)


async def _unmet(service: Service, constraint: str) -> str:
    """The sentence of chat's unmet need, once that waits for `constraint`."""
    async with asyncio.timeout(SEEN_SECONDS):
        while True:
            for one in (await service.plan())["unmet"]:
                if (one["model"], one["constraint"]) == ("chat", constraint):
                    return str(one["why"])
            await asyncio.sleep(0.1)


async def _failed_creates(kube: Kube, namespace: str) -> list[str]:
    """What controllers were refused: pods that they could not create."""
    events = await kube.items("Event", namespace)
    return [str(each.get("note", "")) for each in events if each.get("reason") == "FailedCreate"]
