"""What a replica costs where nodes come and go for it: GPU-hours, counted in requests."""

from collections.abc import Iterable, Mapping, Sequence

from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.memo import Memo
from rebalancer.planning.shares.places import Claim, Space, share_places, smallest
from rebalancer.planning.shares.share import ModelShare
from rebalancer.planning.shares.sharers import Sharer
from rebalancer.planning.shares.spaces import grown
from rebalancer.planning.shares.together import Together


def costs_of(scene: Scene[ModelNeed], pools: Iterable[str], sharing: Sequence[Sharer]) -> list[float]:
    """The cost of a replica of each until its horizon, in requests; 0 where no node can come or go for it."""
    priced = {name for name in pools if scene.pools[name].priced}
    if not priced:
        return [0.0] * len(sharing)
    price = _price(scene.policy.cost_weight, sharing)
    return [
        price * model.load.outlook.horizon_seconds * model.gpus
        if model.load.outlook is not None and claim.pools & priced
        else 0.0
        for model, claim, _, _ in sharing
    ]


def _price(cost_weight: float, sharing: Sequence[Sharer]) -> float:
    """The price of a GPU-second where nodes can go, in requests: `cost_weight` of those it does for these models.

    One price for all of them: a request that is kept is worth its priority, whoever it belongs to.
    """
    models = [each.model for each in sharing]
    outlooks = [(model.gpus, model.load.outlook) for model in models if model.load.outlook is not None]
    requests = sum(look.level / (look.work_of_one or 1.0) for _, look in outlooks)
    gpus = sum(look.level * each for each, look in outlooks)
    return cost_weight * requests / gpus if gpus > 0.0 else 0.0


def affordable(
    scene: Scene[ModelNeed], sharing: Sequence[Sharer], spaces: Mapping[str, Space], costs: Sequence[float]
) -> Mapping[str, Space]:
    """The spaces, those where nodes can come and go with as many GPUs as are worth their price.

    GPUs that cannot go are there in any case.
    """
    elastic = {name: scene.pools[name] for name in spaces if scene.pools[name].priced}
    if not elastic:
        return spaces
    claims = [_priced(each.model, each.claim, cost) for each, cost in zip(sharing, costs, strict=True)]
    most = {name: grown(space, elastic[name]) if name in elastic else space for name, space in spaces.items()}
    by_cost = Together.of(scene, sharing, claims, Memo()).claims
    dearest = sorted(elastic, key=lambda name: (-elastic[name].pool.price_per_gpu_hour, name))
    return smallest(by_cost, share_places(by_cost, most), most, dearest)


def _priced(model: ModelNeed, claim: Claim, cost: float) -> Claim:
    """The claim with the `cost` of each replica in requests.

    A batch model yields to others, not to the price: that counts as little as its requests do.
    """
    if model.load.outlook is None or not cost:
        return claim
    cost = _weighed(model, cost)
    values = tuple(value + cost * number for number, value in enumerate(claim.curve.values))
    return claim._replace(curve=claim.curve._replace(values=values))


def cost_of_one(model: ModelShare) -> float:
    """What a replica costs until the horizon where nodes come and go for it, as the worth of one is counted."""
    return _weighed(model, model.cost)


def _weighed(model: ModelNeed, cost: float) -> float:
    outlook = model.load.outlook
    return 0.0 if outlook is None else cost * outlook.weight * model.deferral.weight
