"""Parts that models keep while that suffices: where standing still would have done as well as any moves.

Where some fixed division of the GPUs would have left next to nothing late for longer than a start in three hours, no
loan could have saved anything: it costs its lender the next burst, and two starts. So each model then has what would
have been enough for it, and what is left by entitlement: at rest all is at home. A model that is seen to need more than
its part ends that: then worth decides.
"""

from collections.abc import Mapping, Sequence

from rebalancer.planning.demand.deferral import BATCH
from rebalancer.planning.demand.demand import need_of
from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.demand.votes import ROUNDING
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.shares.before_gain import LIKELY
from rebalancer.planning.shares.counts import counts_of
from rebalancer.planning.shares.curves import Curve
from rebalancer.planning.shares.places import Space
from rebalancer.planning.shares.sharers import Sharer

UNHEARD = 1.25  # times the highest ten seconds of three hours: no surge of these was so high
MOVED = 0.002  # of one GPU: below it one division is as good as another, and nobody moves


def parts_of(
    scene: Scene[ModelNeed], pools: frozenset[str], sharing: Sequence[Sharer], spaces: Mapping[str, Space]
) -> tuple[int, ...] | None:
    """The replicas that each is to have in its free targets while parts suffice, in order; None while they do not."""
    priced = any(scene.pools[pool].priced for pool in pools)
    if priced or not (len(sharing) > 1 and all(map(_enough, sharing))):
        return None
    least = sum(_least(each) * each.model.gpus for each in sharing)
    if least > sum(space.gpus for space in spaces.values()) + sum(each.fixed * each.model.gpus for each in sharing):
        return None
    mean = sum(map(_entitled, sharing)) / len(sharing)
    standing = [_standing(each, _entitled(each) / mean) for each in sharing]
    parts = counts_of(scene, f"{min(pools)} parts", standing, spaces)
    suffice = all(_suffices(each, each.fixed + count) for each, count in zip(sharing, parts, strict=True))
    return parts if suffice else None


def _enough(each: Sharer) -> int:
    """Replicas that would have been enough for three hours; 0 while that is unknown, and of work that is deferred."""
    outlook = each.model.load.outlook
    return 0 if outlook is None or each.model.entry.workload_class == BATCH else outlook.enough


def _least(each: Sharer) -> int:
    """Replicas that its part has at least."""
    return max(each.model.own, each.model.floor, _enough(each))


def _suffices(each: Sharer, part: int) -> bool:
    """Whether the part is enough by three hours, and for the demand of its level and the work that is there.

    What part was enough for the busiest minute of three hours need not move for one that is no busier. How far a likely
    shift goes that is higher than all of these nobody knows: no part is known to suffice for it.
    """
    outlook, work = each.model.load.outlook, each.model.load.work
    if outlook is None or part < outlook.enough:
        return False
    now = work.short or 0.0
    if outlook.shift > LIKELY and now > UNHEARD * outlook.peak:
        return False
    lasts = min(now, work.last_60s or 0.0)
    return part + ROUNDING >= max(need_of(outlook.level), lasts if lasts > outlook.minute else 0.0)


def _entitled(each: Sharer) -> int:
    """GPUs that the policy says are its own, one replica's at least."""
    return max(1, each.model.entry.entitlement) * each.model.gpus


def _standing(each: Sharer, weight: float) -> Sharer:
    """The sharer with a claim to what is enough, and to what is left in parts as its entitlement is of the mean."""
    model, curve, fixed = each.model, each.claim.curve, each.fixed
    most = curve.least + len(curve.values) - 1
    least = max(0, min(most, _least(each) - fixed))
    values = tuple([_cost(model, count + fixed, weight) for count in range(least, most + 1)])
    return each._replace(claim=each.claim._replace(curve=Curve(least, values, model.gpus)))


def _cost(model: ModelNeed, count: int, weight: float) -> float:
    """Least in sum, but for moves, where counts are as weights: the squares of these by the counts are even there."""
    return weight**2 / max(0.5, count * model.gpus) + MOVED * model.gpus * abs(count - model.staying_replicas)
