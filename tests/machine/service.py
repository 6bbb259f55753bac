"""The service's own parts on a simulated cluster, as a process has them: it may die, and start from what was kept."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from rebalancer.act.gate import Gate
from rebalancer.act.restoring import Restoring
from rebalancer.app.own_writes import OwnWrites
from rebalancer.app.past import begin_from
from rebalancer.domain.cluster import SOURCES, ClusterObject
from rebalancer.domain.events import (
    CapacityNotice,
    Event,
    Gauges,
    MetricSample,
    ObjectChanged,
    ObjectGone,
    ObjectsListed,
    Position,
    SourceState,
)
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Intent, Outcome
from rebalancer.domain.people import Override
from rebalancer.domain.plan import Decision
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.leader.right import Alone
from rebalancer.loop.clock import SteppedClock
from rebalancer.loop.cycle import cycle
from rebalancer.loop.gate_ports import GatePorts, mark_unconfirmed
from rebalancer.obs import journal
from rebalancer.obs.effects import effect
from rebalancer.state import ClusterState, checkpoint
from rebalancer.world import World
from rebalancer.world.port import WorldPort
from rebalancer.world.values import value

CHECKPOINT_SECONDS = 30.0
CHECKPOINTS_KEPT = 12
INSTALLATION = "machine"


class Clock:
    """The machine's that the service runs on: UTC may step, durations do not."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.offset_seconds = 0.0

    def now(self) -> float:
        return self._world.now + self.offset_seconds

    def monotonic(self) -> float:
        return self._world.now

    async def sleep(self, seconds: float) -> None:
        raise RuntimeError(f"nothing sleeps here, and somebody wants to for {seconds:g} s")


class Kept(Struct, frozen=True):
    """One checkpoint: its entries, when it was written, how far UTC was ahead then.

    `notices`: how many it includes, `samples`: from which one on they are read again, a checkpoint's period before it.
    """

    at: float
    entries: tuple[tuple[bytes, bytes], ...]
    notices: int
    samples: int
    offset_seconds: float


class Begun(NamedTuple):
    """A start: when its checkpoint was written, by the world's clock, and how much younger all of it seems than it is.

    `younger_seconds`: as much as the clock was set back since then, and no younger than when it was written. `remade`:
    whether it knows what the process before it knew, by all cycles since.
    """

    kept_at: float
    younger_seconds: float
    remade: bool


class Topics:
    """What outlives a process: decisions and notices in Kafka, and the journal on its own disk.

    `away`: Kafka acknowledges nothing, and only the journal has it. Implements `loop.gate_ports.CycleRecorder`.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.outcomes: list[Outcome] = []
        self.notices: list[CapacityNotice] = []
        self.samples: list[MetricSample] = []
        self.away = False
        self._now = now
        self._intents: list[tuple[Intent, bool]] = []
        self._sent: list[bool] = []  # of each outcome, whether Kafka has it
        self._cycles: list[tuple[float, int, bool]] = []
        self._begun: tuple[Snapshot, Memory] | None = None
        self._last: tuple[Snapshot, Memory, Decision] | None = None

    def begin(self, snapshot: Snapshot, memory_before: Memory) -> None:
        self._begun = snapshot, memory_before

    def cycle(self, decision: Decision) -> None:
        """A line of every cycle: a start sees by it that none is missing, and the last one whole, as by a keyframe."""
        assert self._begun is not None
        with effect("kafka/decisions/cycle", ""):
            self._cycles.append((self._now(), decision.plan.cycle, not self.away))
            self._last = *self._begun, decision

    def begin_anew(self) -> None:
        """No keyframe is kept."""

    async def intent(self, intent: Intent, *, wait_seconds: float) -> bool:
        with effect("kafka/decisions/intent", intent.id):
            self._intents.append((intent, not self.away))
        return wait_seconds > 0 and not self.away

    async def outcome(self, outcome: Outcome) -> None:
        with effect("kafka/decisions/outcome", outcome.intent.id):
            self.outcomes.append(outcome)
            self._sent.append(not self.away)

    def writes(self, *, disk_lost: bool, large: bool) -> OwnWrites:
        """What a start finds: all of it, or only what Kafka has; of `large` cycles that is no line."""
        cycles = [(at, cycle) for at, cycle, sent in self._cycles if sent or not disk_lost]
        writes = OwnWrites(
            intents={one.identity: one for one, sent in self._intents if sent or not disk_lost},
            outcomes={
                one.intent.identity: one
                for one, sent in zip(self.outcomes, self._sent, strict=True)
                if sent or not disk_lost
            },
            instants=[at for at, _ in cycles],
            last_cycle=max((cycle for _, cycle in cycles), default=0),
        )
        kept = self._last is not None and self._last[0].cycle == writes.last_cycle and not (disk_lost and large)
        if self._last is not None and kept:
            snapshot, memory_before, decision = self._last
            for line in journal.keyframe(snapshot, memory_before):
                writes.take(line)
            writes.take(journal.cycle_line(snapshot, snapshot, decision, ""))
        return writes


class MachinePorts(GatePorts):
    """Lets something happen between plan and write."""

    between: Callable[[], None] = staticmethod(lambda: None)

    async def carry_out(self, decision: Decision) -> tuple[Outcome, ...]:
        if decision.plan.changes:
            self.between()
        return await super().carry_out(decision)


class Service:
    """One installation: its process, its topics, and the door that it writes through.

    `marks_victims`: whether it marks the pods that shall go.
    """

    ports: MachinePorts
    state: ClusterState

    def __init__(self, world: World, policy: Policy, port: WorldPort, *, marks_victims: bool) -> None:
        self.utc = Clock(world)
        self.topics = Topics(self.utc.now)
        self.policy = policy
        self.between: Callable[[], None] = lambda: None
        self.failing: set[str] = set()  # sources that cannot be watched
        self.silent: set[str] = set()  # models whose samples do not come
        self.doubted: set[str] = set()  # models of which a second source says that nobody asks
        self.overrides: list[Override] = []  # what people said
        self.checkpoints: deque[Kept] = deque(maxlen=CHECKPOINTS_KEPT)
        self._world = world
        self._port = port
        self._marks_victims = marks_victims
        self._bookmarked_at = world.now
        self._heard_before = 0
        self.start(Memory(), 1)

    # --- a process

    def start(self, memory: Memory, first_cycle: int) -> None:
        """A process comes up and lists everything."""
        self.clock = SteppedClock(self.utc)
        state = self.state = ClusterState(
            self.policy, self.clock.now(), INSTALLATION, marks_victims=self._marks_victims
        )
        gate = Gate(
            self._port,
            facts=state.peek,
            clock=self.clock,
            recorder=self.topics,
            right=Alone(),
            write_mode="act",
            on_written=mark_unconfirmed(state),
            installation=INSTALLATION,
        )
        self.restoring = Restoring(self._port, state.pinned, self.clock, gate.events, Alone(), "act", INSTALLATION)
        self.ports = MachinePorts(
            self.policy, memory, state, self.topics, gate, self.clock, lambda: None, first_cycle=first_cycle
        )
        self.ports.between = self._between
        self.clock.steps += (state.stepped, gate.stepped, self.ports.stepped)

    def _between(self) -> None:
        self.between()

    def list_all(self) -> None:
        """What a start and every relist do."""
        found: dict[str, list[ClusterObject]] = {source: [] for source in SOURCES}
        found["overrides"] += self.overrides
        world = self._world
        things: list[object] = [*world.nodes.values(), *world.pods.values(), *world.deployments.values()]
        things += [*world.hpas.values(), *world.scaled_objects.values()]
        things += [*world.node_pools.values(), *world.node_claims.values()]
        for thing in things:
            source, seen = value(thing, world.revision(thing))
            found[source].append(seen)
        now = self.clock.now()
        world.take_changes()
        self.state.apply_all([ObjectsListed(source, now, tuple(each)) for source, each in found.items()], now)

    def keep(self) -> None:
        """Write a checkpoint, as the service does every 30 s."""
        ports, state, now = self.ports, self.state, self.clock.now()
        first = checkpoint.memory_entry(
            ports.memory, ports.next_cycle - 1, now, {}, state.foreign_past(), state.notices_past()
        )
        rings = (checkpoint.rings_entry(model.id, state.rings_bytes(model.id)) for model in ports.policy.models)
        kept = Kept(
            self._world.now,
            (first, *rings),
            len(self.topics.notices),
            self._heard_before,
            self.utc.offset_seconds,
        )
        with effect("kafka/state/memory", ""):
            self._heard_before = len(self.topics.samples)
            self.checkpoints.append(kept)

    def restart(self, back: int, *, disk_lost: bool = False, large: bool = False) -> Begun:
        """The process dies; the next one starts as `app.service` does, from the checkpoint of so many ago.

        `disk_lost`: without its journal, as on another node; `large`: its cycles were too large for a record of Kafka.
        """
        nothing = Kept(0.0, (), 0, 0, 0.0)
        kept = self.checkpoints[-1 - min(back, len(self.checkpoints) - 1)] if self.checkpoints else nothing
        now = self.utc.now()
        restored = checkpoint.read(kept.entries, [model.id for model in self.policy.models], now)
        past = begin_from(restored, self.topics.writes(disk_lost=disk_lost, large=large), self.policy, now)
        self.start(past.memory, past.first_cycle)
        past.into(self.state, now)
        self.list_all()
        told: list[Event] = [*self.topics.notices[kept.notices :], *self.topics.samples[kept.samples :]]
        self.state.apply_all(told, self.clock.now())
        younger = max(0.0, min(kept.offset_seconds - self.utc.offset_seconds, self._world.now - kept.at))
        return Begun(kept.at, younger, past.seen is not None)

    def reload(self, policy: Policy) -> None:
        """Take another policy over, as the service does."""
        self.policy = self.ports.policy = policy
        self.state.set_policy(policy, self.clock.now())

    # --- what it hears, and what it does

    def decide(self, kind: str, model: str) -> None:
        """A person decides something of a model, for an hour."""
        now, name = self.clock.now(), f"{kind.lower()}-{len(self.overrides)}"
        override = Override(
            name, "serving", name, "1", kind, model, "model", "somebody has seen it", "ann", now, now + 3600.0
        )
        self.overrides.append(override)
        self.state.apply_all([ObjectChanged("overrides", now, override)], now)

    def hear(self) -> None:
        """Take over what changed, was told and was measured."""
        self.watch()
        world, now = self._world, self.clock.now()
        notices = world.take_notices()
        self.topics.notices += notices
        events: list[Event] = [*notices]
        samples = [one for one in world.take_samples() if one.model not in self.silent]
        samples += [_doubt(one) for one in samples if one.model in self.doubted]
        first = len(self.topics.samples)
        samples = [replace(one, position=Position("metrics", 0, first + place)) for place, one in enumerate(samples)]
        self.topics.samples += samples
        events += samples
        if events:
            self.state.apply_all(events, now)

    def watch(self) -> None:
        """Take over what changed: of two worlds only one may look twice, and Kafka is no quicker for it."""
        world, now = self._world, self.clock.now()
        events: list[Event] = []
        if not self._bookmarked_at <= world.now < self._bookmarked_at + 60.0:
            self._bookmarked_at = world.now
            events += [SourceState(source, now) for source in SOURCES]
        for thing, gone in world.take_changes():
            source, seen = value(thing, world.revision(thing))
            events.append((ObjectGone if gone else ObjectChanged)(source, now, seen))
        if events:
            self.state.apply_all(events, now)

    async def turn(self) -> Decision:
        """One cycle. What it raises is a verdict, be it on one pool alone."""
        return (await cycle(self.clock.now(), self.ports)).whole()


def _doubt(sample: MetricSample) -> MetricSample:
    """Another producer says that nobody asks for anything."""
    return MetricSample(
        source="/other",
        id=f"other-{sample.id}",
        at=sample.at,
        model=sample.model,
        interval_seconds=sample.interval_seconds,
        gauges=Gauges(running=0.0, waiting=0.0),
    )
