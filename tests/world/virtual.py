"""The service's cycle on a simulated cluster in virtual time: no API, no Kafka, no gate between them."""

from rebalancer.act.intents import AnyChange, intent_of
from rebalancer.domain.cluster import SOURCES
from rebalancer.domain.events import Event, ObjectChanged, ObjectGone, ObjectsListed, SourceState
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import WRITTEN, Outcome
from rebalancer.domain.plan import Change, Decision, NodePoolChange
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.loop.cycle import cycle
from rebalancer.planning import Memo
from rebalancer.state import ClusterState
from rebalancer.world import World
from rebalancer.world.values import value

TICK_SECONDS = 0.5


class VirtualPorts:
    """Looks at a world through the real state, writes straight into the world."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.policy = policy
        self.memory = Memory()
        self.memo = Memo()
        self.outcomes: list[Outcome] = []
        self.state = ClusterState(policy, world.now)
        self._world = world
        self._version = 0
        self._cycle = 0
        self._planned_at = 0.0
        self.tell(*(ObjectsListed(source, world.now) for source in SOURCES))

    def tell(self, *events: Event) -> None:
        """Something else comes in."""
        self.state.apply_all(events, self._world.now)

    def hear(self) -> None:
        """Take over what changed in the world, and its samples."""
        now = self._world.now
        events: list[Event] = [SourceState(source, now) for source in SOURCES]
        for thing, gone in self._world.take_changes():
            self._version += 1
            source, seen = value(thing, self._version)
            events.append((ObjectGone if gone else ObjectChanged)(source, now, seen))
        self.tell(*events, *self._world.take_samples())

    async def live(self, seconds: float) -> None:
        """Turn the wheel every planning period, and at the next tick when the state wants it."""
        until = self._world.now + seconds
        while self._world.now < until:
            self._world.advance(self._world.now + TICK_SECONDS)
            self.hear()
            if self.state.take_wakes() or self._world.now - self._planned_at >= self.policy.plan_every_seconds:
                self._planned_at = self._world.now
                (await cycle(self._world.now, self)).whole()

    # --- loop.cycle.CyclePorts

    def look(self, now: float) -> Snapshot:
        self._cycle += 1
        return self.state.snapshot(now, self._cycle)

    def remember(self, snapshot: Snapshot, before: Memory, memory: Memory) -> None:
        self.memory = memory

    def note(self, snapshot: Snapshot, decision: Decision) -> None:
        """Nobody reads it."""

    async def carry_out(self, decision: Decision) -> tuple[Outcome, ...]:
        plan, now = decision.plan, self._world.now
        changes: list[AnyChange] = [*plan.node_pools, *plan.changes]
        done = []
        for change in changes:
            self._write(change)
            done.append(Outcome(intent_of(change, plan.cycle, now), now, WRITTEN))
            self.state.note(done[-1], now)
        self.outcomes += done
        return tuple(done)

    def _write(self, change: AnyChange) -> None:
        if isinstance(change, NodePoolChange):
            if change.kind in {"limit", "restore-limit"}:
                self._world.set_limit(change.name, change.limit_to)
            return
        assert isinstance(change, Change), "nothing is drained here"
        target = change.target
        for cost, name in enumerate(change.victim_names, -1000):
            self._world.set_deletion_cost(target.namespace, name, cost)
        self._world.scale(WorkloadRef(target.namespace, target.kind, target.name), change.replicas_to)
