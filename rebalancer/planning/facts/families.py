"""Families of pools: those that share something, so that none of them can be planned without the others."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rebalancer.domain.couples import couples
from rebalancer.domain.policy import Policy
from rebalancer.domain.snapshot import Snapshot


class PoolFamily(NamedTuple):
    """Pools, and the models that have targets there, by name; no other family has one of them."""

    pools: frozenset[str]
    models: frozenset[str]


def families(snapshot: Snapshot, policy: Policy) -> tuple[PoolFamily, ...]:
    """The families of the policy's pools, by the name of their first pool."""
    kin = [frozenset([pool.name]) for pool in policy.pools]
    for bond in _bonds(snapshot, policy):
        apart = [pools for pools in kin if pools.isdisjoint(bond)]
        kin = [*apart, frozenset().union(*(pools for pools in kin if not pools.isdisjoint(bond)))]
    models = {pools: [one.id for one in policy.models if one.targets[0].pool in pools] for pools in kin}
    return tuple(PoolFamily(pools, frozenset(models[pools])) for pools in sorted(kin, key=min))


def _bonds(snapshot: Snapshot, policy: Policy) -> Iterator[frozenset[str]]:
    """Pools of which each needs the others: by models, roles, a team's elastic GPUs, nodes, who brings them, quotas.

    The guards `fleet` and `sudden` look at all models, and bind no pools: what is planned without some models is judged
    by those that are left.
    """
    known = {pool.name for pool in policy.pools}
    of = {model.id: {target.pool for target in model.targets} for model in policy.models}
    yield from map(frozenset, of.values())
    yield from (frozenset(of[couple.of] | of[couple.to]) for couple in couples(policy).values())
    elastic = {pool.name for pool in policy.pools if pool.kind == "elastic"}
    for team in policy.teams:
        yield frozenset(elastic & _all(of[one.id] for one in policy.models if one.team == team.name))
    yield from _sharing((f"nodes of {name}", pool.name) for pool in policy.pools for name in pool.brings_nodes)
    yield from _sharing((node.name, view.name) for view in snapshot.pools for node in view.nodes if view.name in known)
    for quota in snapshot.quotas:
        yield frozenset(draw.pool for draw in quota.draws if draw.pool in known)


def _all(sets: Iterable[set[str]]) -> set[str]:
    return {name for each in sets for name in each}


def _sharing(pairs: Iterable[tuple[str, str]]) -> Iterator[frozenset[str]]:
    """The pools of each thing that several have."""
    by_thing: dict[str, set[str]] = defaultdict(set)
    for thing, pool in pairs:
        by_thing[thing].add(pool)
    return (frozenset(pools) for pools in by_thing.values() if len(pools) > 1)
