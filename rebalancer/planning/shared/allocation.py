"""Stage 5: all demands meet the GPUs there are, before guards.

Everybody starts with what it holds. What a model lacks is sought in tiers - floors, wanted entitlements, then the
rest by priority - each unit first in free GPUs, then in GPUs about to be free, then at a donor's expense. What a donor
must not be asked for depends on the tier (`_reserve`): to a floor everything above floors gives way, to an entitlement
everything borrowed, beyond that only surplus and lower priority. So nobody is robbed by an equal, nobody starves
below its floor, and on an unchanged world a second allocation moves nothing. What is free even then is lent
(`idle.fill`).
"""

from dataclasses import dataclass, field

from rebalancer.planning.guarded.release import Purpose
from rebalancer.planning.guarded.stuck import sentence
from rebalancer.planning.seen.scene import Holder, Part, PoolState, Scene
from rebalancer.planning.shared.donors import ENTITLED, FLOOR, WANTED, displace
from rebalancer.planning.shared.idle import fill
from rebalancer.planning.shared.ledger import Ledger, Unit, Victim


@dataclass(slots=True)
class Allocation:
    """What allocation found.

    units: wanted, in the order of their claims. releases: replicas that go though nobody needs them. short: per model
    how many replicas found no place, the binding constraint, and why.
    """

    releases: list[Victim] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    short: dict[str, tuple[int, str, str]] = field(default_factory=dict)

    @property
    def giving(self) -> set[tuple[str, str]]:
        """Parts that would give something; they receive nothing in the same plan."""
        victims = (*self.releases, *(victim for unit in self.units for victim in unit.victims))
        return {victim.part.key for victim in victims}


def allocate(scene: Scene, ledger: Ledger) -> Allocation:
    """Shrink to the budget, place what models lack tier by tier, let go what nobody needs."""
    found = Allocation()
    ledger.lacking = {name for name, holder in scene.holders.items() if not _content(holder)}
    _shrink(ledger, found, waiting=False)
    priorities = sorted({model.priority for model in scene.policy.models}, reverse=True)
    for tier in (FLOOR, ENTITLED, WANTED):
        ledger.reseating = tier != WANTED
        _keep_for_the_confined(tier, ledger)
        for priority in priorities:
            _serve_in_turn(priority, tier, ledger, found)
    _give_way(ledger, found)
    found.units += fill(ledger)
    _let_go(ledger, found)
    return found


def _serve_in_turn(priority: int, tier: str, ledger: Ledger, found: Allocation) -> None:
    """Equals take turns in order of their ids: one replica each, until each has its aim or finds no place."""
    wanting = [
        (holder, missing)
        for holder, missing in _lacking(tier, ledger)
        if holder.model.priority == priority and holder.ruling.paused is None
    ]
    while wanting:
        left = []
        for holder, missing in wanting:
            found.short.pop(holder.model.id, None)
            unit = _place(holder, tier, ledger)
            if unit is None:
                short = missing - _unseated(holder, tier, ledger)
                if short > 0:
                    found.short[holder.model.id] = (short, *_why_short(holder, ledger))
                continue
            found.units.append(unit)
            ledger.gained[holder.model.id] += 1
            if len(holder.parts) == 1:
                ledger.confined[unit.part.pool] -= unit.part.gpus
            if missing > 1:
                left.append((holder, missing - 1))
        wanting = left


def _keep_for_the_confined(tier: str, ledger: Ledger) -> None:
    """Count the GPUs of each pool that models lack which run nowhere else: others look elsewhere first."""
    ledger.confined.clear()
    if all(len(holder.parts) == 1 for holder in ledger.scene.holders.values()):
        return
    for holder, missing in _lacking(tier, ledger):
        if len(holder.parts) == 1 and holder.ruling.paused is None:
            (part,) = holder.parts
            ledger.confined[part.pool] += missing * part.gpus


def _lacking(tier: str, ledger: Ledger) -> list[tuple[Holder, int]]:
    """Those that have less than their aim, by id, with how many replicas they lack."""
    found = []
    unseated = {} if tier == WANTED else ledger.unseated
    for name in sorted({*ledger.lacking, *ledger.gone, *unseated}):
        holder = ledger.scene.holders[name]
        missing = _aim(holder, tier) - ledger.left_of(holder) + unseated.get(name, 0) - ledger.gained.get(name, 0)
        if missing > 0:
            found.append((holder, missing))
    return found


def _content(holder: Holder) -> bool:
    """Whether it has what every tier entitles it to, as long as nothing is taken from it."""
    return holder.ruling.frozen is None and holder.held >= max(
        holder.floor, holder.aim, min(holder.demand.owed, holder.model.entitlement)
    )


def _unseated(holder: Holder, tier: str, ledger: Ledger) -> int:
    """Replicas asked for that fit on no node: they are not yet what a floor or an entitlement promises.

    Beyond the entitlement they are patient: somebody else's GPU is not taken for a pod that a node may come for.
    """
    return 0 if tier == WANTED else ledger.unseated.get(holder.model.id, 0)


def _shrink(ledger: Ledger, found: Allocation, *, waiting: bool) -> None:
    """A pool that certainly shrank obliges releases down to floors: surplus, then the borrowed, then what is owned.

    Of each what has no node goes first, then low priority. Replicas that wait though their model's floor or entitlement
    is not on nodes give way last (`waiting`): first a place is sought for them.
    """
    _take_back(ledger, found, waiting=waiting)
    for pool in sorted(pool for pool, owed in ledger.owed.items() if owed > 0):
        for keeps in (_keeps_aim, _keeps_entitled, _keeps_floor):
            for placed in (False, True):
                for holder in reversed(ledger.scene.holders_by_priority()):
                    for part in holder.parts:
                        if part.pool == pool and (placed or _gives_way(holder, ledger, waiting=waiting)):
                            _shrink_part(part, keeps(holder), ledger, found, placed=placed)


def _give_way(ledger: Ledger, found: Allocation) -> None:
    """Replicas for which no place was found go last; what their models lack by that is short."""
    before = len(found.releases)
    _shrink(ledger, found, waiting=True)
    for name in sorted({victim.part.model for victim in found.releases[before:]}):
        holder = ledger.scene.holders[name]
        short = _keeps_aim(holder) - ledger.left_of(holder) - ledger.gained[name]
        if short > 0:
            found.short[name] = (short, *_why_short(holder, ledger))


def _gives_way(holder: Holder, ledger: Ledger, *, waiting: bool) -> bool:
    """Whether what the model has on no node may go: not before a place is sought for its floor and entitlement.

    Nor in a plan that found one: what it would give then is what somebody else gives a replica for.
    """
    seeks = ledger.placed_of(holder) < min(_keeps_entitled(holder), ledger.left_of(holder))
    return not seeks or (waiting and not ledger.reseated[holder.model.id])


def _take_back(ledger: Ledger, found: Allocation, *, waiting: bool) -> None:
    """A number that somebody else raised beyond what there is gives back what has no node and what nobody needs."""
    for holder in ledger.scene.holders.values():
        if not _gives_way(holder, ledger, waiting=waiting):
            continue
        for part in (part for part in holder.parts if part.target.by_others):
            while ledger.capacity.get(part.pool, 0) < 0 and _unplaced_first(part, ledger):
                if not _release_one(part, _keeps_aim(holder), Purpose.BUDGET, ledger, found):
                    break


def _shrink_part(part: Part, keep: int, ledger: Ledger, found: Allocation, *, placed: bool) -> None:
    owed = ledger.owed_held if placed else ledger.owed
    while owed[part.pool] > 0:
        if not placed and not _unplaced_first(part, ledger):
            return
        if not _release_one(part, keep, Purpose.BUDGET, ledger, found):
            return


def _unplaced_first(part: Part, ledger: Ledger) -> bool:
    """Whether the next of the part's replicas to go has no node."""
    first = next(iter(ledger.candidates(part)), None)
    return first is not None and first.node is None


def _keeps_aim(holder: Holder) -> int:
    return max(holder.floor, holder.aim)


def _keeps_entitled(holder: Holder) -> int:
    return max(holder.floor, min(holder.demand.owed, holder.model.entitlement))


def _keeps_floor(holder: Holder) -> int:
    return holder.floor


def _let_go(ledger: Ledger, found: Allocation) -> None:
    """What a person or the policy caps goes; and surplus that costs money, where no autoscaler decides about it."""
    growing = {name for name, state in ledger.scene.pools.items() if state.grows}
    for holder in ledger.scene.holders.values():
        ruling = holder.ruling
        content = not growing and ledger.left_of(holder) <= holder.most and ledger.caps.kept(holder.parts)
        if content or ledger.gained.get(holder.model.id) or ruling.frozen is not None:
            continue
        capped = ruling.pin is not None or ruling.cap is not None
        for part in reversed(holder.parts):
            _release_down(part, holder.most, Purpose.OVERRIDE if capped else Purpose.SURPLUS, ledger, found)
            while ledger.caps.room(part) < 0 and _release_one(part, holder.floor, Purpose.SURPLUS, ledger, found):
                pass
            if part.pool in growing and part.owner is None:
                _release_down(part, max(_keeps_aim(holder), holder.keeps), Purpose.SURPLUS, ledger, found)


def _release_down(part: Part, keep: int, purpose: Purpose, ledger: Ledger, found: Allocation) -> None:
    while _release_one(part, keep, purpose, ledger, found):
        pass


def _release_one(part: Part, keep: int, purpose: Purpose, ledger: Ledger, found: Allocation) -> bool:
    """Let one replica of the part go if its model keeps `keep`; whether one went.

    One that serves is no surplus beside replicas that do not: bounds may wake nobody, a load may take long, a silent
    node may never answer again.
    """
    holder = ledger.scene.holders[part.model]
    if ledger.left_of(holder) <= keep or part.stuck is not None or ledger.left(part) <= part.least:
        return False
    victim = Victim(part, ledger.candidates(part)[0], purpose)
    placed = ledger.home(part, victim.pod) is not None
    if (ledger.placed_of(holder) if placed else ledger.left_of(holder)) <= keep:
        return False
    if purpose is Purpose.SURPLUS and victim.pod.phase == "ready" and ledger.ready_of(holder) <= keep:
        return False
    ledger.take(victim)
    found.releases.append(victim)
    return True


def _aim(holder: Holder, tier: str) -> int:
    """Replicas the tier entitles the model to."""
    if holder.ruling.frozen is not None:
        return holder.has if tier == WANTED else min(holder.has, holder.floor)
    if tier == WANTED:
        return holder.aim
    return holder.floor if tier == FLOOR else min(holder.demand.owed, holder.model.entitlement)


def _place(holder: Holder, tier: str, ledger: Ledger) -> Unit | None:
    """One more replica: free GPUs in any of its pools, then GPUs about to be free, then somebody else's.

    Of a model that asks for its most already, only where one waits: that takes the place, and nothing more is asked.
    """
    asks = ledger.left_of(holder) + ledger.gained.get(holder.model.id, 0)
    more = asks < max(_aim(holder, tier), holder.model.max_replicas)
    open_parts = (part for part in _in_tier_order(holder, tier, ledger) if ledger.open_to(part, holder))
    parts = [part for part in open_parts if more or ledger.waits(part)]
    excluded = holder.ruling.excluded_nodes
    for now, source in ((True, "free"), (False, "soon")):
        for part in parts:
            if ledger.headroom(part) < part.gpus:
                continue
            node = ledger.fit(part, excluded, now=now)
            if node is not None:
                ledger.seat(part, node)
                return Unit(part, tier, source, node)
    for part in parts:
        unit = displace(holder, part, tier, ledger)
        if unit is not None:
            return unit
    return None


def _in_tier_order(holder: Holder, tier: str, ledger: Ledger) -> list[Part]:
    """Entitled replicas look on primary pools first, others in the policy's order, but last where others must."""
    if tier == WANTED:
        return sorted(
            holder.parts,
            key=lambda part: (
                len(holder.parts) > 1
                and part.gpus <= ledger.capacity.get(part.pool, 0) < part.gpus + ledger.confined[part.pool]
            ),
        )
    pools = ledger.scene.pools
    return sorted(holder.parts, key=lambda part: part.pool not in pools or pools[part.pool].pool.kind != "primary")


def _why_short(holder: Holder, ledger: Ledger) -> tuple[str, str]:
    """(binding constraint, words with numbers) for a replica that found no place."""
    alone = [part for part in holder.parts if part.stuck is not None]
    if alone and len(alone) == len(holder.parts):
        return alone[0].stuck or "", "; ".join(sentence(part, holder) for part in alone)
    pools = ledger.scene.pools
    capped = [part for part in holder.parts if part.stuck is None and ledger.caps.room(part) <= 0]
    free = [_free_words(part, pools[part.pool], ledger) for part in holder.parts if part.pool in pools]
    if capped and all(part in capped or ledger.capacity.get(part.pool, 0) < part.gpus for part in holder.parts):
        return "cap", "; ".join([*(ledger.caps.words(part) for part in capped), *free])
    fits = any(ledger.capacity.get(part.pool, 0) >= part.gpus for part in holder.parts)
    return ("fit" if fits else "budget"), "; ".join(free)


def _free_words(part: Part, state: PoolState, ledger: Ledger) -> str:
    if state.budget is None:
        return f"budget unknown: {state.unknown}"
    words = ", ".join(f"{gpus} on {name}" for name, gpus in ledger.spare(part.pool, 4)) or "none free"
    left = f"{ledger.capacity[part.pool]} of {state.budget} in the budget"
    return f"{part.gpus} GPUs on one node of {part.pool}; {words}; {left}"
