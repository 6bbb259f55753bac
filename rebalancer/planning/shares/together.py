"""The two roles of a couple as one claim: a replica of one alone, beyond what the other bears, is worth nothing.

What a number of GPUs is worth to the two is what their best pair within the ratio is worth: a request is late where it
is late in either, so their costs add up. Where the two run in different pools no GPU of one can be the other's; then
each is valued by itself, and `roles.bind` cuts what is beyond the ratio.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from rebalancer.domain.couples import Couple, couples
from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.memo import Memo
from rebalancer.planning.shares.curves import Curve
from rebalancer.planning.shares.places import Claim
from rebalancer.planning.shares.sharers import Sharer


class Joint(NamedTuple):
    """One claim for two models, counted in GPUs that both kinds of replicas are multiples of.

    claim: what the two are worth together, by their GPUs.
    pairs: replicas of the two in their own claims, for each count of the claim from its least on.
    """

    claim: Claim
    pairs: tuple[tuple[int, int], ...]


class Together(NamedTuple):
    """The claims of some models, those of a couple as one.

    claims: the claims that share.
    joints: the joint claim of each, None where it is a model's own.
    behind: the places of the models that each claim is of.
    """

    claims: tuple[Claim, ...]
    joints: tuple[Joint | None, ...]
    behind: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, scene: Scene[ModelNeed], sharing: Sequence[Sharer], claims: Sequence[Claim], memo: Memo) -> "Together":
        """The `claims` of those who share, in their order."""
        pairs = scene.memo.of("", couples, scene.policy)
        names, fixed = [each.model.entry.id for each in sharing], [each.fixed for each in sharing]
        places = {name: place for place, name in enumerate(names)}
        joined: list[tuple[Claim, Joint | None, tuple[int, ...]]] = []
        for place, name in enumerate(names):
            couple = pairs.get(name)
            both = (-1, -1) if couple is None else (places.get(couple.of, -1), places.get(couple.to, -1))
            joint = None
            if couple is not None and min(both) >= 0:
                one, two = both
                joint = memo.of(couple.of, join, claims[one], claims[two], (fixed[one], fixed[two]), couple)
            if joint is None:
                joined.append((claims[place], None, (place,)))
            elif place == min(both):
                joined.append((joint.claim, joint, both))
        return cls(
            tuple(each[0] for each in joined), tuple(each[1] for each in joined), tuple(each[2] for each in joined)
        )

    def split(self, counts: Sequence[int]) -> tuple[int, ...]:
        """Replicas of each model by the counts of the claims."""
        by_place: dict[int, int] = {}
        for claim, joint, behind, count in zip(self.claims, self.joints, self.behind, counts, strict=True):
            own = (count,) if joint is None else joint.pairs[count - claim.curve.least]
            by_place.update(zip(behind, own, strict=True))
        return tuple(by_place[place] for place in sorted(by_place))


def join(one: Claim, two: Claim, fixed: tuple[int, int], couple: Couple) -> Joint | None:
    """The claims of `couple.of` and `couple.to` as one; None where they are of different pools, or no pair is allowed.

    `fixed`: replicas that each has in other targets, which count for the ratio.
    """
    if one.pools != two.pools:
        return None
    best: dict[int, tuple[float, tuple[int, int]]] = {}
    for of, cost in enumerate(one.curve.values, one.curve.least):
        for to, more in enumerate(two.curve.values, two.curve.least):
            if couple.excess(couple.of, of + fixed[0], to + fixed[1]) == 0.0:
                gpus = of * one.curve.gpus + to * two.curve.gpus
                if gpus not in best or cost + more < best[gpus][0]:
                    best[gpus] = (cost + more, (of, to))
    if not best:
        return None
    grain, least = math.gcd(one.curve.gpus, two.curve.gpus), min(best)
    costs, pairs = [], []
    cost, pair = best[least]
    for gpus in range(least, max(best) + 1, grain):
        cost, pair = min((cost, pair), best.get(gpus, (math.inf, pair)), key=lambda each: each[0])
        costs.append(cost)
        pairs.append(pair)
    claim = Claim(Curve(least // grain, tuple(costs), grain), one.pools, max(one.pod_gpus, two.pod_gpus))
    return Joint(claim, tuple(pairs))
