"""A cluster in which everything happens all the time, a service that is killed at one effect after another, and judges.

Deeds go on while processes come and go: demand swaps between models, a person pins and stops, records are poisoned, and
in a storm every node is under notice in turn. Judged by the audit log alone, over all that was written in the end.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import cycle, pairwise
from typing import Any, NamedTuple

import aiohttp

from tests.real.occupancy import bounded, scaled
from tests.real.oracles import Step, steps
from tests.real.policies import model, policy, pool
from tests.real.service import Service
from tests.real.traffic import Traffic
from tests.testbed.audit import Write
from tests.testbed.kube import ApiError, Kube
from tests.testbed.objects import deployment, gpu_node, hpa, stateful_set
from tests.testbed.process import Failed

Json = dict[str, Any]

NOTICE = "io.rebalancer.capacity.notice.v1"
NODES, GPUS_OF_A_NODE = 2, 5
GPUS = NODES * GPUS_OF_A_NODE
REPLICAS = {"chat": 4, "code": 4, "auto": 2}
FLOORS = {"chat": 1, "code": 2, "auto": 1}
BUSY = {"chat": (55.0, 5.0), "code": (15.0, 45.0), "auto": (5.0, 15.0)}
"""Requests in flight by turns, at 10 for a replica; together they ask for no more than there is."""
AUTOSCALED = "auto"
NUMBERED = "code"
"""In a storm a StatefulSet whose budget lets nobody go. Its lowest numbers go by no number of replicas, so whoever of
them is on a node under notice is asked to go in vain, and then deleted; a Deployment's pods went by a number before."""
SWAP_SECONDS = 8.0
DEED_SECONDS = 3.0
NOTICE_SECONDS = 24.0
"""With a grace of 5 s eviction is due 25 s before the deadline, deletion 20 s before it."""
GRACE_SECONDS = 5


EXPECTED = ("404", "429", "504")
"""A pod that has gone, a disruption budget, a call whose client was killed while it was under way."""
OF_ANY = ("rebalancer.io", "coordination.k8s.io")
"""Groups that any replica writes to: what people ask of it, and the Lease, which it may want."""


class Point(NamedTuple):
    """Where a process ends: the `nth` time of an effect, just before it or just after it."""

    effect: str
    nth: int
    when: str

    def __str__(self) -> str:
        return f"{self.effect}:{self.nth}:{self.when}"


@dataclass
class Busy:
    """The cluster, and what goes on in it from `set_up` until `calm`.

    storm: whether nodes come under notice.
    bootstrap: where Kafka is, whose topics begin with `topic_prefix`.
    doors: the services whose API people use; what does not answer is passed over.
    """

    kube: Kube
    traffic: Traffic
    namespace: str
    ours: dict[str, str]
    storm: bool
    bootstrap: str
    topic_prefix: str
    doors: list[Service] = field(default_factory=list)
    _nodes: list[str] = field(default_factory=list)
    _count: int = 0

    def policy(self) -> Json:
        """Three models on one pool, all of which may be anywhere."""
        own = [
            model(name, self.namespace, FLOORS[name], REPLICAS[name], 8, targets=[self._target(name)])
            for name in REPLICAS
        ]
        return policy([pool("gpus", self.ours, GPUS, drain=self.storm)], own)

    def _target(self, name: str) -> Json:
        return {"pool": "gpus", "name": name, "kind": "StatefulSet" if self._numbered(name) else "Deployment"}

    def _numbered(self, name: str) -> bool:
        return self.storm and name == NUMBERED

    async def set_up(self) -> None:
        """Full nodes, and a minute in which everybody needed what it has."""
        for _ in range(NODES):
            await self._add_node()
        for name, replicas in REPLICAS.items():
            kind = stateful_set if self._numbered(name) else deployment
            made = kind(
                name,
                self.namespace,
                replicas,
                node_labels=self.ours,
                load_seconds=0.5,
                end_seconds=0.5,
                grace_seconds=GRACE_SECONDS,
            )
            await self.kube.apply(made)
        await self.kube.apply(hpa(AUTOSCALED, self.namespace, 1, 9))
        await self.kube.wait_ready(GPUS, self.namespace)
        if self.storm:
            await self.kube.apply(_never_evicted(NUMBERED, self.namespace))
        await asyncio.gather(*(self.traffic.past(name, running=8.0 * many) for name, many in REPLICAS.items()))

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Everything happens while the context lasts."""
        deeds = {self._swap: SWAP_SECONDS, self._poison: DEED_SECONDS, self._person: DEED_SECONDS}
        if self.storm:
            deeds[self._notice] = DEED_SECONDS
        tasks = [asyncio.create_task(self._again(deed, seconds)) for deed, seconds in deeds.items()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _again(self, deed: Callable[[int], Awaitable[None]], every_seconds: float) -> None:
        for number in cycle(range(1000)):
            with suppress(aiohttp.ClientError, ApiError, OSError):
                await deed(number)
            await asyncio.sleep(every_seconds)

    async def _swap(self, number: int) -> None:
        for name, levels in BUSY.items():
            self.traffic.says(name, running=levels[number % 2])

    async def _poison(self, _number: int) -> None:
        await self.traffic.send("metrics", b"no event " + secrets.token_hex(8).encode())

    async def _person(self, number: int) -> None:
        """Pins and takes back; every other time stops the writes for a moment."""
        for door in self.doors:
            with suppress(aiohttp.ClientError, OSError):
                pin = {"kind": "pin", "target": {"model": AUTOSCALED}, "value": 1 + number % 2, "forSeconds": 600}
                status, body = await door.ask("POST", "/v1/overrides", {**pin, "reason": "the test says so"})
                if status == 201:  # created
                    await asyncio.sleep(1.0)
                    await door.ask("DELETE", f"/v1/overrides/{self.namespace}/{body['override']['name']}")
                await door.ask("POST", "/v1/writes/stop", {"reason": "the test says so"})
            await self.resume()

    async def resume(self) -> None:
        """Writes are not stopped, however the last one ended: by the service, else by a person."""
        for door in self.doors:
            with suppress(aiohttp.ClientError, OSError):
                await door.ask("POST", "/v1/writes/resume", {"confirm": "resume"})
        for stop in await self.kube.items("WriteStop"):
            await self.kube.delete("WriteStop", stop["metadata"]["name"])

    async def _notice(self, _number: int) -> None:
        """The oldest node goes, and another one has come: as a cloud replaces it."""
        going = self._nodes.pop(0)
        await self._add_node()
        deadline = time.time() + NOTICE_SECONDS
        told = {
            "kind": "spot-interruption",
            "node": going,
            "deadline": datetime.fromtimestamp(deadline, UTC).isoformat(),
        }
        await self.traffic.event("notices", NOTICE, told)
        await asyncio.sleep(deadline - time.time())
        await self.kube.delete("Node", going)

    async def _add_node(self) -> None:
        name = f"{self.namespace}-{self._count}"
        self._count += 1
        await self.kube.create(gpu_node(name, gpus=GPUS_OF_A_NODE, labels=self.ours))
        self._nodes.append(name)

    async def calm(self, seconds: float = 90.0) -> None:
        """Everybody needs what it owns from now on, and has it in the end."""
        await self.resume()
        for each in await self.kube.items("Override", self.namespace):
            await self.kube.delete("Override", each["metadata"]["name"], self.namespace)
        for name, many in REPLICAS.items():
            self.traffic.says(name, running=8.0 * many)
        for name, many in REPLICAS.items():
            await self.kube.wait_ready(many, self.namespace, f"app={name}", seconds)


def _never_evicted(app: str, namespace: str) -> Json:
    spec = {"minAvailable": 100, "selector": {"matchLabels": {"app": app}}}
    metadata = {"name": app, "namespace": namespace}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


async def met(service: Service, point: Point, seconds: float) -> bool:
    """Start the service, which ends at that point: whether it did within so many seconds. It does not run any more."""
    service.settings |= {"DEV": "true", "CRASH_AT": str(point)}
    with suppress(Failed):  # it may end before it answers
        await service.start(ready=False)
    until = time.monotonic() + seconds
    while service.pid is not None and time.monotonic() < until:
        await asyncio.sleep(0.1)
    ended = service.pid is None
    await service.kill()
    return ended


# --- judges


def taken(writes: Iterable[Write]) -> list[Step]:
    """All that was asked for, by scale and by bounds (their maximum), in order."""
    writes = list(writes)
    by_scale = {name: many for name, many in REPLICAS.items() if name != AUTOSCALED}
    maxima = [(at, high) for at, _, high in bounded(writes, AUTOSCALED, "horizontalpodautoscalers")]
    before = [REPLICAS[AUTOSCALED], *(high for _, high in maxima)]
    by_bounds = [Step(at, AUTOSCALED, was, high) for was, (at, high) in zip(before, maxima, strict=False)]
    return sorted([*steps(writes, by_scale, asked_by_scale), *by_bounds], key=lambda step: step.at)


def asked_by_scale(writes: Iterable[Write], name: str) -> list[tuple[float, int]]:
    """As `scaled`, of whichever kind the object is."""
    writes = list(writes)
    return [*scaled(writes, name), *scaled(writes, name, "statefulsets")]


def twice(writes: Iterable[Write]) -> list[str]:
    """Writes that asked an object for what the one before had asked for: nobody else moves these objects here."""
    writes, again = list(writes), list[str]()
    for name in REPLICAS:
        asked: list[tuple[float, object]] = list(asked_by_scale(writes, name))
        if name == AUTOSCALED:
            found = bounded(writes, name, "horizontalpodautoscalers")
            asked = [(at, (low, high)) for at, low, high in found]
        again += [f"{name} {value} at {at:.2f}" for (_, was), (at, value) in pairwise(asked) if was == value]
    return again


def minima_below_floor(writes: Iterable[Write]) -> list[tuple[float, int, int]]:
    """Bounds by which the autoscaler could go under the floor."""
    found = bounded(writes, AUTOSCALED, "horizontalpodautoscalers")
    return [each for each in found if each[1] < FLOORS[AUTOSCALED]]
