"""The demo's cluster with one installation of the service on it, and the two links that may be cut.

Time is moved by hand; a cycle turns every two seconds, as the demo's policy asks, and at each share of a backlog.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import NamedTuple, Self

from rebalancer.app.past import Start, await_start, begin_from
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.ingest.signed import signed_record
from rebalancer.kafka.topic_past import PastUnreadable
from rebalancer.sandbox.demo_cluster import IDLE_RATES, build
from rebalancer.state import checkpoint
from tests.ingest.wire import STRUCTURED, notice
from tests.machine.service import Topics
from tests.outages.api_server import CutPort
from tests.outages.broker import BROKER, MemoryBroker
from tests.outages.people import Door
from tests.outages.process import CLUSTER, SECRET, Kept, LeaseBehind, Process
from tests.sandbox.hand_clock import HandClock

CYCLE_SECONDS = 2
CHECKPOINT_SECONDS = 30
SETTLE_TURNS = 12  # of the event loop, after which every task that could go on has done so
RESTART_SECONDS = 3.0  # a container that ended is started again


class Turn(NamedTuple):
    """A cycle: when it was, what it planned, whether it could act, and how many records still waited in Kafka."""

    at: float
    plan: Plan
    acts: bool
    unread: int


class Stage:
    """`async with`: when it is entered the service leads, and knows an hour of the past."""

    def __init__(self, policy: Policy) -> None:
        self.clock = HandClock()
        self.policy = policy
        demo = build(policy, self.clock.now())
        self.world, self._dials = demo.world, demo.dials
        self.broker, self.port = MemoryBroker(), CutPort(demo.world)
        self.topics = Topics(self.clock.now)
        self.kept = Kept()
        self.door = Door(self.port, self.clock)
        self.turns: list[Turn] = []
        self.ends: list[float] = []  # when a process ended, having lost the right to act
        self.process: Process | None = None
        self.waits: str | None = None  # what a start waits for
        self._starting: asyncio.Task[None] | None = None
        self._lease = LeaseBehind(self.port)
        self._starts_at = self.clock.now()
        self._seconds = 0
        self._said = 0

    async def __aenter__(self) -> Self:
        await self.live(60)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if self.process is not None:
            await self.process.end()

    # --- links

    @asynccontextmanager
    async def without_kafka(self) -> AsyncIterator[None]:
        """Nothing is read from it or written to it while the context lasts."""
        self.broker.away = self.topics.away = True
        yield
        self.broker.away = self.topics.away = False

    @asynccontextmanager
    async def without_api_server(self) -> AsyncIterator[None]:
        """Every call fails, and watches with them."""
        self.port.away = True
        yield
        self.port.away = False

    # --- what happens

    def users(self, model: str, times: float) -> None:
        """So many times as many of them ask as at night."""
        self._dials[model].turn(IDLE_RATES[model] * times, self.clock.now())

    @property
    def spot_node(self) -> str:
        """The one node that Karpenter brought, where image serves."""
        (node,) = self.world.node_claims
        return node

    def tell(self, node: str, seconds: float) -> None:
        """The cloud says that a node goes in so many seconds."""
        now = self.clock.now()
        self._said += 1
        value = notice(node=node, deadline=_spelled(now + seconds), kind="spot-interruption")
        value = value.replace(b'"id-1"', f'"id-{self._said}"'.encode()).replace(
            b'"time": "2027-01-15T07:59:58.5Z"', f'"time": "{_spelled(now)}"'.encode()
        )
        self.broker.put(BROKER.topic("notices"), now, value, STRUCTURED)

    def sign(self, kind: str, model: str, replicas: int, seconds: float) -> None:
        """A runbook tool decides, by a record that it signs."""
        now = self.clock.now()
        self._said += 1
        data = {
            "kind": kind,
            "target": {"model": model},
            "value": replicas,
            "reason": "a test",
            "forSeconds": int(seconds),
        }
        headers, value = signed_record("runbook", SECRET, CLUSTER, f"evt-{self._said}", _spelled(now), data)
        self.broker.put(BROKER.topic("overrides"), now, value, headers)

    # --- time

    async def live(self, seconds: int, step: int = 1) -> None:
        """So many seconds go by; `step`: how many at a time, where nothing is to happen."""
        for _ in range(0, seconds, step):
            self._seconds += step
            self.clock.advance(step)
            self.world.advance(self.clock.now())
            for sample in self.world.take_samples():
                self.broker.sample(sample)
            await self._settle()
            await self._end_or_start()
            if self.process is not None:
                await self._one_second(self.process)

    async def _one_second(self, process: Process) -> None:
        process.watch()
        await self._settle()
        busy = process.read()
        while busy and self._seconds <= CYCLE_SECONDS:  # the past before the play
            busy = process.read()
        await self._settle()
        if busy or self._seconds % CYCLE_SECONDS == 0:
            await self._cycle(process)
        if self._seconds % CHECKPOINT_SECONDS == 0:
            process.keep()
        self.world.advance(self.clock.now())

    async def _cycle(self, process: Process) -> None:
        acts = process.elector.why_not() is None
        decision = await process.decide()
        self.turns.append(Turn(self.clock.now(), decision.plan, acts, self.broker.unread(process.reader)))

    async def _end_or_start(self) -> None:
        now = self.clock.now()
        if self.process is not None and self.process.elector.lost.done():
            await self.process.end()
            self.process, self._starts_at = None, now + RESTART_SECONDS
            self.ends.append(now)
        if self.process is None and self._starting is None and now >= self._starts_at:
            self._starting = asyncio.create_task(self._start())
            await self._settle()
            await self._settle()  # what was started does its first turn

    async def _start(self) -> None:
        past = await await_start(self._read_start, self.clock, self._waits_for)
        self.process = Process(
            self.world,
            self.policy,
            self.clock,
            self.broker,
            self.port,
            self._lease,
            self.topics,
            self.kept,
            self.door,
            past,
        )
        self._starting = None

    async def _read_start(self) -> Start:
        """The checkpoint, and the writes since. Raises PastUnreadable."""
        if self.broker.away:
            raise PastUnreadable("Kafka cannot be read")
        now = self.clock.now()
        restored = checkpoint.read(self.kept.entries, [model.id for model in self.policy.models], now)
        return begin_from(restored, self.topics.writes(disk_lost=False, large=False), self.policy, now)

    def _waits_for(self, what: str | None) -> None:
        self.waits = what

    async def _settle(self) -> None:
        for _ in range(SETTLE_TURNS):
            await asyncio.sleep(0)

    # --- what became of it

    def between(self, since: float, until: float) -> list[Turn]:
        """Cycles."""
        return [turn for turn in self.turns if since <= turn.at < until]

    def scaled(self, since: float, until: float) -> list[tuple[float, str, int, int]]:
        """Writes of replicas: when, of what, from, to."""
        return [each for each in self.port.scaled if since <= each[0] < until]

    def refused(self, since: float, until: float) -> dict[str, str]:
        """What the gate declined or failed at, by the subject of the write: the last words."""
        outcomes = [one for one in self.topics.outcomes if since <= one.at < until]
        return {one.intent.subject: one.detail for one in outcomes if one.status != "written"}


def _spelled(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
