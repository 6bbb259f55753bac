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
from rebalancer.planning import recall
from rebalancer.planning.asked import deferral, demand, rulings, sudden, votes
from rebalancer.planning.asked.owed import waits
from rebalancer.planning.given import changes, drains, moves, nodes
from rebalancer.planning.guarded import foreign, guards, stuck
from rebalancer.planning.guarded.release import Tally
from rebalancer.planning.seen import plausible, scene, sight
from rebalancer.planning.seen.fitted import fitted
from rebalancer.planning.seen.kept import Kept
from rebalancer.planning.shared import loans, shares, swings
from rebalancer.planning.shared.allocation import allocate
from rebalancer.planning.shared.ledger import Ledger
from rebalancer.planning.told import answers, explain


@dataclass(frozen=True, slots=True)
class Survey:
    """Stages 0-3: the facts with every model's demand, what overrides are told so far, and what models remember."""

    scene: scene.Scene
    told: tuple[OverrideState, ...]
    remembered: dict[str, ModelMemory]


def survey(snapshot: Snapshot, policy: Policy, memory: Memory, kept: Kept | None = None) -> Survey:
    """What there is to decide from. `kept`: as for `plan`."""
    kept = kept or Kept()
    kept.follow(policy)
    snapshot = fitted(snapshot, policy)
    memory = recall.recall(memory, snapshot.outcomes, policy, snapshot.at)
    memory = nodes.refresh(memory, snapshot, policy)
    memory = sudden.watch(memory, snapshot, policy)
    ruled, told = rulings.resolve(snapshot, policy)
    world = sight.build(snapshot, policy, memory, ruled, kept)
    foreign.stand_down(world)
    remembered = _assess(world)
    shares.share(world)
    swings.damp(world, remembered)
    return Survey(world, told, remembered)


def plan(snapshot: Snapshot, policy: Policy, memory: Memory, kept: Kept | None = None) -> Decision:
    """What to do now, and what to remember. `kept`: the planner's own, for a plan that is made sooner, not otherwise.

    Pure: no clock (the instant is `snapshot.at`), no I/O, no randomness; ties go by id. A plan on an unchanged world
    that carried out the last one is empty.
    """
    seen = survey(snapshot, policy, memory, kept)
    world, memory = seen.scene, seen.scene.memory
    tally = Tally.of(world)
    found = allocate(world, Ledger.of(world, tally.copy()))
    node_plan = nodes.plan_nodes(world, found)
    judged = moves.judge_moves(world, found, node_plan, tally)
    drains.drain(world, judged)
    nodes.hold(world, node_plan, judged.releasing)
    written = changes.changes_of(world, judged, node_plan)
    refusals = [*judged.refusals, *node_plan.refusals, *foreign.refusals(world), *stuck.refusals(world)]
    refusals += _doubts(world)
    stop = guards.stopped(world)
    if stop is not None:
        refusals += _stopped(world, written, node_plan, stop)
    booked = loans.book(world)
    unmet, remembered = explain.unmet(world, found, judged, written.granted, stop, seen.remembered)
    told, decided = answers.tell(world, seen.told, written.granted, unmet)
    refused = explain.merged(refusals)
    return Decision(
        plan=Plan(
            cycle=snapshot.cycle,
            at=snapshot.at,
            changes=(*written.down, *written.up),
            node_pools=tuple(node_plan.changes),
            refusals=refused,
            unmet=unmet,
            models=explain.explain_models(world, found, judged, booked, written.granted, refused),
            pools=explain.explain_pools(world, booked),
            overrides=told,
        ),
        memory=replace(memory, models=remembered, loans=booked, overrides=decided),
    )


def _doubts(world: scene.Scene) -> Iterator[Refusal]:
    """Raises that the guard `plausible` declined."""
    doubts = (holder.doubt for holder in world.holders.values())
    return (doubt for doubt in doubts if doubt is not None and doubt.replicas_to > doubt.replicas_from)


def _assess(world: scene.Scene) -> dict[str, ModelMemory]:
    """Stages 1-3 for every model: ballot and demand onto its holder; returns the memories."""
    remembered: dict[str, ModelMemory] = {}
    for name, holder in world.holders.items():
        calm = world.kept.of(name, _calmly, holder.model, holder.load, holder.ready, holder.memory, world.policy)
        if calm is not None and world.now < calm.until:
            holder.ballot, found, kept = calm.ballot, calm.demand, calm.memory
        else:
            rules, blind = demand.rules_of(world.policy, holder.model), world.policy.guards.blind
            holder.ballot = votes.poll(holder.model, holder.load, holder.ready, rules, blind, world.now)
            found, kept = _demand(world, holder)
        said = holder.ruling.said(holder.model, found.replicas)
        if said:
            wanted = holder.ruling.wanted(holder.model, found.replicas)
            found = demand.Demand(wanted, unknown=False, surge=found.surge, why=f"{said}; {found.why}")
        holder.demand = found
        rule, load = world.policy.deferral, holder.load
        holder.deferral, kept = deferral.defer(holder.model, load, found, holder.held, kept, rule, world.now)
        remembered[name] = _without_void(kept, holder) if kept.replaced else kept
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


def _without_void(kept: ModelMemory, holder: scene.Holder) -> ModelMemory:
    void = {entry for part in holder.parts for entry in part.void}
    return replace(kept, replaced=tuple(sorted(set(kept.replaced) - void))) if void else kept


def _demand(world: scene.Scene, holder: scene.Holder) -> tuple[demand.Demand, ModelMemory]:
    """By the outlook where there is one that is plausible; by votes else, as far as they are."""
    model, load, policy = holder.model, holder.load, world.policy
    seen = plausible.opinion(holder, policy.guards.plausible, world.now)
    holder.doubt = seen.refusal if holder.ruling.settled is None else None
    kept = holder.memory if holder.memory.jump == seen.jump else replace(holder.memory, jump=seen.jump)
    if seen.keeps:
        return demand.doubted(model, load.work, holder.has, kept, policy, world.now)
    if load.outlook is None or holder.ballot.blind or seen.refusal is not None:
        return demand.assess(model, holder.ballot, load.work, holder.has, kept, policy, world.now)
    return demand.foreseen(model, load.outlook, holder.ballot, load.work, kept, policy, world.now)


def _stopped(world: scene.Scene, written: changes.Changes, node_plan: nodes.NodePlan, why: str) -> list[Refusal]:
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
    written.granted = {name: holder.held for name, holder in world.holders.items()}
    return refused
