"""The scene on which the rows are played: three models on ten GPUs, two of which take turns in needing more.

One real API server with its controllers, one real broker, the service as a process with the rights of its chart, and a
hand on both of its links. It is made once; each row turns the tide: whoever had little needs much, and is given it
while the fault is there. So what one row leaves behind is where the next one begins.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import aiohttp

from rebalancer.api.http.json_codec import instant_of
from rebalancer.kafka.broker import Broker
from rebalancer.leader.lease import EPOCH
from tests.faults.accounts import Voices
from tests.faults.door import Door
from tests.faults.evidence import Evidence, Span
from tests.faults.wire import Wire
from tests.real.fixtures import CRD_OBJECTS
from tests.real.people import People
from tests.real.policies import Json, model, policy, pool
from tests.real.rights import rights_in, take_away, to_apply
from tests.real.service import ACCOUNT, Service
from tests.testbed.kafka import Kafka
from tests.testbed.kube import Kube, NotYet
from tests.testbed.objects import TEST_LABEL, deployment, gpu_node
from tests.testbed.process import Process
from tests.testbed.stack import Stack

GPUS = 10
FLOORS = {"chat": 1, "code": 1, "side": 1}
OWN = {"chat": 4, "code": 4, "side": 2}
MUCH, LITTLE, SIDE = 6, 2, 2
PER_REPLICA = 10.0
BELOW = 8.0  # requests of each model below its replicas' capacity: chance asks for none of its own more then
SHARE, WINDOW_SECONDS = 0.5, 2.0
STALE_SECONDS = 10.0
LEASE = "rebalancer"
CONVERGED_SECONDS = 60.0
LATER_SECONDS = 3.0
LAST = 2  # of the eight replicas that are asked for in a turn: with fewer a fault would come too late
HEARS_SECONDS = 75.0  # a client whose answer was spoiled is begun anew after a minute


@dataclass
class Scene:
    """`chance` is the row's own, by its seed. `needs_much` has the tide."""

    stack: Stack
    kafka: Kafka
    kube: Kube
    service: Service
    door: Door
    wire: Wire
    traffic: Voices
    people: People
    namespace: str
    labels: dict[str, str]
    broker: Broker
    needs_much: str = "chat"
    chance: Random = field(default_factory=lambda: Random(1))
    evidence: Evidence | None = None
    others: list[Service] = field(default_factory=list)
    began: float = field(default_factory=time.time)

    @property
    def policy(self) -> Json:
        """The policy that every replica has."""
        return rules_of_play(self.namespace, self.labels)

    # --- the tide

    @property
    def needs_little(self) -> str:
        """The other one."""
        return "code" if self.needs_much == "chat" else "chat"

    @property
    def desired(self) -> dict[str, int]:
        """What each model is to have in the end."""
        return {self.needs_much: MUCH, self.needs_little: LITTLE, "side": SIDE}

    def tide(self) -> None:
        """Say what everybody needs."""
        for name, replicas in self.desired.items():
            self.traffic.says(name, running=PER_REPLICA * replicas - BELOW)

    async def turns(self) -> None:
        """The tide turns; wait until some of what is to change hands has, and on for as long as the seed says.

        The last replicas are not waited for: there would be nothing left for the fault to meet.
        """
        before = await self.replicas()
        self.needs_much = self.needs_little
        self.tide()
        steps, more_seconds = moment(self.chance)

        async def moving() -> bool:
            now = await self.replicas()
            return sum(abs(now[name] - before[name]) for name in now) >= steps

        async def nearly_over() -> bool:
            now = await self.replicas()
            return sum(abs(now[name] - self.desired[name]) for name in now) <= LAST

        await self.until(moving, "GPUs change hands", 30.0)
        with suppress(NotYet):
            await self.until(nearly_over, "the last GPUs change hands", more_seconds)

    async def replicas(self) -> dict[str, int]:
        """What each model is asked for now."""
        return {name: (await self.kube.get("Deployment", name, self.namespace))["spec"]["replicas"] for name in FLOORS}

    async def epoch(self) -> str:
        """The term of who leads, by the Lease; another one: somebody has taken over."""
        lease = await self.kube.get("Lease", LEASE, self.namespace)
        return str(lease["metadata"]["annotations"][EPOCH])

    async def rests(self, seconds: float = CONVERGED_SECONDS) -> float:
        """Wait until everybody has what they are to have and it is Ready; the instant. Raises NotYet."""

        async def as_desired() -> bool:
            if await self.replicas() != self.desired:
                return False
            return len(await self.kube.ready_pods(self.namespace)) == GPUS

        await self.until(as_desired, f"state is {self.desired}", seconds)
        return time.time()

    async def hears(self) -> None:
        """Wait until every model's readings are younger than this call: nothing moves before. Raises NotYet."""
        since = time.time()

        async def heard() -> bool:
            with suppress(OSError, aiohttp.ClientError, AssertionError):
                loads = (await self.service.snapshot())["loads"]
                newest = [load["signals"]["concurrency"].get("at") for load in loads]
                return all(at is not None and instant_of(at) >= since for at in newest)
            return False

        await self.until(heard, "readings come", HEARS_SECONDS)

    async def until(self, condition: Callable[[], Awaitable[object]], what: str, seconds: float = 30.0) -> None:
        """Wait for a condition. Raises NotYet."""
        await self.kube.wait_for(condition, what, seconds)

    # --- what rows ask for

    @property
    def now(self) -> Evidence:
        """The evidence of the row that is being played."""
        assert self.evidence is not None
        return self.evidence

    async def complains(self, *what: str, seconds: float = 60.0, blamed: bool = True) -> None:
        """Wait until /readyz complains of all that (invariant I12)."""
        if blamed:
            self.now.blamed += [(each, time.time()) for each in what]

        async def told() -> bool:
            with suppress(OSError):
                return (await self.service.unready()).keys() >= set(what)
            return False

        await self.until(told, f"/readyz complains of {what}", seconds)

    async def silent(self, seconds: float) -> None:
        """Let a fault last: nothing can be waited for where nothing is to happen."""
        await asyncio.sleep(seconds)

    @asynccontextmanager
    async def blinded(self, *models: str, stale_after: float = STALE_SECONDS) -> AsyncIterator[None]:
        """Readings of these models do not come until the context ends: from some time on they are stale."""
        since = time.time() + stale_after
        yield
        if time.time() > since:
            self.now.blind += [(name, Span(since, time.time())) for name in models or FLOORS]

    @asynccontextmanager
    async def down(self, process: Process, start: Callable[[], None]) -> AsyncIterator[None]:
        """A process is killed, and back when the context ends."""
        await asyncio.to_thread(process.kill)
        try:
            yield
        finally:
            await asyncio.to_thread(start)

    async def killed(self, *, start: bool = True) -> None:
        """The service ends as by kill -9, and is started again."""
        self.now.kills += 1
        await self.service.kill()
        if start:
            await self.service.start()

    async def recover(self) -> None:
        """Whoever lost the lease ends, as it should; start it again, as the pod's owner does."""

        async def ended() -> bool:
            return self.service.pid is None

        with suppress(NotYet):
            await self.until(ended, "it has ended", 12.0)
            self.now.kills += 1
            await self.service.kill()
            await self.service.start()

    async def takes_back(self, name: str) -> None:
        """An override goes; what whoever made it could read of it until then is evidence (invariant I6)."""
        self.now.overrides.append(await self.kube.get("Override", name, self.namespace))
        await self.kube.delete("Override", name, self.namespace)

    async def flood(self, topic: str, value: bytes, copies: int) -> None:
        """So many copies of a record, acknowledged."""
        await asyncio.gather(*(self.traffic.send(topic, value, key=b"chat") for _ in range(copies)))


def moment(chance: Random) -> tuple[int, float]:
    """When a fault comes: once so many of the eight replicas were asked for, and how many seconds later."""
    return chance.randint(1, 2), chance.uniform(0.0, LATER_SECONDS)


@asynccontextmanager
async def running(stack: Stack, kafka: Kafka, folder: Path, name: str) -> AsyncIterator[Scene]:
    """The scene at rest, chat with much; everything of it goes with the context."""
    async with AsyncExitStack() as opened:
        kube = await opened.enter_async_context(stack.kube())
        labels = {TEST_LABEL: name}
        await kube.install_crds(CRD_OBJECTS)
        await kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        objects = to_apply(await asyncio.to_thread(rights_in, name, (), labels))
        await kube.apply(*objects)
        opened.push_async_callback(_gone, kube, name, objects)
        token = await kube.token(name, ACCOUNT)
        door = await opened.enter_async_context(Door.before(stack.access))
        wire = await opened.enter_async_context(Wire.before(kafka.proxy_port, kafka.proxied_port))
        traffic = await opened.enter_async_context(Voices.to(kafka.bootstrap, f"{name}-"))
        service = await asyncio.to_thread(_service, stack, kafka, door, token, name, folder)
        opened.push_async_callback(service.close)
        people = People(kube, name)
        broker = Broker(kafka.bootstrap, f"{name}-")
        scene = Scene(stack, kafka, kube, service, door, wire, traffic, people, name, labels, broker)
        await _set_up(scene)
        yield scene


def _service(stack: Stack, kafka: Kafka, door: Door, token: str, name: str, folder: Path) -> Service:
    """Through both links; with a Lease, so that its writes name their term."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(replace(stack.access, server=door.url).kubeconfig(token))
    user = f"system:serviceaccount:{name}:{ACCOUNT}"
    service = Service(stack, kafka, kubeconfig, user, f"{name}-", folder)
    service.settings |= {
        "KAFKA_BOOTSTRAP": f"127.0.0.1:{kafka.proxy_port}",
        "LEASE_NAME": LEASE,
        "INSTANCE": "rb-0",
        "DRAIN_NODES": "true",
    }
    return service


def rules_of_play(namespace: str, labels: dict[str, str]) -> Json:
    """The policy."""
    models = [model(name, namespace, FLOORS[name], OWN[name], GPUS) for name in FLOORS]
    made = policy([pool("gpus", labels, GPUS, drain=True)], models)
    made["guards"]["shift"] = {"share": SHARE, "windowSeconds": WINDOW_SECONDS}
    made["nodes"]["lossHoldSeconds"] = 5
    made["guards"]["blind"]["staleSeconds"] = STALE_SECONDS
    return made


async def _set_up(scene: Scene) -> None:
    for name in ("a", "b"):
        await scene.kube.create(gpu_node(f"{scene.namespace}-{name}", gpus=GPUS // 2, labels=scene.labels))
    for name, replicas in scene.desired.items():
        served = deployment(
            name, scene.namespace, replicas, node_labels=scene.labels, load_seconds=1, end_seconds=1, grace_seconds=5
        )
        await scene.kube.apply(served)
    await scene.kube.wait_ready(GPUS, scene.namespace, seconds=90)
    await scene.service.policy(rules_of_play(scene.namespace, scene.labels))
    for name, replicas in scene.desired.items():
        await scene.traffic.past(name, running=PER_REPLICA * replicas - BELOW)
    await scene.service.start()
    await scene.rests(120.0)


async def _gone(kube: Kube, name: str, objects: list[Json]) -> None:
    for each in ("Override", "WriteStop"):
        for obj in await kube.items(each):
            await kube.delete(each, obj["metadata"]["name"], obj["metadata"].get("namespace"))
    await kube.delete("Namespace", name)
    await kube.delete_all("Node", f"{TEST_LABEL}={name}")
    await take_away(kube, objects, name)
