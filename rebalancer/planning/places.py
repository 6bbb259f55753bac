"""Counts where not every replica may run on every GPU: several pools, and nodes that large replicas must fit on.

All GPUs are shared as one first. Where some set of models then has more than the pools and nodes it must do with can
hold, that set gets exactly those, shared again among themselves, and the others share the rest. For one-GPU replicas
on convex curves that is the optimum (Groenevelt's decomposition for allocation over a polymatroid, 1991); for sizes
that divide one another a node holds what the arithmetic of whole slots says.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rebalancer.planning.curves import Curve, share_out


class Claim(NamedTuple):
    """One model's `curve`, the pools that it may run on, and the GPUs that one of its pods needs on one node."""

    curve: Curve
    pools: frozenset[str]
    pod_gpus: int = 1


class Size(NamedTuple):
    """Pods of at least `least` GPUs; all of them are multiples of `grain`."""

    least: int
    grain: int


class Space(NamedTuple):
    """What a pool has to share: `gpus` in all, `nodes` those of each node (empty: pods of any size fit anywhere)."""

    gpus: int
    nodes: tuple[int, ...] = ()

    @property
    def largest(self) -> int:
        """GPUs of the largest pod that fits."""
        return min(self.gpus, max(self.nodes, default=self.gpus))

    def holds(self, size: Size) -> int:
        """GPUs that pods of that size can have at most; below 0 where the pool is promised beyond its budget."""
        if not self.nodes:
            return self.gpus
        fits = sum(node // size.grain * size.grain for node in self.nodes if node >= size.least)
        return min(self.gpus // size.grain * size.grain, fits)

    def beside(self, size: Size) -> "Space":
        """What is left for others when pods of that size have all that they can have."""
        left = tuple(node % size.grain if node >= size.least else node for node in self.nodes)
        return Space(max(0, min(self.gpus - self.holds(size), sum(left))), left)


Spaces = Mapping[str, Space]
Pools = frozenset[str]


class _Need(NamedTuple):
    """The models that have nothing but `pools`, with pods of that size."""

    pools: Pools
    size: Size

    def has(self, claim: Claim) -> bool:
        return claim.pools <= self.pools and claim.pod_gpus >= self.size.least

    def holds(self, spaces: Spaces) -> int:
        return sum(spaces[pool].holds(self.size) for pool in self.pools)


def share_places(claims: Sequence[Claim], spaces: Spaces) -> tuple[int, ...]:
    """Replicas by claim, in order, whose total cost is least among what pools and nodes hold.

    Where the least of some do not fit, they get their least all the same: who then goes short is not said here.
    """
    if not claims:
        return ()
    fits = {kind: _where_they_fit(*kind, spaces) for kind in {(claim.pools, claim.pod_gpus) for claim in claims}}
    claims = [Claim(claim.curve, fits[claim.pools, claim.pod_gpus], claim.pod_gpus) for claim in claims]
    everybody = _Need(frozenset().union(*(claim.pools for claim in claims)), _sizes(claims)[0])
    counts = share_out(tuple(claim.curve for claim in claims), everybody.holds(spaces)).counts
    worst = _most_beyond(claims, counts, spaces)
    if worst is None or all(worst.has(claim) for claim in claims):
        return counts
    inside = [place for place, claim in enumerate(claims) if worst.has(claim)]
    beside = [place for place, claim in enumerate(claims) if not worst.has(claim)]
    found = dict(zip(inside, share_places([claims[place] for place in inside], spaces), strict=True))
    left = {name: space.beside(worst.size) if name in worst.pools else space for name, space in spaces.items()}
    found |= zip(beside, share_places([claims[place] for place in beside], left), strict=True)
    return tuple(found[place] for place in range(len(claims)))


def smallest(claims: Sequence[Claim], counts: Sequence[int], spaces: Spaces, order: Iterable[str]) -> dict[str, Space]:
    """Spaces of which those in `order` are, one after another, made as small as the counts allow."""
    found = dict(spaces)
    for name in order:
        spare = found[name].gpus
        for need, used in _used(claims, counts).items():
            if name in need.pools:
                spare = min(spare, need.holds(found) - used)
        if spare > 0:
            found[name] = found[name]._replace(gpus=found[name].gpus - spare)
    return found


def _where_they_fit(pools: Pools, pod_gpus: int, spaces: Spaces) -> Pools:
    """Without the pools none of whose nodes is large enough; all where none is: then there is no room for them."""
    return frozenset(pool for pool in pools if spaces[pool].largest >= pod_gpus) or pools


def _most_beyond(claims: Sequence[Claim], counts: Sequence[int], spaces: Spaces) -> _Need | None:
    """Who has most beyond what holds them; of equals the smallest set, then the first by name."""
    beyond = [
        (used - need.holds(spaces), -len(need.pools), sorted(need.pools), need)
        for need, used in _used(claims, counts).items()
    ]
    most = max(beyond, key=lambda each: each[:3], default=None)
    return most[3] if most is not None and most[0] > 0 else None


def _used(claims: Sequence[Claim], counts: Sequence[int]) -> dict[_Need, int]:
    """GPUs that each set of models has: for every union of some models' pools, and every size of pod."""
    kinds: dict[tuple[Pools, int], int] = {}
    for claim, count in zip(claims, counts, strict=True):
        kind = (claim.pools, claim.pod_gpus)
        kinds[kind] = kinds.get(kind, 0) + count * claim.curve.gpus
    unions: set[Pools] = set()
    for pools in dict.fromkeys(pools for pools, _ in kinds):
        unions |= {pools, *(pools | other for other in unions)}
    return {
        _Need(union, size): sum(used for (pools, own), used in kinds.items() if pools <= union and own >= size.least)
        for union in sorted(unions, key=sorted)
        for size in _sizes(claims)
    }


def _sizes(claims: Sequence[Claim]) -> list[Size]:
    """The smallest first."""
    found = sorted({claim.pod_gpus for claim in claims})
    return [Size(least, math.gcd(*found[place:])) for place, least in enumerate(found)]
