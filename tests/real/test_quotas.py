"""Permission to ask, on the real API server: what a full quota would refuse is asked for by nobody, and it is named.

Kueue's definitions are those that its project ships; who opens its gate is a controller of ours (`testbed.kueue`).
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests import beside
from tests.real.occupancy import scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service, lacking
from tests.real.traffic import Traffic
from tests.testbed.kube import Kube
from tests.testbed.kueue import GATE, Admission, cluster_queue, flavor, gated, local_queue
from tests.testbed.objects import COMPLETE_DELAY, GPU, deployment, gpu_node

GPUS = 8
HARD = 3
QUEUED = 4
ENDS_SECONDS = 3600
SEEN_SECONDS = 30.0

QUEUES = ("clusterqueue", "localqueue", "cohort", "resourceflavor")

Json = dict[str, Any]


@pytest.fixture
def definitions() -> list[Json]:
    folder = beside.folder("artefacts", "REBALANCER_ARTEFACTS") / "crds"
    crds = [YAML(typ="safe", pure=True).load((folder / f"kueue-{name}.yaml").read_text()) for name in QUEUES]
    for crd in crds:
        crd["spec"].pop("conversion", None)  # its webhook is the controller's, which is not there
    return crds


@pytest.fixture
async def kueue(kube: Kube, namespace: str, ours: dict[str, str], definitions: list[Json]) -> AsyncIterator[str]:
    """Kueue's kinds, and a ClusterQueue of 4 GPUs that is named for the namespace, as LocalQueue `llms` there."""
    await kube.install_crds(definitions)
    await kube.create(flavor(namespace, ours))
    await kube.create(cluster_queue(namespace, namespace, QUEUED))
    await kube.create(local_queue("llms", namespace, namespace))
    admission = asyncio.create_task(Admission(kube, namespace, namespace, {"llms": namespace}).run())
    yield namespace
    assert not admission.done(), admission.exception()
    admission.cancel()
    await asyncio.wait({admission})
    for kind in ("ClusterQueue", "ResourceFlavor"):
        await kube.delete(kind, namespace)


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
    why = await _unmet(service, kube, f"ResourceQuota {namespace}/gpus has {HARD} of {HARD} requests.{GPU} used by ")
    print(why)
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
    await _unmet(service, kube, f"{HARD} of {HARD} requests.{GPU} used by deployment {namespace}/chat {HARD};")


async def test_no_more_is_asked_for_than_kueue_admits_and_what_waits_at_its_gate_is_not_failing(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str], kueue: str
) -> None:
    """Chat has 2 of the queue's 4 GPUs and needs 6; the node has 8."""
    await kube.create(gpu_node(f"{namespace}-a", gpus=GPUS, labels=ours))
    await kube.apply(gated(deployment("chat", namespace, 2, node_labels=ours, load_seconds=1, end_seconds=1), "llms"))
    await kube.wait_ready(2, namespace)
    await service.policy(policy([pool("gpus", ours, GPUS)], [model("chat", namespace, 1, 6, 6)]))
    await traffic.past("chat", running=58)
    await service.start()
    why = await _unmet(service, kube, f"ClusterQueue {kueue} has {QUEUED} of {QUEUED} {GPU} used")
    print(why)
    assert f"its own are {QUEUED} of flavor {kueue}" in why
    await kube.wait_ready(QUEUED, namespace)
    await asyncio.sleep(12.0)  # a planning period and more
    assert scaled(await service.writes(kube), "chat")[-1][1] == QUEUED
    pods = await kube.items("Pod", namespace)
    assert [pod["metadata"]["name"] for pod in pods if {"name": GATE} in pod["spec"].get("schedulingGates", [])] == []
    queue = await kube.get("ClusterQueue", kueue)
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = str(QUEUED + 1)
    await kube.patch("ClusterQueue", kueue, {"spec": {"resourceGroups": queue["spec"]["resourceGroups"]}})
    await kube.wait_ready(QUEUED + 1, namespace)
    assert scaled(await service.writes(kube), "chat")[-1][1] == QUEUED + 1


async def _used(kube: Kube, namespace: str, gpus: int) -> bool:
    found = await kube.get("ResourceQuota", "gpus", namespace)
    return (found["status"].get("used") or {}).get(f"requests.{GPU}") == str(gpus)


async def _unmet(service: Service, kube: Kube, words: str) -> str:
    """The sentence of chat's unmet need, once that waits for a quota, and for this one."""

    def sentences(plan: Json) -> list[str]:
        waits = (one["why"] for one in lacking(plan, "chat") if one["constraint"] == "quota")
        return [why for why in waits if words in why]

    return sentences(await service.planned(kube, f"chat waits for: {words}", sentences))[0]


async def _failed_creates(kube: Kube, namespace: str) -> list[str]:
    """What controllers were refused: pods that they could not create."""
    events = await kube.items("Event", namespace)
    return [str(each.get("note", "")) for each in events if each.get("reason") == "FailedCreate"]
