"""`plan`: the stages in their order. Reads like the table of contents of this package."""

from dataclasses import dataclass

from msgspec.structs import replace

from rebalancer.domain.memory import Memory
from rebalancer.domain.plan import Decision, OverrideState, Plan, Refusal
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot
from rebalancer.planning.actions import changes, drains, node_grants
from rebalancer.planning.allocation import loans
from rebalancer.planning.allocation.allocate import allocate
from rebalancer.planning.allocation.ledger import Ledger
from rebalancer.planning.demand import assess
from rebalancer.planning.explanation import explain, override_answers
from rebalancer.planning.explanation.lacks import lacking
from rebalancer.planning.facts import build
from rebalancer.planning.facts.fitted import fitted
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.guards import foreign, guards, stuck
from rebalancer.planning.guards.release import Tally
from rebalancer.planning.memo import Memo
from rebalancer.planning.memory import open_grants, outages, outcomes
from rebalancer.planning.overrides import rulings
from rebalancer.planning.shares import by_worth, swings
from rebalancer.planning.shares.share import ModelShare


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything that a plan is decided from: every model with its facts, its need and its share.

    scene: the cycle after these stages.
    told: what each override was told so far.
    """

    scene: Scene[ModelShare]
    told: tuple[OverrideState, ...]


def survey(snapshot: Snapshot, policy: Policy, memory: Memory, memo: Memo | None = None) -> Survey:
    """The stages before anything moves. `memo`: as for `plan`."""
    memo = memo or Memo()
    memo.follow(policy)
    snapshot = fitted(snapshot, policy)
    memory = outcomes.recall(memory, snapshot.outcomes, policy, snapshot.at)
    memory = open_grants.refresh(memory, snapshot, policy)
    memory = outages.watch(memory, snapshot, policy)
    ruled, told = rulings.resolve(snapshot, policy)
    facts = build.build(snapshot, policy, memory, ruled, memo)
    facts = foreign.stand_down(facts)
    needs = assess.assess(facts)
    shares = by_worth.share(needs)
    shares = swings.damp(shares)
    return Survey(shares, told)


def plan(snapshot: Snapshot, policy: Policy, memory: Memory, memo: Memo | None = None) -> Decision:
    """The changes to make now, and memory for the next plan. `memo` makes a plan sooner, not different.

    Pure: no clock (the instant is `snapshot.at`), no I/O, no randomness; ties go by id. A plan on an unchanged world
    that carried out the last one is empty.
    """
    seen = survey(snapshot, policy, memory, memo)
    scene, memory = seen.scene, seen.scene.memory
    tally = Tally.of(scene)
    allocation = allocate(scene, Ledger.of(scene, tally.copy()))
    nodes = node_grants.plan_nodes(scene, allocation)
    moved = drains.moves_and_drains(scene, allocation, nodes, tally)
    nodes = node_grants.hold(scene, nodes, moved.releasing)
    written = changes.changes_of(scene, moved, nodes)
    refusals = [*moved.refusals, *written.refusals, *nodes.refusals, *foreign.refusals(scene), *stuck.refusals(scene)]
    refusals += assess.doubts(scene)
    stop = guards.stopped(scene)
    if stop is not None:
        refusals += _stopped(scene, written, nodes, stop)
        written, nodes = written.stopped(scene), nodes.stopped()
    booked = loans.book(scene)
    lacks, remembered = lacking(scene, allocation, moved, booked, written.granted, stop)
    told, decided = override_answers.tell(scene, seen.told, written.granted, lacks)
    refused = explain.merged(refusals)
    return Decision(
        plan=Plan(
            cycle=snapshot.cycle,
            at=snapshot.at,
            changes=(*written.down, *written.up),
            node_pools=tuple(nodes.changes),
            refusals=refused,
            unmet=tuple([lack.short for lack in lacks.values() if lack.short is not None]),
            models=explain.explain_models(scene, allocation, moved, booked, written.granted, refused, lacks),
            pools=explain.explain_pools(scene, booked),
            overrides=told,
        ),
        memory=replace(memory, models=remembered, loans=booked, overrides=decided),
    )


def _stopped(
    scene: Scene[ModelShare], written: changes.Changes, nodes: node_grants.NodePlan, why: str
) -> list[Refusal]:
    """The changes of a plan that may not be written, each as a refusal."""
    guard = guards.stopped_by(scene)
    refused = [
        Refusal(guard, change.model, change.replicas_from, change.replicas_to, why)
        for change in (*written.down, *written.up)
    ]
    return refused + [
        Refusal(guard, change.name, change.limit_from or 0, change.limit_to or 0, f"{change.kind}: {why}")
        for change in nodes.changes
    ]
