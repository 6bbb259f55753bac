"""Which replicas of donors go so that one of somebody else's has room, and where: as few as make it together.

Kubernetes ends them, not planning. Where pods are marked or numbered it is known who goes; elsewhere room counts only
if whichever goes makes it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from rebalancer.domain.snapshot import PodView
from rebalancer.domain.victims import out_class
from rebalancer.planning.allocation.donor import MOST_WAITING, Chosen, Donor, Picks, homeless_first
from rebalancer.planning.allocation.seating import Seating
from rebalancer.planning.allocation.unmarked import whichever_go
from rebalancer.planning.facts.scene import TargetFacts


class _Step(NamedTuple):
    """Replicas of a donor that go together: the last frees `gpus` on the node, the others end before it."""

    donor: Donor
    pods: tuple[PodView, ...]
    gpus: int


def make_room(
    target: TargetFacts, donors: list[Donor], nodes: frozenset[str], seating: Seating, *, owed: bool
) -> Chosen:
    """A place on `nodes` for one replica of the target and who goes for it, None where no set of releases makes one.

    `owed`: a floor or an owner asks, for whom more may go than would do if it were known who goes.
    """
    chosen = _by_promises(target, donors, nodes, seating)
    if chosen is not None:
        return chosen
    donors = [donor for donor in donors if donor.spare > 0]
    if target.pods > 1:
        return _for_several_pods(target, donors, nodes, seating)
    chosen = _one_victim(target, donors, nodes, seating) or _several_victims(target, donors, nodes, seating)
    return whichever_go(target, donors, nodes, seating) if chosen is None and owed else chosen


def _by_promises(target: TargetFacts, donors: list[Donor], nodes: frozenset[str], seating: Seating) -> Chosen:
    """Room that is there, and promised to what fits on no node: as few of these go as do, and none that has a node."""
    lacking = target.gpus - min(seating.promisable(target), seating.capacity[target.pool])
    places = seating.fit(target, seating.eligible(target) - nodes, now=False) if lacking > 0 else ()
    picks: Picks = []
    for donor in donors if places else ():
        for pod in homeless_first(donor.target, seating)[: max(0, seating.givable(donor.target))]:
            picks.append((donor, pod))
            lacking -= donor.target.gpus
            if lacking <= 0:
                return places, picks
    return None


def _one_victim(target: TargetFacts, donors: list[Donor], nodes: frozenset[str], seating: Seating) -> Chosen:
    """A single replica whose node then has the room; where nobody marks who goes, whichever it is."""
    for donor in donors:
        if seating.promisable(target) + donor.target.gpus < target.gpus:
            continue
        order = seating.candidates(donor.target)
        picks = ((_freed(donor, pod, target, nodes, seating), pod) for pod in order.next_group())
        every = picks if order.predictable else _all_or_none(picks)
        for node, pod in every:
            if node is not None:
                return (node,), [(donor, pod)]
    return None


def _all_or_none(picks: Iterable[tuple[str | None, PodView]]) -> list[tuple[str | None, PodView]]:
    """Those picks of which each has a node; none at all where one has not."""
    every = list(picks)
    return every if all(node is not None for node, _ in every) else []


def _freed(donor: Donor, pod: PodView, target: TargetFacts, nodes: frozenset[str], seating: Seating) -> str | None:
    """The node that has the target's room once the donor's replica has gone; None where none has."""
    home, rooms = seating.home(donor.target, pod), seating.rooms[target.pool]
    for node in dict.fromkeys(home):
        if node in nodes and rooms[node].soon + home.count(node) * donor.target.pod_gpus >= target.gpus:
            return node
    return None


def _surely(donor: Donor, most: int, seating: Seating) -> Iterator[list[PodView]]:
    """The donor's first `most` replicas in groups of which each goes before the next, as far as their room is known.

    Where nobody marks who goes, a group whose replicas are on several nodes ends what is known: counted on all the
    same, the wrong ones went and what was freed made no room, every 45 s anew.
    """
    order = seating.candidates(donor.target)
    for pods in order.groups(most):
        if not order.predictable and len({seating.home(donor.target, pod) for pod in pods}) > 1:
            return
        yield pods


def _several_victims(target: TargetFacts, donors: list[Donor], nodes: frozenset[str], seating: Seating) -> Chosen:
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


def _steps(donor: Donor, nodes: frozenset[str], seating: Seating) -> dict[str, list[_Step]]:
    """By node: the donor's replicas there, each with all pods that would end before it.

    Among pods of one class the deletion cost chooses. A pod that loads goes before one that serves, on whatever node,
    and a higher number before a lower one.
    """
    by_node: dict[str, list[_Step]] = {}
    before: list[PodView] = []
    for pods in _surely(donor, donor.spare * 4 + min(seating.homeless(donor.target), MOST_WAITING), seating):
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
    freed, capacity = 0, seating.promisable(target)
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


def _for_several_pods(target: TargetFacts, donors: list[Donor], nodes: frozenset[str], seating: Seating) -> Chosen:
    """Replicas that make room for all pods of one replica, on one node or several; none of them could stay.

    They are taken in the donors' order until there is room. Then, from the last one on, each stays that need not go:
    one of a kind that its controller ends before another that goes has to go, too.
    """
    picks: Picks = []
    for donor in donors:
        spare, own = donor.spare, donor.target
        most = max(0, min(spare + min(seating.homeless(own), MOST_WAITING), seating.givable(own)))
        for pod in chain.from_iterable(_surely(donor, most, seating)):
            spare -= bool(seating.home(own, pod))
            if spare < 0:
                break
            picks.append((donor, pod))
            if _places(target, picks, nodes, seating):
                needed = _needed(target, picks, nodes, seating)
                return _places(target, needed, nodes, seating), needed
    return None


def _needed(target: TargetFacts, picks: Picks, nodes: frozenset[str], seating: Seating) -> Picks:
    """The picks without those whose room the others make as well."""
    stay: Picks = []
    for pick in reversed(picks):
        others = [each for each in picks if each is not pick]
        if seating.candidates(pick[0].target).predictable:
            before = any(each is pick[0] and out_class(pod) < out_class(pick[1]) for each, pod in others)
        else:
            before = any(each is pick[0] for each, _ in stay)
        if not before and _places(target, others, nodes, seating):
            picks = others
        else:
            stay.append(pick)
    return picks


def _places(target: TargetFacts, picks: Picks, nodes: frozenset[str], seating: Seating) -> tuple[str, ...]:
    """A node for each pod of one replica once the picked ones are gone; () where there is none, or no GPUs to promise.

    Nodes with least room come first, as `Seating.fit` has it, and pods keep the distance that their template asks for.
    """
    if seating.promisable(target) + sum(donor.target.gpus for donor, _ in picks) < target.gpus:
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
