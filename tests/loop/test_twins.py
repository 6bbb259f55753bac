"""The service on the demo's world is killed at every few cycles; each successor is judged beside the one that lives on.

A successor has what a start has: the last checkpoint, the decisions since, the journal, lists of the cluster, and what
the topics brought since a period before the checkpoint. It sees and hears what its twin does, and is told what became
of the twin's writes. With the journal it plans what its twin plans, or holds back (its lists are younger), by votes and
by the look-ahead, from the first plan to a minute later. Without it, it takes no serving replica that the twin keeps.
"""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from msgspec.structs import replace

from rebalancer.app.own_writes import OwnWrites
from rebalancer.app.past import begin_from
from rebalancer.domain.cluster import SOURCES, ClusterObject
from rebalancer.domain.events import (
    CapacityNotice,
    Event,
    MetricSample,
    ObjectChanged,
    ObjectGone,
    ObjectsListed,
    Position,
    SourceState,
)
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Decision, Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.obs import journal
from rebalancer.planning import Memo
from rebalancer.planning import plan as decide
from rebalancer.sandbox.demo_cluster import IDLE_RATES, DemoCluster, build, demo_policy
from rebalancer.state import ClusterState, checkpoint
from rebalancer.state.objects import key_of
from rebalancer.world import World
from tests.planning.test_properties_restart import judge, judge_whole
from tests.world.virtual import VirtualPorts
from tests.world.worlds import START

pytestmark = pytest.mark.slow  # 10 s

CHECKPOINT_SECONDS = 30.0
JUDGED_SECONDS = 60.0
EVERY_CYCLES = 15
UNTOLD_EVERY_CYCLES = 45  # killed between its writes and the line of its decision
KEYFRAME_CYCLES = 20
POLICY = demo_policy()
BEFORE_SECONDS = 30.0  # that rings are read again from: a checkpoint's period
SEEDS = range(max(1, settings().max_examples // 50))


@dataclass
class Successor:
    """Begun at `at`; it plans beside its twin and writes nothing. `whole`: it had the journal."""

    at: float
    state: ClusterState
    memory: Memory
    whole: bool
    kept: Memo = field(default_factory=Memo)

    def plan(self, now: float, cycle: int, policy: Policy) -> Plan:
        decision = decide(self.state.snapshot(now, cycle), policy, self.memory, self.kept)
        self.memory = decision.memory
        return decision.plan


class Twin(VirtualPorts):
    """The one that lives on. It leaves checkpoints and decisions, and its topics are kept since the last of them."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.there: dict[str, dict[tuple[str, str], ClusterObject]] = {source: {} for source in SOURCES}
        self.heard: list[MetricSample | CapacityNotice] = []  # since a period before the checkpoint
        self.entries: list[checkpoint.Entry] = []
        self.kept_at = world.now
        self.writes, self.journal = OwnWrites(), OwnWrites()
        self.seen = journal.EMPTY
        self.inputs: tuple[Snapshot, Memory] = (journal.EMPTY, Memory())
        self.offset = 0
        self.successors: list[Successor] = []
        self.begun = self.judged = self.changes = 0
        super().__init__(world, policy)

    def tell(self, *events: Event) -> None:
        events = tuple(self._recorded(event) for event in events)
        for event in events:
            if isinstance(event, ObjectChanged):
                self.there[event.source][key_of(event.object)] = event.object
            elif isinstance(event, ObjectGone):
                self.there[event.source].pop(key_of(event.object), None)
            elif isinstance(event, MetricSample | CapacityNotice):
                self.heard.append(event)
        super().tell(*events)
        for one in self.successors:
            one.state.apply_all(events, self._world.now)

    def _recorded(self, event: Event) -> Event:
        """A sample has its place in the topic."""
        if not isinstance(event, MetricSample):
            return event
        self.offset += 1
        return replace(event, position=Position("metrics", 0, self.offset))

    def remember(self, snapshot: Snapshot, before: Memory, memory: Memory) -> None:
        self.inputs = snapshot, before
        super().remember(snapshot, before, memory)

    def note(self, snapshot: Snapshot, decision: Decision) -> None:
        super().note(snapshot, decision)
        now = self._world.now
        if snapshot.cycle % KEYFRAME_CYCLES == 1:
            for line in journal.keyframe(*self.inputs):
                self.journal.take(line)
            self.seen = snapshot
        self.journal.take(journal.cycle_line(self.seen, snapshot, decision, ""))
        self.seen = snapshot
        for writes in (self.writes, self.journal):
            writes.instants.append(now)
            writes.last_cycle = snapshot.cycle
        self.changes += len(decision.plan.changes)
        if now - self.kept_at >= CHECKPOINT_SECONDS or not self.entries:
            self._keep(snapshot.cycle, now)
        if decision.plan.cycle % EVERY_CYCLES == 0:
            self._is_killed(self.journal)
            self._is_killed(self.writes)

    def _keep(self, cycle: int, now: float) -> None:
        foreign, notices = self.state.foreign_past(), self.state.notices_past()
        self.entries = [checkpoint.memory_entry(self.memory, cycle, now, {}, foreign, notices)]
        models = (model.id for model in self.policy.models)
        self.entries += [checkpoint.rings_entry(model, self.state.rings_bytes(model)) for model in models]
        self.kept_at = now
        self.heard = [event for event in self.heard if event.at >= now - BEFORE_SECONDS]

    async def carry_out(self, decision: Decision) -> tuple[Outcome, ...]:
        self._judge(decision.plan)
        done = await super().carry_out(decision)
        for outcome in done:
            for writes in (self.writes, self.journal):
                writes.take(journal.OutcomeLine(outcome))
            for one in self.successors:
                one.state.note(outcome, self._world.now)
        if decision.plan.cycle % UNTOLD_EVERY_CYCLES == 0 and self.entries:
            self._is_killed(self.journal, untold=True)
        return done

    def _judge(self, mine: Plan) -> None:
        """The successors' plans, of the same instant, against its own."""
        snapshot, now = self.inputs[0], self._world.now
        self.successors = [one for one in self.successors if now - one.at < JUDGED_SECONDS]
        for one in self.successors:
            plan = one.plan(now, snapshot.cycle, self.policy)
            judge(snapshot, self.policy, plan, mine)
            if one.whole:
                judge_whole(snapshot, plan, mine)
            self.judged += 1

    def _is_killed(self, writes: OwnWrites, *, untold: bool = False) -> None:
        """Right after a plan was written: what it did is in the decisions and in the journal alone.

        `untold`: before the line of the decision itself, which is written after its writes.
        """
        now = self._world.now
        restored = checkpoint.read(self.entries, [model.id for model in self.policy.models], now)
        start = begin_from(restored, writes, self.policy, now)
        state = ClusterState(self.policy, now)
        start.into(state, now)
        lists = (ObjectsListed(source, now, tuple(there.values())) for source, there in self.there.items())
        state.apply_all([*lists, *(SourceState(source, now) for source in SOURCES), *self.heard], now)
        self.successors.append(Successor(now, state, start.memory, writes is self.journal and not untold))
        self.begun += 1


async def live_a_while(twin: Twin, demo: DemoCluster, chance: random.Random) -> None:
    """Seven minutes of loads that come and go, and a spot node that is taken."""
    world = demo.world
    await twin.live(60.0)
    for turn in range(12):
        model = chance.choice(sorted(demo.dials))
        demo.dials[model].turn(IDLE_RATES[model] * chance.choice([0.2, 1.0, 2.0, 4.0]), world.now)
        if turn == 5 and world.node_claims:
            node = chance.choice(sorted(world.node_claims))
            world.interrupt(node, world.now + 120.0)
            twin.tell(CapacityNotice("test", "1", world.now, "spot-interruption", world.now + 120.0, node=node))
        await twin.live(30.0)


@pytest.mark.timeout(0 if settings().max_examples > 50 else 60)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("look_ahead", [True, False])
async def test_a_successor_goes_on_as_its_twin_or_holds_back(seed: int, *, look_ahead: bool) -> None:
    demo = build(POLICY.model_copy(update={"look_ahead": look_ahead}), START)
    twin = Twin(demo.world, demo.policy)
    await live_a_while(twin, demo, random.Random(seed))
    assert twin.changes > 1
    assert twin.begun > 10
    assert twin.judged > 3 * twin.begun
