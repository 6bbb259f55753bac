"""Stage 5a: each model's share of the GPUs there are, by what each count of replicas is worth to whom.

Pools that models can both run on are shared as one. A model nobody knows anything about, whose work is not plausible,
or whose number a person decides, keeps what it holds, and the others share the rest. Floors, wanted entitlements and
what is seen to be used come before any gain (`before_gain`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import asdict

from rebalancer.domain.couples import couples
from rebalancer.domain.outlook import Outlook
from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.facts.landing import UNBOUND, may_land, most_apart
from rebalancer.planning.facts.scene import PoolFacts, Scene, TargetFacts
from rebalancer.planning.memo import Memo
from rebalancer.planning.shares.before_gain import in_use, own
from rebalancer.planning.shares.caps import Caps
from rebalancer.planning.shares.curves import Curve, Table, table_of
from rebalancer.planning.shares.deferred import bound_due, values_of
from rebalancer.planning.shares.places import Claim, Space, share_places, smallest
from rebalancer.planning.shares.quotas import QuotaRoom
from rebalancer.planning.shares.share import ModelShare
from rebalancer.planning.shares.together import Together


def share(scene: Scene[ModelNeed]) -> Scene[ModelShare]:
    """Every model with the replicas that it is to have before guards, and with what follows from them."""
    portions: dict[str, _Portion] = {}
    quotas = QuotaRoom(scene)
    for pools, models in _connected(scene):
        if all(scene.pools[pool].budget is not None for pool in pools):  # else nobody is moved by what might be there
            portions |= _portions(scene, pools, bound_due(scene, pools, models), quotas)
    return scene.with_models(_shared(model, portions.get(name), scene.memo) for name, model in scene.models.items())


class _Portion(NamedTuple):
    """What sharing found for a model, which `model` has what is due bound to what others leave it.

    share: replicas, None where its demand decides. cost: of a replica until the horizon, in requests. used: replicas
    of the share that it is seen to use.
    """

    model: ModelNeed
    share: int | None
    cost: float
    used: int = 0


def _shared(model: ModelNeed, portion: _Portion | None, memo: Memo) -> ModelShare:
    model, share, cost, used = portion or _Portion(model, None, 0.0)
    needed = _needed(model, model.demand.replicas, share, cost, memo)
    unruled = _needed(model, model.unruled, share, cost, memo)
    lacks = max(0, max(needed, unruled) - model.ready_staying - model.loading_staying)
    return ModelShare(**asdict(model), share=share, needed=needed, lacks=lacks, cost=cost, used=used)


def _connected(scene: Scene[ModelNeed]) -> list[tuple[frozenset[str], list[ModelNeed]]]:
    """Pools that some model joins, by name of the first, with their models."""
    alike: dict[tuple[str, ...], list[ModelNeed]] = {}
    for model in (each for each in scene.models.values() if not each.entry.takes_idle):
        alike.setdefault(tuple([target.pool for target in model.targets if target.pool in scene.pools]), []).append(
            model
        )
    groups: list[tuple[frozenset[str], list[ModelNeed]]] = []
    for mine, models in alike.items():
        if mine:
            touching = [each for each in groups if not each[0].isdisjoint(mine)]
            groups = [each for each in groups if each[0].isdisjoint(mine)]
            joined = [one for _, others in touching for one in others]
            groups.append((frozenset(mine).union(*(pools for pools, _ in touching)), [*joined, *models]))
    return sorted(groups, key=lambda each: min(each[0]))


def _portions(
    scene: Scene[ModelNeed], pools: frozenset[str], models: Sequence[ModelNeed], quotas: QuotaRoom
) -> dict[str, _Portion]:
    caps = Caps(scene)
    looking: list[tuple[ModelNeed, Outlook, Sequence[TargetFacts]]] = []
    others: list[ModelNeed] = []
    kept_gpus: Counter[str] = Counter()
    for model in sorted(models, key=lambda each: each.entry.id):
        free = _free(model, scene)
        person = model.ruling.frozen or model.ruling.paused
        outlook = model.load.outlook
        if (
            outlook is None
            or model.ballot.blind
            or model.plausibility_refusal is not None
            or person is not None
            or not free
        ):
            kept_gpus.update(_kept(model, [] if person else free))
            others.append(model)
            continue
        looking.append((model, outlook, free))
        kept_gpus.update({target.pool: target.staying_replicas * target.gpus for target in _fixed(model, free)})
    uses = in_use([scene.pools[pool] for pool in pools], [model for model, _, _ in looking], kept_gpus.total())
    sharing: list[_Sharer] = []
    for (model, outlook, free), use in zip(looking, uses, strict=True):
        # What is asked for and holds no GPU yet serves nobody; were it used, a second plan would share anew.
        used = min(use, sum(target.placed for target in model.targets))
        fixed = sum(target.staying_replicas for target in _fixed(model, free))
        most = quotas.most(free, min(caps.most(free, model.most_replicas - fixed), _most_apart(scene, free))) + fixed
        claim = _claim_of(model, outlook, free, (max(used, own(model)), fixed, most), scene.memo)
        sharing.append(_Sharer(model, claim, fixed, used))
    spaces = _spaces(scene, pools, sharing, others, kept_gpus)
    costs = _costs(scene, pools, sharing)
    counts = _counts(scene, min(pools), sharing, spaces, costs)
    portions = {model.entry.id: _Portion(model, None, 0.0) for model in others}
    for each, cost, count in zip(sharing, costs, counts, strict=True):
        portions[each.model.entry.id] = _Portion(each.model, each.fixed + count, cost, each.used)
    return portions


class _Sharer(NamedTuple):
    """A model that shares, what it may have in its free targets, those `fixed` in the others, and its use."""

    model: ModelNeed
    claim: Claim
    fixed: int
    used: int


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
        counts[free[0].pool] += max(0, own(model) - model.staying_replicas)
        surplus = model.staying_replicas - max(own(model), model.demand.replicas)
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


def _spaces(
    scene: Scene[ModelNeed],
    pools: frozenset[str],
    sharing: Sequence[_Sharer],
    others: Sequence[ModelNeed],
    kept_gpus: Mapping[str, int],
) -> dict[str, Space]:
    """The GPUs of each pool that the models share."""
    large = {target.pool for each in sharing for target in each.model.targets if target.pod_gpus > 1}
    spaces = {}
    for pool in sorted(pools):
        state = scene.pools[pool]
        gpus = (state.budget or 0) - kept_gpus[pool]
        if pool not in large and len(state.rooms) == len(state.view.nodes):  # on nodes that take any pod
            spaces[pool] = Space(gpus)
        else:
            spaces[pool] = Space.of(gpus, _nodes(scene, state, others))
    return spaces


def _nodes(scene: Scene[ModelNeed], state: PoolFacts, others: Sequence[ModelNeed]) -> Iterator[int]:
    """GPUs by node that are free or held by who shares; on a node that receives nothing only the latter."""
    theirs: Counter[str] = Counter()
    for model in others:
        for node, one in model.nodes.get(state.pool.resource, {}).items():
            theirs[node] += one.remaining
    for view in state.view.nodes:
        taken, room = state.taken.get(view.name), state.rooms.get(view.name)
        kept_gpus = taken.remaining - theirs[view.name] if taken is not None else 0
        yield kept_gpus + (max(0, room.soon) if room is not None else 0)
    yield from _new_nodes(state, sum(grant.gpus for grant in scene.memory.node_grants if grant.pool == state.pool.name))


def _new_nodes(state: PoolFacts, gpus: int) -> tuple[int, ...]:
    each = state.pool.gpus_per_node
    return (each,) * (gpus // each) + ((gpus % each,) if gpus % each else ())


def _counts(
    scene: Scene[ModelNeed],
    name: str,
    sharing: Sequence[_Sharer],
    spaces: dict[str, Space],
    costs: Sequence[float],
) -> tuple[int, ...]:
    """Where nodes can come and go GPU-hours cost money: as many as are worth it, the fixed GPUs in any case."""
    pairs = scene.memo.of("", couples, scene.policy)
    names, fixed = [each.model.entry.id for each in sharing], [each.fixed for each in sharing]
    joined = Together.of([each.claim for each in sharing], names, fixed, pairs, scene.memo)
    claims = joined.claims
    priced = {name: scene.pools[name] for name in spaces if scene.pools[name].priced}
    if priced:
        grown = {name: _grown(space, priced[name]) if name in priced else space for name, space in spaces.items()}
        costing = [_priced(each.model, each.claim, cost) for each, cost in zip(sharing, costs, strict=True)]
        by_cost = Together.of(costing, names, fixed, pairs, Memo()).claims
        dearest = sorted(priced, key=lambda name: (-priced[name].pool.price_per_gpu_hour, name))
        spaces = smallest(by_cost, share_places(by_cost, grown), grown, dearest)
    if not claims:
        return ()
    tables = scene.memo.sums(_Tables)
    tables[name] = table_of([claim.curve for claim in claims], tables.get(name))
    return joined.split(scene.memo.of(name, share_places, claims, spaces, tables[name]))


class _Tables(dict[str, Table]):
    """The curves of the plan before as arrays, by name of the first of the pools that are shared as one."""


def _grown(space: Space, state: PoolFacts) -> Space:
    return space.plus(state.growth, _new_nodes(state, state.growth))


def _price(cost_weight: float, sharing: Sequence[_Sharer]) -> float:
    """The price of a GPU-second where nodes can go, in requests: `cost_weight` of those it does for these models.

    One price for all of them: a request that is kept is worth its priority, whoever it belongs to.
    """
    models = [each.model for each in sharing]
    outlooks = [(model.gpus, model.load.outlook) for model in models if model.load.outlook is not None]
    requests = sum(look.level / (look.work_of_one or 1.0) for _, look in outlooks)
    gpus = sum(look.level * each for each, look in outlooks)
    return cost_weight * requests / gpus if gpus > 0.0 else 0.0


def _costs(scene: Scene[ModelNeed], pools: Iterable[str], sharing: Sequence[_Sharer]) -> list[float]:
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


def _priced(model: ModelNeed, claim: Claim, cost: float) -> Claim:
    """The claim with the `cost` of each replica in requests.

    A batch model yields to others, not to the price: that counts as little as its requests do.
    """
    if model.load.outlook is None or not cost:
        return claim
    cost = _weighed(model, cost)
    values = tuple(value + cost * number for number, value in enumerate(claim.curve.values))
    return claim._replace(curve=claim.curve._replace(values=values))


def _weighed(model: ModelNeed, cost: float) -> float:
    outlook = model.load.outlook
    return 0.0 if outlook is None else cost * outlook.weight * model.deferral.weight


def cost_of_one(model: ModelShare) -> float:
    """What a replica costs until the horizon where nodes come and go for it, as the worth of one is counted."""
    return _weighed(model, model.cost)


def next_gain(model: ModelShare, count: int, memo: Memo) -> float:
    """The worth of one GPU more to a model with `count` replicas, in requests: the best mean over the steps ahead."""
    outlook = model.load.outlook
    if outlook is None or model.share is None or count < outlook.least:
        return 0.0
    values = values_of(model, outlook, memo)[count - outlook.least : model.most_replicas - outlook.least + 1]
    return memo.of(model.entry.id, _best_mean, values) / model.gpus


def _best_mean(values: tuple[float, ...]) -> float:
    here, *ahead = values or (0.0,)
    return max([(here - value) / step for step, value in enumerate(ahead, 1)], default=0.0)


def kept_by_one(model: ModelShare) -> float | None:
    """Late requests (or seconds) to the horizon that one replica of those between held and share keeps, in the mean.

    None where there is none between them, or nobody looks ahead.
    """
    outlook, share = model.load.outlook, model.share
    if outlook is None or share is None or share == model.staying_replicas:
        return None
    most = len(outlook.late) - 1
    fewer, more = sorted(min(most, max(0, count - outlook.least)) for count in (model.staying_replicas, share))
    return max(0.0, outlook.late[fewer] - outlook.late[more]) / abs(share - model.staying_replicas)


def _needed(model: ModelNeed, demand: int, share: int | None, cost: float, memo: Memo) -> int:
    """Replicas of `demand`, less those that would gain nothing though they were there."""
    outlook = model.load.outlook
    if outlook is None or share is None or share >= demand:
        return demand
    return min(demand, max(share, memo.of(model.entry.id, _best, outlook, cost)))


def _best(outlook: Outlook, cost: float) -> int:
    """The most replicas of those that cost least; `cost`: of each, where nodes would have to bring it."""
    values = [value + cost * outlook.weight * number for number, value in enumerate(outlook.values)]
    return outlook.least + len(values) - 1 - values[::-1].index(min(values))
