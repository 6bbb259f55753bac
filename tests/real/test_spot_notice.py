"""Capacity is about to be taken away: the replacement is asked for before the first eviction, and asked for once."""

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import Any

from tests.real.occupancy import scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.audit import AuditLog, Write
from tests.testbed.karpenter import Karpenter
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment, gpu_node, node_class, node_pool

Json = dict[str, Any]

WARNING_SECONDS = 120.0
# Karpenter acts on a spot warning itself within seconds, and its drain evicts at once: so soon must we have asked.
ASKED_WITHIN_SECONDS = 5.0
# Longer than Karpenter collects pods for (2 s here): when a replacement is Ready no batch is open any more, in which
# Karpenter would count a pod that its drain has not evicted yet, and launch a second node for it.
LOAD_SECONDS = 3
# A notice counts a load, a grace of 30 s and a minute before its deadline. Loads of a second are shorter than any real
# one, so the warning reaches us this late, and counts at once as it does for models that load for half a minute.
LATE_SECONDS = 40.0
NOTICE = "io.rebalancer.capacity.notice.v1"


def _rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


async def _evictions(audit: AuditLog, namespace: str) -> list[Write]:
    """Evictions that the API server allowed, oldest first."""
    writes = await asyncio.to_thread(audit.writes, namespace=namespace, resource="pods")
    return [write for write in writes if write.subresource == "eviction" and write.succeeded]


async def _limits(service: Service, kube: Kube) -> list[tuple[float, int]]:
    """GPU limits that the service wrote to its NodePool: (when received, limit)."""
    writes = await service.writes(kube, resource="nodepools")
    assert {write.code for write in writes} <= {200}
    return [(write.received, int(write.response["spec"]["limits"]["nvidia.com/gpu"])) for write in writes]


async def test_a_spot_notice_brings_the_replacement_node_before_karpenter_evicts_and_nothing_is_asked_for_twice(
    service: Service,
    traffic: Traffic,
    karpenter: Karpenter,
    kube: Kube,
    audit: AuditLog,
    namespace: str,
    ours: dict[str, str],
    patience: float,
) -> None:
    """The NodePool is at its limit: without us Karpenter launches nothing while the doomed node counts there.

    The node goes when its replacement serves, and not at an instant of the clock, so that a slow machine sees the same.
    """
    spot = node_pool(namespace, labels=ours, capacity_types=["spot"], instance_types=["gpu-1"], gpu_limit=2)
    await kube.apply(node_class(), spot)
    await kube.apply(deployment("chat", namespace, 2, node_labels=ours, load_seconds=LOAD_SECONDS, end_seconds=1))
    doomed, safe = await kube.wait_ready(2, namespace)
    claims = {claim["status"]["nodeName"]: claim["metadata"]["name"] for claim in await _claims(kube, namespace)}
    gpus = pool("gpus", ours, 4, capacityType="spot", nodePools=[namespace], gpusPerNode=1)
    await service.policy(policy([gpus], [model("chat", namespace, floor=1, entitlement=2, most=4)]))
    await traffic.past("chat", running=15)
    await service.start()

    node = doomed["spec"]["nodeName"]
    told_at = time.time()
    deadline = _rfc3339(told_at + WARNING_SECONDS)
    await traffic.event("notices", NOTICE, {"kind": "spot-interruption", "node": node, "deadline": deadline})
    await kube.wait_ready(3, namespace)
    await kube.delete("NodeClaim", claims[node])

    async def replaced() -> bool:
        names = {pod["spec"]["nodeName"] for pod in await kube.ready_pods(namespace)}
        return len(names) == 2 and node not in names and await kube.find("Node", node) is None

    await kube.wait_for(replaced, "the replacement is Ready and the doomed node is gone", 60)

    async def back() -> bool:
        return [limit for _, limit in await _limits(service, kube)] == [3, 2]

    await kube.wait_for(back, "the limit is raised by one node and returns to what it was", 60)
    limits, asked = await _limits(service, kube), scaled(await service.writes(kube), "chat")
    first_eviction = (await _evictions(audit, namespace))[0]
    assert limits[1][0] > first_eviction.received, "a limit is never under use, and the doomed node was in use"
    assert [replicas for _, replicas in asked] == [3, 2], "one more beside the doomed one, taken back as that one goes"
    assert asked[0][0] - told_at < patience * ASKED_WITHIN_SECONDS
    assert asked[0][0] < first_eviction.received
    assert first_eviction.name == doomed["metadata"]["name"], "only the doomed pod was evicted"
    assert safe["metadata"]["name"] in {pod["metadata"]["name"] for pod in await kube.ready_pods(namespace)}
    assert await _launched(audit, namespace, since=told_at) == 1, "one node for one node"


async def _claims(kube: Kube, namespace: str) -> list[Json]:
    return await kube.items("NodeClaim", labels=f"karpenter.sh/nodepool={namespace}")


async def _launched(audit: AuditLog, node_pool_name: str, since: float) -> int:
    """NodeClaims that Karpenter made for the NodePool since then."""
    writes = await asyncio.to_thread(audit.writes, "karpenter", resource="nodeclaims", since=since)
    return sum(
        1
        for write in writes
        if write.verb == "create"
        and write.succeeded
        and write.response["metadata"]["labels"]["karpenter.sh/nodepool"] == node_pool_name
    )


def _eventbridge(event_id: str, detail_type: str, instance_id: str, at: float, **detail: str) -> bytes:
    """An event as AWS sends it (no CloudEvents headers, a zone and no account in the ARN)."""
    event = {
        "version": "0",
        "id": event_id,
        "detail-type": detail_type,
        "source": "aws.ec2",
        "account": "123456789012",
        "time": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": "us-east-1",
        "resources": [f"arn:aws:ec2:us-east-1b:instance/{instance_id}"],
        "detail": {"instance-id": instance_id, **detail},
    }
    return json.dumps(event).encode()


async def test_a_warning_told_four_times_over_is_replaced_once_out_of_free_gpus(
    service: Service,
    traffic: Traffic,
    kube: Kube,
    audit: AuditLog,
    namespace: str,
    ours: dict[str, str],
    patience: float,
) -> None:
    """Raw EventBridge about a node that no Karpenter owns: twice the same event, another one, and a recommendation."""
    instance_id = f"i-{namespace.removeprefix('t-')}0badcafe0"
    await kube.create(gpu_node(f"{namespace}-a", gpus=2, labels=ours, capacity_type="spot", instance_id=instance_id))
    await kube.apply(deployment("chat", namespace, 2, node_labels=ours, load_seconds=1, end_seconds=1))
    doomed = await kube.wait_ready(2, namespace)
    await kube.create(gpu_node(f"{namespace}-b", gpus=4, labels=ours, instance_id=instance_id[:-1] + "1"))
    await service.policy(policy([pool("gpus", ours, 6)], [model("chat", namespace, floor=2, entitlement=2, most=4)]))
    await traffic.past("chat", running=15)
    await service.start()

    told_at = time.time()
    issued_at = told_at - LATE_SECONDS
    warning = "EC2 Spot Instance Interruption Warning"
    first = _eventbridge("one", warning, instance_id, issued_at, **{"instance-action": "terminate"})
    second = _eventbridge("two", warning, instance_id, issued_at, **{"instance-action": "terminate"})
    advice = _eventbridge("three", "EC2 Instance Rebalance Recommendation", instance_id, issued_at)
    for value in (first, advice, first, second):
        await traffic.send("notices", value, headers=())
    await kube.wait_ready(4, namespace)
    # What a drainer does while there is time: nobody new lands here, and what is here goes elsewhere.
    await kube.patch("Node", f"{namespace}-a", {"spec": {"unschedulable": True}})
    for pod in doomed:
        await _evict(kube, namespace, pod["metadata"]["name"])

    async def moved() -> bool:
        pods = await kube.items("Pod", namespace)
        return len(pods) == 2 and {pod["spec"].get("nodeName") for pod in pods} == {f"{namespace}-b"}

    await kube.wait_for(moved, "both replicas run on the other node, and nothing else")
    await kube.wait_ready(2, namespace)
    asked = scaled(await service.writes(kube), "chat")
    assert asked[0][1] == 4, "both at once"
    assert asked[0][0] - told_at < patience * ASKED_WITHIN_SECONDS
    assert asked[0][0] < (await _evictions(audit, namespace))[0].received
    steps = [replicas for _, replicas in asked[1:]]
    assert steps in ([2], [3, 2]), f"taken back as the doomed pods go, and never asked for again: {steps}"


async def _evict(kube: Kube, namespace: str, name: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    await kube.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", eviction)
