"""Stage 5: all demands meet the GPUs there are, before guards.

Everybody starts with what it holds. What a model lacks is sought in tiers - floors, wanted entitlements, then the
rest by priority - each unit first in free GPUs, then in GPUs about to be free, then at a donor's expense. What a donor
must not be asked for depends on the tier (`_reserve`): to a floor everything above floors gives way, to an entitlement
everything borrowed, beyond that only surplus and lower priority. So nobody is robbed by an equal, nobody starves
below its floor, and on an unchanged world a second allocation moves nothing.
"""

from collections import Counter
from dataclasses import dataclass, field

from rebalancer.domain.cluster import Taint, Toleration
from rebalancer.domain.snapshot import NodeView, PodView, TargetView
from rebalancer.planning.guards import Purpose, Release, Tally, judge
from rebalancer.planning.scene import Holder, Part, PoolState, Room, Scene

FLOOR, ENTITLED, WANTED = "floor", "entitlement", "demand"


@dataclass(frozen=True, slots=True)
class Victim:
    """One replica that would go."""

    part: Part
    pod: PodView
    purpose: Purpose


@dataclass(frozen=True, slots=True)
class Unit:
    """One more replica for `part`.

    source: `free` (fits now), `soon` (fits once GPUs are freed), `shift` (its victims make the room), `node` (a node
    grant).
    """

    part: Part
    tier: str
    source: str
    node: str | None = None
    victims: tuple[Victim, ...] = ()


@dataclass(slots=True)
class Allocation:
    """What allocation found.

    units: wanted, in the order of their claims. releases: replicas that go though nobody needs them. short: per model
    how many replicas found no place, the binding constraint, and why.
    """

    releases: list[Victim] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    short: dict[str, tuple[int, str, str]] = field(default_factory=dict)


@dataclass(slots=True)
class Ledger:
    """Working copy of what is free, while units are placed. Rooms are copies: the scene stays as it is."""

    scene: Scene
    tally: Tally
    rooms: dict[str, dict[str, Room]]
    capacity: dict[str, int]
    taken: dict[tuple[str, str], list[PodView]] = field(default_factory=dict)
    gained: Counter[str] = field(default_factory=Counter)
    _eligible: dict[object, tuple[str, ...]] = field(default_factory=dict)
    homes: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, scene: Scene, tally: Tally) -> "Ledger":
        """Rooms with pending pods and raises not yet seen placed where the scheduler would put them."""
        rooms = {
            name: {node: Room(room.node, room.now, room.soon) for node, room in state.rooms.items()}
            for name, state in scene.pools.items()
        }
        capacity = {}
        for name, state in scene.pools.items():
            held = sum(
                part.held * part.gpus for holder in scene.holders.values() for part in holder.parts if part.pool == name
            )
            capacity[name] = (state.budget if state.budget is not None else held) - held
        ledger = cls(scene, tally, rooms, capacity)
        for holder in scene.holders.values():
            for part in holder.parts:
                ledger._seat_unplaced(part)
        return ledger

    def _seat_unplaced(self, part: Part) -> None:
        """Pods without a node and raises not yet seen take room now, best fit."""
        for pod in part.kept:
            if pod.node is not None:
                continue
            node = self.fit(part, frozenset(), now=True) or self.fit(part, frozenset(), now=False)
            if node is None:
                continue
            room = self.rooms[part.pool][node]
            room.now -= part.gpus
            room.soon -= part.gpus
            self.homes.setdefault(part.key, {})[pod.uid] = node

    def eligible(self, part: Part) -> tuple[str, ...]:
        """Nodes of the part's pool that its pods may land on: selector and taints; cached per kind of pod."""
        target = part.target
        key = (part.pool, tuple(sorted(target.node_selector.items())), target.tolerations)
        names = self._eligible.get(key)
        if names is None:
            rooms = self.rooms.get(part.pool, {})
            names = tuple(name for name, room in sorted(rooms.items()) if may_land(target, room.node))
            self._eligible[key] = names
        return names

    def fit(self, part: Part, excluded: frozenset[str], *, now: bool) -> str | None:
        """Best-fitting eligible node with room for one replica's pod, None if there is none."""
        rooms = self.rooms.get(part.pool, {})
        best: tuple[int, str] | None = None
        for name in self.eligible(part):
            room = rooms[name]
            free = min(room.now, room.soon) if now else room.soon
            if free >= part.gpus and name not in excluded and (best is None or (free, name) < best):
                best = (free, name)
        return best[1] if best else None

    def seat(self, part: Part, node: str) -> None:
        """Put one replica of `part` on `node`."""
        room = self.rooms[part.pool][node]
        room.now -= part.gpus
        room.soon -= part.gpus
        self.capacity[part.pool] -= part.gpus

    def left(self, part: Part) -> int:
        """Replicas of the part that nobody has taken in this plan."""
        return part.held - len(self.taken.get(part.key, ()))

    def left_of(self, holder: Holder) -> int:
        """Replicas of the model that nobody has taken in this plan."""
        return sum(self.left(part) for part in holder.parts)

    def candidates(self, part: Part) -> list[PodView]:
        """Pods of the part that could still go, first victim first."""
        gone = {pod.uid for pod in self.taken.get(part.key, ())}
        return [pod for pod in reversed(part.kept) if pod.uid not in gone]

    def home(self, part: Part, pod: PodView) -> str | None:
        """The node whose room the pod holds (a pending pod: where it was seated)."""
        return pod.node or self.homes.get(part.key, {}).get(pod.uid)

    def take(self, victim: Victim) -> None:
        """That replica goes: its room comes back once it is gone."""
        part = victim.part
        self.taken.setdefault(part.key, []).append(victim.pod)
        self.capacity[part.pool] += part.gpus
        node = self.home(part, victim.pod)
        if node is not None and node in self.rooms.get(part.pool, {}):
            room = self.rooms[part.pool][node]
            room.soon += part.gpus
            if victim.pod.node is None:
                room.now += part.gpus
        self.tally.book(Release(self.scene, self.tally, self.scene.holders[part.model], victim.purpose))


def may_land(target: TargetView, node: NodeView) -> bool:
    """Whether the target's pods may be scheduled on the node (selector and tolerations)."""
    if any(node.labels.get(key) != value for key, value in target.node_selector.items()):
        return False
    return all(_tolerated(taint, target.tolerations) for taint in node.taints)


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return taint.effect == "PreferNoSchedule" or any(one.tolerates(taint) for one in tolerations)


def allocate(scene: Scene, ledger: Ledger) -> Allocation:
    """Shrink to the budget, place what models lack tier by tier, let go what nobody needs."""
    found = Allocation()
    _shrink(ledger, found)
    groups = _by_priority(scene)
    for tier in (FLOOR, ENTITLED, WANTED):
        for group in groups:
            _serve_in_turn(group, tier, ledger, found)
    _let_go(ledger, found)
    return found


def _by_priority(scene: Scene) -> list[list[Holder]]:
    """Models that may be given something, highest priority first; equals take turns, in order of their ids."""
    groups: dict[int, list[Holder]] = {}
    for holder in scene.holders_by_priority():
        if holder.ruling.paused is None:
            groups.setdefault(holder.model.priority, []).append(holder)
    return list(groups.values())


def _serve_in_turn(group: list[Holder], tier: str, ledger: Ledger, found: Allocation) -> None:
    """One replica each, round after round, until each has its aim or finds no place."""
    wanting = [(holder, _missing(holder, tier, ledger)) for holder in group]
    wanting = [(holder, missing) for holder, missing in wanting if missing > 0]
    while wanting:
        left = []
        for holder, missing in wanting:
            unit = _place(holder, tier, ledger)
            if unit is None:
                found.short[holder.model.id] = (missing, *_why_short(holder, ledger))
                continue
            found.units.append(unit)
            ledger.gained[holder.model.id] += 1
            if missing > 1:
                left.append((holder, missing - 1))
        wanting = left


def _missing(holder: Holder, tier: str, ledger: Ledger) -> int:
    return _aim(holder, tier) - ledger.left_of(holder) - ledger.gained[holder.model.id]


def _shrink(ledger: Ledger, found: Allocation) -> None:
    """A budget that shrank obliges releases down to floors: surplus first, then the borrowed, low priority first."""
    for pool, capacity in sorted(ledger.capacity.items()):
        if capacity >= 0:
            continue
        for keeps in (_keeps_demand, _keeps_entitled, _keeps_floor):
            for holder in reversed(ledger.scene.holders_by_priority()):
                for part in holder.parts:
                    while part.pool == pool and ledger.capacity[pool] < 0:
                        if not _release_one(holder, part, keeps(holder), Purpose.BUDGET, ledger, found):
                            break


def _keeps_demand(holder: Holder) -> int:
    return max(holder.floor, holder.demand.replicas)


def _keeps_entitled(holder: Holder) -> int:
    return max(holder.floor, min(holder.demand.replicas, holder.model.entitlement))


def _keeps_floor(holder: Holder) -> int:
    return holder.floor


def _let_go(ledger: Ledger, found: Allocation) -> None:
    """What a person capped goes at once; surplus that costs money goes where no autoscaler decides about it."""
    for holder in ledger.scene.holders.values():
        if ledger.gained[holder.model.id]:
            continue
        ruled = holder.ruling.pin is not None or holder.ruling.cap is not None
        for part in reversed(holder.parts):
            state = ledger.scene.pools.get(part.pool)
            priced = state is not None and state.grows and part.target.autoscaler is None
            over = ledger.left_of(holder) > holder.model.max_replicas
            if not (ruled or priced or over):
                continue
            purpose = Purpose.OVERRIDE if ruled else Purpose.SURPLUS
            keep = holder.model.max_replicas if over and not (ruled or priced) else _keeps_demand(holder)
            while _release_one(holder, part, keep, purpose, ledger, found):
                pass


def _release_one(  # noqa: PLR0913  # what goes, down to where, why, and the two books it is entered in
    holder: Holder, part: Part, keep: int, purpose: Purpose, ledger: Ledger, found: Allocation
) -> bool:
    """Let one replica of the part go if the model keeps `keep`; whether one went."""
    if part.stuck is not None or ledger.left_of(holder) <= keep or ledger.left(part) <= part.least:
        return False
    victim = Victim(part, ledger.candidates(part)[0], purpose)
    ledger.take(victim)
    found.releases.append(victim)
    return True


def _aim(holder: Holder, tier: str) -> int:
    """Replicas the tier entitles the model to."""
    if holder.ruling.frozen is not None:
        return holder.has if tier == WANTED else min(holder.has, holder.floor)
    if tier == FLOOR:
        return holder.floor
    if tier == ENTITLED:
        return min(holder.demand.replicas, holder.model.entitlement)
    return holder.demand.replicas


def _place(holder: Holder, tier: str, ledger: Ledger) -> Unit | None:
    """One more replica: free GPUs in any of its pools, then GPUs about to be free, then somebody else's."""
    parts = [part for part in _in_tier_order(holder, tier, ledger.scene) if _open(part, holder, ledger)]
    excluded = holder.ruling.excluded_nodes
    for now, source in ((True, "free"), (False, "soon")):
        for part in parts:
            if ledger.capacity[part.pool] < part.gpus:
                continue
            node = ledger.fit(part, excluded, now=now)
            if node is not None:
                ledger.seat(part, node)
                return Unit(part, tier, source, node)
    for part in parts:
        unit = _displace(holder, part, tier, ledger)
        if unit is not None:
            return unit
    return None


def _in_tier_order(holder: Holder, tier: str, scene: Scene) -> list[Part]:
    """Entitled replicas look on primary pools first, others in the policy's order."""
    if tier == WANTED:
        return list(holder.parts)
    return sorted(
        holder.parts, key=lambda part: part.pool not in scene.pools or scene.pools[part.pool].pool.kind != "primary"
    )


def _open(part: Part, holder: Holder, ledger: Ledger) -> bool:
    """Whether the part may receive: healthy target, known budget, not excluded, nothing taken from it just now."""
    state = ledger.scene.pools.get(part.pool)
    return (
        part.stuck is None
        and state is not None
        and state.budget is not None
        and part.pool not in holder.ruling.excluded_pools
        and part.key not in ledger.taken
    )


def _reserve(donor: Holder, recipient: Holder, tier: str) -> int:
    """Replicas that `recipient` may not touch at this tier."""
    wanted = min(donor.demand.replicas, max(donor.model.entitlement, donor.floor))
    if donor.ruling.pin is not None or donor.ruling.frozen is not None:
        return donor.held
    if tier == FLOOR:
        return donor.floor
    if tier == ENTITLED or donor.model.priority < recipient.model.priority:
        return max(donor.floor, wanted)
    return max(donor.floor, donor.demand.replicas)


@dataclass(frozen=True, slots=True)
class _Donor:
    """A donor's part with what it could give, and how little we like to ask it."""

    holder: Holder
    part: Part
    spare: int
    rank: tuple[bool, bool, bool, int, int, str]


def _donors(recipient: Holder, part: Part, tier: str, ledger: Ledger) -> list[_Donor]:
    """Who could give a replica in the part's pool, best first: allowed by guards, surplus, no pod yet, low priority."""
    donors = []
    for donor in ledger.scene.holders.values():
        if donor is recipient or ledger.gained[donor.model.id]:
            continue
        left = ledger.left_of(donor)
        spare = left - _reserve(donor, recipient, tier)
        if spare <= 0:
            continue
        for own in donor.parts:
            here = min(spare, ledger.left(own) - own.least)
            if own.pool == part.pool and own.stuck is None and here > 0:
                purpose = _purpose(donor, recipient, tier, ledger)
                refused = judge(Release(ledger.scene, ledger.tally, donor, purpose)) is not None
                needed = left <= donor.demand.replicas
                rank = (refused, needed, own.unseen == 0, donor.model.priority, -spare, donor.model.id)
                donors.append(_Donor(donor, own, here, rank))
    return sorted(donors, key=lambda each: each.rank)


def _purpose(donor: Holder, recipient: Holder, tier: str, ledger: Ledger) -> Purpose:
    """A borrower's replica beyond its entitlement that an owner needs within its own goes home; else it is a shift."""
    borrowed = ledger.left_of(donor) > donor.model.entitlement
    if tier in {FLOOR, ENTITLED} and borrowed and not recipient.ballot.blind:
        return Purpose.RECLAIM
    return Purpose.SHIFT


def _displace(recipient: Holder, part: Part, tier: str, ledger: Ledger) -> Unit | None:
    """Room for one replica of `part` at the expense of the donors that mind least."""
    donors = _donors(recipient, part, tier, ledger)
    if not donors:
        return None
    nodes = set(ledger.eligible(part)) - recipient.ruling.excluded_nodes
    chosen = _one_victim(part, donors, nodes, ledger) or _several_victims(part, donors, nodes, ledger)
    if chosen is None:
        return None
    node, picks = chosen
    victims = []
    for donor, pod in picks:
        victim = Victim(donor.part, pod, _purpose(donor.holder, recipient, tier, ledger))
        ledger.take(victim)
        victims.append(victim)
    ledger.seat(part, node)
    return Unit(part, tier, "shift", node, tuple(victims))


Picks = list[tuple[_Donor, PodView]]


def _one_victim(part: Part, donors: list[_Donor], nodes: set[str], ledger: Ledger) -> tuple[str, Picks] | None:
    """A single replica whose node then has the room."""
    rooms = ledger.rooms[part.pool]
    for donor in donors:
        if ledger.capacity[part.pool] + donor.part.gpus < part.gpus:
            continue
        for pod in ledger.candidates(donor.part):
            node = ledger.home(donor.part, pod)
            if node in nodes and rooms[node].soon + donor.part.gpus >= part.gpus:
                return node, [(donor, pod)]
    return None


def _several_victims(part: Part, donors: list[_Donor], nodes: set[str], ledger: Ledger) -> tuple[str, Picks] | None:
    """Fewest replicas on one node that make room together; ties by how little we like to ask them, then by name."""
    on_node: dict[str, Picks] = {}
    for donor in donors:
        spare = donor.spare
        for pod in ledger.candidates(donor.part)[: donor.spare * 4]:
            node = ledger.home(donor.part, pod)
            if node in nodes and spare > 0:
                on_node.setdefault(node, []).append((donor, pod))
    best: tuple[int, int, str] | None = None
    picks: Picks = []
    for node, found in sorted(on_node.items()):
        chosen = _enough(part, found, ledger.rooms[part.pool][node].soon, ledger.capacity[part.pool])
        if chosen is not None:
            key = (len(chosen), donors.index(chosen[0][0]), node)
            if best is None or key < best:
                best, picks = key, chosen
    return (best[2], picks) if best else None


def _enough(part: Part, found: Picks, room: int, capacity: int) -> Picks | None:
    """The first of `found` that together free enough GPUs for one replica, respecting each donor's spare."""
    chosen: Picks = []
    used: dict[tuple[str, str], int] = {}
    freed = 0
    for donor, pod in found:
        if used.get(donor.part.key, 0) >= donor.spare:
            continue
        used[donor.part.key] = used.get(donor.part.key, 0) + 1
        chosen.append((donor, pod))
        freed += donor.part.gpus
        if room + freed >= part.gpus and capacity + freed >= part.gpus:
            return chosen
    return None


def _why_short(holder: Holder, ledger: Ledger) -> tuple[str, str]:
    """(binding constraint, words with numbers) for a replica that found no place."""
    stuck = [f"{part.pool}: {part.stuck}" for part in holder.parts if part.stuck is not None]
    if stuck and len(stuck) == len(holder.parts):
        return stuck[0].split(": ")[1], "; ".join(stuck)
    free: list[str] = []
    for part in holder.parts:
        state = ledger.scene.pools.get(part.pool)
        if state is not None:
            free.append(_free_words(part, state, ledger))
    fits = any(ledger.capacity.get(part.pool, 0) >= part.gpus for part in holder.parts)
    return ("fit" if fits else "budget"), "; ".join(free)


def _free_words(part: Part, state: PoolState, ledger: Ledger) -> str:
    if state.budget is None:
        return f"{part.pool}: budget unknown"
    spare = [f"{room.soon} on {name}" for name, room in ledger.rooms[part.pool].items() if room.soon > 0][:4]
    words = ", ".join(spare) if spare else "none free"
    left = f"{ledger.capacity[part.pool]} of {state.budget} in the budget"
    return f"{part.gpus} GPUs on one node of {part.pool}; {words}; {left}"
