"""Four processes of the aggregate tier on the real Kafka, one killed and one added, beside one consumer that needs none.

Two states hear of the same cluster: one reads the topic of metrics itself, one what the tier hands on. Every second both
decide from the same memory.
"""

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from rebalancer.domain.cluster import SOURCES
from rebalancer.domain.events import Event, MetricSample, Position, SourceState
from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Plan
from rebalancer.ingest.intake import KafkaIntake
from rebalancer.kafka.broker import Broker
from rebalancer.loop.clock import RealClock
from rebalancer.planning import plan as decide
from rebalancer.state import ClusterState
from tests.bench.lists import listed
from tests.bench.scale import Scale
from tests.bench.voices import BUSY, CALM, pod_record
from tests.ingest.rig import Refusing
from tests.testbed.kafka import Kafka
from tests.testbed.place import answers
from tests.testbed.process import Process, Reaper, free_port

_PROGRAM = Path(sys.executable).parent / "rebalancer"
SCALE = Scale(models=2, pools=1)
POLICY = SCALE.policy()
PODS = 10
LATER_SECONDS = 6.0  # by which a decision of one may be younger than the other's samples


class Listener:
    """One who reads (`aggregated`: what the tier hands on), and what it knows. `positions`: of all samples it has."""

    def __init__(self, broker: Broker, at: float, *, aggregated: bool) -> None:
        self.positions: set[Position] = set()
        self.state = ClusterState(POLICY, at - 600.0)
        self.state.apply_all(listed(SCALE.models, at), at)
        self.intake = KafkaIntake(
            broker, RealClock(), random.Random(1), self._take, Refusing(), aggregated=aggregated
        )

    def _take(self, events: list[Event]) -> None:
        self.positions |= {one.position for one in events if isinstance(one, MetricSample) and one.position}
        self.state.apply_all(events, time.time())

    @property
    def blind(self) -> bool:
        return bool(self.state.sync(time.time()).stale)


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

    def cycle(self, now: float) -> tuple[Plan, Plan]:
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
        return alone.plan, behind.plan


def _decreases(plan: Plan) -> frozenset[tuple[str, int]]:
    return frozenset((one.model, one.replicas_to) for one in plan.changes if one.replicas_to < one.replicas_from)


class Tier:
    """Processes `rebalancer aggregate` by the name of the member."""

    def __init__(self, kafka: Kafka, prefix: str, folder: Path) -> None:
        self.processes: dict[str, Process] = {}
        self.ports: dict[str, int] = {}
        self._settings = {
            "REBALANCER_KAFKA_BOOTSTRAP": kafka.bootstrap,
            "REBALANCER_KAFKA_SECURITY_PROTOCOL": "PLAINTEXT",
            "REBALANCER_TOPIC_PREFIX": prefix,
        }
        self._folder = folder
        self._reaper = Reaper()

    def launch(self, member: str) -> None:
        port = self.ports[member] = free_port()
        self.processes[member] = Process(
            [str(_PROGRAM), "aggregate", "--member", member],
            log=self._folder / f"{member}.log",
            healthy=lambda: answers(port, "/readyz"),
            reaper=self._reaper,
            environment={**self._settings, "REBALANCER_PROBE_PORT": str(port)},
        )
        self.processes[member].launch()

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
        self._reaper.close()


@pytest.fixture
def tier(kafka: Kafka, topic_prefix: str, tmp_path: Path) -> Iterator[Tier]:
    running = Tier(kafka, topic_prefix, tmp_path)
    yield running
    running.close()


@asynccontextmanager
async def spoken(broker: Broker, busy: set[int]) -> AsyncIterator[asyncio.Task[None]]:
    """Each pod of both models tells of each second; model 0's are busy, and of model 1 those in `busy`."""

    async def speak() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            while True:
                for model in range(SCALE.models):
                    for pod in range(PODS):
                        level = BUSY if model == 0 or pod in busy else 0.1 * CALM
                        record = pod_record(model, pod, time.time(), level)
                        key = f"{model}-{pod}".encode()  # by the pod: a model's samples are in all partitions
                        await producer.send(broker.topic("metrics"), record.value, key, headers=list(record.headers))
                await asyncio.sleep(1.0)

    task = asyncio.create_task(speak())
    yield task
    task.cancel()


async def until(holds: object, what: str, seconds: float) -> float:
    """How long it took. Raises TimeoutError."""
    began = time.monotonic()
    while not holds():  # type: ignore[operator]
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
        await asyncio.sleep(12.0)
        await asyncio.to_thread(tier.processes["aggregate-1"].kill)
        await asyncio.to_thread(tier.launch, "aggregate-4")
        busy |= set(range(0, PODS, 2))  # half of the pods of the model that had something to give
        noticed = await until(lambda: behind.blind, "it is known that partitions are not read", 20.0)
        again = await until(lambda: not behind.blind, "every partition is read again", 60.0)
        told.append(f"one killed, one added: known after {noticed:.1f} s, all read again {again:.1f} s later")
        await asyncio.sleep(5.0)
        speaking.cancel()
        assert not judging.done(), judging.exception()
        judging.cancel()
    same = await until(lambda: alone.positions == behind.positions, "both hold the same samples", 20.0)
    one, other = judge.cycle(time.time())
    told.append(f"{len(alone.positions)} samples, the same in both {same:.1f} s after the last one")
    told.append(
        f"{judge.cycles} decisions each: {judge.decreases} took something, {judge.blind_cycles} while partitions were "
        f"not read took nothing, {judge.waited} waited where one consumer would have taken"
    )
    for intake in intakes:
        intake.cancel()
    await asyncio.wait(intakes)
    told.append(f"DEBUG {[(r.guard, r.subject, r.why) for r in one.refusals]} {[(m.model, m.demand, m.allocation, m.ready) for m in one.models]} {one.pools}")
    with capsys.disabled():
        print("\n  " + "\n  ".join(told))
    assert [(each.model, each.demand, each.allocation) for each in other.models] == [
        (each.model, each.demand, each.allocation) for each in one.models
    ]
    assert _decreases(other) == _decreases(one)
