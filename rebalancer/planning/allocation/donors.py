"""Whose GPUs a short model gets: which donors may give at a tier, in which order, and which of their replicas go.

A tier is a claim: everybody's floor comes first, then what owners are owed, then demand. For a floor a donor gives down
to its own floor, for an entitlement down to what it is owed itself, for demand down to its share or its demand.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from rebalancer.domain.plan import Refusal
from rebalancer.domain.snapshot import PodView
from rebalancer.domain.victims import out_class
from rebalancer.planning.allocation.seating import Seating
from rebalancer.planning.allocation.unit import Unit, Victim
from rebalancer.planning.demand.demand import rules_of
from rebalancer.planning.facts.scene import Scene, TargetFacts
from rebalancer.planning.guards.guards import COOLDOWNS, judge
from rebalancer.planning.guards.release import Purpose, Release
from rebalancer.planning.shares.share import ModelShare

FLOOR, ENTITLED, WANTED = "floor", "entitlement", "demand"  # the tiers, in their order


def displace(recipient: ModelShare, target: TargetFacts, tier: str, seating: Seating) -> Unit | None:
    """A place for one replica of `target` made by releases of others, or None where no set of releases makes one.

    One replica whose node then has room comes first, then the fewest that make room together. The victims are taken in
    `seating`, and the replica is seated there.
    """
    donors = _donors(recipient, target, tier, seating)
    if not seating.let_in(target):
        donors = [donor for donor in donors if seating.quotas.frees(donor.target, target)]
    if not donors:
        return None
    nodes = set(seating.eligible(target)) - recipient.ruling.excluded_nodes - seating.crowded(target, now=False)
    if target.pods == 1:
        chosen = _one_victim(target, donors, nodes, seating) or _several_victims(target, donors, nodes, seating)
        if chosen is None and tier != WANTED:
            chosen = _whichever_go(target, donors, nodes, seating)
    else:
        chosen = _for_several_pods(target, donors, nodes, seating)
    if chosen is None:
        return None
    places, picks = chosen
    victims = []
    on_nodes = Counter(donor.target.model for donor, pod in picks if pod.node is not None)
    for donor, pod in picks:
        purpose = _purpose(donor.model, recipient, tier, seating)
        victim = Victim(donor.target, pod, purpose, max(1, on_nodes[donor.target.model]), tier == FLOOR)
        seating.take(victim)
        victims.append(victim)
    seating.seat(target, places)
    return Unit(target, tier, "shift", places, tuple(victims))


def _reserve(donor: ModelShare, recipient: ModelShare, tier: str, seating: Seating) -> int:
    """Replicas that `donor` does not give to `recipient` at this tier; all of them where it is pinned or frozen."""
    ruling = donor.ruling
    if ruling.pin is not None or ruling.frozen is not None:
        return donor.staying_replicas
    if tier == FLOOR:
        return donor.floor
    if donor.entry.takes_idle:
        return max(donor.floor, donor.demand.replicas)
    own = max(donor.entry.entitlement, ruling.raised_floor)
    if tier == ENTITLED or (donor.precedence < recipient.precedence and _outranks(recipient, seating)):
        return max(donor.floor, min(donor.demand.owed, own))
    return max(donor.floor, donor.aim)


def _outranks(recipient: ModelShare, seating: Seating) -> bool:
    """Whether its priority takes what others need: only of a model that votes, and not for a queue that will be gone.

    What a person or a schedule raised it to is asked for as long as that stands. Priorities are in the shares, of
    which models that vote are no part. Demand outlasts its votes by a cooldown: what nobody asks for any more
    outranks nothing. Votes count who waits, and a queue that grew while replicas loaded is served by these: as long
    as demand may stand on such votes, present work has to keep more busy than it has. Room for bursts is not enough
    for that: such a replica went home before it had loaded.
    """
    if recipient.share is not None:
        return False
    busy, votes = recipient.busy_now, recipient.ballot.need
    has = seating.left_of(recipient) + seating.gained.get(recipient.entry.id, 0)
    if recipient.demand.replicas > recipient.unruled:
        return True
    if votes is not None and votes <= has:
        return False
    if busy is None or has < busy:
        return True
    since = seating.scene.now - COOLDOWNS * rules_of(seating.scene.policy, recipient.entry).cooldown_seconds
    pods = (pod for target in recipient.targets for pod in target.staying_pods)
    return all(pod.phase == "ready" and pod.since <= since for pod in pods)


def _needed_beside_a_rollout(donor: ModelShare, target: TargetFacts) -> int:
    """Replicas that a donor does not give to a `target` in a rollout, since its new pods may never serve."""
    return 0 if target.stuck is None else max(donor.aim, donor.needed)


UNMARKED = "actuation.deletionCost is off: others give only where whichever pod Kubernetes ends makes that room"


class _Donor(NamedTuple):
    """A target of a donor, and how willingly it gives.

    model: the donor.
    target: its target in the recipient's pool.
    spare: replicas that it could give.
    rank: its place among donors, the lowest first: guarded, needed, no replica without a pod, precedence, spare
        (most first), id.
    """

    model: ModelShare
    target: TargetFacts
    spare: int
    rank: tuple[bool, bool, bool, tuple[int, int], int, str]


def _donors(recipient: ModelShare, target: TargetFacts, tier: str, seating: Seating) -> list[_Donor]:
    """Donors with a replica to give in the target's pool, best first: unguarded, surplus, no pod yet, low priority.

    Donors that a guard protects are in the list too, so that its refusal is shown; but not where a node can come
    instead, unless the guard is `start`, which ends by itself. For the doomed pods of a target in a rollout only
    surplus is given.
    """
    donors = []
    grows = any(_may_grow(each, seating.scene) for each in recipient.targets)
    for donor in _askable(recipient, target.pool, tier, seating):
        if donor is recipient or seating.gained.get(donor.entry.id):
            continue
        left = seating.sure_of(donor)
        spare = left - max(_reserve(donor, recipient, tier, seating), _needed_beside_a_rollout(donor, target))
        if spare <= 0:
            continue
        for own in donor.targets:
            here = min(spare, seating.givable(own))
            if own.pool == target.pool and own.stuck is None and here > 0:
                purpose = _purpose(donor, recipient, tier, seating)
                refusal = _judged(own, purpose, seating)
                if refusal is not None and grows and refusal.guard != "start":
                    continue
                needed = left <= donor.aim and not donor.entry.takes_idle
                rank = (refusal is not None, needed, own.unseen_pods == 0, donor.precedence, -spare, donor.entry.id)
                donors.append(_Donor(donor, own, here, rank))
    return sorted(donors, key=lambda each: each.rank)


def _judged(target: TargetFacts, purpose: Purpose, seating: Seating) -> Refusal | None:
    """Why the target's next replica may not go, None where it may; judged again once the model has given one.

    A replica that goes for somebody else must pass the guards that count what others give.
    """
    known = seating.judged.get(target.model)
    if known is None:
        known = seating.judged[target.model] = {}
    key = (target.pool, purpose)
    if key not in known:
        known[key] = judge(
            Release(seating.scene, seating.tally, target, purpose, next(iter(seating.candidates(target))))
        )
    return known[key]


def _askable(recipient: ModelShare, pool: str, tier: str, seating: Seating) -> list[ModelShare]:
    """Models with something to spare in the pool at this tier; they only become fewer while units are placed.

    The list is made once per pool, tier and property of the recipient that `_reserve` reads: at 1,000 models in a surge
    of 50, a look at all of them for each replica that is short took four fifths of the plan.
    """
    key = (pool, tier, (recipient.precedence, _outranks(recipient, seating)) if tier == WANTED else None)
    donors = seating.askable.get(key)
    if donors is None:
        donors = seating.askable[key] = [
            donor
            for donor in seating.scene.of_pool.get(pool, ())
            if seating.sure_of(donor) > _reserve(donor, recipient, tier, seating)
        ]
    return donors


def _purpose(donor: ModelShare, recipient: ModelShare, tier: str, seating: Seating) -> Purpose:
    """Why a donor's replica goes: by a person's cap, home to an owner with a usable vote, or as a shift."""
    placed = seating.placed_of(donor)
    if donor.ruling.cap is not None and placed > donor.ruling.wanted(donor.entry, donor.entry.max_replicas):
        return Purpose.OVERRIDE
    borrowed = placed > donor.entry.entitlement
    if donor.entry.takes_idle or (tier in {FLOOR, ENTITLED} and borrowed and not recipient.ballot.blind):
        return Purpose.RECLAIM
    return Purpose.SHIFT


def _may_grow(target: TargetFacts, scene: Scene[ModelShare]) -> bool:
    """Whether Karpenter may bring a node for the target."""
    state = scene.pools.get(target.pool)
    fits = state is not None and target.pod_gpus <= state.pool.gpus_per_node
    return state is not None and target.stuck is None and fits and target.gpus <= state.growth


Picks = list[tuple[_Donor, PodView]]
Chosen = tuple[tuple[str, ...], Picks] | None  # a node for each pod of the replica, and who goes for it


class _Step(NamedTuple):
    """Replicas of a donor that go together: the last frees `gpus` on the node, the others end before it."""

    donor: _Donor
    pods: tuple[PodView, ...]
    gpus: int


def _one_victim(target: TargetFacts, donors: list[_Donor], nodes: set[str], seating: Seating) -> Chosen:
    """A single replica whose node then has the room; where nobody marks who goes, whichever it is."""
    for donor in donors:
        if seating.headroom(target) + donor.target.gpus < target.gpus:
            continue
        order = seating.candidates(donor.target)
        picks = [(_freed(donor, pod, target, nodes, seating), pod) for pod in next(order.groups(), ())]
        fitting = [(node, pod) for node, pod in picks if node is not None]
        if fitting and (order.chosen or len(fitting) == len(picks)):
            node, pod = fitting[0]
            return (node,), [(donor, pod)]
    return None


def _freed(donor: _Donor, pod: PodView, target: TargetFacts, nodes: set[str], seating: Seating) -> str | None:
    """The node that has the target's room once the donor's replica has gone; None where none has."""
    home, rooms = seating.home(donor.target, pod), seating.rooms[target.pool]
    for node in dict.fromkeys(home):
        if node in nodes and rooms[node].soon + home.count(node) * donor.target.pod_gpus >= target.gpus:
            return node
    return None


def _surely(donor: _Donor, most: int, seating: Seating) -> Iterator[list[PodView]]:
    """The donor's first `most` replicas in groups of which each goes before the next, as far as their room is known.

    Where nobody marks who goes, a group whose replicas are on several nodes ends what is known: counted on all the
    same, the wrong ones went and what was freed made no room, every 45 s anew.
    """
    order = seating.candidates(donor.target)
    for pods in order.groups(most):
        if not order.chosen and len({seating.home(donor.target, pod) for pod in pods}) > 1:
            return
        yield pods


def _several_victims(target: TargetFacts, donors: list[_Donor], nodes: set[str], seating: Seating) -> Chosen:
    """The fewest replicas that make room together on one node; ties by rank of the donor, then by node name."""
    on_node: dict[str, list[_Step]] = {}
    for donor in donors:
        for node, steps in _steps(donor, nodes, seating).items():
            on_node.setdefault(node, []).extend(steps)
    best: tuple[int, int, str] | None = None
    picks: Picks = []
    for node, steps in sorted(on_node.items()):
        chosen = _enough(target, steps, seating.rooms[target.pool][node].soon, seating)
        if chosen is not None:
            key = (len(chosen), donors.index(chosen[0][0]), node)
            if best is None or key < best:
                best, picks = key, chosen
    return ((best[2],), picks) if best else None


def _whichever_go(target: TargetFacts, donors: list[_Donor], nodes: set[str], seating: Seating) -> Chosen:
    """So many of one donor's that a node has the room whichever go, where nobody marks them.

    A node that lacks the GPUs of three may lose two and make no room: two of each, and one. Only for who is owed it.
    """
    for donor in donors:
        order, own = seating.candidates(donor.target), donor.target
        if order.chosen or own.pods > 1:
            continue
        on_node = Counter(next(iter(seating.home(own, pod)), "") for pod in order)
        lacks = {node: target.gpus - seating.rooms[target.pool][node].soon for node in nodes & on_node.keys()}
        least = {node: -(-gpus // own.gpus) for node, gpus in lacks.items()}
        makes = [node for node, count in least.items() if count <= on_node[node]]
        count = 1 + sum(min(on_node[node], least.get(node, on_node[node] + 1) - 1) for node in on_node)
        promised = seating.headroom(target) + count * own.gpus
        if makes and count <= min(donor.spare, seating.givable(own)) and promised >= target.gpus:
            node = min(makes, key=lambda name: (least[name], name))
            first = sorted(order, key=lambda pod: seating.home(own, pod) != (node,))
            return (node,), [(donor, pod) for pod in first[:count]]
    return None


def _steps(donor: _Donor, nodes: set[str], seating: Seating) -> dict[str, list[_Step]]:
    """By node: the donor's replicas there, each with all pods that would end before it.

    Among pods of one class the deletion cost chooses. A pod that loads goes before one that serves, on whatever node,
    and a higher number before a lower one.
    """
    by_node: dict[str, list[_Step]] = {}
    before: list[PodView] = []
    for pods in _surely(donor, donor.spare * 4, seating):
        for pod in pods:
            home = seating.home(donor.target, pod)
            for node in dict.fromkeys(home):
                if node in nodes:
                    steps = by_node.setdefault(node, [])
                    first = () if not before else _missing(before, steps)
                    steps.append(_Step(donor, (*first, pod), home.count(node) * donor.target.pod_gpus))
        before += pods
    return by_node


def _missing(before: list[PodView], steps: list[_Step]) -> Iterator[PodView]:
    """The pods of `before` that go in none of the steps."""
    going = {pod.uid for step in steps for pod in step.pods}
    return (pod for pod in before if pod.uid not in going)


def _enough(target: TargetFacts, steps: list[_Step], room: int, seating: Seating) -> Picks | None:
    """The first of `steps` that together free GPUs for one replica within what each donor can spare; None: all do not.

    A replica that fits on no node is no loss to its donor.
    """
    chosen: Picks = []
    used: Counter[tuple[str, str]] = Counter()
    missed: Counter[tuple[str, str]] = Counter()
    freed, capacity = 0, seating.headroom(target)
    for donor, pods, gpus in steps:
        own, key = donor.target, donor.target.key
        used[key] += len(pods)
        missed[key] += sum([bool(seating.home(own, pod)) for pod in pods])
        if missed[key] > donor.spare or used[key] > seating.givable(own):
            continue  # and so are all later steps of this donor
        chosen += [(donor, pod) for pod in pods]
        freed += gpus
        capacity += own.gpus * len(pods)
        if room + freed >= target.gpus and capacity >= target.gpus:
            return chosen
    return None


def _for_several_pods(target: TargetFacts, donors: list[_Donor], nodes: set[str], seating: Seating) -> Chosen:
    """Replicas that make room for all pods of one replica, on one node or several; none of them could stay.

    They are taken in the donors' order until there is room. Then, from the last one on, each stays that need not go:
    one of a kind that its controller ends before another that goes has to go, too.
    """
    picks: Picks = []
    for donor in donors:
        most = max(0, min(donor.spare, seating.givable(donor.target)))
        for pod in chain.from_iterable(_surely(donor, most, seating)):
            picks.append((donor, pod))
            if _places(target, picks, nodes, seating):
                needed = _needed(target, picks, nodes, seating)
                return _places(target, needed, nodes, seating), needed
    return None


def _needed(target: TargetFacts, picks: Picks, nodes: set[str], seating: Seating) -> Picks:
    """The picks without those whose room the others make as well."""
    stay: Picks = []
    for pick in reversed(picks):
        others = [each for each in picks if each is not pick]
        if seating.candidates(pick[0].target).chosen:
            before = any(each is pick[0] and out_class(pod) < out_class(pick[1]) for each, pod in others)
        else:
            before = any(each is pick[0] for each, _ in stay)
        if not before and _places(target, others, nodes, seating):
            picks = others
        else:
            stay.append(pick)
    return picks


def _places(target: TargetFacts, picks: Picks, nodes: set[str], seating: Seating) -> tuple[str, ...]:
    """A node for each pod of one replica once the picked ones are gone; () where there is none, or no GPUs to promise.

    Nodes with least room come first, as `Seating.fit` has it, and pods keep the distance that their template asks for.
    """
    if seating.headroom(target) + sum(donor.target.gpus for donor, _ in picks) < target.gpus:
        return ()
    rooms = {name: seating.rooms[target.pool][name].soon for name in nodes}
    for donor, pod in picks:
        for node in seating.home(donor.target, pod):
            if node in rooms:
                rooms[node] += donor.target.pod_gpus
    for outside in seating.outside(target):
        places = _places_in(target, {name: room for name, room in rooms.items() if name not in outside}, seating)
        if places:
            return places
    return ()


def _places_in(target: TargetFacts, rooms: dict[str, int], seating: Seating) -> tuple[str, ...]:
    """A node for each pod of one replica among these, by the GPUs that are to be free there; () where there is none."""
    places: list[str] = []
    for _ in range(target.pods):
        shut = seating.crowded(target, now=False, beside=places)
        fitting = [(room, name) for name, room in rooms.items() if room >= target.pod_gpus and name not in shut]
        if not fitting:
            return ()
        _, node = min(fitting)
        rooms[node] -= target.pod_gpus
        places.append(node)
    return tuple(places)
