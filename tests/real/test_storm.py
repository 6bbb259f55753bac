"""Half of all nodes are told to go within seconds, and go before their time: what is asked when, and who serves."""

import asyncio
import time
from datetime import UTC, datetime

from tests.real.occupancy import failed, scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment, gpu_node

NOTICE = "io.rebalancer.capacity.notice.v1"
# Less than a load, a grace of 30 s and a minute: such a notice counts at once, as two minutes do where loads are real.
NOTICE_SECONDS = 75.0
EARLY_SECONDS = 30.0
ASKED_WITHIN_SECONDS = 5.0
NODES = 4
FLOORS = {"chat": 5, "code": 3}


async def test_half_of_all_nodes_at_once_and_gone_half_a_minute_early_are_replaced_once_and_without_room_nothing_pends(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str]
) -> None:
    """Four nodes of eight go, full of floors, with room on the others; lone's only node goes, with room nowhere."""
    near, alone = ours | {"pool": "gpus"}, ours | {"pool": "lone"}
    doomed = [f"{namespace}-d{number}" for number in range(NODES)]
    await kube.apply(*(gpu_node(name, gpus=2, labels=near) for name in doomed))
    await kube.create(gpu_node(f"{namespace}-lone", gpus=1, labels=alone))
    labels = {"chat": near, "code": near, "lone": alone}
    for name, replicas in (FLOORS | {"lone": 1}).items():
        of = deployment(name, namespace, replicas, node_labels=labels[name], load_seconds=1, end_seconds=1)
        await kube.apply(of)
    before = {pod["metadata"]["name"] for pod in await kube.wait_ready(9, namespace)}
    await kube.apply(*(gpu_node(f"{namespace}-s{number}", gpus=2, labels=near) for number in range(NODES)))
    models = [model(name, namespace, floor, floor, 2 * floor) for name, floor in FLOORS.items()]
    lone = model("lone", namespace, 1, 1, 2) | {"targets": [{"pool": "lone", "name": "lone"}]}
    pools = [pool("gpus", near, 4 * NODES), pool("lone", alone, 2)]
    await service.policy(policy(pools, [*models, lone]))
    await asyncio.gather(*(traffic.past(name, running=9 * floor) for name, floor in (FLOORS | {"lone": 1}).items()))
    await service.start()

    told_at = time.time()
    deadline = told_at + NOTICE_SECONDS
    until = datetime.fromtimestamp(deadline, UTC).isoformat()
    for node in (*doomed, f"{namespace}-lone"):
        await traffic.event("notices", NOTICE, {"kind": "spot-interruption", "node": node, "deadline": until})
    said_by = time.time()

    async def replaced() -> bool:
        pods = await kube.ready_pods(namespace)
        return sum(pod["metadata"]["name"] not in before for pod in pods) == sum(FLOORS.values())

    await kube.wait_for(replaced, "as many replicas as were doomed serve elsewhere", NOTICE_SECONDS - EARLY_SECONDS)
    served_at = time.time()

    async def early() -> bool:
        return time.time() >= deadline - EARLY_SECONDS

    await kube.wait_for(early, "half a minute before the deadline", NOTICE_SECONDS)
    for node in (*doomed, f"{namespace}-lone"):
        for pod in await kube.items("Pod", namespace):
            if pod["spec"].get("nodeName") == node:
                await kube.delete("Pod", pod["metadata"]["name"], namespace)
        await kube.delete("Node", node)

    async def settled() -> bool:
        asked = {name: scaled(await service.writes(kube), name) for name in FLOORS}
        return all(steps and steps[-1][1] == FLOORS[name] for name, steps in asked.items())

    await kube.wait_for(settled, "the numbers are what they were", 60)
    ready = await kube.wait_ready(sum(FLOORS.values()), namespace, "app in (chat,code)")
    assert not {pod["spec"]["nodeName"] for pod in ready} & {*doomed}
    writes = await service.writes(kube)
    for name, floor in FLOORS.items():
        steps = scaled(writes, name)
        first = steps[0][0] - told_at
        print(f"{name} was asked for {first:.2f} s after the first notice: {[to for _, to in steps]}")
        assert max(to for _, to in steps) == 2 * floor, "each of the doomed is replaced, and once"
        assert min(to for _, to in steps) == floor, "never under its floor"
        assert first < ASKED_WITHIN_SECONDS
    print(f"five notices in {said_by - told_at:.2f} s; all serve elsewhere after {served_at - told_at:.1f} s")
    assert scaled(writes, "lone") == [], "there is room for it nowhere: nothing is asked for that can only pend"
    unmet = (await service.explain("lone"))["unmet"]
    print("lone:", unmet[0]["constraint"], unmet[0]["why"])
    assert failed(writes) == []
