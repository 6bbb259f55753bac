"""Leaders that are killed, end in order or are cut off at random moments, in virtual time: who writes, and when.

Reading what the leader before did takes READ_SECONDS here; `tests/real/test_leadership.py` says what it really takes.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from rebalancer.act.led import Led, NotLeading
from rebalancer.kube.errors import Ambiguous, Conflict, KubeError
from rebalancer.kube.resources import DEPLOYMENTS, Object, Ref
from rebalancer.leader.elector import Elector
from tests.kube.server import LoopClock
from tests.leader.test_elector import Shared

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

READ_SECONDS = 0.7
WRITE_EVERY_SECONDS = 0.5
CRASH_SECONDS = 12.0
ORDERLY_SECONDS = 1.0
TARGET = Ref(DEPLOYMENTS, "serving", "chat")


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Cluster:
    """One object, whose writes take their time to arrive and, once sent, arrive though their sender is dead."""

    rng: random.Random
    version: int = 0
    commits: list[tuple[float, str, int]] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    cut: set[str] = field(default_factory=set)
    under_way: set[asyncio.Task[None]] = field(default_factory=set)

    async def write(self, who: str, epoch: int, version: int) -> None:
        if who in self.cut:
            await asyncio.Event().wait()
        self.sent.append(who)
        self.news.set()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._arrive(who, epoch, version, done))
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)
        await done

    async def _arrive(self, who: str, epoch: int, version: int, done: "asyncio.Future[None]") -> None:
        await asyncio.sleep(self.rng.choice((0.002, 0.01, 0.1, 1.5)))
        if version == self.version:
            self.version += 1
            self.commits.append((now(), who, epoch))
        if not done.done():
            if version + 1 == self.version:
                done.set_result(None)
            else:
                done.set_exception(Conflict("modified"))


class Way:
    """A replica's way to the cluster: the one verb that is written with here."""

    def __init__(self, cluster: Cluster, who: str, elector: Elector) -> None:
        self._cluster = cluster
        self._who = who
        self._elector = elector

    async def put_scale(self, _ref: Ref, _replicas: int, resource_version: str) -> Object:
        await self._cluster.write(self._who, self._elector.epoch or 0, int(resource_version))
        return {}


@dataclass
class Replica:
    """A process: its elector, and what it writes once it has read what was before it."""

    name: str
    elector: Elector
    tasks: list["asyncio.Task[Any]"]

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@dataclass
class Stage:
    """Two replicas; whichever ends comes up anew under another name."""

    rng: random.Random
    cluster: Cluster
    shared: Shared = field(default_factory=Shared)
    names: Iterator[str] = field(default_factory=lambda: (f"rb-{n}" for n in range(10**6)))
    replicas: list[Replica] = field(default_factory=list)

    def start(self) -> None:
        name = next(self.names)
        elector = Elector(self.shared.of(name), LoopClock(), name)
        led = Led(Way(self.cluster, name, elector), elector)  # type: ignore[arg-type]  # one verb is enough here
        tasks = [asyncio.create_task(elector.run()), asyncio.create_task(self._acts(elector, led))]
        self.replicas.append(Replica(name, elector, tasks))

    async def _acts(self, elector: Elector, led: Led) -> None:
        await elector.elected.wait()
        await asyncio.sleep(READ_SECONDS)
        while True:
            with suppress(NotLeading, Ambiguous, KubeError):
                await led.put_scale(TARGET, 1, str(self.cluster.version))
            await asyncio.sleep(WRITE_EVERY_SECONDS)

    async def until_writes(self, beside: str) -> None:
        """Wait until somebody other than `beside` sends a write."""
        before = len(self.cluster.sent)
        while not any(who != beside for who in self.cluster.sent[before:]):
            self.cluster.news.clear()
            await self.cluster.news.wait()

    @property
    def leader(self) -> Replica:
        return next(each for each in self.replicas if each.elector.why_not() is None)


@asynccontextmanager
async def a_stage(seed: int) -> AsyncIterator[Stage]:
    rng = random.Random(seed)
    stage = Stage(rng, Cluster(rng))
    stage.start()
    stage.start()
    try:
        await stage.until_writes("")
        yield stage
    finally:
        for replica in stage.replicas:
            await replica.end()
        await asyncio.gather(*stage.cluster.under_way)


async def play(seed: int, ends: int) -> dict[str, float]:
    """The longest time until the next leader sends its first write, by how the one before it ended."""
    longest = dict.fromkeys(("killed", "ended in order", "cut off"), 0.0)
    async with a_stage(seed) as stage:
        for _ in range(ends):
            await asyncio.sleep(stage.rng.uniform(0.0, 5.0))
            gone, how = stage.leader, stage.rng.choice(tuple(longest))
            began = now()
            stops = began + gone.elector.seconds_left()
            if how == "killed":
                await gone.end()
            elif how == "ended in order":
                await gone.elector.release()
            else:
                stage.shared.silent.add(gone.name)
                stage.cluster.cut.add(gone.name)
            await stage.until_writes(gone.name)
            longest[how] = max(longest[how], now() - began)
            assert gone.elector.why_not() is not None or how == "killed"
            late = [at for at, who, _ in stage.cluster.commits if who == gone.name and at > stops + 1.5]
            assert late == [], "a write that arrives was sent while it might be"
            await gone.end()
            stage.replicas.remove(gone)
            stage.start()
        epochs = [epoch for _, _, epoch in stage.cluster.commits]
        assert epochs == sorted(epochs), "nobody writes over a later leader"
    return longest


def check(longest: dict[str, float]) -> None:
    assert longest["killed"] <= CRASH_SECONDS
    assert longest["cut off"] <= CRASH_SECONDS
    assert longest["ended in order"] <= ORDERLY_SECONDS


async def test_another_replica_writes_within_twelve_seconds_however_the_leader_ends() -> None:
    longest = await play(seed=1, ends=12)
    check(longest)


@pytest.mark.proof
@pytest.mark.timeout(1800)
async def test_thousands_of_ends_at_random_moments() -> None:
    longest = dict.fromkeys(("killed", "ended in order", "cut off"), 0.0)
    for seed in range(100):
        for how, seconds in (await play(seed, ends=30)).items():
            longest[how] = max(longest[how], seconds)
    check(longest)
