"""A policy as a scenario can be ruled: one pool, one Deployment for a model; and what is not played as written."""

from collections.abc import Iterator, Sequence

from rebalancer.domain.policy import Policy, Pool
from rebalancer.domain.signals import Signals
from rebalancer.domain.target_kinds import DEPLOYMENT
from rebalancer.domain.target_spec import TargetSpec


def unpriced(pools: Sequence[Pool]) -> tuple[str, ...]:
    """Names of the pools that have GPUs and no price: what is unknown is not free."""
    return tuple(pool.name for pool in pools if pool.gpu_limit and not pool.price_per_gpu_hour)


def price_of(pools: Sequence[Pool]) -> float:
    """USD for one of their GPUs for an hour: the mean over all of them; 0, no price, where one of them has none."""
    gpus = sum(pool.gpu_limit for pool in pools)
    if not gpus or unpriced(pools):
        return 0.0
    return sum(pool.gpu_limit * pool.price_per_gpu_hour for pool in pools) / gpus


def one_pool(policy: Policy) -> Policy:
    """The policy as a scenario's nodes can be ruled: one pool that neither grows nor goes, one Deployment for a model.

    What says how GPUs are found, where nodes come from and which of them are spot has no counterpart there.
    """
    first, limit, price = policy.pools[0], sum(pool.gpu_limit for pool in policy.pools), price_of(policy.pools)
    pool = Pool(
        name=first.name,
        kind="primary",
        node_labels=first.node_labels,
        gpu_limit=limit,
        price_per_gpu_hour=price,
        isolation="soft" if all(each.isolation == "soft" for each in policy.pools) else "hard",
    )
    models = tuple(
        each.model_copy(
            update={
                "targets": (TargetSpec(pool=pool.name, name=each.id),),
                "pods_per_replica": 1,
                "spot_replicas": None,
                "place_replicas": None,
                "signals": seen_signals(each.signals),
            }
        )
        for each in policy.models
    )
    return policy.model_copy(update={"pools": (pool,), "models": models})


def seen_signals(signals: Signals) -> Signals:
    """The signals without `kvCache` beside others: no cache is simulated, and decreases would wait for its vote."""
    if signals.configured == ("kvCache",):
        return signals
    return Signals.model_validate(signals.model_dump() | {"kv_cache": None})  # a copy would remember `configured`


def signal_notes(policy: Policy) -> Iterator[str]:
    """Sentences that name the models of which `kvCache` does not count, or of which nothing else would."""
    cached = [each for each in policy.models if each.signals.kv_cache is not None]
    beside = [each.id for each in cached if each.signals.configured != ("kvCache",)]
    if beside:
        yield f"signals.kvCache of {', '.join(beside)} does not count: no cache is simulated"
    alone = [each.id for each in cached if each.id not in beside]
    if alone:
        yield (f"{', '.join(alone)} has no signal but kvCache, and no cache is simulated: nothing moves it")


def one_pool_notes(policy: Policy) -> Iterator[str]:
    """What `one_pool` plays otherwise than it was written, in sentences."""
    bare = unpriced(policy.pools)
    if bare and any(pool.price_per_gpu_hour for pool in policy.pools):
        yield f"money is unknown, since there is no pricePerGpuHour for {', '.join(bare)}"
    if len(policy.pools) > 1:
        names = " and ".join(pool.name for pool in policy.pools)
        yield f"the pools {names} are played as one whose GPUs are always there"
    elif policy.pools[0].brings_nodes:
        bringing = ", ".join(policy.pools[0].brings_nodes)
        yield f"the GPUs of pool {policy.pools[0].name} are played as always there: {bringing} brings no node"
    kinds = {target.kind: None for each in policy.models for target in each.targets if target.kind != DEPLOYMENT}
    if kinds:
        yield f"targets of kind {', '.join(kinds)} are played as Deployments"
    grouped = [each.id for each in policy.models if each.pods_per_replica > 1]
    if grouped:
        yield f"a replica of {', '.join(grouped)} is played as one pod, on nodes put together until they hold it"
    limits = ("elastic_replicas", "spot_replicas", "place_replicas")
    limited = [each.id for each in policy.models if any(getattr(each, name) is not None for name in limits)]
    if limited:
        yield (
            f"elasticReplicas, spotReplicas and placeReplicas of {', '.join(limited)} do not count:"
            " the one pool has neither such GPUs nor places"
        )


def joined_nodes(nodes: Sequence[int], policy: Policy) -> tuple[int, ...]:
    """GPUs by node, nodes put together until each holds the widest replica of several pods: there it is one pod."""
    wide = max((each.gpus_per_replica for each in policy.models if each.pods_per_replica > 1), default=0)
    joined = [0]
    for gpus in nodes:
        if joined[-1] >= max(wide, 1):
            joined.append(0)
        joined[-1] += gpus
    return tuple(gpus for gpus in joined if gpus)
