"""Kafka and the API server go away and come back, records are poisoned, the service is killed in the middle of a shift.

Judged by what others wrote down: Kafka's acknowledgements against the checkpoint and the dead letters, the API
server's audit log against floors, budget and a guard's window, and the clock against /readyz.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from rebalancer.api.http.json_codec import instant_of
from rebalancer.kafka.broker import Broker
from rebalancer.state.checkpoint import ModelPast
from tests.faults.evidence import Evidence, Rules, Span
from tests.faults.invariants import INVARIANTS
from tests.real.occupancy import Pods, scaled
from tests.real.oracles import steps
from tests.real.people import People
from tests.real.poison import KINDS, Poison
from tests.real.policies import Json, model, policy, pool
from tests.real.readiness import Readiness
from tests.real.records import Place, Said, checkpointed, differing, letters, said
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.audit import AuditLog
from tests.testbed.kafka import Kafka
from tests.testbed.kube import Kube, NotYet
from tests.testbed.objects import deployment, gpu_node
from tests.testbed.stack import Stack

NEVER = "1970-01-01T00:00:00Z"
GPUS = 14
FIRST = {"chat": 2, "code": 10, "side": 2}
FLOORS = {"chat": 1, "code": 2, "side": 1}
OWN = {"chat": 6, "code": 6, "side": 2}
# Models that nobody deployed: nothing moves for them, but their samples are records like all others.
WITNESSES = {f"witness-{number}": 0.1 + 0.03 * number for number in range(29)}
RUNNING = {"chat": 15.0, "code": 95.0, "side": 15.0, **WITNESSES}
PER_REPLICA = 10.0
# Of the guard `shift`; the window must outlast a restart.
SHARE, WINDOW_SECONDS = 0.5, 25.0
# Kafka stays away this long after the window's end, when the next replica of the donor is due to go.
OVERDUE_SECONDS = 4.0
# How late /readyz may be: a client of Kafka that gets no answer says nothing, so its silence has to last a while.
TRUTH_SECONDS = 20.0


@dataclass(frozen=True)
class Outage:
    """From the kill to the beginning of the start, and until what was away served again."""

    down: float
    back: float
    up: float


@dataclass(frozen=True)
class Scene:
    """A service, its cluster and those who look at them."""

    service: Service
    traffic: Traffic
    people: People
    kafka: Kafka
    cluster: Stack
    kube: Kube
    namespace: str
    ours: dict[str, str]

    async def asks(self, name: str, wanted: Callable[[int], bool], seconds: float = 30.0) -> int:
        """Wait until the Deployment asks for such a number of replicas; the number."""

        async def found() -> tuple[int] | None:
            replicas = (await self.kube.get("Deployment", name, self.namespace))["spec"]["replicas"]
            return (replicas,) if wanted(replicas) else None

        return (await self.kube.wait_for(found, f"{name} asks for other replicas", seconds))[0]

    async def complains(self, *what: str, words: str = "") -> None:
        """Wait until /readyz complains of all that, in such words."""

        async def told() -> bool:
            unready = await self.service.unready()
            return all(words in unready.get(each, "") for each in what) and unready.keys() >= set(what)

        await self.kube.wait_for(told, f"/readyz complains of {what}: {words}", 60)

    async def refuses(self, guard: str, subject: str) -> None:
        """Wait until a plan says that the guard declined a move of the model's."""
        await self.service.refused(self.kube, guard, subject, WINDOW_SECONDS)

    async def set_up(self) -> None:
        """Two full nodes on which code has borrowed 4 of chat's 6 GPUs, and a minute in which everybody spoke."""
        for name in ("a", "b"):
            await self.kube.create(gpu_node(f"{self.namespace}-{name}", gpus=GPUS // 2, labels=self.ours))
        for name, replicas in FIRST.items():
            served = deployment(name, self.namespace, replicas, node_labels=self.ours, load_seconds=1, end_seconds=2)
            await self.kube.apply(served)
        await self.kube.wait_ready(GPUS, self.namespace)
        await self.service.policy(_policy(self.namespace, self.ours))
        await asyncio.gather(*(self.traffic.past(name, running=value) for name, value in RUNNING.items()))


@pytest.fixture
def scene(
    service: Service,
    traffic: Traffic,
    people: People,
    kafka: Kafka,
    cluster: Stack,
    kube: Kube,
    namespace: str,
    ours: dict[str, str],
) -> Scene:
    return Scene(service, traffic, people, kafka, cluster, kube, namespace, ours)


@asynccontextmanager
async def away(kill: Callable[[], None], start: Callable[[], None]) -> AsyncIterator[None]:
    """Something is killed, and comes back when the context ends, whatever happened meanwhile."""
    await asyncio.to_thread(kill)
    try:
        yield
    finally:
        await asyncio.to_thread(start)


def _policy(namespace: str, ours: dict[str, str], fewer: int = 0) -> Json:
    """`fewer`: GPUs that the pool may have no longer, and code owned."""
    own = OWN | {"code": OWN["code"] - fewer}
    models = [model(name, namespace, FLOORS[name], own[name], GPUS) for name in FIRST]
    models += [model(name, namespace, 0, 0, 1, priority=1) for name in WITNESSES]
    found = policy([pool("gpus", ours, GPUS - fewer)], models)
    found["guards"]["shift"] = {"share": SHARE, "windowSeconds": WINDOW_SECONDS}
    return found


async def _killed_in_the_middle_of_a_shift(scene: Scene) -> float:
    """Chat comes to need 10: 4 come home, 2 are lent by code, and nobody has them yet. When code's were released."""
    scene.traffic.says("chat", running=100)
    scene.traffic.says("code", running=5)
    await scene.asks("code", lambda replicas: replicas == 4)
    released_at = time.time()
    await scene.service.kill()
    assert await scene.asks("chat", lambda replicas: True) < 8
    await scene.service.start()
    await scene.asks("chat", lambda replicas: replicas == 8)
    await scene.refuses("shift", "code")
    return released_at


async def _without_kafka(scene: Scene, due_at: float) -> Outage:
    """It is away when code's next replica is due to go; people are obeyed all the same, on the local journal alone."""
    down = time.time()
    async with away(scene.kafka.kill, scene.kafka.start):
        await scene.people.pin("blind-flight", "side", 1, seconds=600)
        await scene.asks("side", lambda replicas: replicas == 1)
        await scene.complains("kafka-in", "kafka-out")
        await asyncio.sleep(max(0.0, due_at + OVERDUE_SECONDS - time.time()))
        back = time.time()
    up = time.time()
    await scene.service.wait_ready()
    return Outage(down, back, up)


async def _without_api_server(scene: Scene) -> Outage:
    """It goes when code's replica, due long ago, has just been released for chat, and comes back for the grant."""
    await scene.asks("code", lambda replicas: replicas == 3)
    down = time.time()
    async with away(scene.cluster.apiserver.kill, scene.cluster.apiserver.start):
        await scene.complains("nodes", "pods", "deployments", "writestops")
        back = time.time()
    up = time.time()
    await scene.service.wait_ready()
    # Kubernetes' own controllers come back when their back-off ends, which may take most of a minute.
    await scene.kube.wait_ready(10, scene.namespace, "app=chat", 90)
    return Outage(down, back, up)


@pytest.mark.timeout(360, func_only=True)
@pytest.mark.outage
async def test_through_all_faults_in_a_row_no_record_is_lost_no_promise_broken_and_readiness_tells_the_truth(
    scene: Scene, audit: AuditLog, topic_prefix: str
) -> None:
    await scene.set_up()
    poison = Poison(scene.traffic)
    async with poison.trickling(), Readiness.of(scene.service) as readiness:
        await scene.service.start()
        released_at = await _killed_in_the_middle_of_a_shift(scene)
        without_kafka = await _without_kafka(scene, released_at + WINDOW_SECONDS)
        without_api_server = await _without_api_server(scene)
        assert await scene.service.unready() == {}
    await _judge_records(scene, Broker(scene.kafka.bootstrap, topic_prefix), poison)
    await _judge_writes(scene, audit, without_kafka)
    _judge_readiness(readiness, without_kafka, "kafka-in", "kafka-out")
    _judge_readiness(readiness, without_api_server, "nodes", "pods", "deployments", "writestops")
    log = await scene.service.log()
    assert "a cycle failed" not in log
    assert "ended that must not" not in log


async def _judge_records(scene: Scene, broker: Broker, poison: Poison) -> None:
    """Every acknowledged record is in the checkpoint that a stop leaves, once, or a dead letter with its reason."""
    await scene.traffic.hush()
    doses = {Place.of(dose.taken): (dose.reason, dose.value) for dose in poison.doses}
    samples = await said(broker, doses, PER_REPLICA)
    await _heard(scene, samples)
    assert await scene.service.stop() == 0

    assert scene.traffic.acknowledged.keys() <= {sample.id for sample in samples}
    pasts = await checkpointed(broker)
    assert pasts.keys() == RUNNING.keys()
    assert _wrong(samples, pasts) == []
    assert len(doses) >= len(KINDS)
    dead = {letter.place: (letter.reason, letter.value) for letter in await letters(broker)}
    assert dead == doses


async def _heard(scene: Scene, samples: list[Said]) -> None:
    """Wait until the service knows each model's last sample."""
    last = {sample.model: sample.at for sample in sorted(samples, key=lambda sample: sample.at)}

    async def known() -> bool:
        loads = (await scene.service.snapshot())["loads"]
        newest = {load["model"]: load["signals"]["concurrency"].get("at", NEVER) for load in loads}
        return all(instant_of(newest[name]) >= at - 1e-3 for name, at in last.items())

    await scene.kube.wait_for(known, "the last sample of every model is in state")


def _wrong(samples: list[Said], pasts: dict[str, ModelPast]) -> list[str]:
    """Samples that the checkpoint does not have, or has twice."""
    by_model: dict[str, list[Said]] = {name: [] for name in pasts}
    for sample in samples:
        by_model[sample.model].append(sample)
    return [f"{name}: {what}" for name, past in pasts.items() for what in differing(by_model[name], past)]


async def _judge_writes(scene: Scene, audit: AuditLog, without_kafka: Outage) -> None:
    """Floors, budget, the window of `shift`, scope, and records one to one, over the whole day, restarts included."""
    taken = steps(await scene.service.writes(scene.kube), FIRST)
    rules = Rules(FLOORS, OWN, GPUS, SHARE, WINDOW_SECONDS, FIRST)
    evidence = Evidence(scene.service.account, scene.namespace, rules, Span(0.0, time.time()), kills=1)
    evidence.writes = await asyncio.to_thread(audit.writes, namespace=scene.namespace)
    evidence.pods = Pods.of(evidence.writes)
    evidence.journal = await scene.service.journal()
    broken = {name: INVARIANTS[name](evidence) for name in ("I1", "I2", "I5", "I8", "I10", "I16")}
    assert not any(broken.values()), broken
    lost = [step.model for step in taken if step.lost and without_kafka.down <= step.at < without_kafka.up]
    assert lost == ["side"], "without Kafka nobody loses anything but by a person's decision"


def _judge_readiness(readiness: Readiness, outage: Outage, *what: str) -> None:
    """It complained in time, of all that was away, and was not ready before it came back."""
    assert all(readiness.first(each, outage.down) < TRUTH_SECONDS for each in what)
    assert set() not in readiness.complaints(outage.down + TRUTH_SECONDS, outage.back)


async def test_a_donor_that_falls_silent_keeps_what_it_has_until_it_speaks_again(scene: Scene) -> None:
    """Its last word was that it is idle, and somebody needs its GPUs: a stale word takes nothing away."""
    kube, namespace, traffic, service = scene.kube, scene.namespace, scene.traffic, scene.service
    await kube.create(gpu_node(f"{namespace}-a", gpus=8, labels=scene.ours))
    for name in ("chat", "code"):
        await kube.apply(deployment(name, namespace, 4, node_labels=scene.ours))
    await kube.wait_ready(8, namespace)
    models = [model(name, namespace, floor=1, entitlement=4, most=8) for name in ("chat", "code")]
    await service.policy(policy([pool("gpus", scene.ours, 8)], models))
    await asyncio.gather(traffic.past("chat", running=35), traffic.past("code", running=35))
    await service.start()
    traffic.says("code", running=5)
    await _demand(scene, "code", 1)
    traffic.silent("code")
    await _demand(scene, "code", None)
    traffic.says("chat", running=65)
    await _demand(scene, "chat", 7)

    spoke_at = time.time()
    traffic.says("code", running=5)
    await scene.asks("code", lambda replicas: replicas < 4)
    assert scaled(await service.writes(kube), "code")[0][0] > spoke_at


async def _demand(scene: Scene, name: str, replicas: int | None) -> None:
    """Wait until the service says that the model needs so many (None: that it cannot know), and decides twice more."""

    async def told() -> int:
        explained = await scene.service.explain(name)
        return int(explained["cycle"]) if explained["model"]["demand"] == replicas else 0

    since = await scene.kube.wait_for(told, f"{name} needs {replicas}")

    async def decided() -> bool:
        return int((await scene.service.plan())["cycle"]) > since + 2

    await scene.kube.wait_for(decided, "two more cycles")


@pytest.mark.outage
async def test_without_kafka_a_lost_node_costs_nobody_anything_and_a_service_started_then_waits_and_says_so(
    scene: Scene,
) -> None:
    """A release that no successor would know of is not made; who does not know what was released decides nothing."""
    await scene.set_up()
    await scene.service.start()
    await _demand(scene, "code", 10)
    async with away(scene.kafka.kill, scene.kafka.start):
        await scene.kube.delete("Node", f"{scene.namespace}-b")  # half of the budget, while all readings are fresh
        await scene.kube.wait_for(lambda: _lost(scene.service), "its pods are lost")
        await scene.kube.create(gpu_node(f"{scene.namespace}-b", gpus=GPUS // 2, labels=scene.ours))
        assert steps(await scene.service.writes(scene.kube), FIRST) == []
        await scene.service.policy(_policy(scene.namespace, scene.ours, fewer=2))  # that much is certain
        await _refused_unrecorded(scene, "code")
        await scene.service.kill()
        await scene.service.start(ready=False)
        await scene.complains("start", words="cannot be read")
        back = time.time()
    await scene.asks("code", lambda replicas: replicas < FIRST["code"], seconds=60)
    await scene.service.wait_ready()
    taken = steps(await scene.service.writes(scene.kube), FIRST)
    assert taken[0].at > back


async def _lost(service: Service) -> bool:
    """Whether pods are known to be lost, and a plan was made of it."""
    models = (await service.snapshot())["models"]
    return any(pod["phase"] == "lost" for one in models for target in one["targets"] for pod in target["pods"])


async def _refused_unrecorded(scene: Scene, model_id: str) -> None:
    """Wait until the gate has refused to write something because Kafka did not acknowledge its intent.

    Raises NotYet with what became of the model's moves, and what its last plan says of it.
    """

    async def details() -> list[str]:
        outcomes = [line["outcome"] for line in await scene.service.journal() if "outcome" in line]
        return [outcome["detail"] for outcome in outcomes if outcome["intent"]["subject"] == model_id]

    async def refused() -> bool:
        return any(detail.startswith("unrecorded") for detail in await details())

    try:
        await scene.kube.wait_for(refused, "a release is refused: unrecorded", 90)
    except NotYet as late:
        said = (await scene.service.explain(model_id))["model"]
        raise NotYet(f"{late}; outcomes {await details()}, plan {said}") from late
