"""Half of all nodes are told to go within seconds, and go before their time: what is asked when, and who serves."""

import asyncio
import time
from collections.abc import Iterable
from datetime import UTC, datetime

from tests.real.occupancy import failed, scaled
from tests.real.policies import model, policy, pool
from tests.real.service import Service, lacking
from tests.real.storms import gone
from tests.real.traffic import Traffic
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment, gpu_node

NOTICE = "io.rebalancer.capacity.notice.v1"
# Less than a load, a grace of 30 s and a minute: such a notice counts at once, as two minutes do where loads are real.
NOTICE_SECONDS = 75.0
EARLY_SECONDS = 30.0
ASKED_WITHIN_SECONDS = 5.0
NODES = 10  # of two GPUs, and as many that stay
FLOORS = {"chat": 12, "code": 8}
REPLICAS = sum(FLOORS.values())


async def test_half_of_all_nodes_at_once_and_gone_half_a_minute_early_are_replaced_once_and_without_room_nothing_pends(
    service: Service, traffic: Traffic, kube: Kube, namespace: str, ours: dict[str, str], patience: float
) -> None:
    """Ten nodes of twenty go, full of floors, with room on the others; lone's only node goes, with room nowhere."""
    near, alone = ours | {"pool": "gpus"}, ours | {"pool": "lone"}
    doomed = [*(f"{namespace}-d{number}" for number in range(NODES)), f"{namespace}-lone"]
    await kube.apply(*(gpu_node(name, gpus=2, labels=near) for name in doomed[:-1]))
    await kube.apply(gpu_node(doomed[-1], gpus=1, labels=alone))
    for name, replicas in (FLOORS | {"lone": 1}).items():
        labels = alone if name == "lone" else near
        await kube.apply(deployment(name, namespace, replicas, node_labels=labels, load_seconds=1, end_seconds=1))
    before = {pod["metadata"]["name"] for pod in await kube.wait_ready(REPLICAS + 1, namespace)}
    await kube.apply(*(gpu_node(f"{namespace}-s{number}", gpus=2, labels=near) for number in range(NODES)))
    models = [model(name, namespace, floor, floor, 2 * floor) for name, floor in FLOORS.items()]
    lone = model("lone", namespace, 1, 1, 2) | {"targets": [{"pool": "lone", "name": "lone"}]}
    await service.policy(policy([pool("gpus", near, 4 * NODES), pool("lone", alone, 2)], [*models, lone]))
    await asyncio.gather(*(traffic.past(name, running=9 * floor) for name, floor in (FLOORS | {"lone": 1}).items()))
    await service.start()

    began = time.time()
    deadline = await _warned(traffic, doomed)
    print(f"{len(doomed)} notices in {time.time() - began:.2f} s")

    async def replaced() -> bool:
        names = {pod["metadata"]["name"] for pod in await kube.ready_pods(namespace)}
        return len(names - before) == REPLICAS

    await kube.wait_for(replaced, "as many replicas as were doomed serve elsewhere", NOTICE_SECONDS - EARLY_SECONDS)
    print(f"all serve elsewhere {time.time() - began:.1f} s after the first notice")
    (lacks,) = (await service.explain("lone"))["unmet"]
    print("lone:", lacks["constraint"], lacks["why"])
    assert (lacks["constraint"], lacks["replicas"]) == ("budget", 1)

    await gone(kube, namespace, doomed, deadline - EARLY_SECONDS)
    for name, floor in FLOORS.items():

        async def settled(name: str = name, floor: int = floor) -> bool:
            return scaled(await service.writes(kube), name)[-1][1] == floor

        await kube.wait_for(settled, f"{name} asks for as many as before", 60)
        steps = scaled(await service.writes(kube), name)
        first, counts = steps[0][0] - began, [replicas for _, replicas in steps]
        print(f"{name} was asked for {first:.2f} s after the first notice: {counts}")
        assert max(counts) == 2 * floor, "each of the doomed is replaced, and once"
        assert min(counts) == floor, "never under its floor"
        assert first < patience * ASKED_WITHIN_SECONDS
    ready = await kube.wait_ready(REPLICAS, namespace, "app in (chat,code)")
    assert not {pod["spec"]["nodeName"] for pod in ready} & {*doomed}
    writes = await service.writes(kube)
    assert scaled(writes, "lone") == [], "there is room for it nowhere: nothing is asked for that can only pend"
    assert failed(writes) == []
    gone_with_it = "1 replica of it has no node to start on"
    plan = await service.planned(
        kube, "lone, its node gone", lambda plan: any(gone_with_it in one["why"] for one in lacking(plan, "lone"))
    )
    (lacks,) = lacking(plan, "lone")
    print("lone, its node gone:", lacks["constraint"], lacks["why"])
    for node in doomed[:-1]:
        print(node.removeprefix(f"{namespace}-"), (await service.node(node))["explanation"][0])


async def _warned(traffic: Traffic, nodes: Iterable[str]) -> float:
    """Spot notices about all of them, one after another; their deadline."""
    deadline = time.time() + NOTICE_SECONDS
    until = datetime.fromtimestamp(deadline, UTC).isoformat()
    for node in nodes:
        await traffic.event("notices", NOTICE, {"kind": "spot-interruption", "node": node, "deadline": until})
    return deadline
