"""At any cycle of a random world the process is killed and starts again; its plan is judged beside that of a twin.

The twin was not killed. Checkpoint, journal and `decisions` are each there, older or away. Where all cycles are known,
the successor's plan is the twin's, byte by byte. Where they are not, it holds back: it takes no serving replica that
the twin keeps, and what it raises beyond the twin is free, or given up by the twin as well; where writes are known
every write of its keeps floors and budgets.
"""

from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize
from msgspec.structs import replace

from rebalancer.app.own_writes import OwnWrites
from rebalancer.app.past import Start, begin_from
from rebalancer.domain.arithmetic import converging, doomed_nodes
from rebalancer.domain.codec import to_bytes
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Decision, Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.domain.victims import serving_after
from rebalancer.obs import journal
from rebalancer.planning import plan as decide
from rebalancer.state.checkpoint import Restored
from tests.planning import oracle
from tests.planning.story import Story
from tests.planning.test_properties_machine import LivingWorld
from tests.planning.worlds import patience

Key = tuple[str, str]
OLDEST = 4  # cycles that a checkpoint is behind
OLDER = 2  # cycles that a journal lacks
KEYFRAME_CYCLES = 3


class Case(NamedTuple):
    """What a start finds.

    `checkpoint`: the "newest", the "oldest", "none". `decisions`: "whole", the "writes" alone (cycles are too large for
    a record), their "intents", "away". `journal`: "whole", "older", "away".
    """

    checkpoint: str
    decisions: str
    journal: str

    @property
    def whole(self) -> bool:
        """Whether all cycles are known."""
        return "whole" in {self.decisions, self.journal}

    @property
    def knows_writes(self) -> bool:
        return self.whole or self.decisions != "away"


CASES = [
    Case(*case)
    for case in product(
        ("newest", "oldest", "none"), ("whole", "writes", "intents", "away"), ("away", "older", "whole")
    )
    if case != ("none", "away", "away")  # a first start
]
STRIDE = 11  # through the cases, two in each turn


class KilledWorld(LivingWorld):
    """The living world, with what a checkpoint and a journal would have of each cycle.

    `kept`: (cycle, instant, memory after it), oldest first; `told`: the outcomes that each cycle was given; `lines`:
    (cycle, line) of the journal. `first`: which cases come first.
    """

    first = 0

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[int, float, Memory]] = []
        self.told: dict[int, tuple[Outcome, ...]] = {}
        self.lines: list[tuple[int, journal.Line]] = []
        self.seen = journal.EMPTY

    @initialize(first=st.integers(0, len(CASES) - 1))
    def draw_cases(self, first: int) -> None:
        """Cases differ in what they find; each is met in some turn of some world."""
        self.first = first

    def _turn(self, data: st.DataObject | None) -> None:
        number = self.kept[-1][0] + 1 if self.kept else 1  # no cycle fails here: time that passes takes no number
        self.story.snapshot = replace(self.story.snapshot, cycle=number)
        snapshot, policy, before = self.story.snapshot, self.story.policy, self.story.memory
        self.told[snapshot.cycle] = snapshot.outcomes
        found = [CASES[(self.first + STRIDE * (2 * snapshot.cycle + n)) % len(CASES)] for n in (0, 1)]
        starts = {case: self._start(snapshot, case) for case in found if self.kept}
        plan = self.story.plan()
        for case, start in starts.items():
            assert start.first_cycle == snapshot.cycle
            begun = replace(snapshot, outcomes=start.outcomes)
            decision = decide(begun, policy, start.memory)
            if case.whole:
                assert to_bytes(decision.plan) == to_bytes(plan), f"{case}: all is known, and it plans otherwise"
                continue
            judge(snapshot, policy, decision.plan, plan)
            judge_raises(snapshot, policy, decision.plan, plan, start.memory)
            if case.knows_writes:
                world = Story(policy, replace(begun, outcomes=()), decision.memory)
                oracle.carry_out(world, decision.plan)
        self._keep(snapshot, before, plan)
        oracle.judge_plan(snapshot, policy, plan)
        many = len(plan.changes) + len(plan.node_pools)
        oracle.carry_out(self.story, plan, None if data is None else data.draw(st.integers(0, many)))

    def _keep(self, snapshot: Snapshot, before: Memory, plan: Plan) -> None:
        """A checkpoint after each cycle, a keyframe every few."""
        if not self.lines or snapshot.cycle % KEYFRAME_CYCLES == 0:
            self.lines += [(snapshot.cycle, line) for line in journal.keyframe(snapshot, before)]
            self.seen = snapshot
        decision = Decision(plan, self.story.memory)
        self.lines.append((snapshot.cycle, journal.cycle_line(self.seen, snapshot, decision, "")))
        self.seen = snapshot
        self.kept = [*self.kept, (snapshot.cycle, snapshot.at, self.story.memory)][-OLDEST:]

    def _start(self, snapshot: Snapshot, case: Case) -> Start:
        """What the next process begins with, had this one died before the cycle of `snapshot`."""
        cycle, at, memory = self.kept[-1 if case.checkpoint == "newest" else 0]
        restored = Restored() if case.checkpoint == "none" else Restored(memory=memory, cycle=cycle, at=at)
        writes = OwnWrites(last_cycle=snapshot.cycle - 1)
        if case.decisions != "away":
            self._tell(writes, snapshot.cycle, case.decisions)
        if case.journal != "away":
            self._tell(writes, snapshot.cycle - (OLDER if case.journal == "older" else 0), "whole")
        return begin_from(restored, writes, self.story.policy, snapshot.at)

    def _tell(self, writes: OwnWrites, until: int, what: str) -> None:
        """What was written down before cycle `until`."""
        writes.instants += [at for cycle, at, _ in self.kept if cycle < until]
        for number in sorted(self.told):
            for outcome in self.told[number] if number <= until else ():
                writes.take(journal.IntentLine(outcome.intent) if what == "intents" else journal.OutcomeLine(outcome))
        for cycle, line in self.lines if what == "whole" else ():
            if cycle < until:
                writes.take(line)


def judge(snapshot: Snapshot, policy: Policy, killed: Plan, twin: Plan) -> None:
    """No replica goes that serves, on a node that stays, that its model needs, and that the twin keeps.

    Of those that do not serve or are doomed a successor may let go some that its twin keeps: it does not know for how
    long votes had asked for them, nor, where decisions are missing, which replacements and nodes were asked for. Of two
    models that need neither of their replicas it may choose the other one.
    """
    ours, theirs, lost = asked(killed), asked(twin), doomed_nodes_of(snapshot, policy)
    needs = {one.model: one.demand for one in twin.models}
    for view in snapshot.models:
        left, kept = 0, 0
        for target in view.targets:
            now, key = converging(target), (view.id, target.pool)
            left += serving_after(target.pods, *_worst(ours.get(key, (now, ())), lost))
            kept += serving_after(target.pods, *_worst(min((now, ()), theirs.get(key, (now, ()))), lost))
        need = needs.get(view.id)
        assert left >= (kept if need is None else min(kept, need)), f"{view.id}: {left} are left, its twin keeps {kept}"


def judge_whole(snapshot: Snapshot, killed: Plan, twin: Plan) -> None:
    """Where all is known: no replica goes that the twin keeps, serving or not, and none comes that it does not ask for.

    Between what there is and what the twin asks for a successor may stay: it holds back.
    """
    ours, theirs = asked(killed), asked(twin)
    for view in snapshot.models:
        for target in view.targets:
            now, key = converging(target), (view.id, target.pool)
            to, its = ours.get(key, (now, ()))[0], theirs.get(key, (now, ()))[0]
            assert min(now, its) <= to <= max(now, its), f"{key}: {now} -> {to}, its twin asks for {its}"


def judge_raises(snapshot: Snapshot, policy: Policy, killed: Plan, twin: Plan, memory: Memory) -> None:
    """What it raises beyond its twin is free, or given up by both: nothing that others hold or were promised.

    Replicas for which a node is asked take nobody's place.
    """
    sums = oracle.sums(snapshot, policy, memory.node_grants)
    gpus = {model.id: model.gpus_per_replica for model in policy.models}
    theirs = {(one.model, one.target.pool): one.replicas_to for one in twin.changes}
    for pool, budget in sums.budget.items():
        raised = more = given = 0
        for one in killed.changes:
            if one.target.pool != pool:
                continue
            to = theirs.get((one.model, pool), one.replicas_from)
            if one.replicas_to > one.replicas_from and one.grant is None:
                raised += (one.replicas_to - one.replicas_from) * gpus[one.model]
                more += max(0, one.replicas_to - max(to, one.replicas_from)) * gpus[one.model]
            given += max(0, one.replicas_from - max(to, one.replicas_to)) * gpus[one.model]
        free = 0 if budget is None else max(0, budget - sums.promised[pool])
        assert not more or raised <= free + given, (
            f"{pool}: {raised} GPUs are raised, {free} are free, {given} given up"
        )


def _worst(to: tuple[int, tuple[str, ...]], lost: frozenset[str]) -> tuple[int, frozenset[str], tuple[str, ...]]:
    """What `serving_after` asks for."""
    return to[0], lost, to[1]


def doomed_nodes_of(snapshot: Snapshot, policy: Policy) -> frozenset[str]:
    """Nodes whose pods count for nobody."""
    return doomed_nodes(snapshot.notices, snapshot.pools, policy.nodes, snapshot.at)


def asked(plan: Plan) -> dict[Key, tuple[int, tuple[str, ...]]]:
    """What a plan asks of each target, and who is to go."""
    return {(one.model, one.target.pool): (one.replicas_to, one.victims) for one in plan.changes}


TestKilledWorld = pytest.mark.timeout(patience(120))(KilledWorld.TestCase)
TestKilledWorld.settings = settings(
    stateful_step_count=15, max_examples=max(1, settings().max_examples * 3 // 10), database=None
)
