"""Which models share GPUs by worth, with which of their targets, and what each of them claims."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rebalancer.domain.outlook import Outlook
from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.facts.landing import apart_in, fits_nowhere
from rebalancer.planning.facts.scene import Scene, TargetFacts
from rebalancer.planning.shares.before_gain import in_use
from rebalancer.planning.shares.caps import Caps
from rebalancer.planning.shares.curves import Curve
from rebalancer.planning.shares.deferred import values_of
from rebalancer.planning.shares.places import Claim
from rebalancer.planning.shares.quotas import QuotaRoom


class Sharer(NamedTuple):
    """One that shares.

    model: the model, with its need.
    claim: what it may have in its free targets.
    fixed: replicas in its other targets, whose number stays.
    used: replicas that it is seen to use.
    """

    model: ModelNeed
    claim: Claim
    fixed: int
    used: int


class Sharing(NamedTuple):
    """The models of some pools, by whether they share the GPUs there.

    sharers: models that share, in the order of their ids.
    others: models that do not, as those without an outlook or under a person's pause.
    kept_gpus: GPUs by pool that are not shared: those of the others, and those of targets whose number stays.
    """

    sharers: tuple[Sharer, ...]
    others: tuple[ModelNeed, ...]
    kept_gpus: Counter[str]


class _Looking(NamedTuple):
    """A model with an outlook.

    model: the model, with its need.
    outlook: what each count of replicas costs the model.
    free: its targets whose number may change.
    apart: replicas that the pools of these can take, as far apart as they ask to be.
    fixed: its replicas in the other targets.
    """

    model: ModelNeed
    outlook: Outlook
    free: Sequence[TargetFacts]
    apart: int
    fixed: int


def sharing_of(
    scene: Scene[ModelNeed], pools: frozenset[str], models: Sequence[ModelNeed], quotas: QuotaRoom
) -> Sharing:
    """The models that share the GPUs of `pools`, which are all that `models` run on, and the others."""
    looking: list[_Looking] = []
    others: list[ModelNeed] = []
    kept_gpus: Counter[str] = Counter()
    for model in sorted(models, key=lambda each: each.entry.id):
        free, outlook = _free(model, scene), model.load.outlook
        apart = sum(apart_in(target, scene.pools[target.pool]) for target in free)
        person = model.ruling.frozen or model.ruling.paused
        unclear = model.ballot.blind or model.plausibility_refusal is not None or person is not None
        if outlook is None or unclear or not free:
            kept_gpus.update(_kept_gpus(model, [] if person else free))
            others.append(model)
            continue
        stays = _fixed(model, free)
        looking.append(_Looking(model, outlook, free, apart, sum(target.staying_replicas for target in stays)))
        kept_gpus.update({target.pool: target.staying_replicas * target.gpus for target in stays})
    uses = in_use([scene.pools[pool] for pool in pools], [one.model for one in looking], kept_gpus.total())
    caps, sharers = Caps(scene), []
    for one, use in zip(looking, uses, strict=True):
        model, outlook, free, fixed = one.model, one.outlook, one.free, one.fixed
        # What is asked for and holds no GPU yet serves nobody; were it used, a second plan would share anew.
        used = min(use, sum(target.placed for target in model.targets))
        capped = min(caps.most(free, model.most_replicas - fixed), one.apart)
        most = quotas.most(free, capped) + fixed
        least = min(most, max(outlook.least, used, model.own))
        of = outlook.least, values_of(model, outlook, scene.memo)
        places = tuple([target.pool for target in free]), free[0].pod_gpus
        claim = scene.memo.of(model.entry.id, _claim, of, (least, most, fixed), model.gpus, *places)
        sharers.append(Sharer(model, claim, fixed, used))
    return Sharing(tuple(sharers), tuple(others), kept_gpus)


def _fixed(model: ModelNeed, free: Sequence[TargetFacts]) -> Sequence[TargetFacts]:
    """The other parts, whose number stays."""
    names = {target.pool for target in free}
    return [target for target in model.targets if target.pool not in names]


def _free(model: ModelNeed, scene: Scene[ModelNeed]) -> Sequence[TargetFacts]:
    """Parts whose number may change: of a healthy target, in a pool that is seen, can hold it, and nobody excluded."""
    return [
        target
        for target in model.targets
        if target.stuck is None
        and target.pool in scene.pools
        and target.pool not in model.ruling.excluded_pools
        and not fits_nowhere(target, scene.pools[target.pool])
    ]


def _kept_gpus(model: ModelNeed, free: Sequence[TargetFacts]) -> dict[str, int]:
    """GPUs by pool that a model without a curve keeps from the others: what it holds.

    Where votes say what it needs: what it holds of that, and what is its own though it does not hold it yet. The rest
    is for whoever can use it.
    """
    counts = {target.pool: target.staying_replicas for target in model.targets}
    if free and not model.demand.unknown:
        counts[free[0].pool] += max(0, model.own - model.staying_replicas)
        surplus = model.staying_replicas - max(model.own, model.demand.replicas)
        for target in reversed(free):
            goes = max(0, min(surplus, target.staying_replicas))
            counts[target.pool] -= goes
            surplus -= goes
    return {pool: count * model.gpus for pool, count in counts.items()}


def _claim(
    of: tuple[int, tuple[float, ...]], counts: tuple[int, int, int], gpus: int, pools: tuple[str, ...], pod_gpus: int
) -> Claim:
    """`of`: what counts of replicas cost, from the first on; `counts`: least, most, how many are in other targets."""
    (first, values), (least, most, fixed) = of, counts
    values = values[least - first : most - first + 1] if least >= first else ()
    values = values[max(0, fixed - least) :]
    return Claim(Curve(max(0, least - fixed), values or (0.0,), gpus), frozenset(pools), pod_gpus)
