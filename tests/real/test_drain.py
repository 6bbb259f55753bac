"""A node that nobody else drains, on the real API server: what disruption budgets say, and the last seconds."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.audit import AuditLog, Write
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment, gpu_node

Json = dict[str, Any]

NOTICE = "io.rebalancer.capacity.notice.v1"
NOTICE_SECONDS = 45.0
GRACE_SECONDS = 5  # so eviction is due 25 s before the deadline, deletion 20 s before it


@pytest.fixture
def drained_nodes(ours: dict[str, str]) -> dict[str, str] | None:
    return ours


def _budget(name: str, namespace: str, app: str, least: int) -> Json:
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


async def _writes(audit: AuditLog, namespace: str, verb: str, subresource: str = "") -> list[Write]:
    writes = await asyncio.to_thread(audit.writes, namespace=namespace, resource="pods")
    ours = [write for write in writes if write.user.endswith(f":{namespace}:rebalancer")]
    return [write for write in ours if (write.verb, write.subresource) == (verb, subresource)]


async def test_budgets_are_respected_until_the_last_seconds_and_two_on_one_pod_are_asked_once(
    service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str, ours: dict[str, str]
) -> None:
    """There is no room elsewhere, and all replicas are floors: no number may end them."""
    node = f"{namespace}-a"
    await kube.create(gpu_node(node, gpus=3, labels=ours))
    for name, replicas in (("chat", 2), ("code", 1)):
        of = deployment(name, namespace, replicas, node_labels=ours, end_seconds=1, grace_seconds=GRACE_SECONDS)
        await kube.apply(of)
    await kube.wait_ready(3, namespace)
    await kube.apply(
        _budget("chat", namespace, "chat", 2),
        _budget("one", namespace, "code", 0),
        _budget("two", namespace, "code", 0),
    )
    service.settings |= {"WRITE_DELETION_COST": "true", "DRAIN_NODES": "true"}
    models = [model("chat", namespace, 2, 2, 2), model("code", namespace, 1, 1, 1)]
    await service.policy(policy([pool("gpus", ours, 3, drain=True)], models))
    await asyncio.gather(traffic.past("chat", running=15), traffic.past("code", running=5))
    await service.start()

    deadline = time.time() + NOTICE_SECONDS
    told = {"kind": "spot-interruption", "node": node, "deadline": datetime.fromtimestamp(deadline, UTC).isoformat()}
    await traffic.event("notices", NOTICE, told)

    async def cordoned() -> bool:
        return bool((await kube.get("Node", node))["spec"].get("unschedulable"))

    await kube.wait_for(cordoned, "the node is cordoned", 15)

    async def empty() -> bool:
        pods = await kube.items("Pod", namespace)
        return all(pod["spec"].get("nodeName") != node for pod in pods)

    await kube.wait_for(empty, "nothing runs on the node", NOTICE_SECONDS + 15)
    ended = time.time()
    await audit.settle(kube)
    evictions = await _writes(audit, namespace, "create", "eviction")
    codes = {app: [each.code for each in evictions if each.name.startswith(app)] for app in ("chat", "code")}
    print("evictions", codes, [round(each.received - deadline, 1) for each in evictions])
    assert set(codes["chat"]) == {429}
    assert len(codes["chat"]) >= 2, "both are asked for"
    assert codes["code"] == [500], "two budgets on one pod: asked for once"
    assert all(each.received - deadline >= -26.0 for each in evictions), "not before their grace asks for it"
    deletes = [each for each in await _writes(audit, namespace, "delete") if each.succeeded]
    print("deletions", [(each.name, round(each.received - deadline, 1)) for each in deletes])
    assert len(deletes) == 3
    assert all(-20.0 <= each.received - deadline <= 0.0 for each in deletes)
    assert ended < deadline

    async def told_of() -> Json | None:
        found = await service.node(node)
        return found if found["accounts"][0].get("drainedAt") else None

    found = await kube.wait_for(told_of, "the account is closed", 15)
    print("account", found["explanation"][0])
    assert {each["goneBy"] for each in found["accounts"][0]["replicas"]} == {"rebalancer"}
