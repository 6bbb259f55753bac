"""A donor of replicas, and what is chosen of donors: who goes, and where the one for whom they go has its place."""

from itertools import takewhile
from typing import NamedTuple

from rebalancer.domain.snapshot import PodView
from rebalancer.planning.allocation.seating import Seating
from rebalancer.planning.facts.scene import TargetFacts
from rebalancer.planning.shares.share import ModelShare


class Donor(NamedTuple):
    """A target of a donor, and how willingly it gives.

    model: the donor.
    target: its target in the recipient's pool.
    spare: replicas that it could give beside those that fit nowhere; 0 where only such ones may go.
    rank: its place among donors, the lowest first: guarded, needed, no replica without a pod, precedence, spare
        (most first), id.
    """

    model: ModelShare
    target: TargetFacts
    spare: int
    rank: tuple[bool, bool, bool, tuple[int, int], int, str]


MOST_WAITING = 100
"""So many replicas that fit nowhere are looked at beside those that serve: each that somebody typed costs 2 ms."""

Picks = list[tuple[Donor, PodView]]
Chosen = tuple[tuple[str, ...], Picks] | None  # a node for each pod of the replica, and who goes for it


def homeless_first(target: TargetFacts, seating: Seating) -> tuple[PodView, ...]:
    """The target's replicas that fit on no node and end before any that has a place: they are no loss.

    None where some of those without a node are to have a place, and nobody knows which of the two end first.
    """
    order = seating.candidates(target)
    known = order.predictable or seating.homeless(target) == order.count("unplaced", lambda pod: pod.node is None)
    return tuple(takewhile(lambda pod: not seating.home(target, pod), order)) if known else ()
