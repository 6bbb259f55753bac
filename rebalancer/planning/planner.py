"""`plan`: the stages in their order. Reads like the table of contents of this package."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from rebalancer.domain.account import NoticeAccount
from rebalancer.domain.memory import Loan, Memory
from rebalancer.domain.plan import Decision, ModelDecision, OverrideState, Plan, Refusal
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.planning.actions import changes, drains, evictions, node_grants
from rebalancer.planning.actions.moves import Moves
from rebalancer.planning.actions.planned_writes import PlannedWrites
from rebalancer.planning.allocation import loans
from rebalancer.planning.allocation.allocate import Allocation, allocate
from rebalancer.planning.demand import assess
from rebalancer.planning.explanation import explain, override_answers
from rebalancer.planning.explanation.lacks import Lack, lacking
from rebalancer.planning.facts import build
from rebalancer.planning.facts.fitted import fitted
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.guards import foreign, stuck
from rebalancer.planning.guards.release import Tally
from rebalancer.planning.memo import Memo
from rebalancer.planning.memory import accounts, open_grants, outages, outcomes
from rebalancer.planning.overrides import rulings
from rebalancer.planning.shares import by_worth, roles, swings, takers
from rebalancer.planning.shares.share import ModelShare


@dataclass(frozen=True, slots=True)
class Weighed:
    """Everything that a plan is decided from: every model with its facts, its need and its share.

    scene: the cycle after these stages.
    override_states: what each override was told so far.
    accounts: accounts of notices that are new or otherwise than in the plan before.
    """

    scene: Scene[ModelShare]
    override_states: tuple[OverrideState, ...]
    accounts: tuple[NoticeAccount, ...]


def weigh(snapshot: Snapshot, policy: Policy, memory: Memory, memo: Memo | None = None) -> Weighed:
    """The stages before anything moves. `memo`: as for `plan`."""
    memo = memo or Memo()
    memo.follow(policy)
    snapshot = fitted(snapshot, policy)
    memory = outcomes.recall(memory, snapshot.outcomes, policy, snapshot.at)
    memory = outcomes.call_pools_as_now(memory, snapshot, policy)
    memory = open_grants.refresh(memory, snapshot, policy)
    memory = outages.watch(memory, snapshot, policy)
    memory, changed_accounts = accounts.follow(memory, snapshot)
    ruled, states = rulings.resolve(snapshot, policy)
    facts = build.build(snapshot, policy, memory, ruled, memo)
    facts = foreign.stand_down(facts)
    needs = assess.assess(facts)
    shares = by_worth.share(needs)
    shares = roles.bind(swings.damp(shares))
    return Weighed(takers.offer(shares), states, changed_accounts)


class Explained(NamedTuple):
    """A decision that can be shown.

    decision: what was decided, with the sentences about it.
    failures: what making the sentences raised, an exception for each model or pool without them.
    """

    decision: Decision
    failures: tuple[Exception, ...]

    def whole(self) -> Decision:
        """The decision, where all of it is explained; else it raises what failed first."""
        for failure in self.failures:
            raise failure
        return self.decision


@dataclass(frozen=True, slots=True)
class Unexplained:
    """A decision that is not explained yet: enough to write, with what its explanation is made from.

    orders: the decision without what `explained` adds, the explanations of its models and the arithmetic of its pools.
    scene: the cycle after the stages before anything moves.
    allocation: the GPUs that every unit was found.
    moved: the moves, and the refusals of guards.
    booked: the loans after this plan.
    granted: replicas by model after this plan.
    lacks: what models lack, by id.
    left_alone: models for which nothing is decided, with what is told of them.
    failures: what their pools' planning raised, an exception for each of `Plan.unplanned`.
    """

    orders: Decision
    scene: Scene[ModelShare]
    allocation: Allocation
    moved: Moves
    booked: tuple[Loan, ...]
    granted: dict[str, int]
    lacks: Mapping[str, Lack]
    left_alone: tuple[ModelDecision, ...] = ()
    failures: tuple[Exception, ...] = ()

    def explained(self) -> Explained:
        """The whole decision; a third of the time that `plan` takes at 1,000 models."""
        orders = self.orders.plan
        models, of_models = explain.explain_models(
            self.scene, self.allocation, self.moved, self.booked, self.granted, orders.refusals, self.lacks
        )
        if self.left_alone:
            models = tuple(sorted((*models, *self.left_alone), key=lambda each: each.model))
        pools, of_pools = explain.explain_pools(self.scene, self.booked)
        decision = replace(self.orders, plan=replace(orders, models=models, pools=pools))
        return Explained(decision, (*of_models, *of_pools))


def plan(snapshot: Snapshot, policy: Policy, memory: Memory, memo: Memo | None = None) -> Decision:
    """The changes to make now, and memory for the next plan. `memo` makes a plan sooner, not different.

    Pure: no clock (the instant is `snapshot.at`), no I/O, no randomness; ties go by id. A plan on an unchanged world
    that carried out the last one is empty.
    """
    return decide(snapshot, policy, memory, memo).explained().whole()


def decide(snapshot: Snapshot, policy: Policy, memory: Memory, memo: Memo | None = None) -> Unexplained:
    """As `plan`, all but the explanation: who is about to write need not wait for it."""
    weighed = weigh(snapshot, policy, memory, memo)
    scene, tally = weighed.scene, Tally.of(weighed.scene)
    allocation = allocate(scene, tally)
    granted = node_grants.plan_nodes(scene, allocation)
    allocation = allocation.awaiting(granted.staying, granted.awaiting)
    moved = drains.moves_and_drains(scene, allocation, granted, tally)
    nodes = node_grants.hold(scene, granted, moved.releasing)
    changed = changes.changes_of(scene, moved, nodes)
    drained = evictions.drain_changes(scene, moved)
    writes = PlannedWrites.let_through(scene, changed, nodes, drained)
    booked = loans.book(scene)
    lacks, models = lacking(scene, allocation, moved, booked, writes)
    states, answered = override_answers.tell(scene, weighed.override_states, writes.changes.granted, lacks)
    orders = Plan(
        cycle=snapshot.cycle,
        at=snapshot.at,
        changes=(*writes.changes.down, *writes.changes.up),
        node_pools=tuple(writes.nodes.changes),
        refusals=_refusals(scene, moved, writes),
        unmet=tuple([lack.short for lack in lacks.values() if lack.short is not None]),
        overrides=states,
        accounts=weighed.accounts,
        drains=writes.drains,
    )
    remembered = replace(scene.memory, models=models, loans=booked, overrides=answered)
    remembered = outcomes.handed_on(remembered, writes.nodes.handed_on, writes.nodes.raised, policy, scene.now)
    remembered = replace(remembered, node_grants=(*remembered.node_grants, *writes.nodes.opened))
    return Unexplained(Decision(orders, remembered), scene, allocation, moved, booked, writes.changes.granted, lacks)


def _refusals(scene: Scene[ModelShare], moved: Moves, writes: PlannedWrites) -> tuple[Refusal, ...]:
    """What was declined in any stage, one refusal per guard and subject."""
    return explain.merged(
        [
            *moved.refusals,
            *writes.changes.refusals,
            *writes.nodes.refusals,
            *foreign.refusals(scene),
            *stuck.refusals(scene),
            *assess.doubts(scene),
            *writes.nodes.roles.refusals(),
            *writes.stopped,
        ]
    )
