"""Nodes that pods bring without Karpenter, and GPUs kept warm: on the real API server, by the real scheduler."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.chart.helm import render
from tests.real.occupancy import failed, scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.kube import Json, Kube
from tests.testbed.node_groups import NAME, NAMESPACE, NodeGroup
from tests.testbed.objects import deployment, gpu_node

MOST = 3


@pytest.fixture
async def group(kube: Kube, namespace: str, ours: dict[str, str]) -> AsyncIterator[NodeGroup]:
    """A node group of at most 3 nodes of 1 GPU, none of which is there yet."""
    found = NodeGroup(kube, namespace, ours, MOST)
    await found.turn()
    growing = asyncio.create_task(found.run())
    yield found
    assert not growing.done(), growing.exception()
    growing.cancel()
    await asyncio.wait({growing})
    await kube.delete("ConfigMap", NAME, NAMESPACE)


def grown(namespace: str, ours: dict[str, str], **more: object) -> Json:
    """The pool `gpus`, whose nodes the group brings."""
    fields = {"nodeGroups": [f"eks-{namespace}-*"], "gpusPerNode": 1, "pricePerGpuHour": 2.5, **more}
    return pool("gpus", ours, 9, **fields)


async def test_a_node_group_brings_what_a_surge_lacks_up_to_its_maximum_and_then_unmet_says_that_nobody_does(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str], group: NodeGroup
) -> None:
    await kube.create(gpu_node(f"{namespace}-own", gpus=1, labels=ours))
    await kube.apply(deployment("chat", namespace, 1, node_labels=ours, load_seconds=1))
    await kube.wait_ready(1, namespace)
    await service.policy(policy([grown(namespace, ours)], [model("chat", namespace, 1, 1, 9)]))
    await traffic.past("chat", running=8)
    await service.start()

    traffic.says("chat", running=28)
    pods = await kube.wait_ready(3, namespace, "app=chat", 60)
    launched = {pod["spec"]["nodeName"] for pod in pods} - {f"{namespace}-own"}
    assert launched == {f"{group.name}-1", f"{group.name}-2"}

    group.refuses = "We currently do not have sufficient p5 capacity"
    traffic.says("chat", running=58)
    why = await _unmet(service, kube, group.refuses)
    print(why)
    assert why.startswith("no node group of pool gpus brings nodes now; node group eks-")
    print("\n".join((await service.explain("chat"))["explanation"]))
    assert [to for _, to in scaled(await service.writes(kube), "chat")][-1] == 3, "nothing pends for it"

    group.refuses = ""
    await kube.wait_ready(4, namespace, "app=chat", 60)
    assert (await _unmet(service, kube, "has 3 nodes of 3")).startswith("no node group of pool gpus brings nodes now")
    writes = await service.writes(kube)
    assert [to for _, to in scaled(writes, "chat")] == [3, 4], "exactly what the group may have"
    assert {write.resource for write in writes} <= {"deployments", "leases", "events"}
    assert failed(writes) == []


async def test_gpus_under_placeholders_are_room_at_once_and_the_placeholders_go_by_themselves(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str], group: NodeGroup
) -> None:
    group.refuses = "no node comes in this test"
    warm = grown(namespace, ours, warmGpus=3)
    rendered = await asyncio.to_thread(render, {"writeMode": "act", "policy": policy([warm], [])}, namespace)
    lowest, placeholders = rendered.one("PriorityClass"), rendered.one("Deployment", "rebalancer-warm-gpus")
    await kube.create(gpu_node(f"{namespace}-own", gpus=4, labels=ours))
    await kube.apply(lowest, deployment("chat", namespace, 1, node_labels=ours, load_seconds=1))
    try:
        await kube.wait_ready(1, namespace)
        await kube.apply(placeholders)
        await kube.wait_ready(4, namespace)
        await service.policy(policy([warm], [model("chat", namespace, 1, 1, 9)]))
        await traffic.past("chat", running=8)
        await service.start()
        (seen,) = (await service.plan())["pools"]
        assert (seen["free"], seen["warm"], seen["foreign"]) == (3, 3, 0)
        lines = (await service.explain("chat"))["explanation"]
        told = "nodes   of pool gpus: 3 of 3 GPUs are kept warm by placeholders: 7.5 USD an hour, 5475 USD a month"
        assert told in lines, "\n".join(lines)

        traffic.says("chat", running=28)
        await kube.wait_ready(3, namespace, "app=chat", 60)
        writes = await service.writes(kube)
        assert [to for _, to in scaled(writes, "chat")] == [3]
        assert {write.resource for write in writes} <= {"deployments", "leases", "events"}
        assert failed(writes) == []
        assert len(await kube.ready_pods(namespace, "rebalancer.io/placeholder=gpus")) == 1
        await service.lacks_nothing(kube, "chat")
    finally:
        await kube.delete("PriorityClass", lowest["metadata"]["name"])


async def _unmet(service: Service, kube: Kube, word: str) -> str:
    """Why chat lacks nodes, once the sentence has `word` in it."""

    async def said() -> str | None:
        unmet = (await service.explain("chat"))["unmet"]
        found = [each["why"] for each in unmet if each["constraint"] == "nodes" and word in each["why"]]
        return found[0] if found else None

    return await kube.wait_for(said, f"unmet to say {word}", 45)
