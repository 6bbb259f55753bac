"""Pools as the policy has them: who owns them, how many GPUs they may have, which NodePools stand behind them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rebalancer.survey.first_policy.draft import CHOOSE, GUESS, PoolDraft, Reasoned
from rebalancer.survey.first_policy.places import NodePlace
from rebalancer.survey.first_policy.pools import NodeGrouping
from rebalancer.survey.first_policy.workloads import GpuWorkload

MOST_GPUS = 1_000_000  # the policy's bound
MOST_PER_NODE = 1024  # same


def with_node_pools(pools: Sequence[NodeGrouping]) -> Iterator[tuple[NodeGrouping, tuple[str, ...]]]:
    """Each pool with the NodePools behind it; one that makes nodes of two pools stands behind the one with more.

    Where they are the very same nodes, behind the one that counts more devices of them.
    """
    behind: dict[str, tuple[int, int, NodeGrouping]] = {}
    for pool in pools:
        for name in {place.node_pool for place in pool.places} - {""}:
            made = _made_by(name, pool)
            more = len(made), sum(place.gpus.get(pool.resource, 0) for place in made), pool
            behind[name] = max(behind.get(name, more), more, key=lambda one: (one[0], one[1], one[2].name))
    for pool in pools:
        owners = {name: owner for name, (*_, owner) in sorted(behind.items()) if _made_by(name, pool)}
        notes = tuple(_stands_elsewhere(name, pool, owner) for name, owner in owners.items() if owner is not pool)
        mine = tuple(name for name, owner in owners.items() if owner is pool)
        yield replace(pool, notes=(*pool.notes, *notes)), mine


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
    limits: Mapping[str, Mapping[str, int]],
    guests: Sequence[GpuWorkload],
    *,
    lived_in: bool,
) -> PoolDraft:
    """The draft of a pool.

    limits: of NodePools by resource. guests: workloads that may stand there. lived_in: whether a model has its home
    there: its floor and its entitlement need a pool that is owned.
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
        gpu_limit=_limit(pool, node_pools, limits, guests),
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


def _limit(
    pool: NodeGrouping,
    node_pools: tuple[str, ...],
    limits: Mapping[str, Mapping[str, int]],
    guests: Sequence[GpuWorkload],
) -> Reasoned[int]:
    wanted = sum(each.gpus * max(1, each.replicas) for each in guests)
    if not pool.places:
        return Reasoned(min(wanted, MOST_GPUS), f"{CHOOSE}the GPUs there will be; its workloads ask for so many today")
    nodes = [place for place in pool.places if place.name]
    counts = Counter(place.gpus[pool.resource] for place in nodes)
    there = " + ".join(f"{count} x {size}" for size, count in sorted(counts.items(), reverse=True)) or "no node"
    total, why = 0, [f"nodes today: {there} GPUs" if nodes else "no node today"]
    for name in node_pools:
        has = sum(place.gpus[pool.resource] for place in nodes if place.node_pool == name)
        limit = limits.get(name, {}).get(pool.resource)
        total += has if limit is None else max(has, limit)
        why.append(
            f"NodePool {name} has limit {limit}" if limit is not None else f"NodePool {name} has no limit: {CHOOSE}one"
        )
    total += sum(place.gpus[pool.resource] for place in nodes if place.node_pool not in node_pools)
    if not total and not any(pool.resource in limits.get(name, {}) for name in node_pools):
        each = _per_node(pool, guests).value
        total = -(-wanted // each) * each  # whole nodes
        why.append("its workloads ask for so many")
    return Reasoned(min(total, MOST_GPUS), "; ".join(why))
