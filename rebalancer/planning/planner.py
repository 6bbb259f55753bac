"""`plan`: the stages in their order. Reads like the table of contents of this room."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from rebalancer.domain.memory import Memory, ModelMemory
from rebalancer.domain.plan import Decision, OverrideState, Plan, Refusal
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.readings import ModelLoad
from rebalancer.domain.snapshot import Snapshot
from rebalancer.planning.actions import changes, drains, moves, node_grants
from rebalancer.planning.allocation import loans
from rebalancer.planning.allocation.allocate import allocate
from rebalancer.planning.allocation.ledger import Ledger
from rebalancer.planning.demand import deferral, demand, plausible, votes
from rebalancer.planning.demand.owed import waits
from rebalancer.planning.explanation import explain, override_answers
from rebalancer.planning.facts import build, scene
from rebalancer.planning.facts.fitted import fitted
from rebalancer.planning.guards import foreign, guards, stuck
from rebalancer.planning.guards.release import Tally
from rebalancer.planning.memo import Memo
from rebalancer.planning.memory import outages, outcomes
from rebalancer.planning.overrides import rulings
from rebalancer.planning.shares import by_worth, swings


@dataclass(frozen=True, slots=True)
class Survey:
    """Stages 0-3: the facts with every model's demand, what overrides are told so far, and what models remember."""

    scene: scene.Scene
    told: tuple[OverrideState, ...]
    remembered: dict[str, ModelMemory]


def survey(snapshot: Snapshot, policy: Policy, memory: Memory, kept: Memo | None = None) -> Survey:
    """What there is to decide from. `kept`: as for `plan`."""
    kept = kept or Memo()
    kept.follow(policy)
    snapshot = fitted(snapshot, policy)
    memory = outcomes.recall(memory, snapshot.outcomes, policy, snapshot.at)
    memory = node_grants.refresh(memory, snapshot, policy)
    memory = outages.watch(memory, snapshot, policy)
    ruled, told = rulings.resolve(snapshot, policy)
    world = build.build(snapshot, policy, memory, ruled, kept)
    foreign.stand_down(world)
    remembered = _assess(world)
    by_worth.share(world)
    swings.damp(world, remembered)
    return Survey(world, told, remembered)


def plan(snapshot: Snapshot, policy: Policy, memory: Memory, kept: Memo | None = None) -> Decision:
    """What to do now, and what to remember. `kept`: the planner's own, for a plan that is made sooner, not otherwise.

    Pure: no clock (the instant is `snapshot.at`), no I/O, no randomness; ties go by id. A plan on an unchanged world
    that carried out the last one is empty.
    """
    seen = survey(snapshot, policy, memory, kept)
    world, memory = seen.scene, seen.scene.memory
    tally = Tally.of(world)
    found = allocate(world, Ledger.of(world, tally.copy()))
    node_plan = node_grants.plan_nodes(world, found)
    judged = moves.judge_moves(world, found, node_plan, tally)
    drains.drain(world, judged)
    node_grants.hold(world, node_plan, judged.releasing)
    written = changes.changes_of(world, judged, node_plan)
    refusals = [*judged.refusals, *node_plan.refusals, *foreign.refusals(world), *stuck.refusals(world)]
    refusals += _doubts(world)
    stop = guards.stopped(world)
    if stop is not None:
        refusals += _stopped(world, written, node_plan, stop)
    booked = loans.book(world)
    unmet, remembered = explain.unmet(world, found, judged, written.granted, stop, seen.remembered)
    told, decided = override_answers.tell(world, seen.told, written.granted, unmet)
    refused = explain.merged(refusals)
    return Decision(
        plan=Plan(
            cycle=snapshot.cycle,
            at=snapshot.at,
            changes=(*written.down, *written.up),
            node_pools=tuple(node_plan.changes),
            refusals=refused,
            unmet=unmet,
            models=explain.explain_models(world, found, judged, booked, written.granted, refused, unmet),
            pools=explain.explain_pools(world, booked),
            overrides=told,
        ),
        memory=replace(memory, models=remembered, loans=booked, overrides=decided),
    )


def _doubts(world: scene.Scene) -> Iterator[Refusal]:
    """Raises that the guard `plausible` declined."""
    doubts = (model.plausibility_refusal for model in world.models.values())
    return (doubt for doubt in doubts if doubt is not None and doubt.replicas_to > doubt.replicas_from)


def _assess(world: scene.Scene) -> dict[str, ModelMemory]:
    """Stages 1-3 for every model: ballot and demand onto its holder; returns the memories."""
    remembered: dict[str, ModelMemory] = {}
    for name, model in world.models.items():
        calm = world.memo.of(name, _calmly, model.entry, model.load, model.serving_replicas, model.memory, world.policy)
        if calm is not None and world.now < calm.until:
            model.ballot, found, kept = calm.ballot, calm.demand, calm.memory
        else:
            rules, blind = demand.rules_of(world.policy, model.entry), world.policy.guards.blind
            model.ballot = votes.poll(model.entry, model.load, model.serving_replicas, rules, blind, world.now)
            found, kept = _demand(world, model)
        said = model.ruling.said(model.entry, found.replicas)
        if said:
            wanted = model.ruling.wanted(model.entry, found.replicas)
            found = demand.Demand(wanted, unknown=False, surge=found.surge, why=f"{said}; {found.why}")
        model.demand = found
        rule, load = world.policy.deferral, model.load
        model.deferral, kept = deferral.defer(model.entry, load, found, model.staying_replicas, kept, rule, world.now)
        remembered[name] = _without_void(kept, model) if kept.replaced else kept
    return remembered


class _Calm(NamedTuple):
    """What is the same at every instant before `until`."""

    ballot: votes.Ballot
    demand: demand.Demand
    memory: ModelMemory
    until: float


def _calmly(model: Model, load: ModelLoad, ready: int, kept: ModelMemory, policy: Policy) -> _Calm | None:
    """By the outlook, where the instant has no say but for staleness: no surge, no doubt, no owner who waits."""
    if load.outlook is None or kept.jump is not None or waits(kept.owed):
        return None
    if not demand.calm(load.work, kept, policy.surge):
        return None
    blind = policy.guards.blind
    ballot = votes.poll(model, load, ready, demand.rules_of(policy, model), blind, -math.inf)
    if ballot.blind or not plausible.believed(load.outlook, ballot, load.work, policy.guards.plausible):
        return None
    found, kept = demand.foreseen(model, load.outlook, ballot, load.work, kept, policy, now=math.nan)
    return None if waits(kept.owed) else _Calm(ballot, found, kept, votes.fresh_until(load, blind))


def _without_void(kept: ModelMemory, model: scene.ModelFacts) -> ModelMemory:
    void = {entry for target in model.targets for entry in target.void}
    return replace(kept, replaced=tuple(sorted(set(kept.replaced) - void))) if void else kept


def _demand(world: scene.Scene, holder: scene.ModelFacts) -> tuple[demand.Demand, ModelMemory]:
    """By the outlook where there is one that is plausible; by votes else, as far as they are."""
    model, load, policy = holder.entry, holder.load, world.policy
    seen = plausible.opinion(holder, policy.guards.plausible, world.now)
    holder.plausibility_refusal = seen.refusal if holder.ruling.settled is None else None
    kept = holder.memory if holder.memory.jump == seen.jump else replace(holder.memory, jump=seen.jump)
    if seen.keeps:
        return demand.doubted(model, load.work, holder.committed_replicas, kept, policy, world.now)
    if load.outlook is None or holder.ballot.blind or seen.refusal is not None:
        return demand.assess(model, holder.ballot, load.work, holder.committed_replicas, kept, policy, world.now)
    return demand.foreseen(model, load.outlook, holder.ballot, load.work, kept, policy, world.now)


def _stopped(world: scene.Scene, written: changes.Changes, node_plan: node_grants.NodePlan, why: str) -> list[Refusal]:
    """Nothing is written; each change becomes a refusal."""
    guard = guards.stopped_by(world)
    refused = [
        Refusal(guard, change.model, change.replicas_from, change.replicas_to, why)
        for change in (*written.down, *written.up)
    ]
    refused += [
        Refusal(guard, change.name, change.limit_from or 0, change.limit_to or 0, f"{change.kind}: {why}")
        for change in node_plan.changes
    ]
    written.down, written.up, node_plan.changes = [], [], []
    written.granted = {name: model.staying_replicas for name, model in world.models.items()}
    return refused
