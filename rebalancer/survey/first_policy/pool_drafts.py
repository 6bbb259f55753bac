"""Pools as the policy has them: who owns them, how many GPUs they may have, which NodePools stand behind them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rebalancer.domain.cluster import NodePool
from rebalancer.survey.first_policy.draft import CHOOSE, PoolDraft, Reasoned
from rebalancer.survey.first_policy.places import NodePlace
from rebalancer.survey.first_policy.pools import NodeGrouping

MOST_GPUS = 1_000_000  # the policy's bound
MOST_PER_NODE = 1024  # same


def with_node_pools(
    pools: Sequence[NodeGrouping], node_pools: Mapping[str, NodePool]
) -> Iterator[tuple[NodeGrouping, tuple[str, ...]]]:
    """Each pool with the NodePools that bring it nodes; one that does for two stands behind the one with more.

    Where they are the very same nodes, behind the one that counts more devices of them. A static one (`spec.replicas`)
    brings none.
    """
    behind: dict[str, tuple[int, int, NodeGrouping]] = {}
    static = _static(node_pools)
    for pool in pools:
        for name in _makers(pool) - static:
            made = _made_by(name, pool)
            more = len(made), sum(place.gpus.get(pool.resource, 0) for place in made), pool
            behind[name] = max(behind.get(name, more), more, key=lambda one: (one[0], one[1], one[2].name))
    for pool in pools:
        owners = {name: owner for name, (*_, owner) in sorted(behind.items()) if _made_by(name, pool)}
        notes = [_stands_elsewhere(name, pool, owner) for name, owner in owners.items() if owner is not pool]
        notes += [
            f"NodePool {name} has as many nodes as its spec.replicas says, whatever waits: nodePools does not name it"
            for name in sorted(_makers(pool) & static)
        ]
        mine = tuple(name for name, owner in owners.items() if owner is pool)
        yield replace(pool, notes=(*pool.notes, *notes)), mine


def _static(node_pools: Mapping[str, NodePool]) -> set[str]:
    return {name for name, node_pool in node_pools.items() if node_pool.fixed is not None}


def _makers(pool: NodeGrouping) -> set[str]:
    return {place.node_pool for place in pool.places} - {""}


def _made_by(node_pool: str, pool: NodeGrouping) -> tuple[NodePlace, ...]:
    return tuple(place for place in pool.places if place.node_pool == node_pool)


def _stands_elsewhere(node_pool: str, pool: NodeGrouping, owner: NodeGrouping) -> str:
    if _made_by(node_pool, pool) == _made_by(node_pool, owner):
        return (
            f"NodePool {node_pool} makes these nodes, and stands in pool {owner.name}: that pool's need alone raises it"
        )
    return f"NodePool {node_pool} makes nodes of pool {owner.name} too, and stands there: give each shape its own"


def pool_of(pool: NodeGrouping, node_pools: tuple[str, ...], limit: Reasoned[int], *, lived_in: bool) -> PoolDraft:
    """The draft of a pool.

    lived_in: whether a model has its home there: its floor and its entitlement need a pool that is owned.
    """
    elastic = pool.spot and not lived_in
    each = Counter(place.gpus.get(pool.resource, 0) for place in pool.places if place.node_pool)
    per_node = min(max(1, each.most_common(1)[0][0]), MOST_PER_NODE) if each else 1
    return PoolDraft(
        name=Reasoned(pool.name),
        kind=_kind(pool, lived_in=lived_in),
        resource=Reasoned(pool.resource, "what its nodes offer" if pool.places else "what its workloads ask for"),
        node_labels=pool.labels,
        capacity_type=pool.capacity,
        price_per_gpu_hour=Reasoned(0.0, f"{CHOOSE}USD; elastic pools are used cheapest first", off=True)
        if elastic
        else None,
        node_pools=Reasoned(node_pools, "Karpenter's, by the label of its nodes") if node_pools else None,
        gpus_per_node=Reasoned(per_node, "as its nodes have; limits rise in whole nodes") if node_pools else None,
        gpu_limit=limit,
        isolation=Reasoned("soft", "its nodes offer shares of GPUs, of which each counts as one")
        if pool.soft
        else None,
        notes=pool.notes,
    )


def _kind(pool: NodeGrouping, *, lived_in: bool) -> Reasoned[str]:
    if pool.spot and not lived_in:
        return Reasoned("elastic", "spot: owned by nobody, used by whoever gains most")
    if pool.spot:
        return Reasoned(
            "primary", f"models live on this spot pool alone; {CHOOSE}elastic, once each has a target elsewhere"
        )
    return Reasoned("primary", "owned by the models whose home it is" if lived_in else "no model is at home there yet")


def limit_of(
    pool: NodeGrouping, behind: Sequence[str], node_pools: Mapping[str, NodePool], asked_gpus: int
) -> Reasoned[int]:
    """The most GPUs that the pool may have.

    behind: NodePools that bring it nodes. asked_gpus: what workloads ask for where no node is.
    """
    if not pool.places:
        return Reasoned(
            min(asked_gpus, MOST_GPUS), f"{CHOOSE}the GPUs there will be; its workloads ask for so many today"
        )
    nodes = [place for place in pool.places if place.name]
    counts = Counter(place.gpus[pool.resource] for place in nodes)
    there = " + ".join(f"{count} x {size}" for size, count in sorted(counts.items(), reverse=True)) or "no node"
    total, why = 0, [f"nodes today: {there} GPUs" if nodes else "no node today"]
    bounding = [name for name in sorted(_makers(pool)) if name in behind or name in _static(node_pools)]
    for name in bounding:
        made, node_pool = _made_by(name, pool), node_pools.get(name)
        bound, words = _bound(made, pool.resource, node_pool)
        total += max(sum(place.gpus[pool.resource] for place in made if place.name), bound)
        why.append(f"NodePool {name} has {words}")
    total += sum(place.gpus[pool.resource] for place in nodes if place.node_pool not in bounding)
    return Reasoned(min(total, MOST_GPUS), "; ".join(why))


def _bound(made: Sequence[NodePlace], resource: str, node_pool: NodePool | None) -> tuple[int, str]:
    """GPUs that a NodePool may come to by its own words, and those words; 0 where it says none."""
    if node_pool is not None and node_pool.fixed is not None:
        each = max(place.gpus[resource] for place in made)
        return node_pool.fixed * each, f"spec.replicas {node_pool.fixed}, of {each} GPUs"
    limit = node_pool.limits.get(resource) if node_pool is not None else None
    return (0, f"no limit: {CHOOSE}one") if limit is None else (limit, f"limit {limit}")
