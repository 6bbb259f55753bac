"""How long nobody leads, at 1,000 models: leaders are killed at random moments, or end in order; and what both ask.

Deployments, watches and samples are those of 1,000 models; eight of them have pods, for kubelets are not what is shown.
These eight swap their demand all the time, so that kills fall into releases and grants, and the audit log judges them:
floors, budget, nothing written twice, no write of an earlier term after one of a later; `decisions` has each outcome.
"""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import cycle, pairwise
from pathlib import Path

import pytest

from rebalancer.kafka.broker import Broker
from tests.bench.children import child
from tests.real.crashing import EXPECTED, OF_ANY
from tests.real.occupancy import Pods, failed, scaled
from tests.real.oracles import below_floor, over_budget, steps
from tests.real.policies import model, policy, pool
from tests.real.records import untold
from tests.real.service import Service
from tests.real.succession import LOOK_SECONDS, Pair, acts, epoch_of, second_replica, start
from tests.real.traffic import Traffic
from tests.testbed.audit import AuditLog, Write
from tests.testbed.kafka import Kafka
from tests.testbed.kube import Kube
from tests.testbed.objects import deployment, gpu_node
from tests.testbed.stack import Stack

MODELS = 1000
SERVED = 8
OWNED, FLOOR, MOST = 2, 1, 3
GPUS = SERVED * OWNED
BUSY, IDLE, EVEN = 25.0, 5.0, 15.0
"""Requests in flight, at 10 for a replica: half of the eight need three, the others one; EVEN needs what is owned."""
SWAP_SECONDS = 6.0
PACE = 100
"""Samples in a second: each model's every 10 s."""
KILLS = int(os.environ.get("FAILOVER_KILLS", "200"))
ORDERLY = int(os.environ.get("FAILOVER_SIGTERMS", "20"))
BUDGET_SECONDS = float(os.environ.get("FAILOVER_SECONDS", "3600"))
"""A busy machine does not come to all of them; the page says to how many it came."""
CRASH_SECONDS = 12.0
ORDERLY_SECONDS = 1.0
LOAD_SECONDS = 60.0


@pytest.fixture
async def pair(
    service: Service, cluster: Stack, kafka: Kafka, kube: Kube, namespace: str, ours: dict[str, str], tmp_path: Path
) -> AsyncIterator[Pair]:
    names = [_name(number) for number in range(MODELS)]
    await kube.create(gpu_node(f"{namespace}-a", gpus=GPUS, labels=ours))
    for number, name in enumerate(names):
        replicas = OWNED if number < SERVED else 0
        await kube.apply(deployment(name, namespace, replicas, node_labels=ours, load_seconds=0.5, end_seconds=0.5))
    served = [model(name, namespace, FLOOR, OWNED, MOST) for name in names[:SERVED]]
    others = [model(name, namespace, 0, 0, MOST) for name in names[SERVED:]]
    await service.policy(policy([pool("gpus", ours, GPUS)], [*served, *others], planEverySeconds=5))
    service.settings |= {"CHECKPOINT_SECONDS": "30", "RINGS_SECONDS": "300"}
    await asyncio.to_thread((tmp_path / "standby").mkdir)
    topic = f"{service.settings['TOPIC_PREFIX']}metrics"
    async with (
        second_replica(service, cluster, kafka, tmp_path / "standby") as standby,
        child("steady", kafka.bootstrap, topic, PACE, *names[SERVED:]),
    ):
        yield Pair(service, standby)


async def _plans(service: Service, since: float) -> float:
    """When it was seen to have made a plan as the leader."""
    while (await service.metrics()).get("rebalancer_plan_timestamp_seconds", 0.0) < since:
        await asyncio.sleep(LOOK_SECONDS)
    return time.time()


async def _followed(pair: Pair, end: Callable[[Service], Awaitable[object]]) -> tuple[float, float]:
    """From the leader's end until the other acts, and until its first plan is seen; then one more stands by."""
    began = time.time()
    ending = asyncio.ensure_future(end(pair.leading))
    acts_at = await acts(pair.standing, began)
    plans_at = await _plans(pair.standing, acts_at)
    await ending
    pair.leading, pair.standing = pair.standing, pair.leading
    await start(pair.standing, None)
    await pair.standing.wait_ready(120.0)
    return acts_at - began, plans_at - began


@pytest.mark.proof
@pytest.mark.timeout(7200, func_only=True)
async def test_another_one_plans_within_twelve_seconds_of_a_kill_and_one_of_a_sigterm(  # fixtures
    pair: Pair, audit: AuditLog, kube: Kube, traffic: Traffic, kafka: Kafka, namespace: str
) -> None:
    rng, killed, ended = random.Random(22), list[tuple[float, float]](), list[tuple[float, float]]()
    await pair.begin()
    await start(pair.standing, None)
    for each in (pair.leading, pair.standing):
        await each.wait_ready(180.0)
    print(await _load(pair.leading, audit, kube), flush=True)
    until = time.monotonic() + BUDGET_SECONDS
    swapping = asyncio.create_task(_swap(traffic))
    for _ in range(ORDERLY):
        await asyncio.sleep(rng.uniform(0.0, 5.0))
        ended.append(await _followed(pair, Service.stop))
    print(f"{len(ended)} SIGTERMs: {_told(ended)}", flush=True)
    while len(killed) < KILLS and time.monotonic() < until:
        await asyncio.sleep(rng.uniform(0.0, 5.0))
        killed.append(await _followed(pair, Service.kill))
        print(f"{len(killed)} kills: {_told(killed)}", flush=True)
    swapping.cancel()
    await _rest(traffic, kube, namespace)
    pods = Pods.of(await asyncio.to_thread(audit.writes, namespace=namespace))
    _judge(await pair.leading.writes(kube), pods)
    assert await untold(Broker(kafka.bootstrap, pair.leading.settings["TOPIC_PREFIX"])) == []
    assert max(plans for _, plans in killed) <= CRASH_SECONDS
    assert max(leads for leads, _ in ended) <= ORDERLY_SECONDS


async def _swap(traffic: Traffic) -> None:
    for busy in cycle((0, 1)):
        for number in range(SERVED):
            traffic.says(_name(number), running=BUSY if number % 2 == busy else IDLE)
        await asyncio.sleep(SWAP_SECONDS)


async def _rest(traffic: Traffic, kube: Kube, namespace: str) -> None:
    """Each needs what it owns, and gets it."""
    for number in range(SERVED):
        traffic.says(_name(number), running=EVEN)
    for number in range(SERVED):
        await kube.wait_ready(OWNED, namespace, f"app={_name(number)}", 90.0)


def _judge(writes: Iterable[Write], pods: Pods) -> None:
    """No promise was broken over all lives together; the eight are Deployments, written by their scale."""
    writes, served = list(writes), {_name(number): OWNED for number in range(SERVED)}
    asked = steps(writes, served)
    lost, gained = sum(step.lost for step in asked), sum(step.after > step.before for step in asked)
    print(f"{len(writes)} writes, {lost} replicas released, {gained} raises", flush=True)
    assert lost >= SERVED, "there was something to break"
    assert below_floor(asked, dict.fromkeys(served, FLOOR)) == []
    assert over_budget(asked, served, pods, GPUS) == []
    again = {name: list(pairwise(many for _, many in scaled(writes, name))) for name in served}
    assert {name: pairs for name, pairs in again.items() if any(was == then for was, then in pairs)} == {}
    assert [each for each in failed(writes) if not each.startswith(EXPECTED)] == []
    epochs = [epoch_of(write) for write in writes if write.succeeded and write.group not in OF_ANY]
    assert epochs == sorted(epochs)


def _name(number: int) -> str:
    return f"m{number:04}"


def _told(found: list[tuple[float, float]]) -> str:
    acts_after, plans_after = (sorted(column) for column in zip(*found, strict=True))
    middle = len(found) // 2
    return (
        f"acts after {acts_after[middle]:.2f} s (most {acts_after[-1]:.2f}), "
        f"first plan seen after {plans_after[middle]:.2f} s (most {plans_after[-1]:.2f})"
    )


async def _load(service: Service, audit: AuditLog, kube: Kube) -> str:
    """What leader and standby ask the API server in a quiet minute."""

    async def asked_so_far() -> Counter[str]:
        await audit.settle(kube)
        requests = await asyncio.to_thread(list, audit.requests(service.account))
        return Counter(f"{each.verb} {each.target}" for each in requests)

    before = await asked_so_far()
    await asyncio.sleep(LOAD_SECONDS)
    asked = await asked_so_far() - before
    rows = ", ".join(f"{what} {number / LOAD_SECONDS:.2f}" for what, number in asked.most_common(8))
    return f"calls per second of a leader and its standby: {asked.total() / LOAD_SECONDS:.1f} ({rows})"
