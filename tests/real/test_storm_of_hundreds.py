"""Five hundred nodes are told to go at once: each of them is answered within seconds."""

import asyncio
import time

import pytest

from tests.real.occupancy import failed, scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.storms import ANSWERED_EDGES, gone, histogram, told, told_by_metrics
from tests.real.traffic import Traffic
from tests.testbed.audit import Write
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment, gpu_node

NODES = 500
MODELS = [f"m{number}" for number in range(10)]
FLOOR = NODES // len(MODELS)
SHELTER_GPUS = 8
NOTICE_SECONDS = 85.0  # with a load of a second a notice counts from 91 s before its deadline on
ANSWERED_WITHIN_SECONDS = 15.0
EARLY_SECONDS = 30.0  # before their deadlines the nodes go
SETTLED_SECONDS = 300.0


def _calls(writes: list[Write], name: str, sent: list[float]) -> list[float]:
    """Seconds from each notice about a node of the model to the first write that asks for a replica in its place.

    `sent`: when they were sent, oldest first, all of them before any of the doomed ended.
    """
    asked = scaled(writes, name)
    return [
        next(at for at, replicas in asked if at >= since and replicas >= FLOOR + number) - since
        for number, since in enumerate(sent, start=1)
    ]


def _print_courses(writes: list[Write], began: float) -> None:
    for name in MODELS:
        print(name, [(round(at - began, 2), replicas) for at, replicas in scaled(writes, name)])


@pytest.mark.proof
@pytest.mark.timeout(1800, func_only=True)
async def test_five_hundred_notices_at_once_are_each_answered_within_fifteen_seconds(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    """A replica on each of them, all of them floors, and as many free GPUs elsewhere."""
    doomed = [f"{namespace}-d{number}" for number in range(NODES)]
    for number, node in enumerate(doomed):
        await kube.create(gpu_node(node, gpus=1, labels=ours | {"of": MODELS[number % len(MODELS)]}))
    for name in MODELS:
        await kube.apply(deployment(name, namespace, FLOOR, node_labels=ours, load_seconds=1, end_seconds=1))
    placed = await kube.wait_ready(NODES, namespace, seconds=SETTLED_SECONDS)
    before = {pod["metadata"]["name"] for pod in placed}
    stands = {pod["spec"]["nodeName"]: pod["metadata"]["labels"]["app"] for pod in placed}
    for number in range(-(-NODES // SHELTER_GPUS)):
        await kube.create(gpu_node(f"{namespace}-s{number}", gpus=SHELTER_GPUS, labels=ours))
    models = [model(name, namespace, FLOOR, FLOOR, 2 * FLOOR) for name in MODELS]
    await service.policy(policy([pool("gpus", ours, 2 * NODES + SHELTER_GPUS)], models))
    await asyncio.gather(*(traffic.past(name, running=9 * FLOOR) for name in MODELS))
    await service.start()

    began = time.time()
    sent: dict[str, float] = {}

    async def tell(node: str) -> None:
        sent[node] = time.time()
        await told(traffic, node, began + NOTICE_SECONDS)

    await asyncio.gather(*(tell(node) for node in doomed))
    print(f"{NODES} notices, the last one acknowledged {time.time() - began:.2f} s after the first was sent")

    async def replaced() -> bool:
        pods = await kube.ready_pods(namespace)
        return len({pod["metadata"]["name"] for pod in pods} - before) >= NODES

    await kube.wait_for(replaced, "as many replicas as were doomed serve elsewhere", NOTICE_SECONDS)
    print(f"all serve elsewhere {time.time() - began:.1f} s after the first notice")
    writes = await service.writes(kube)
    calls: list[float] = []
    for name in MODELS:
        theirs = sorted(at for node, at in sent.items() if stands[node] == name)
        calls += _calls(writes, name, theirs)
    print("notice sent to the call that answers it, by the audit log:", histogram(calls, ANSWERED_EDGES))

    # Without deletion costs Kubernetes would end any of them: the doomed stay until their nodes go.
    await gone(kube, namespace, doomed, began + NOTICE_SECONDS - EARLY_SECONDS)

    async def drained() -> bool:
        return (await service.metrics()).get("rebalancer_notice_spare_seconds_count") == NODES

    try:
        await kube.wait_for(drained, "all doomed replicas have ended", NOTICE_SECONDS + 30)
    finally:
        _print_courses(await service.writes(kube), began)
        print("told by /metrics:", (await service.metrics()).get("rebalancer_notice_spare_seconds_count"))
    metrics = await service.metrics()
    for name in ("action", "replaced", "spare"):
        print(f"{name} by /metrics:", told_by_metrics(metrics, f"rebalancer_notice_{name}_seconds"))
    writes = await service.writes(kube)
    assert max(calls) <= ANSWERED_WITHIN_SECONDS
    for name in MODELS:
        counts = [replicas for _, replicas in scaled(writes, name)]
        assert max(counts) == 2 * FLOOR, "each of the doomed is replaced, and once"
        assert min(counts) >= FLOOR, "never under its floor"
    assert failed(writes) == []
