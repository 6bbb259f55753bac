"""Demand that no shift can meet: Karpenter may bring nodes, within the policy's bound and as long as it can."""

import asyncio

from tests.real.occupancy import failed, scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.audit import Write
from tests.testbed.karpenter import Karpenter
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import GPU, deployment, gpu_node, node_class, node_pool

ORIGINALS = "rebalancer.io/originals"


async def _world(kube: Kube, namespace: str, ours: dict[str, str], *, instance_type: str, gpus: int) -> None:
    """A node of the test's own with `gpus` GPUs, in use; a NodePool that may bring nodes but has no GPU allowed yet."""
    await kube.create(gpu_node(f"{namespace}-own", gpus=gpus, labels=ours))
    await kube.apply(
        deployment("chat", namespace, gpus, node_labels=ours, load_seconds=1),
        node_class(),
        node_pool(namespace, labels=ours, instance_types=[instance_type], gpu_limit=0),
    )
    await kube.wait_ready(gpus, namespace)


async def _start(
    service: Service, traffic: Traffic, namespace: str, ours: dict[str, str], *, gpu_limit: int, timeout_seconds: int
) -> None:
    """The service, allowed to use `gpu_limit` GPUs; chat has been content with one replica for a minute."""
    rules = {"nodeTimeoutSeconds": timeout_seconds, "notReadyGraceSeconds": 30}
    growing = pool("gpus", ours, gpu_limit, nodePools=[namespace], gpusPerNode=1)
    await service.policy(policy([growing], [model("chat", namespace, 1, 1, 9)], nodes=rules))
    await traffic.past("chat", running=8)
    await service.start()


def _limits(writes: list[Write]) -> list[tuple[float, int]]:
    """GPU limits that were written to NodePools: (when received, GPUs)."""
    patches = [write for write in writes if write.resource == "nodepools" and "limits" in write.request["spec"]]
    return [(write.received, int(write.request["spec"]["limits"][GPU])) for write in patches]


async def _gpu_limit(kube: Kube, name: str) -> Json:
    limits: Json = (await kube.get("NodePool", name))["spec"]["limits"]
    return limits


async def test_karpenter_brings_the_nodes_that_a_surge_lacks_up_to_the_policy_s_bound_and_no_further(
    karpenter: Karpenter, service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await _world(kube, namespace, ours, instance_type="gpu-1", gpus=1)
    await _start(service, traffic, namespace, ours, gpu_limit=3, timeout_seconds=60)
    traffic.says("chat", running=28)
    pods = await kube.wait_ready(3, namespace, "app=chat", 90)

    launched = {pod["spec"]["nodeName"] for pod in pods} - {f"{namespace}-own"}
    claims = await kube.items("NodeClaim", labels=f"karpenter.sh/nodepool={namespace}")
    assert launched == {claim["status"]["nodeName"] for claim in claims}
    assert len(launched) == 2
    writes = await service.writes(kube)
    ((limited, limit),) = _limits(writes)
    (raised, replicas), *_ = scaled(writes, "chat")
    assert (limit, replicas) == (2, 3), "exactly what is short"
    assert limited < raised, "Karpenter may launch before it is asked to"

    traffic.says("chat", running=58)
    refusal = await service.refused(kube, "budget", "chat")
    assert (refusal["replicasFrom"], refusal["replicasTo"]) == (3, 6)
    assert refusal["numbers"]["gpuLimit"] == 3
    unmet = (await service.explain("chat"))["unmet"]
    assert [each["replicas"] for each in unmet] == [3]
    writes = await service.writes(kube)
    assert _limits(writes) == [(limited, 2)]
    assert [count for _, count in scaled(writes, "chat")] == [3]
    assert failed(writes) == []


async def test_a_grant_that_brings_no_node_is_withdrawn_and_the_limit_returns_to_what_people_set(
    karpenter: Karpenter, service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    timeout = 8
    await _world(kube, namespace, ours, instance_type="sold-out", gpus=2)
    await _start(service, traffic, namespace, ours, gpu_limit=4, timeout_seconds=timeout)
    traffic.says("chat", running=38)

    async def asked() -> bool:
        return len(await kube.items("Pod", namespace, "app=chat")) == 4

    await kube.wait_for(asked, "two pods wait for nodes")

    async def back() -> bool:
        obj = await kube.get("NodePool", namespace)
        restored = obj["spec"]["limits"] == {GPU: "0"} and ORIGINALS not in obj["metadata"].get("annotations", {})
        return restored and len(await kube.items("Pod", namespace, "app=chat")) == 2

    await kube.wait_for(back, "the NodePool as it was, and nobody waiting", 45)
    writes = await service.writes(kube)
    (granted, most), (withdrawn, least), *_ = scaled(writes, "chat")
    assert (most, least) == (4, 2), "nothing that is Ready goes"
    assert timeout <= withdrawn - granted <= timeout + 5
    assert [limit for _, limit in _limits(writes)][:2] == [2, 0]
    assert len(await kube.ready_pods(namespace, "app=chat")) == 2

    async def told() -> bool:  # in the plan after the one that withdraws
        unmet = (await service.explain("chat"))["unmet"]
        return [each["replicas"] for each in unmet] == [2]

    await kube.wait_for(told, "the two that it lacks to be told")


async def test_while_gpus_change_hands_karpenter_may_not_consolidate_their_nodes(
    karpenter: Karpenter, service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    await _world(kube, namespace, ours, instance_type="gpu-1", gpus=1)
    await kube.create(gpu_node(f"{namespace}-lent", gpus=3, labels=ours))
    await kube.apply(deployment("code", namespace, 3, node_labels=ours, load_seconds=1, end_seconds=1))
    await kube.wait_ready(4, namespace)
    own = (await kube.get("NodePool", namespace))["spec"]["disruption"]

    full = pool("gpus", ours, 4, nodePools=[namespace], gpusPerNode=1)
    models = [model("chat", namespace, 1, 3, 9), model("code", namespace, 1, 1, 9)]
    await service.policy(policy([full], models))
    await asyncio.gather(traffic.past("chat", running=8), traffic.past("code", running=25))
    await service.start()
    traffic.says("chat", running=28)
    await kube.wait_ready(3, namespace, "app=chat", 60)

    async def let_go() -> bool:
        obj = await kube.get("NodePool", namespace)
        return obj["spec"]["disruption"] == own and ORIGINALS not in obj["metadata"].get("annotations", {})

    await kube.wait_for(let_go, "the NodePool's own budgets and no trace of ours")
    writes = await service.writes(kube)
    budgets = [
        (write.received, write.request["spec"]["disruption"]["budgets"])
        for write in writes
        if write.resource == "nodepools" and write.succeeded
    ]
    (held_at, held), (ended_at, _) = budgets
    assert {"nodes": "0", "reasons": ["Empty", "Underutilized"]} in held
    assert held_at < scaled(writes, "code")[0][0], "held before the first GPU is free"
    assert ended_at > scaled(writes, "chat")[-1][0], "until the last is granted"
    assert failed(writes) == []


async def test_for_what_a_drain_by_hand_took_karpenter_brings_a_node_and_no_number_is_written(
    karpenter: Karpenter, service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    """As `kubectl drain`: cordoned first, then emptied. The NodePool is at its limit, which the cordoned node fills."""
    spot = node_pool(namespace, labels=ours, capacity_types=["spot"], instance_types=["gpu-1"], gpu_limit=2)
    await kube.apply(node_class(), spot)
    await kube.apply(deployment("chat", namespace, 2, node_labels=ours, load_seconds=1, end_seconds=1))
    drained, _ = await kube.wait_ready(2, namespace)
    growing = pool("gpus", ours, 4, capacityType="spot", nodePools=[namespace], gpusPerNode=1)
    await service.policy(policy([growing], [model("chat", namespace, floor=2, entitlement=2, most=4)]))
    await traffic.past("chat", running=15)
    await service.start()

    node = drained["spec"]["nodeName"]
    await kube.patch("Node", node, {"spec": {"unschedulable": True}})
    await kube.delete("Pod", drained["metadata"]["name"], namespace)

    async def elsewhere() -> bool:
        names = {pod["spec"]["nodeName"] for pod in await kube.ready_pods(namespace)}
        return len(names) == 2 and node not in names

    await kube.wait_for(elsewhere, "what the drained node held is Ready on another one", 60)
    writes = await service.writes(kube)
    assert [limit for _, limit in _limits(writes)][:1] == [3], "one node more than the limit let come"
    assert scaled(writes, "chat") == []
