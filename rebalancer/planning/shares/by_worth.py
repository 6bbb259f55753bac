"""Stage 5a: each model's share of the GPUs there are, by what each count of replicas is worth to whom.

Pools that models can both run on are shared as one. A model nobody knows anything about, whose work is not plausible,
or whose number a person decides, keeps what it holds, and the others share the rest (`sharers`). Floors, wanted
entitlements and what is seen to be used come before any gain (`before_gain`). Where nodes can come and go, a replica
has a price (`prices`).
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import asdict

from rebalancer.domain.couples import couples
from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.memo import Memo
from rebalancer.planning.shares.curves import Table, table_of
from rebalancer.planning.shares.deferred import bound_due
from rebalancer.planning.shares.gains import needed_of
from rebalancer.planning.shares.places import Space, share_places, smallest
from rebalancer.planning.shares.prices import costs_of, priced
from rebalancer.planning.shares.quotas import QuotaRoom
from rebalancer.planning.shares.share import ModelShare
from rebalancer.planning.shares.sharers import Sharer, sharing_of
from rebalancer.planning.shares.spaces import grown, spaces_of
from rebalancer.planning.shares.together import Together


def share(scene: Scene[ModelNeed]) -> Scene[ModelShare]:
    """Every model with the replicas that it is to have before guards, and with what follows from them."""
    portions: dict[str, _Portion] = {}
    quotas = QuotaRoom(scene)
    for pools, models in _connected(scene):
        if all(scene.pools[pool].budget is not None for pool in pools):  # else nobody is moved by what might be there
            portions |= _portions(scene, pools, bound_due(scene, pools, models), quotas)
    shared = [_shared(model, portions.get(name), scene.memo) for name, model in scene.models.items()]
    return scene.with_models(shared)


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
    needed = needed_of(model, model.demand.replicas, share, cost, memo)
    unruled = needed_of(model, model.unruled, share, cost, memo)
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
    sharing = sharing_of(scene, pools, models, quotas)
    spaces, costs = spaces_of(scene, pools, sharing), costs_of(scene, pools, sharing.sharers)
    counts = _counts(scene, min(pools), sharing.sharers, spaces, costs)
    portions = {model.entry.id: _Portion(model, None, 0.0) for model in sharing.others}
    for each, cost, count in zip(sharing.sharers, costs, counts, strict=True):
        portions[each.model.entry.id] = _Portion(each.model, each.fixed + count, cost, each.used)
    return portions


def _counts(
    scene: Scene[ModelNeed],
    name: str,
    sharing: Sequence[Sharer],
    spaces: dict[str, Space],
    costs: Sequence[float],
) -> tuple[int, ...]:
    """The replicas that each is to have in its free targets, in order.

    Where nodes can come and go, GPU-hours cost money: no more of these GPUs are shared than their price is worth.
    """
    pairs = scene.memo.of("", couples, scene.policy)
    names, fixed = [each.model.entry.id for each in sharing], [each.fixed for each in sharing]
    joined = Together.of([each.claim for each in sharing], names, fixed, pairs, scene.memo)
    claims = joined.claims
    elastic = {name: scene.pools[name] for name in spaces if scene.pools[name].priced}
    if elastic:
        most = {name: grown(space, elastic[name]) if name in elastic else space for name, space in spaces.items()}
        costing = [priced(each.model, each.claim, cost) for each, cost in zip(sharing, costs, strict=True)]
        by_cost = Together.of(costing, names, fixed, pairs, Memo()).claims
        dearest = sorted(elastic, key=lambda name: (-elastic[name].pool.price_per_gpu_hour, name))
        spaces = smallest(by_cost, share_places(by_cost, most), most, dearest)
    if not claims:
        return ()
    tables = scene.memo.sums(_Tables)
    tables[name] = table_of([claim.curve for claim in claims], tables.get(name))
    return joined.split(scene.memo.of(name, share_places, claims, spaces, tables[name]))


class _Tables(dict[str, Table]):
    """The curves of the plan before as arrays, by name of the first of the pools that are shared as one."""
