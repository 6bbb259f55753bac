"""All shares meet the GPUs there are; guards are asked as far as donors are sought, and for each move afterwards.

Everybody starts with what it holds. What a model lacks is sought in tiers - floors, wanted entitlements, then the
rest by priority - each unit first in free GPUs, then in GPUs about to be free, then at a donor's expense. What a donor
must not be asked for depends on the tier (`_reserve`): to a floor everything above floors gives way, to an entitlement
everything borrowed, beyond that only surplus and lower priority. So nobody is robbed by an equal, nobody starves
below its floor, and on an unchanged world a second allocation moves nothing. What is free even then is lent
(`idle.fill`).
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby

from rebalancer.planning.allocation.astray import WaitingPod, astray
from rebalancer.planning.allocation.donors import ENTITLED, FLOOR, WANTED, displace
from rebalancer.planning.allocation.idle import confined, fill, paid_for
from rebalancer.planning.allocation.roles import Roles
from rebalancer.planning.allocation.seating import Seating
from rebalancer.planning.allocation.shortage import why_short
from rebalancer.planning.allocation.unit import Unit, Victim
from rebalancer.planning.facts.limits import too_low
from rebalancer.planning.facts.scene import Scene, TargetFacts
from rebalancer.planning.guards.release import Purpose, Tally
from rebalancer.planning.shares.share import ModelShare


@dataclass(slots=True)
class Allocation:
    """What allocation found.

    roles: how far the roles of couples have moved by it.
    units: wanted, in the order of their claims.
    releases: replicas that go though nobody needs them.
    short: how many replicas of a model found no place, the binding constraint, and why; by model id.
    homeless: the same of replicas that are there as pods and fit on no node, where no node comes for them.
    astray: for whose room a unit has to wait, since the scheduler could put it there; by index of the unit.
    """

    roles: Roles
    releases: list[Victim] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    short: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    homeless: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    astray: dict[int, tuple[WaitingPod, ...]] = field(default_factory=dict)

    @property
    def giving(self) -> set[tuple[str, str]]:
        """Keys of targets that would give a replica; they receive none in the same plan."""
        victims = (*self.releases, *(victim for unit in self.units for victim in unit.victims))
        return {victim.target.key for victim in victims}

    def awaiting(self, staying: Collection[Victim], models: Collection[str]) -> "Allocation":
        """The same once nodes are asked for replicas of `models` that are there: who was given up of them stays."""
        if not models:
            return self
        stay, counts = {id(victim) for victim in staying}, Counter(victim.target.model for victim in staying)
        short = {name: (lacks - counts[name], guard, why) for name, (lacks, guard, why) in self.short.items()}
        return replace(
            self,
            releases=[victim for victim in self.releases if id(victim) not in stay],
            short={name: row for name, row in short.items() if row[0] > 0},
            homeless={name: row for name, row in self.homeless.items() if name not in models},
        )


def allocate(scene: Scene[ModelShare], tally: Tally) -> Allocation:
    """Shrink to the budget, place what models lack tier by tier, let go what nobody needs.

    `tally`: what guards' windows have before anything is taken.
    """
    seating = Seating.of(scene, tally.copy())
    allocation = Allocation(seating.roles)
    seating.lacking = {name for name, each in scene.models.items() if not _content(each)}
    _shrink(seating, allocation, waiting=False)
    equals = [tuple(alike) for _, alike in groupby(scene.models_by_priority, lambda model: model.precedence)]
    for tier in (FLOOR, ENTITLED, WANTED):
        seating.reseating = tier != WANTED
        _keep_for_the_confined(tier, seating)
        for models in equals:
            _serve_in_turn(models, tier, seating, allocation)
    _give_way(seating, allocation)
    allocation.units += fill(seating)
    _let_go(seating, allocation)
    _let_go_above_caps(seating, allocation)
    allocation.astray = astray(seating, allocation.units)
    allocation.homeless = _homeless(seating)
    return allocation


def _homeless(seating: Seating) -> dict[str, tuple[int, str, str]]:
    """Replicas without a node that fit on none and were given no place, the constraint, and why; by model id."""
    scene = seating.scene
    grants = [one for one in scene.memory.node_grants if one.model in seating.unseated and scene.now < one.until]
    granted = {grant.model for grant in grants if not too_low(scene, grant)}
    homeless = {}
    for name, unseated in sorted(seating.unseated.items()):
        model, waiting = scene.models[name], unseated - seating.reseated[name]
        if waiting > 0 and name not in granted and not any(_nodes_come(seating, each.pool) for each in model.targets):
            homeless[name] = (waiting, *why_short(model, seating))
    return homeless


def _nodes_come(seating: Seating, pool: str) -> bool:
    """Whether a node was ordered for the pool, by whomever, and nothing speaks against it yet."""
    there = seating.scene.pools.get(pool)
    behind = () if there is None else there.view.node_pools
    return any(claim.failed is None for one in behind for claim in one.claims)


def _serve_in_turn(models: Iterable[ModelShare], tier: str, seating: Seating, allocation: Allocation) -> None:
    """Places replicas of models of one precedence in turns, by id: one each, until each has its aim or no place."""
    wanting = [one for one in _lacking(models, tier, seating) if one[0].ruling.paused is None]
    while wanting:
        left = []
        for model, missing in wanting:
            allocation.short.pop(model.entry.id, None)
            unit = _place(model, tier, seating)
            if unit is None:
                short = missing - _unseated(model, tier, seating)
                if short > 0:
                    allocation.short[model.entry.id] = (short, *why_short(model, seating))
                continue
            allocation.units.append(unit)
            seating.gained[model.entry.id] += 1
            if len(model.targets) == 1:
                seating.confined[unit.target.pool] -= unit.target.gpus
            if missing > 1:
                left.append((model, missing - 1))
        wanting = left


def _keep_for_the_confined(tier: str, seating: Seating) -> None:
    """Counts the GPUs of each pool that models lack which can run nowhere else: others look elsewhere first."""
    seating.confined.clear()
    if all(len(model.targets) == 1 for model in seating.scene.models.values()):
        return
    for model, missing in _lacking(seating.scene.models.values(), tier, seating):
        if len(model.targets) == 1 and model.ruling.paused is None:
            (target,) = model.targets
            seating.confined[target.pool] += missing * target.gpus


def _lacking(models: Iterable[ModelShare], tier: str, seating: Seating) -> list[tuple[ModelShare, int]]:
    """Those of `models` with fewer replicas than the tier entitles them to, and how many they lack."""
    lacking = []
    unseated = {} if tier == WANTED else seating.unseated
    for model in models:
        name = model.entry.id
        if name not in seating.lacking and name not in seating.gone and name not in unseated:
            continue
        missing = _aim(model, tier) - seating.left_of(model) + unseated.get(name, 0) - seating.gained.get(name, 0)
        if missing > 0:
            lacking.append((model, missing))
    return lacking


def _content(model: ModelShare) -> bool:
    """Whether a model has all that every tier entitles it to, as long as nothing is taken from it."""
    return model.ruling.frozen is None and model.staying_replicas >= max(
        model.floor, model.aim, min(model.demand.owed, model.entry.entitlement)
    )


def _unseated(model: ModelShare, tier: str, seating: Seating) -> int:
    """Replicas asked for that fit on no node: they are not yet what a floor or an entitlement promises.

    Beyond the entitlement they are patient: somebody else's GPU is not taken for a pod that a node may come for.
    """
    return 0 if tier == WANTED else seating.unseated.get(model.entry.id, 0)


def _shrink(seating: Seating, allocation: Allocation, *, waiting: bool) -> None:
    """Releases replicas of pools that certainly shrank, down to floors: surplus first, then borrowed, then owned ones.

    Of each what has no node goes first, then low priority. Replicas that wait though their model's floor or entitlement
    is not on nodes give way last (`waiting`): first a place is sought for them.
    """
    _take_back(seating, allocation, waiting=waiting)
    for pool in sorted(pool for pool, gpus_over in seating.excess.items() if gpus_over > 0):
        for keeps in (_keeps_aim, _keeps_entitled, _keeps_floor):
            for placed in (False, True):
                for model in reversed(seating.scene.models_by_priority):
                    for target in model.targets:
                        if target.pool == pool and (placed or _gives_way(model, seating, waiting=waiting)):
                            _shrink_part(target, keeps(model), seating, allocation, placed=placed)


def _give_way(seating: Seating, allocation: Allocation) -> None:
    """Replicas for which no place was found go last; what their models lack by that is short."""
    before = len(allocation.releases)
    _shrink(seating, allocation, waiting=True)
    for name in sorted({victim.target.model for victim in allocation.releases[before:]}):
        model = seating.scene.models[name]
        short = _keeps_aim(model) - seating.left_of(model) - seating.gained[name]
        if short > 0:
            allocation.short[name] = (short, *why_short(model, seating))


def _gives_way(model: ModelShare, seating: Seating, *, waiting: bool) -> bool:
    """Whether a replica without a node may go: only after a place was sought for its model's floor and entitlement.

    Nor in a plan that found one: what it would give then is what somebody else gives a replica for.
    """
    seeks = seating.placed_of(model) < min(_keeps_entitled(model), seating.left_of(model))
    return not seeks or (waiting and not seating.reseated[model.entry.id])


def _take_back(seating: Seating, allocation: Allocation, *, waiting: bool) -> None:
    """A number that somebody else raised beyond what there is gives back what has no node and what nobody needs.

    What its model needs beyond its own as well, once somebody else of the pool is short: as long as it waits, GPUs that
    are idle are promised to it, and only a floor gets them.
    """
    for model in seating.scene.models.values():
        raised = [target for target in model.targets if target.view.by_others]
        if not raised or not _gives_way(model, seating, waiting=waiting):
            continue
        for target in raised:
            others_short = _others_short(model, target.pool, seating, allocation)
            keep = _keeps_entitled(model) if others_short else _keeps_aim(model)
            while seating.capacity.get(target.pool, 0) < 0 and _unplaced_first(target, seating):
                if not _release_one(target, keep, Purpose.BUDGET, seating, allocation):
                    break


def _others_short(model: ModelShare, pool: str, seating: Seating, allocation: Allocation) -> bool:
    """Whether another model that runs on the pool found no place for a replica, so far in this plan."""
    others = (other for other in seating.scene.of_pool.get(pool, ()) if other is not model)
    return any(other.entry.id in allocation.short for other in others)


def _shrink_part(target: TargetFacts, keep: int, seating: Seating, allocation: Allocation, *, placed: bool) -> None:
    excess = seating.excess_held if placed else seating.excess
    while excess[target.pool] > 0:
        if not placed and not _unplaced_first(target, seating):
            return
        if not _release_one(target, keep, Purpose.BUDGET, seating, allocation):
            return


def _unplaced_first(target: TargetFacts, seating: Seating) -> bool:
    """Whether the next of the target's replicas to go has no node."""
    first = next(iter(seating.candidates(target)), None)
    return first is not None and first.node is None


def _keeps_aim(model: ModelShare) -> int:
    return max(model.floor, model.aim)


def _keeps_entitled(model: ModelShare) -> int:
    return max(model.floor, min(model.demand.owed, model.entry.entitlement))


def _keeps_floor(model: ModelShare) -> int:
    return model.floor


def _let_go(seating: Seating, allocation: Allocation) -> None:
    """What a person or maxReplicas caps goes; and surplus that costs money, where no autoscaler decides about it.

    None does for a role of a couple: it is pinned.
    """
    priced = {name for name, state in seating.scene.pools.items() if state.priced}
    short = confined(seating) if priced else ()
    for model in seating.scene.models.values():
        ruling = model.ruling
        content = not priced and seating.left_of(model) <= model.most_replicas
        if content or seating.gained.get(model.entry.id) or ruling.frozen is not None:
            continue
        person, most = ruling.pin or ruling.cap, model.most_replicas
        for target in reversed(model.targets):
            if person is not None:
                _release_down(target, max(most, person.value or 0), Purpose.OVERRIDE, seating, allocation)
            _release_down(target, most, Purpose.SURPLUS, seating, allocation)
            if target.pool in priced and (target.owner is None or target.model in seating.roles.couples):
                keep = paid_for(model, max(_keeps_aim(model), model.kept_replicas), seating, short)
                _release_down(target, keep, Purpose.SURPLUS, seating, allocation)


def _let_go_above_caps(seating: Seating, allocation: Allocation) -> None:
    """What is above a cap goes, down to floors: surplus first, then borrowed, then owned ones; low priority first."""
    above = [
        model
        for model in reversed(seating.scene.models_by_priority)
        if not seating.caps.respected(model.targets)
        and not seating.gained.get(model.entry.id)
        and model.ruling.frozen is None
    ]
    for keeps in (_keeps_aim, _keeps_entitled, _keeps_floor):
        for model in above:
            for target in reversed(model.targets):
                while seating.caps.room(target) < 0:
                    if not _release_one(target, keeps(model), Purpose.SURPLUS, seating, allocation):
                        break


def _release_down(target: TargetFacts, keep: int, purpose: Purpose, seating: Seating, allocation: Allocation) -> None:
    while _release_one(target, keep, purpose, seating, allocation):
        pass


def _release_one(target: TargetFacts, keep: int, purpose: Purpose, seating: Seating, allocation: Allocation) -> bool:
    """Let one replica of the target go if its model keeps `keep`; whether one went.

    One that serves is no surplus beside replicas that do not: bounds may wake nobody, a load may take long, a silent
    node may never answer again.
    """
    model = seating.scene.models[target.model]
    if seating.left_of(model) <= keep or target.stuck is not None or seating.givable(target) <= 0:
        return False
    victim = Victim(target, next(iter(seating.candidates(target))), purpose)
    placed = bool(seating.home(target, victim.pod))
    if (seating.placed_of(model) if placed else seating.left_of(model)) <= keep:
        return False
    if purpose is Purpose.SURPLUS and victim.pod.phase == "ready" and seating.ready_of(model) <= keep:
        return False
    seating.take(victim)
    allocation.releases.append(victim)
    return True


def _aim(model: ModelShare, tier: str) -> int:
    """Replicas the tier entitles the model to."""
    if model.ruling.frozen is not None:
        return model.committed_replicas if tier == WANTED else min(model.committed_replicas, model.floor)
    if tier == WANTED:
        return model.aim
    return model.floor if tier == FLOOR else min(model.demand.owed, model.entry.entitlement)


def _place(model: ModelShare, tier: str, seating: Seating) -> Unit | None:
    """One more replica: free GPUs in any of its pools, then GPUs about to be free, then somebody else's.

    Of a model that asks for its most already, only where one waits: that takes the place, and nothing more is asked.
    """
    asks = seating.left_of(model) + seating.gained.get(model.entry.id, 0)
    more = asks < max(_aim(model, tier), model.entry.max_replicas)
    open_parts = (target for target in _in_tier_order(model, tier, seating) if seating.open_to(target, model))
    targets = [target for target in open_parts if more or seating.waits(target)]
    for now, source in ((True, "free"), (False, "soon")):
        for target in targets:
            if seating.headroom(target) < target.gpus or not seating.let_in(target):
                continue
            nodes = seating.fit(target, model.ruling.excluded_nodes, now=now)
            if nodes:
                seating.seat(target, nodes)
                return Unit(target, tier, source, nodes)
    for target in targets:
        unit = displace(model, target, tier, seating)
        if unit is not None:
            return unit
    return None


def _in_tier_order(model: ModelShare, tier: str, seating: Seating) -> list[TargetFacts]:
    """Entitled replicas look on primary pools first, others in the policy's order, but last where others must."""
    if tier == WANTED:
        return sorted(
            model.targets,
            key=lambda target: (
                len(model.targets) > 1
                and target.gpus <= seating.capacity.get(target.pool, 0) < target.gpus + seating.confined[target.pool]
            ),
        )
    pools = seating.scene.pools
    return sorted(
        model.targets, key=lambda target: target.pool not in pools or pools[target.pool].pool.kind != "primary"
    )
