"""How many replicas donors give where the service may not mark pods: enough for room, whichever pods Kubernetes ends.

What is freed on several nodes may leave each of them a GPU short.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from math import gcd
from typing import NamedTuple

from rebalancer.domain.snapshot import PodView
from rebalancer.planning.allocation.donor import Chosen, Donor, Picks, homeless_first
from rebalancer.planning.allocation.seating import Seating
from rebalancer.planning.facts.scene import TargetFacts

MOST_TIMES = 2  # the GPUs that one replica needs: what several donors give for it together where nobody marks
UNMARKED = "actuation.deletionCost is off: others give only where whichever pod Kubernetes ends makes that room"


class _Unknown(NamedTuple):
    """A donor whose replicas Kubernetes may end in any order.

    donor: the target that gives.
    on_node: the number of replicas on each node.
    most: the most replicas on nodes that the donor gives.
    first: replicas that fit on no node; Kubernetes ends all of them before any on a node, and they are no loss.
    """

    donor: Donor
    on_node: Counter[str]
    most: int
    first: tuple[PodView, ...] = ()


_Gift = tuple[_Unknown, int]  # a donor, and how many of its replicas it gives


def whichever_go(target: TargetFacts, donors: list[Donor], nodes: frozenset[str], seating: Seating) -> Chosen:
    """The fewest replicas to take so that a node surely has room for one of `target`, whichever pods Kubernetes ends.

    Tries one donor, then several together. Called only for a floor or an owner's claim. A node that lacks the GPUs of
    three replicas may lose two and still have no room: so two on each node, and one more. Several donors give at most
    twice the GPUs of one replica: with one replica on every node each, nearly all would have to go.
    """
    lacks = {name: target.gpus - seating.rooms[target.pool][name].soon for name in nodes}
    givers = [_unknown(donor, seating) for donor in donors]
    promisable = seating.promisable(target)
    alone = ([(giver, count)] for giver in givers if (count := _alone(giver, lacks)) is not None)
    for gifts in chain(alone, _together(givers, lacks, MOST_TIMES * target.gpus)):
        if promisable + sum(map(_promised, gifts)) >= target.gpus:
            return _first_of(gifts, lacks, seating)
    return None


def _alone(giver: _Unknown, lacks: Mapping[str, int]) -> int | None:
    """The fewest replicas that one donor must give: one more than can go and leave no room; None: it has fewer."""
    size, on_node = giver.donor.target.gpus, giver.on_node
    least = {node: -(-lacks[node] // size) for node in lacks.keys() & on_node.keys()}
    count = 1 + sum(min(there, least.get(node, there + 1) - 1) for node, there in on_node.items())
    makes = any(few <= on_node[node] for node, few in least.items())
    return count if makes and count <= giver.most else None


def _together(givers: list[_Unknown], lacks: Mapping[str, int], most_gpus: int) -> Iterator[list[_Gift]]:
    """The smallest gifts of several donors that surely make the room; nothing where they exceed `most_gpus`."""
    for gifts in _one_more_each_time(givers):
        if sum(map(_gpus, gifts)) > most_gpus:
            return
        if _surely_room(gifts, lacks):
            yield _fewest(gifts, lacks)
            return


def _one_more_each_time(givers: Iterable[_Unknown]) -> Iterator[list[_Gift]]:
    """Growing gifts, one replica more each time: all replicas of the first donor, then those of the next."""
    gifts: list[_Gift] = []
    for giver in givers:
        for count in range(1, giver.most + 1):
            yield [*gifts, (giver, count)]
        gifts.append((giver, giver.most))


def _unknown(donor: Donor, seating: Seating) -> _Unknown:
    """How many replicas the donor may lose when nobody can say which pods end; none where that is known."""
    order, own = seating.candidates(donor.target), donor.target
    if order.predictable or own.pods > 1:
        return _Unknown(donor, Counter(), 0)
    first = homeless_first(own, seating)
    on_node = Counter(next(iter(seating.home(own, pod)), "") for pod in order)
    if first:
        del on_node[""]
    return _Unknown(donor, on_node, max(0, min(donor.spare, seating.givable(own) - len(first))), first)


def _fewest(gifts: list[_Gift], lacks: Mapping[str, int]) -> list[_Gift]:
    """`gifts`, which make the room together, with each made as small as it can be, the last donor's first."""
    for place in reversed(range(len(gifts))):
        giver, most = gifts[place]
        ways = ([*gifts[:place], (giver, count), *gifts[place + 1 :]] for count in range(most + 1))
        gifts = next(way for way in ways if _surely_room(way, lacks))
    return [(giver, count) for giver, count in gifts if count]


def _surely_room(gifts: list[_Gift], lacks: Mapping[str, int]) -> bool:
    """Whether the gifts free more GPUs than can go without room on any node: a step less on each than it lacks."""
    on_node: Counter[str] = Counter()
    for giver, count in gifts:
        for node, there in giver.on_node.items():
            on_node[node] += min(count, there) * giver.donor.target.gpus
    step = gcd(*(giver.donor.target.gpus for giver, _ in gifts))
    most = (min(gpus, (lacks[node] - 1) // step * step) if node in lacks else gpus for node, gpus in on_node.items())
    return sum(map(_gpus, gifts)) > sum(most)


def _gpus(gift: _Gift) -> int:
    giver, count = gift
    return count * giver.donor.target.gpus


def _promised(gift: _Gift) -> int:
    return _gpus(gift) + len(gift[0].first) * gift[0].donor.target.gpus


def _first_of(gifts: list[_Gift], lacks: Mapping[str, int], seating: Seating) -> Chosen:
    """The node that lacks least and may get the room, and the replicas that are meant to go, those on it first."""

    def freed(name: str) -> int:
        return sum(_gpus((giver, min(count, giver.on_node[name]))) for giver, count in gifts)

    node = min((name for name in lacks if freed(name) >= lacks[name]), key=lambda name: (lacks[name], name))
    picks: Picks = []
    for (donor, _, _, first), count in gifts:
        pods = (pod for pod in seating.candidates(donor.target) if not first or pod.node is not None)
        order = sorted(pods, key=lambda pod: seating.home(donor.target, pod) != (node,))
        picks += [(donor, pod) for pod in (*first, *order[:count])]
    return (node,), picks
