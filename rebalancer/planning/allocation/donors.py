"""Donors of a short model: which may give at a tier, in which order, and which of their replicas go.

A tier is a claim: everybody's floor comes first, then what owners are owed, then demand. For a floor a donor gives down
to its own floor, for an entitlement down to what it is owed itself, for demand down to its share or its demand.
"""

from collections import Counter
from functools import partial

from rebalancer.domain.plan import Refusal
from rebalancer.domain.snapshot import PodView
from rebalancer.planning.allocation.donor import Donor
from rebalancer.planning.allocation.making_room import make_room
from rebalancer.planning.allocation.seating import Seating
from rebalancer.planning.allocation.unit import Unit, Victim
from rebalancer.planning.demand.demand import rules_of
from rebalancer.planning.facts.holdings import is_unseen
from rebalancer.planning.facts.scene import Scene, TargetFacts
from rebalancer.planning.guards.guards import COOLDOWNS, judge
from rebalancer.planning.guards.release import Purpose, Release
from rebalancer.planning.shares.share import ModelShare

FLOOR, ENTITLED, WANTED = "floor", "entitlement", "demand"  # the tiers, in their order
TURNS = 5  # requests' times: an LLM's take some 10 s each, a replica that another gives serves after a minute or more


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
    nodes = seating.eligible(target) - recipient.ruling.excluded_nodes - seating.crowded(target, now=False)
    overfull = nodes & seating.scene.pools[target.pool].overfull
    chosen = make_room(target, donors, nodes - overfull, seating, owed=tier != WANTED)
    if chosen is None and overfull and tier == FLOOR:
        # Several go there for one, so what their models need stays.
        chosen = make_room(target, _donors(recipient, target, WANTED, seating), overfull, seating, owed=True)
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
    if tier == ENTITLED or (donor.precedence < recipient.precedence and _outranks(recipient, seating)):
        demand = donor.demand.replicas
        # By votes what it took where it was free is in use at once, and owed by the vote of 20 s alone.
        own = min(demand if donor.load.outlook is None else donor.demand.owed, donor.entry.entitlement)
        return max(donor.floor, own, min(demand, ruling.raised_floor))
    return max(donor.floor, donor.aim, 0 if recipient.patient_until is None else donor.demand.replicas)


def _outranks(recipient: ModelShare, seating: Seating) -> bool:
    """Whether its priority takes what others need: only of a model that votes, and not for a queue that will be gone.

    Of its own it takes no more than it is owed by now. What a person or a schedule raised it to is asked for as long
    as that stands. Priorities are in the shares, of which models that vote are no part. Demand outlasts its votes by
    a cooldown: what nobody asks for any more outranks nothing. Votes count who waits, and a queue that grew while
    replicas loaded is served by these: as long as demand may stand on such votes, present work has to keep more busy
    than it has. Room for bursts is not enough for that: such a replica went home before it had loaded. However old it
    is, a queue of `TURNS` times what present work leaves idle is served in the time of so many requests.
    """
    if recipient.share is not None:
        return False
    busy, votes = recipient.busy_now, recipient.ballot.need
    left = seating.left_of(recipient)
    has = left + seating.gained.get(recipient.entry.id, 0)
    if recipient.demand.replicas > recipient.unruled:
        return True
    if has >= recipient.demand.owed or (votes is not None and votes <= has):
        return False
    if busy is None or has < busy:
        return True
    if votes is not None and votes - left <= TURNS * (left - busy):
        return False
    since = seating.scene.now - COOLDOWNS * rules_of(seating.scene.policy, recipient.entry).cooldown_seconds
    pods = (pod for target in recipient.targets for pod in target.staying_pods)
    return all(pod.phase == "ready" and pod.since <= since for pod in pods)


def _needed_beside_a_rollout(donor: ModelShare, target: TargetFacts) -> int:
    """Replicas that a donor does not give to a `target` in a rollout, since its new pods may never serve."""
    return 0 if target.stuck is None else max(donor.aim, donor.needed)


def _donors(recipient: ModelShare, target: TargetFacts, tier: str, seating: Seating) -> list[Donor]:
    """Donors with a replica to give in the target's pool, best first: unguarded, surplus, no pod yet, low priority.

    Donors that a guard protects are in the list too, so that its refusal is shown; but not where a node can come
    instead, unless the guard is `start`, which ends by itself. For the doomed pods of a target in a rollout only
    surplus is given. To a floor, donors that serve with no more than theirs give what they have asked for and what
    fits nowhere.
    """
    donors = []
    grows = any(_may_grow(each, seating.scene) for each in recipient.targets)
    for donor in _askable(recipient, target.pool, tier, seating):
        if donor is recipient or seating.gained.get(donor.entry.id):
            continue
        left = seating.sure_of(donor)
        reserve = max(_reserve(donor, recipient, tier, seating), _needed_beside_a_rollout(donor, target))
        spare = max(0, left - reserve)
        waiting = tier == FLOOR and seating.left_of(donor) > reserve
        if not spare and not waiting:
            continue
        for own in (each for each in donor.targets if each.pool == target.pool and each.stuck is None):
            here = min(spare, seating.givable(own))
            if tier != FLOOR and _serves_first(own, seating):
                here = min(here, _instead(donor, tier, seating) - reserve)
            if here > 0 or (waiting and seating.homeless(own)):
                purpose = _purpose(donor, recipient, tier, seating)
                refusal = _judged(own, purpose, seating)
                if refusal is not None and grows and refusal.guard != "start":
                    continue
                needed = left <= donor.aim and not donor.entry.takes_idle
                rank = (refusal is not None, needed, own.unseen_pods == 0, donor.precedence, -spare, donor.entry.id)
                donors.append(Donor(donor, own, here, rank))
    return sorted(donors, key=lambda each: each.rank)


def _serves_first(target: TargetFacts, seating: Seating) -> bool:
    """Whether the target's next replica to go is one that serves."""
    first = next(iter(seating.candidates(target)), None)
    return first is not None and first.phase == "ready"


def _instead(donor: ModelShare, tier: str, seating: Seating) -> int:
    """Replicas that count for a donor whose next one to go serves: what it has on another pool may load for minutes.

    To an owner it gives what is borrowed once its own are pods that have room. What was only asked for has to be made
    first: an autoscaler looks every 15 s, and may be refused.
    """
    if tier == WANTED:
        return seating.ready_of(donor)
    return sum(
        seating.candidates(target).count("there", partial(_is_there, seating, target)) for target in donor.targets
    )


def _is_there(seating: Seating, target: TargetFacts, pod: PodView) -> bool:
    return not is_unseen(pod) and bool(seating.home(target, pod)) and not seating.unsure(target, pod)


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
    key = (pool, tier, _reads(recipient, seating) if tier == WANTED else None)
    donors = seating.askable.get(key)
    if donors is None:
        donors = seating.askable[key] = [
            donor
            for donor in seating.scene.of_pool.get(pool, ())
            if (seating.left_of if tier == FLOOR else seating.sure_of)(donor)
            > _reserve(donor, recipient, tier, seating)
        ]
    return donors


def _reads(recipient: ModelShare, seating: Seating) -> tuple[tuple[int, int], bool, bool]:
    """What `_reserve` reads of who asks beyond what it is entitled to."""
    return recipient.precedence, _outranks(recipient, seating), recipient.patient_until is None


def _purpose(donor: ModelShare, recipient: ModelShare, tier: str, seating: Seating) -> Purpose:
    """Why a donor's replica goes: by a person's cap, home to an owner with a usable vote, or as a shift."""
    placed, cap = seating.placed_of(donor), donor.ruling.cap
    if cap is not None and placed > max(cap.value or 0, donor.ruling.wanted(donor.entry, donor.entry.max_replicas)):
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
