"""Each model's share of the GPUs there are, by what each count of replicas is worth to whom.

Pools that models can both run on are shared as one. A model nobody knows anything about, whose work is not plausible,
or whose number a person decides, keeps what it holds, and the others share the rest (`sharers`). Floors, wanted
entitlements and what is seen to be used come before any gain (`before_gain`). Where nodes can come and go, a replica
has a price (`prices`).
"""

from typing import NamedTuple

from msgspec.structs import asdict

from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.shares.counts import counts_of
from rebalancer.planning.shares.deferred import bound_due
from rebalancer.planning.shares.gains import needed_of
from rebalancer.planning.shares.parts import parts_of
from rebalancer.planning.shares.prices import affordable, costs_of
from rebalancer.planning.shares.quotas import QuotaRoom
from rebalancer.planning.shares.share import ModelShare
from rebalancer.planning.shares.sharers import sharing_of
from rebalancer.planning.shares.spaces import spaces_of


def share(scene: Scene[ModelNeed]) -> Scene[ModelShare]:
    """Every model with the replicas that it is to have before guards, and with what follows from them."""
    portions = _portions(scene)
    shared = []
    for name, need in scene.models.items():
        model, replicas, cost, used, part = portions.get(name) or _Portion(need, None, 0.0)
        needed = needed_of(model, model.demand.replicas, replicas, cost, scene.memo)
        unruled = needed_of(model, model.unruled, replicas, cost, scene.memo)
        lacks = max(0, max(needed, unruled) - model.ready_staying - model.loading_staying)
        shared.append(
            ModelShare(**asdict(model), share=replicas, needed=needed, lacks=lacks, cost=cost, used=used, part=part)
        )
    return scene.with_models(shared)


class _Portion(NamedTuple):
    """What sharing found for a model, which `model` has what is due bound to what others leave it.

    share: replicas, None where its demand decides. cost: of a replica until the horizon, in requests. used: replicas
    of the share that it is seen to use. part: the share, where it is kept because all of these suffice.
    """

    model: ModelNeed
    share: int | None
    cost: float
    used: int = 0
    part: int = 0


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


def _portions(scene: Scene[ModelNeed]) -> dict[str, _Portion]:
    """By model; nobody is moved by what might be in a pool whose budget is unknown."""
    connected = [each for each in _connected(scene) if all(scene.pools[pool].budget is not None for pool in each[0])]
    portions: dict[str, _Portion] = {}
    quotas = QuotaRoom(scene)
    for pools, models in connected:
        sharing = sharing_of(scene, pools, bound_due(scene, pools, models), quotas)
        spaces = spaces_of(scene, pools, sharing)
        costs = costs_of(scene, pools, sharing.sharers)
        parts = parts_of(scene, pools, sharing.sharers, spaces)
        counts = parts or counts_of(
            scene, min(pools), sharing.sharers, affordable(scene, sharing.sharers, spaces, costs)
        )
        portions |= {model.entry.id: _Portion(model, None, 0.0) for model in sharing.others}
        for each, cost, count in zip(sharing.sharers, costs, counts, strict=True):
            share = each.fixed + count
            portions[each.model.entry.id] = _Portion(each.model, share, cost, each.used, share if parts else 0)
    return portions
