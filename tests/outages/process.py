"""One process of the service on links that may be cut: its own parts from bytes to writes, at a hand-moved time."""

import asyncio
import random

from rebalancer.act.gate import Gate
from rebalancer.app.past import Start
from rebalancer.domain.cluster import SOURCES, ClusterObject
from rebalancer.domain.events import Event, ObjectChanged, ObjectGone, ObjectsListed, SourceState
from rebalancer.domain.people import Override
from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Policy
from rebalancer.ingest.override_queue import OverrideQueue
from rebalancer.ingest.reader import DECODERS, Reader
from rebalancer.ingest.signed import Signatures
from rebalancer.kafka.dead_letters import DeadLetters
from rebalancer.kafka.records import TopicPartition
from rebalancer.leader.candidate import Lease, LeaseClaim
from rebalancer.leader.elector import Elector
from rebalancer.loop.cycle import cycle
from rebalancer.loop.gate_ports import GatePorts, mark_unconfirmed
from rebalancer.state import ClusterState, checkpoint
from rebalancer.world import World
from rebalancer.world.values import value
from tests.machine.service import Topics
from tests.outages.api_server import CutPort
from tests.outages.broker import BROKER, MemoryBroker
from tests.outages.people import Door
from tests.sandbox.hand_clock import HandClock

CLUSTER = "demo"
SECRET = b"0123456789abcdef0123456789abcdef"
BOOKMARK_SECONDS = 60.0


class LeaseBehind:
    """Implements `leader.elector.Leases`: a Lease on that API server."""

    def __init__(self, port: CutPort) -> None:
        self._port = port
        self._lease: Lease | None = None
        self._versions = 0

    async def read(self) -> Lease | None:
        self._port.reach()
        return self._lease

    async def write(self, claim: LeaseClaim) -> str:
        self._port.reach()
        self._versions += 1
        self._lease = Lease(str(self._versions), claim.holder, claim.epoch, claim.lease_seconds)
        return self._lease.version


class Kept:
    """The last checkpoint that Kafka acknowledged."""

    def __init__(self) -> None:
        self.entries: tuple[checkpoint.Entry, ...] = ()
        self.at: float | None = None


class Process:
    """It begins as `app.service` does, from `past`. `decision`: its last one."""

    def __init__(  # all that outlives a process
        self,
        world: World,
        policy: Policy,
        clock: HandClock,
        broker: MemoryBroker,
        port: CutPort,
        lease: LeaseBehind,
        topics: Topics,
        kept: Kept,
        door: Door,
        past: Start,
    ) -> None:
        self.decision: Decision | None = None
        self._world, self._policy, self._clock = world, policy, clock
        self._broker, self._port, self._kept, self._door = broker, port, kept, door
        self._topics = topics
        self._bookmarked_at = clock.now()
        self._cut = True  # nothing is listed yet
        now, rng = clock.now(), random.Random(1)
        self.state = ClusterState(policy, now, CLUSTER)
        past.into(self.state, now)
        self.elector = Elector(lease, clock, "rb")
        gate = Gate(
            port,
            facts=self.state.peek,
            clock=clock,
            recorder=topics,
            right=self.elector,
            write_mode="act",
            on_written=mark_unconfirmed(self.state),
            installation=CLUSTER,
        )
        self.ports = GatePorts(
            policy, past.memory, self.state, topics, gate, clock, lambda: None, first_cycle=past.first_cycle
        )
        self.ports.leads = lambda: self.elector.why_not() is None
        self.letters = DeadLetters(broker, clock, rng)
        self.queue = OverrideQueue(door, self.letters, clock, rng)
        decoders = DECODERS | {"overrides": Signatures(CLUSTER, {"runbook": SECRET}).decode}
        named = {BROKER.topic(name): decode for name, decode in decoders.items()}
        self.reader = Reader(named, self._sink, self.letters, self.queue)
        broker.assign(self.reader, dict(past.offsets))
        self._tasks = [asyncio.create_task(each) for each in (self.elector.run(), self.letters.run(), self.queue.run())]

    def _sink(self, events: list[Event]) -> None:
        self.state.apply_all(events, self._clock.now())

    async def end(self) -> None:
        """It is gone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- what it hears

    def watch(self) -> None:
        """What changed, or that nothing can be seen; all of it anew once the API server answers again."""
        now = self._clock.now()
        if self._port.away:
            self._cut = True
            self._sink([SourceState(source, now, "connection refused") for source in SOURCES])
            return
        if self._cut:
            self._cut = False
            self._list_all()
        if now - self._bookmarked_at >= BOOKMARK_SECONDS:
            self._bookmarked_at = now
            self._sink([SourceState(source, now) for source in SOURCES])
        self._sink([ObjectChanged("overrides", now, each) for each in self._door.news()])
        for thing, gone in self._world.take_changes():
            source, seen = value(thing, self._world.revision(thing))
            self._sink([(ObjectGone if gone else ObjectChanged)(source, now, seen)])

    def _list_all(self) -> None:
        world, now = self._world, self._clock.now()
        listed: dict[str, list[ClusterObject]] = {source: [] for source in SOURCES}
        listed["overrides"] += self._door.made
        things: list[object] = [*world.nodes.values(), *world.pods.values(), *world.deployments.values()]
        things += [*world.node_pools.values(), *world.node_claims.values()]
        for thing in things:
            source, seen = value(thing, world.revision(thing))
            listed[source].append(seen)
        world.take_changes()
        self._door.news()
        self._sink([ObjectsListed(source, now, tuple(each)) for source, each in listed.items()])
        self._sink([SourceState(source, now) for source in SOURCES])

    def read(self) -> bool:
        """One turn of the consumer, once pods are known; whether there was anything."""
        known = not {"pods", "deployments"} & set(self.state.sync(self._clock.now()).missing)
        return known and self._broker.turn(self.reader, self._clock.now())

    # --- what it does

    async def decide(self) -> Decision:
        """One cycle."""
        self.decision = (await cycle(self._clock.now(), self.ports)).whole()
        return self.decision

    def keep(self) -> None:
        """A checkpoint, where Kafka takes it and this replica leads."""
        if self._broker.away or self.elector.why_not() is not None:
            return
        ports, state, now = self.ports, self.state, self._clock.now()
        offsets = {(one.topic, one.partition): each.safe for one, each in self.reader.frontiers.items()}
        memory = checkpoint.memory_entry(
            ports.memory, ports.next_cycle - 1, now, offsets, state.foreign_past(), state.notices_past()
        )
        state.offsets = offsets
        rings = (checkpoint.rings_entry(model.id, state.rings_bytes(model.id)) for model in self._policy.models)
        self._kept.entries, self._kept.at = (memory, *rings), now

    def read_up_to(self, topic: str) -> int:
        """Offset of the topic that is read next."""
        return self.reader.frontiers[TopicPartition(BROKER.topic(topic), 0)].next_offset


__all__ = ["Kept", "LeaseBehind", "Override", "Process"]
