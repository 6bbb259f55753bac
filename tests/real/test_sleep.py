"""Models that may sleep: the autoscaler ends the last replica and brings it back, and its GPU is lent meanwhile.

KEDA, and an HPA with a minimum of 0 behind the gate HPAScaleToZero; the triggers say when somebody asks.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.real.occupancy import bounded, failed, scaled
from tests.real.people import People
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.real.triggers import Triggers
from tests.testbed.audit import AuditLog
from tests.testbed.keda import Keda
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import deployment, gpu_node, hpa, scaled_object

GPUS = 4
QUICK = {"pollingInterval": 2, "cooldownPeriod": 3}


@pytest.fixture
async def triggers() -> AsyncIterator[Triggers]:
    triggers = Triggers()
    async with triggers.server:
        yield triggers


def _external(of: str, namespace: str) -> Json:
    """An HPA's minimum of 0 needs a metric from outside its pods: the one that KEDA serves for a ScaledObject."""
    metric = {"name": "s0-metric-api-replicas", "selector": {"matchLabels": {"scaledobject.keda.sh/name": of}}}
    external = {"metric": metric, "target": {"type": "AverageValue", "averageValue": "1"}}
    made = hpa("chat", namespace, 0, 8)
    made["spec"]["metrics"] = [{"type": "External", "external": external}]
    made["spec"]["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    return made


async def _world(kube: Kube, service: Service, traffic: Traffic, namespace: str, ours: dict[str, str]) -> None:
    """A node of 4 GPUs: chat sleeps on none of its own one when nobody asks, code could use all."""
    await kube.create(gpu_node(namespace, gpus=GPUS, labels=ours))
    for name, replicas in (("chat", 1), ("code", 3)):
        await kube.apply(deployment(name, namespace, replicas, node_labels=ours, load_seconds=1, end_seconds=1))
    await kube.wait_ready(GPUS, namespace)
    models = [model("chat", namespace, 0, 1, 4), model("code", namespace, 1, 3, 4)]
    await service.policy(policy([pool("gpus", ours, GPUS)], models))
    await asyncio.gather(traffic.past("chat", running=8), traffic.past("code", running=35))


async def _replicas(kube: Kube, namespace: str, name: str, count: int) -> None:
    async def reached() -> bool:
        scale = await kube.get("Deployment", name, namespace, "scale")
        there = (scale["spec"].get("replicas", 0), scale["status"].get("replicas", 0))  # pods outlive it by a moment
        return there == (count, count)

    await kube.wait_for(reached, f"{name} at {count} replicas", 60)


async def test_keda_ends_a_last_replica_that_nobody_needs_and_its_trigger_or_our_need_wakes_it(
    keda: Keda, service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, people: People, namespace: str,
    ours: dict[str, str], triggers: Triggers,
) -> None:  # fmt: skip
    await _world(kube, service, traffic, namespace, ours)
    triggers.wants = {"chat": 1}
    await kube.apply(scaled_object("chat", namespace, 0, 8, [triggers.of("chat")], **QUICK))
    await service.start()
    traffic.says("chat", running=0)
    triggers.wants["chat"] = 0
    await _replicas(kube, namespace, "chat", 0)
    await kube.wait_ready(4, namespace, "app=code")

    triggers.wants["chat"] = 1  # somebody asks: KEDA wakes it, and a pod waits for its GPU
    traffic.says("chat", running=8)
    await kube.wait_ready(1, namespace, "app=chat", 60)
    await kube.wait_ready(3, namespace, "app=code")

    triggers.wants["chat"] = 0
    traffic.says("chat", running=0)
    await _replicas(kube, namespace, "chat", 0)
    await people.pin("warm", "chat", 1, 300)  # we want it, and no trigger is active
    await kube.wait_ready(1, namespace, "app=chat", 60)

    writes = await service.writes(kube)
    assert failed(writes) == []
    given = [(low, high) for _, low, high in bounded(writes, "chat")]
    assert given[-1] == (1, 1)
    assert given.count((0, 1)) == 2, given
    assert all(high == 1 for low, high in given if low == 0), "KEDA ends all at once where the minimum is 0"
    everybody = await asyncio.to_thread(audit.writes, namespace=namespace)
    assert [count for _, count in scaled(everybody, "chat")] == [0, 1, 0, 1], "all by KEDA"
    assert scaled(writes, "chat") == []


@pytest.mark.proof  # 60 s, and KEDA's way is played every day
async def test_an_hpa_that_may_scale_to_zero_does_so_and_wakes_by_its_own_metric(
    keda: Keda, service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str,
    ours: dict[str, str], triggers: Triggers,
) -> None:  # fmt: skip
    await _world(kube, service, traffic, namespace, ours)
    triggers.wants = {"signal": 1}
    await kube.apply(deployment("signal", namespace, 1, gpus=0, node_labels=ours))
    await kube.apply(scaled_object("signal", namespace, 1, 1, [triggers.of("signal")]))
    await kube.apply(_external("signal", namespace))
    await service.start()
    traffic.says("chat", running=0)
    triggers.wants["signal"] = 0
    await _replicas(kube, namespace, "chat", 0)
    await kube.wait_ready(4, namespace, "app=code")

    triggers.wants["signal"] = 1
    traffic.says("chat", running=8)
    await kube.wait_ready(1, namespace, "app=chat", 60)
    await kube.wait_ready(3, namespace, "app=code")
    writes = await service.writes(kube)
    assert failed(writes) == []
    given = [(low, high) for _, low, high in bounded(writes, "chat", "horizontalpodautoscalers")]
    assert (0, 1) in given
    everybody = await asyncio.to_thread(audit.writes, namespace=namespace)
    assert [count for _, count in scaled(everybody, "chat")] == [0, 1], "both by the HPA"
