"""Pools as the policy has them: who owns them, how many GPUs they may have, which NodePools stand behind them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rebalancer.domain.cluster import NodePool
from rebalancer.survey.first_policy.draft import CHOOSE, GUESS, PoolDraft, Reasoned
from rebalancer.survey.first_policy.places import NodePlace
from rebalancer.survey.first_policy.pools import NodeGrouping
from rebalancer.survey.first_policy.workloads import GpuWorkload

MOST_GPUS = 1_000_000  # the policy's bound
MOST_PER_NODE = 1024  # the policy's bound, too


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


def pool_of(
    pool: NodeGrouping,
    node_pools: tuple[str, ...],
    limit: Reasoned[int],
    guests: Sequence[GpuWorkload],
    *,
    lived_in: bool,
) -> PoolDraft:
    """The draft of a pool.

    guests: workloads that may stand there. lived_in: whether a model has its home there: its floor and its entitlement
    need a pool that is owned.
    """
    elastic = pool.spot and not lived_in
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
        gpus_per_node=_per_node(pool, guests) if node_pools else None,
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


def _per_node(pool: NodeGrouping, guests: Sequence[GpuWorkload]) -> Reasoned[int]:
    """GPUs of a node that Karpenter adds: a pod that does not fit on one gets no node."""
    brought = [place for place in pool.places if place.node_pool and place.counted]
    if not brought:
        pod_gpus = max((each.gpus // each.pods for each in guests), default=1)
        why = f"{GUESS}no node tells; its largest pod asks for so many; {CHOOSE}what its nodes have"
        return Reasoned(min(max(1, pod_gpus), MOST_PER_NODE), why)
    usual, _ = Counter(place.gpus.get(pool.resource, 0) for place in brought).most_common(1)[0]
    who = "its nodes have" if any(place.name for place in brought) else "its NodePool says"
    return Reasoned(min(max(1, usual), MOST_PER_NODE), f"as {who}; limits rise in whole nodes")


def limit_of(
    pool: NodeGrouping, behind: Sequence[str], node_pools: Mapping[str, NodePool], guests: Sequence[GpuWorkload]
) -> Reasoned[int]:
    """The most GPUs that the pool may have.

    behind: NodePools that bring it nodes. guests: workloads that may stand there.
    """
    wanted = sum(each.gpus * max(1, each.replicas) for each in guests)
    if not pool.places:
        return Reasoned(min(wanted, MOST_GPUS), f"{CHOOSE}the GPUs there will be; its workloads ask for so many today")
    nodes = [place for place in pool.places if place.name]
    counts = Counter(place.gpus[pool.resource] for place in nodes)
    there = " + ".join(f"{count} x {size}" for size, count in sorted(counts.items(), reverse=True)) or "no node"
    total, why = 0, [f"nodes today: {there} GPUs" if nodes else "no node today"]
    bounding = [name for name in sorted(_makers(pool)) if name in behind or name in _static(node_pools)]
    for name in bounding:
        made, node_pool = _made_by(name, pool), node_pools.get(name)
        bound, words = _bound(made, pool.resource, node_pool, _per_node(pool, guests))
        total += max(sum(place.gpus[pool.resource] for place in made if place.name), bound)
        why.append(f"NodePool {name} has {words}")
    total += sum(place.gpus[pool.resource] for place in nodes if place.node_pool not in bounding)
    if not total and not any(_says(node_pools.get(name), pool.resource) for name in bounding):
        each = _per_node(pool, guests).value
        total = -(-wanted // each) * each  # whole nodes
        why.append("its workloads ask for so many")
    return Reasoned(min(total, MOST_GPUS), "; ".join(why))


def _bound(
    made: Sequence[NodePlace], resource: str, node_pool: NodePool | None, per_node: Reasoned[int]
) -> tuple[int, str]:
    """GPUs that a NodePool may come to by its own words, and those words; 0 where it says none.

    per_node: GPUs of a node where none of `made` tells how many it has.
    """
    if node_pool is not None and node_pool.fixed is not None:
        each = max((place.gpus[resource] for place in made if place.counted), default=per_node.value)
        guess = "" if any(place.counted for place in made) else f": {per_node.why}"
        return node_pool.fixed * each, f"spec.replicas {node_pool.fixed}, of {each} GPUs{guess}"
    limit = node_pool.limits.get(resource) if node_pool is not None else None
    return (0, f"no limit: {CHOOSE}one") if limit is None else (limit, f"limit {limit}")


def _says(node_pool: NodePool | None, resource: str) -> bool:
    """Whether a NodePool has a bound of its own, be it 0."""
    return node_pool is not None and (node_pool.fixed is not None or resource in node_pool.limits)
