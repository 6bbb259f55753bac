"""Counts where not every replica may run on every GPU: several pools, and nodes that large replicas must fit on.

All GPUs are shared as one first. Where some set of models then has more than the pools and nodes it must do with can
hold, that set gets exactly those, shared again among themselves, and the others share the rest. For one-GPU replicas
on convex curves that is the optimum (Groenevelt's decomposition for allocation over a polymatroid, 1991); for sizes
that divide one another a node holds what the arithmetic of whole slots says.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rebalancer.planning.shares.curves import I64, Curve, Table, share_rows, table_of

MOST_UNIONS = 10_000  # of sets of pools, which a plan looks at in a tenth of a second


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
    """What a pool has to share: `gpus` in all, `nodes` as (GPUs of each, how many); without: pods fit anywhere."""

    gpus: int
    nodes: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, gpus: int, nodes: Iterable[int]) -> "Space":
        """`nodes`: the GPUs of each, in any order."""
        return cls(gpus, tuple(sorted(Counter(nodes).items())))

    @property
    def largest(self) -> int:
        """GPUs of the largest pod that fits."""
        return min(self.gpus, self.nodes[-1][0] if self.nodes else self.gpus)

    def holds(self, size: Size) -> int:
        """GPUs that pods of that size can have at most; below 0 where the pool is promised beyond its budget."""
        if not self.nodes:
            return self.gpus
        fits = sum([node // size.grain * size.grain * many for node, many in self.nodes if node >= size.least])
        return min(self.gpus // size.grain * size.grain, fits)

    def beside(self, size: Size) -> "Space":
        """The space that is left for others when pods of that size have all that they can have."""
        left: Counter[int] = Counter()
        for node, many in self.nodes:
            left[node % size.grain if node >= size.least else node] += many
        gpus = min(self.gpus - self.holds(size), sum(node * many for node, many in left.items()))
        return Space(max(0, gpus), tuple(sorted(left.items())))

    def plus(self, gpus: int, nodes: Iterable[int]) -> "Space":
        """The space with `gpus` more, on `nodes` of so many each."""
        more = Counter(dict(self.nodes)) + Counter(nodes)
        return Space(self.gpus + gpus, tuple(sorted(more.items())) if self.nodes else ())


Spaces = Mapping[str, Space]
Pools = frozenset[str]


class _Kind(NamedTuple):
    """Models with the same pools and the same pods."""

    pools: Pools
    pod_gpus: int


class _Need(NamedTuple):
    """The models that have nothing but `pools`, with pods of that size."""

    pools: Pools
    size: Size

    def has(self, kind: _Kind) -> bool:
        return kind.pod_gpus >= self.size.least and kind.pools <= self.pools

    def holds(self, spaces: Spaces) -> int:
        return sum([spaces[pool].holds(self.size) for pool in self.pools])


def share_places(claims: Sequence[Claim], spaces: Spaces, table: Table | None = None) -> tuple[int, ...]:
    """Replicas by claim, in order, whose total cost is least among what pools and nodes hold.

    Where the least of some do not fit, they get their least all the same: who then goes short is not said here.
    `table`: of the claims' curves, where there is one already.
    """
    if not claims:
        return ()
    table = table or table_of([claim.curve for claim in claims])
    counts = np.zeros(len(claims), dtype=np.int64)
    _share(table, np.arange(len(claims)), [_Kind(claim.pools, claim.pod_gpus) for claim in claims], spaces, counts)
    return tuple(counts.tolist())


def _share(table: Table, rows: I64, kinds: Sequence[_Kind], spaces: Spaces, counts: I64) -> None:
    """The same for some rows of the claims, each of its kind; into `counts`."""
    fits = {kind: _Kind(_where_they_fit(kind, spaces), kind.pod_gpus) for kind in set(kinds)}
    kinds = [fits[kind] for kind in kinds]
    present = set(kinds)
    everybody = _Need(frozenset().union(*(kind.pools for kind in present)), _sizes(present)[0])
    worst = None
    for exactly in (False, True):  # where greedy is beyond what some can have, nothing is settled yet
        counts[rows] = share_rows(table, rows, everybody.holds(spaces), exactly=exactly).counts
        worst = _most_beyond(_used(kinds, (counts[rows] * table.gpus[rows]).tolist()), spaces)
        if worst is not None and not all(worst.has(kind) for kind in present):
            break
    else:
        return
    inside = [worst.has(kind) for kind in kinds]
    left = {name: space.beside(worst.size) if name in worst.pools else space for name, space in spaces.items()}
    for there, some in ((True, spaces), (False, left)):
        places = [place for place, is_in in enumerate(inside) if is_in is there]
        if places:
            _share(table, rows[places], [kinds[place] for place in places], some, counts)


def smallest(claims: Sequence[Claim], counts: Sequence[int], spaces: Spaces, order: Iterable[str]) -> dict[str, Space]:
    """Spaces of which those in `order` are, one after another, made as small as the counts allow."""
    smaller = dict(spaces)
    gpus = [claim.curve.gpus * count for claim, count in zip(claims, counts, strict=True)]
    needs = _used([_Kind(claim.pools, claim.pod_gpus) for claim in claims], gpus)
    for name in order:
        spare = smaller[name].gpus
        for need, used in needs.items():
            if name in need.pools:
                elsewhere = need.holds(smaller) - smaller[name].holds(need.size)
                spare = min(spare, smaller[name].gpus + elsewhere - used)  # GPUs that hold no such pod go first
        if spare > 0:
            smaller[name] = smaller[name]._replace(gpus=smaller[name].gpus - spare)
    return smaller


def _where_they_fit(kind: _Kind, spaces: Spaces) -> Pools:
    """The pools with a node that is large enough; all where none is: then there is no room for such pods."""
    return frozenset(pool for pool in kind.pools if spaces[pool].largest >= kind.pod_gpus) or kind.pools


def _most_beyond(used: Mapping[_Need, int], spaces: Spaces) -> _Need | None:
    """Who has most beyond what holds them; of equals the smallest set, then the first by name."""
    beyond = [(gpus - need.holds(spaces), -len(need.pools), sorted(need.pools), need) for need, gpus in used.items()]
    most = max(beyond, key=lambda each: each[:3], default=None)
    return most[3] if most is not None and most[0] > 0 else None


def _used(kinds: Sequence[_Kind], gpus: Sequence[int]) -> dict[_Need, int]:
    """GPUs that each set of models has: for every union of some models' pools (`unions`), and every size of pod."""
    of_kind: dict[_Kind, int] = {}
    for kind, own in zip(kinds, gpus, strict=True):
        of_kind[kind] = of_kind.get(kind, 0) + own
    every = unions({kind.pools for kind in of_kind})
    needs = [_Need(union, size) for union in sorted(every, key=sorted) for size in _sizes(of_kind)]
    return {need: sum([own for kind, own in of_kind.items() if need.has(kind)]) for need in needs}


def unions(sets: Collection[Pools]) -> set[Pools]:
    """Every union of some of the sets; where these are too many, those of a few sets that overlap.

    Of sets that share no pool one has more than holds it where all of them together have.
    """
    every: set[Pools] = set()
    for pools in sets:
        every |= {pools, *(pools | other for other in every)}
        if len(every) > MOST_UNIONS:
            break
    else:
        return every
    few = grown = set(sets)
    while grown and len(grown) * len(sets) <= MOST_UNIONS:
        grown = {union | pools for union in grown for pools in sets if union & pools} - few
        few = few | grown
    return few


def _sizes(kinds: Iterable[_Kind]) -> list[Size]:
    """The sizes of pods, the smallest first."""
    sizes = sorted({kind.pod_gpus for kind in kinds})
    return [Size(least, math.gcd(*sizes[place:])) for place, least in enumerate(sizes)]
