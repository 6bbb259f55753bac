"""The need of every model: by its outlook where that is plausible, else by votes, with rulings and deferral."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import asdict, replace

from rebalancer.domain.memory import ModelMemory
from rebalancer.domain.plan import Refusal
from rebalancer.domain.policy import Model, Policy
from rebalancer.domain.readings import ModelLoad
from rebalancer.planning.demand import deferral, demand, plausible, votes
from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.demand.owed import waits
from rebalancer.planning.facts.scene import ModelFacts, Scene

NOTHING_NEEDED = demand.Demand(
    0, unknown=False, surge=False, why="it takes what no model gains from, and needs nothing"
)


def assess(scene: Scene[ModelFacts]) -> Scene[ModelNeed]:
    """The scene with every model's need."""
    needs = [_each_alone(model, scene) for model in scene.models.values()]
    return scene.with_models(needs)


def _each_alone(model: ModelFacts, scene: Scene[ModelFacts]) -> ModelNeed:
    """The model's need. Figures that cannot be worked with concern it alone: it counts as one that is not seen."""
    try:
        need = _need(model, _shown(model, scene), scene)
        _ = need.need_now, need.busy_now  # they are of the same figures, and asked for later
    except Exception as error:  # noqa: BLE001  # whatever it is, the others are planned, and it is told
        unseen = replace(model, load=ModelLoad(model.entry.id))
        return _need(unseen, _unknown(unseen, scene, f"{type(error).__name__}: {error}"), scene)
    return need


def _shown(model: ModelFacts, scene: Scene[ModelFacts]) -> "_Found":
    policy, now = scene.policy, scene.now
    shown = scene.memo.of(
        model.entry.id, _calmly, model.entry, model.load, model.serving_replicas, model.memory, policy
    )
    if model.entry.takes_idle:
        return _Found(votes.Ballot((), (), 0), NOTHING_NEEDED, model.memory, None, until=now)
    if shown is None or now >= shown.until:
        return _at(now, model, policy)
    return shown


def _unknown(model: ModelFacts, scene: Scene[ModelFacts], error: str) -> "_Found":
    ballot = votes.Ballot((), (("load", f"not to be worked with ({error})"),), 0)
    stance = demand.Stance(model.entry, model.load.work, model.memory, scene.policy, scene.now)
    needed, memory = demand.assess(stance, ballot, model.committed_replicas)
    return _Found(ballot, needed, memory, None, until=scene.now)


def _need(model: ModelFacts, shown: "_Found", scene: Scene[ModelFacts]) -> ModelNeed:
    policy, now = scene.policy, scene.now
    needed = shown.demand
    if ruled := model.ruling.words(model.entry, needed.replicas):
        wanted = model.ruling.wanted(model.entry, needed.replicas)
        capped = wanted < needed.replicas and model.ruling.pin is None
        busy = needed.busy if capped else None  # a cap is no claim: room for bursts is not owed under it either
        needed = demand.Demand(wanted, unknown=False, surge=needed.surge, why=f"{ruled}; {needed.why}", busy=busy)
    stance = demand.Stance(model.entry, model.load.work, shown.memory, policy, now)
    stands_back, memory = deferral.defer(stance, model.load, needed, model.staying_replicas)
    memory = _without_void(memory, model) if memory.replaced else memory
    return ModelNeed(
        **asdict(model),
        ballot=shown.ballot,
        demand=needed,
        unruled=shown.demand.replicas,
        plausibility_refusal=shown.doubt,
        deferral=stands_back,
        remembered=memory,
    )


class _Found(NamedTuple):
    """The need that a model's signals show; the same at every instant before `until`.

    ballot: the votes of its signals.
    demand: replicas it needs.
    memory: what the next plan is to remember of the model.
    doubt: what the guard `plausible` declined of its demand, None where nothing is doubted.
    until: instant from which on it must be found again.
    """

    ballot: votes.Ballot
    demand: demand.Demand
    memory: ModelMemory
    doubt: Refusal | None
    until: float


def _calmly(model: Model, load: ModelLoad, ready: int, memory: ModelMemory, policy: Policy) -> _Found | None:
    """The need that a model's signals show at any instant before `until`; None in a surge, a doubt or a wait."""
    if load.outlook is None or memory.jump is not None or waits(memory.owed):
        return None
    if not demand.calm(load.work, memory, policy.surge):
        return None
    blind = policy.guards.blind
    ballot = votes.poll(model, load, ready, demand.rules_of(policy, model), blind, -math.inf)
    if ballot.blind or not plausible.believed(load.outlook, ballot, load.work, policy.guards.plausible):
        return None
    stance = demand.Stance(model, load.work, memory, policy, math.nan)
    needed, memory = demand.foreseen(stance, load.outlook, ballot)
    return None if waits(memory.owed) else _Found(ballot, needed, memory, None, votes.fresh_until(load, blind))


def _at(now: float, model: ModelFacts, policy: Policy) -> _Found:
    """The need that a model's signals show at `now`: by the outlook where it is plausible, else by votes."""
    entry, load, has = model.entry, model.load, model.committed_replicas
    rules = demand.rules_of(policy, entry)
    ballot = votes.poll(entry, load, model.serving_replicas, rules, policy.guards.blind, now)
    seen = plausible.opinion(model, ballot, policy.guards.plausible, now)
    memory = model.memory if model.memory.jump == seen.jump else replace(model.memory, jump=seen.jump)
    stance = demand.Stance(entry, load.work, memory, policy, now)
    if seen.keeps:
        needed, memory = demand.doubted(stance, has)
    elif ballot.blind and has == 0 and votes.asked_for(load, policy.guards.blind, now):
        needed, memory = demand.woken(stance)
    elif load.outlook is None or ballot.blind or seen.refusal is not None:
        needed, memory = demand.assess(stance, ballot, has)
    else:
        needed, memory = demand.foreseen(stance, load.outlook, ballot)
    doubt = seen.refusal if model.ruling.settled is None else None
    return _Found(ballot, needed, memory, doubt, until=now)


def _without_void(memory: ModelMemory, model: ModelFacts) -> ModelMemory:
    void = {entry for target in model.targets for entry in target.void}
    return replace(memory, replaced=tuple(sorted(set(memory.replaced) - void))) if void else memory


def doubts(scene: Scene[ModelNeed]) -> Iterator[Refusal]:
    """Raises that the guard `plausible` declined."""
    refusals = (model.plausibility_refusal for model in scene.models.values())
    return (one for one in refusals if one is not None and one.replicas_to > one.replicas_from)
