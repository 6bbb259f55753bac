"""Which replicas of donors go where nobody marks them: so many that there is room for another one whichever go.

Kubernetes ends whom it likes then. What is freed on several nodes may leave each of them a GPU short.
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
    """A donor of whom nobody knows which replicas go.

    donor: who gives.
    on_node: how many of them are on each node.
    most: the most of these that it gives.
    first: its replicas that fit on no node: Kubernetes ends all of them before any of these, and they are no loss.
    """

    donor: Donor
    on_node: Counter[str]
    most: int
    first: tuple[PodView, ...] = ()


_Gift = tuple[_Unknown, int]  # so many of its replicas


def whichever_go(target: TargetFacts, donors: list[Donor], nodes: frozenset[str], seating: Seating) -> Chosen:
    """So many that a node has the room whichever go: of one donor, else of several together. Only for who is owed it.

    A node that lacks the GPUs of three may lose two and make no room: two of each, and one. Several give no more GPUs
    than twice those that are needed: where each has one on every node, nearly all would have to go for one replica.
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
    """The fewest of one donor's: one more than can go without room on any node. None where it has not so many."""
    size, on_node = giver.donor.target.gpus, giver.on_node
    least = {node: -(-lacks[node] // size) for node in lacks.keys() & on_node.keys()}
    count = 1 + sum(min(there, least.get(node, there + 1) - 1) for node, there in on_node.items())
    makes = any(few <= on_node[node] for node, few in least.items())
    return count if makes and count <= giver.most else None


def _together(givers: list[_Unknown], lacks: Mapping[str, int], most_gpus: int) -> Iterator[list[_Gift]]:
    """The first gifts of several donors that together surely make the room, as few as do; none beyond `most_gpus`."""
    for gifts in _one_more_each_time(givers):
        if sum(map(_gpus, gifts)) > most_gpus:
            return
        if _surely_room(gifts, lacks):
            yield _fewest(gifts, lacks)
            return


def _one_more_each_time(givers: Iterable[_Unknown]) -> Iterator[list[_Gift]]:
    """What they give together, each time a replica more, all of the first one's before the next one's."""
    gifts: list[_Gift] = []
    for giver in givers:
        for count in range(1, giver.most + 1):
            yield [*gifts, (giver, count)]
        gifts.append((giver, giver.most))


def _unknown(donor: Donor, seating: Seating) -> _Unknown:
    """The donor as one of whom nobody knows which replicas go; it gives nothing where that is known."""
    order, own = seating.candidates(donor.target), donor.target
    if order.predictable or own.pods > 1:
        return _Unknown(donor, Counter(), 0)
    first = homeless_first(own, seating)
    on_node = Counter(next(iter(seating.home(own, pod)), "") for pod in order)
    if first:
        del on_node[""]
    return _Unknown(donor, on_node, max(0, min(donor.spare, seating.givable(own) - len(first))), first)


def _fewest(gifts: list[_Gift], lacks: Mapping[str, int]) -> list[_Gift]:
    """As few of each, from the last donor on, as still make the room; they do together."""
    for place in reversed(range(len(gifts))):
        giver, most = gifts[place]
        ways = ([*gifts[:place], (giver, count), *gifts[place + 1 :]] for count in range(most + 1))
        gifts = next(way for way in ways if _surely_room(way, lacks))
    return [(giver, count) for giver, count in gifts if count]


def _surely_room(gifts: list[_Gift], lacks: Mapping[str, int]) -> bool:
    """Whether they free more GPUs than can be freed without room on any node: on each a step less than it lacks."""
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
    """The node that lacks least of those that may get the room, and who is meant to go: who is on it first."""

    def freed(name: str) -> int:
        return sum(_gpus((giver, min(count, giver.on_node[name]))) for giver, count in gifts)

    node = min((name for name in lacks if freed(name) >= lacks[name]), key=lambda name: (lacks[name], name))
    picks: Picks = []
    for (donor, _, _, first), count in gifts:
        pods = (pod for pod in seating.candidates(donor.target) if not first or pod.node is not None)
        order = sorted(pods, key=lambda pod: seating.home(donor.target, pod) != (node,))
        picks += [(donor, pod) for pod in (*first, *order[:count])]
    return (node,), picks
