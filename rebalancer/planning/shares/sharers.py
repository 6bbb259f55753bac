"""Which models share GPUs by worth, with which of their targets, and what each of them claims."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rebalancer.domain.outlook import Outlook
from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.facts.landing import UNBOUND, may_land, most_apart
from rebalancer.planning.facts.scene import PoolFacts, Scene, TargetFacts
from rebalancer.planning.memo import Memo
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
    """Of the models of some pools those that share, by id, and the others.

    kept_gpus: GPUs by pool that are not shared: those of the others, and those of targets whose number stays.
    """

    sharers: tuple[Sharer, ...]
    others: tuple[ModelNeed, ...]
    kept_gpus: Counter[str]


class _Looking(NamedTuple):
    """A model with an outlook, its `free` targets, whose number may change, and its replicas in the others."""

    model: ModelNeed
    outlook: Outlook
    free: Sequence[TargetFacts]
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
        person = model.ruling.frozen or model.ruling.paused
        unclear = model.ballot.blind or model.plausibility_refusal is not None or person is not None
        if outlook is None or unclear or not free:
            kept_gpus.update(_kept(model, [] if person else free))
            others.append(model)
            continue
        stays = _fixed(model, free)
        looking.append(_Looking(model, outlook, free, sum(target.staying_replicas for target in stays)))
        kept_gpus.update({target.pool: target.staying_replicas * target.gpus for target in stays})
    uses = in_use([scene.pools[pool] for pool in pools], [one.model for one in looking], kept_gpus.total())
    caps = Caps(scene)
    sharers = [_sharer(scene, one, use, caps, quotas) for one, use in zip(looking, uses, strict=True)]
    return Sharing(tuple(sharers), tuple(others), kept_gpus)


def _sharer(scene: Scene[ModelNeed], one: _Looking, use: int, caps: Caps, quotas: QuotaRoom) -> Sharer:
    model, free, fixed = one.model, one.free, one.fixed
    # What is asked for and holds no GPU yet serves nobody; were it used, a second plan would share anew.
    used = min(use, sum(target.placed for target in model.targets))
    most = quotas.most(free, min(caps.most(free, model.most_replicas - fixed), _most_apart(scene, free))) + fixed
    claim = _claim_of(model, one.outlook, free, (max(used, model.own), fixed, most), scene.memo)
    return Sharer(model, claim, fixed, used)


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
        and not _too_small(target, scene.pools[target.pool])
    ]


def _too_small(target: TargetFacts, state: PoolFacts) -> bool:
    """Whether a replica fits into the GPU memory of no node of the pool: then no share there is of use to it."""
    if target.placement.memory is None or not state.view.nodes or state.grows:
        return False
    return not any(may_land(target.placement, node) for node in state.view.nodes)


def _most_apart(scene: Scene[ModelNeed], free: Sequence[TargetFacts]) -> int:
    """Replicas that the nodes of these targets' pools can take as far apart as the templates ask."""
    most = 0
    for target in free:
        state = scene.pools[target.pool]
        if state.grows or not (target.view.placement.apart or target.view.placement.alone):
            return UNBOUND
        nodes = [node for node in state.view.nodes if may_land(target.placement, node)]
        most += max(target.staying_replicas, most_apart(target.view.placement, nodes))
    return most


def _kept(model: ModelNeed, free: Sequence[TargetFacts]) -> dict[str, int]:
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


def _claim_of(
    model: ModelNeed, outlook: Outlook, free: Sequence[TargetFacts], counts: tuple[int, int, int], memo: Memo
) -> Claim:
    """The claim of a model on its free targets: from its own replicas up to what a person or the policy caps.

    `counts`: replicas that come before any gain, how many are in other targets, and the most in all of them.
    """
    least, fixed, most = counts
    least = min(most, max(outlook.least, least))
    pools = tuple([target.pool for target in free])
    of = outlook.least, values_of(model, outlook, memo)
    return memo.of(model.entry.id, _claim, of, (least, most, fixed), model.gpus, pools, free[0].pod_gpus)


def _claim(
    of: tuple[int, tuple[float, ...]], counts: tuple[int, int, int], gpus: int, pools: tuple[str, ...], pod_gpus: int
) -> Claim:
    """`of`: what counts of replicas cost, from the first on; `counts`: least, most, how many are in other targets."""
    (first, values), (least, most, fixed) = of, counts
    values = values[least - first : most - first + 1] if least >= first else ()
    values = values[max(0, fixed - least) :]
    return Claim(Curve(max(0, least - fixed), values or (0.0,), gpus), frozenset(pools), pod_gpus)
