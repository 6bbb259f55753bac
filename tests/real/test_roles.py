"""Two roles of one model, prefill and decode, on real parts, under KEDA too: at every write their ratio holds."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.real.occupancy import Pods, failed
from tests.real.occupancy import scaled as scaled_by
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.real.triggers import Triggers
from tests.testbed.audit import AuditLog, Write
from tests.testbed.keda import Keda
from tests.testbed.kube import Json, Kube
from tests.testbed.objects import deployment, gpu_node, scaled_object

GPUS = 8
BEGAN = {"prefill": 1, "decode": 2, "other": 5}
LEAST, MOST = 0.5, 1.0  # of prefill, for each one of decode
MOST_PREFILL = 4
AT_ONCE = {"horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}}


@pytest.fixture
async def triggers() -> AsyncIterator[Triggers]:
    triggers = Triggers()
    async with triggers.server:
        yield triggers


async def test_prefill_and_decode_move_together_there_and_back(
    service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str, ours: dict[str, str]
) -> None:
    await _begin(kube, service, traffic, namespace, ours)
    await _there_and_back(kube, traffic, namespace)
    writes = await service.writes(kube)
    assert failed(writes) == []
    _judge(writes)
    everybody = await asyncio.to_thread(audit.writes, namespace=namespace)
    assert Pods.of(everybody).most() <= GPUS, "no pod was ever asked for that had no GPU"


async def test_under_keda_their_bounds_keep_the_ratio_while_their_triggers_ask_for_what_breaks_it(
    keda: Keda, service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str,
    ours: dict[str, str], triggers: Triggers,
) -> None:  # fmt: skip
    triggers.wants = {"prefill": 8, "decode": 1}
    scaled = [  # as people would pin them before we come
        scaled_object(name, namespace, BEGAN[name], BEGAN[name], [triggers.of(name)], advanced=AT_ONCE)
        for name in triggers.wants
    ]
    await _begin(kube, service, traffic, namespace, ours, *scaled)
    await _there_and_back(kube, traffic, namespace)
    writes = await service.writes(kube)
    assert failed(writes) == []
    assert {write.resource for write in writes if write.name in triggers.wants} == {"scaledobjects"}
    _judge(writes)
    since = next(write.answered for write in writes if write.name == "prefill")
    everybody = await asyncio.to_thread(audit.writes, namespace=namespace)
    numbers = [count for at, count in scaled_by(everybody, "prefill") if at > since]
    assert max(numbers) <= MOST_PREFILL, "its trigger asks for eight, and its bounds let nobody follow"


async def _begin(
    kube: Kube, service: Service, traffic: Traffic, namespace: str, ours: dict[str, str], *autoscalers: Json
) -> None:
    """Two nodes of 4 GPUs, full; the autoscalers come just before the service does."""
    for name in ("a", "b"):
        await kube.create(gpu_node(f"{namespace}-{name}", gpus=GPUS // 2, labels=ours))
    for name, replicas in BEGAN.items():
        await kube.apply(deployment(name, namespace, replicas, node_labels=ours, load_seconds=1, end_seconds=1))
    await kube.wait_ready(GPUS, namespace)
    models = [
        model("prefill", namespace, 1, 2, 8, ratio={"to": "decode", "min": LEAST, "max": MOST}),
        model("decode", namespace, 1, 3, 8),
        model("other", namespace, 1, 3, 8),
    ]
    await service.policy(policy([pool("gpus", ours, GPUS)], models))
    await asyncio.gather(*(traffic.past(name, running=count * 9) for name, count in BEGAN.items()))
    await kube.apply(*autoscalers)
    await service.start()


async def _there_and_back(kube: Kube, traffic: Traffic, namespace: str) -> None:
    traffic.says("decode", running=38)
    traffic.says("other", running=12)
    await kube.wait_ready(4, namespace, "app=decode", 60)
    await kube.wait_ready(2, namespace, "app=prefill")
    traffic.says("decode", running=12)
    traffic.says("other", running=48)
    await kube.wait_ready(5, namespace, "app=other", 60)


def _judge(writes: list[Write]) -> None:
    """The ratio held after each write of ours."""
    pairs = _pairs(writes)
    assert [pair for pair in pairs if not LEAST * pair[1] <= pair[0] <= MOST * pair[1]] == []
    assert {prefill for prefill, _ in pairs} >= {1, 2}


def _pairs(writes: list[Write]) -> list[tuple[int, int]]:
    """What prefill and decode were asked for after each write, in the order in which the API server stored them."""
    asked, pairs = dict(BEGAN), []
    for write in sorted(writes, key=lambda each: each.answered):
        if write.succeeded and (write.subresource == "scale" or write.resource == "scaledobjects"):
            spec = write.response["spec"]
            asked[write.name] = spec["maxReplicaCount"] if write.resource == "scaledobjects" else spec["replicas"]
            pairs.append((asked["prefill"], asked["decode"]))
    return pairs
