"""Four processes of the aggregate tier on the real Kafka, one killed and one added, beside one consumer alone.

Two states hear of the same cluster: one reads the topic of metrics itself, one what the tier hands on. Every second
both decide from the same memory.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaProducer
from msgspec.structs import replace

from rebalancer.domain.cluster import SOURCES, ClusterObject
from rebalancer.domain.events import Event, MetricSample, Position, SourceState
from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Plan
from rebalancer.ingest.intake import KafkaIntake
from rebalancer.kafka.broker import Broker
from rebalancer.loop.clock import RealClock
from rebalancer.planning import plan as decide
from rebalancer.state import ClusterState
from tests.ingest.rig import Refusing
from tests.ingest.test_aggregation import as_read
from tests.ingest.tier import PODS, POLICY, a_sample_event
from tests.ingest.wire import STRUCTURED
from tests.real.tier import Tier
from tests.state.objects import a_cluster_node, a_ready_pod, a_workload, listed
from tests.testbed.kafka import Kafka

BUSY, CALM = 12.0, 0.4  # requests in flight of a pod
LATER_SECONDS = 6.0  # by which a decision of one may be younger than the other's samples


class Listener:
    """One who reads (`aggregated`: what the tier hands on), and what it knows. `positions`: of all samples it has."""

    def __init__(self, broker: Broker, at: float, *, aggregated: bool) -> None:
        self.positions: set[Position] = set()
        self.state = ClusterState(POLICY, at - 600.0)
        self.state.apply_all(a_cluster(at), at)
        self.intake = KafkaIntake(broker, RealClock(), random.Random(1), self._take, Refusing(), aggregated=aggregated)

    def _take(self, events: list[Event]) -> None:
        self.positions |= {one.position for one in events if isinstance(one, MetricSample) and one.position}
        self.state.apply_all(events, time.time())

    @property
    def blind(self) -> bool:
        return bool(self.state.sync(time.time()).stale)


def a_cluster(at: float) -> list[Event]:
    """A node full of both models' pods, all of them Ready for minutes."""
    pods = [a_ready_pod(f"{model}-{pod}", model) for model in "ab" for pod in range(PODS)]
    known: list[ClusterObject] = [
        replace(a_cluster_node(gpus=2 * PODS), ready_changed_at=at - 3600.0),
        *(a_workload(model, PODS) for model in "ab"),
        *(replace(pod, ready_at=at - 540.0, created_at=at - 600.0) for pod in pods),
    ]
    return [listed(source, *(one for one in known if isinstance(one, kind)), at=at) for source, kind in SOURCES.items()]


class Judge:
    """Both decide each second; `taken`: (since the start, whether it was behind, what would go) of each decision."""

    def __init__(self, alone: Listener, behind: Listener) -> None:
        self.alone, self.behind = alone, behind
        self.memory = Memory()
        self.cycles = self.blind_cycles = self.decreases = self.waited = 0
        self._would: list[tuple[float, frozenset[tuple[str, int]]]] = []

    async def judge(self) -> None:
        while True:
            self.cycle(time.time())
            await asyncio.sleep(1.0)

    def cycle(self, now: float) -> None:
        self.cycles += 1
        for one in (self.alone, self.behind):
            one.state.apply_all([SourceState(source, now) for source in SOURCES], now)
        alone = decide(self.alone.state.snapshot(now, self.cycles), POLICY, self.memory)
        behind = decide(self.behind.state.snapshot(now, self.cycles), POLICY, self.memory)
        self.memory = alone.memory
        takes, would = _decreases(behind.plan), _decreases(alone.plan)
        self._would = [(at, which) for at, which in self._would if now - at <= LATER_SECONDS] + [(now, would)]
        blind = self.behind.blind
        self.blind_cycles += blind
        self.decreases += bool(takes)
        self.waited += bool(would and not takes)
        assert not (blind and takes), f"takes {takes} while partitions are not read"
        assert takes <= frozenset().union(*(which for _, which in self._would)), (takes, self._would)


def by_samples(one: Listener, memory: Memory, now: float) -> list[tuple[str, str, int, int]]:
    """What it decides by what samples say, without what each foresaw a while ago: they look ahead once a minute."""
    snapshot = one.state.peek(now)
    blank = replace(snapshot, cycle=10_000, loads=tuple(replace(load, outlook=None) for load in snapshot.loads))
    changes = decide(blank, POLICY, memory).plan.changes
    return [(each.model, each.kind, each.replicas_from, each.replicas_to) for each in changes]


def _decreases(plan: Plan) -> frozenset[tuple[str, int]]:
    return frozenset((one.model, one.replicas_to) for one in plan.changes if one.replicas_to < one.replicas_from)


@asynccontextmanager
async def spoken(broker: Broker, busy: set[int]) -> AsyncIterator[asyncio.Task[None]]:
    """Each pod of both models tells of each second; those of model a are busy, and of model b those in `busy`."""

    async def speak() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            while True:
                for model in "ab":
                    for pod in range(PODS):
                        level = BUSY if model == "a" or pod in busy else CALM
                        value = a_sample_event(model, pod, level, time.time(), interval_seconds=1)
                        key = f"{model}-{pod}".encode()  # by the pod: a model's samples are in all partitions
                        await producer.send(broker.topic("metrics"), value, key, headers=list(STRUCTURED))
                await asyncio.sleep(1.0)

    task = asyncio.create_task(speak())
    yield task
    task.cancel()


async def until(holds: Callable[[], object], what: str, seconds: float) -> float:
    """How long it took. Raises TimeoutError."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        await asyncio.sleep(0.05)
    return time.monotonic() - began


@pytest.mark.timeout(240)
async def test_one_of_four_dies_and_one_comes_and_it_decides_as_one_consumer_and_takes_nothing_meanwhile(
    kafka: Kafka, tier: Tier, topic_prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broker, began = Broker(kafka.bootstrap, topic_prefix), time.time()
    await broker.make_topics()
    alone, behind = (Listener(broker, began, aggregated=aggregated) for aggregated in (False, True))
    told: list[str] = []
    for number in range(4):
        await asyncio.to_thread(tier.launch, f"aggregate-{number}")
    intakes = [asyncio.create_task(one.intake.run()) for one in (alone, behind)]
    busy: set[int] = set()
    judge = Judge(alone, behind)
    async with spoken(broker, busy) as speaking:
        first = await until(lambda: behind.positions and not behind.blind, "every partition is read", 60.0)
        told.append(f"all partitions read {first:.1f} s after four processes were launched")
        judging = asyncio.create_task(judge.judge())
        await asyncio.sleep(8.0)
        await asyncio.to_thread(tier.processes["aggregate-1"].kill)
        await asyncio.to_thread(tier.launch, "aggregate-4")
        busy |= set(range(0, PODS, 2))  # half of the pods of the model that had something to give
        noticed = await until(lambda: behind.blind, "it is known that partitions are not read", 20.0)
        again = await until(lambda: not behind.blind, "every partition is read again", 60.0)
        told.append(f"one killed, one added: known after {noticed:.1f} s, all read again {again:.1f} s later")
        await asyncio.sleep(4.0)
        speaking.cancel()
        assert not judging.done(), judging.exception()
        judging.cancel()
    same = await until(lambda: alone.positions == behind.positions, "both hold the same samples", 20.0)
    now = time.time()
    wanted, found = (one.state.peek(now).loads for one in (alone, behind))
    decided = [by_samples(one, judge.memory, now) for one in (alone, behind)]
    told.append(f"{len(alone.positions)} samples, the same in both {same:.1f} s after the last one")
    told.append(f"what both decide by them: {decided[0]}")
    told.append(
        f"{judge.cycles} decisions each: {judge.decreases} took something, {judge.blind_cycles} while partitions were "
        f"not read took nothing, {judge.waited} waited where one consumer would have taken"
    )
    for intake in intakes:
        intake.cancel()
    await asyncio.wait(intakes)
    with capsys.disabled():
        print("\n  " + "\n  ".join(told))
    assert [as_read(load) for load in found] == [as_read(load) for load in wanted]
    assert decided[0] == decided[1]
