"""Two roles of one model, prefill and decode, on real parts: at every write of the audit log their ratio holds."""

import asyncio

from tests.real.occupancy import Pods, failed
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.audit import AuditLog, Write
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment, gpu_node

GPUS = 8
BEGAN = {"prefill": 1, "decode": 2, "other": 5}
LEAST, MOST = 0.5, 1.0  # of prefill, for each one of decode


async def test_prefill_and_decode_move_together_there_and_back(
    service: Service, traffic: Traffic, kube: Kube, audit: AuditLog, namespace: str, ours: dict[str, str]
) -> None:
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
    await service.start()
    traffic.says("decode", running=38)
    traffic.says("other", running=15)
    await kube.wait_ready(4, namespace, "app=decode", 60)
    await kube.wait_ready(2, namespace, "app=prefill")
    traffic.says("decode", running=12)
    traffic.says("other", running=48)
    await kube.wait_ready(5, namespace, "app=other", 60)
    writes = await service.writes(kube)
    assert failed(writes) == []
    pairs = _pairs(writes)
    assert [pair for pair in pairs if not LEAST * pair[1] <= pair[0] <= MOST * pair[1]] == []
    assert {prefill for prefill, _ in pairs} >= {1, 2}
    everybody = await asyncio.to_thread(audit.writes, namespace=namespace)
    assert Pods.of(everybody).most() <= GPUS, "no pod was ever asked for that had no GPU"


def _pairs(writes: list[Write]) -> list[tuple[int, int]]:
    """What prefill and decode were asked for after each write, in the order in which the API server stored them."""
    asked, pairs = dict(BEGAN), []
    for write in sorted(writes, key=lambda each: each.answered):
        if write.subresource == "scale" and write.succeeded:
            asked[write.name] = write.request["spec"]["replicas"]
            pairs.append((asked["prefill"], asked["decode"]))
    return pairs
