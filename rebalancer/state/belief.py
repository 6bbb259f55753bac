"""Which notices are acted on that say little by themselves: faults of a whole fleet, and recommendations to rebalance.

A health checker that breaks calls everything faulty. Believed, it would have every replica replaced at once, by node
grants up to the pool's limit. Of six nodes, three faulty ones are replaced; of a fourth none of the four is believed,
until fewer are called so. The cloud's own word is certain, and counts for whole fleets.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from rebalancer.domain.node_rules import NodeRules
from rebalancer.domain.snapshot import NoticeView
from rebalancer.state.pools import Pools

FEW = 3  # faulty nodes of one pool that are believed whatever its size


def weighed(views: Iterable[NoticeView], pools: Pools, rules: NodeRules) -> Iterator[NoticeView]:
    """The notices, some of them doubted or prepared for, in their order."""
    views = tuple(views)
    by_pool: Mapping[str, list[NoticeView]] = defaultdict(list)
    for view in views:
        for pool in pools.pools_of(view.node):
            by_pool[pool].append(view)
    changed: dict[str, NoticeView] = {}
    for pool, there in by_pool.items():
        changed |= _doubted(pool, there, len(pools.nodes_of(pool)), rules)
        changed |= _prepared(there, rules)
    return (changed.get(view.node, view) for view in views)


def _doubted(pool: str, views: list[NoticeView], nodes: int, rules: NodeRules) -> dict[str, NoticeView]:
    faulty = [view for view in views if view.kind == "fault" and view.confidence != "possible"]
    if len(faulty) <= max(FEW, rules.faulty_share * nodes):
        return {}
    why = f"{len(faulty)} of {nodes} nodes of pool {pool} are called faulty at once: whoever says so is not believed"
    return {view.node: replace(view, doubted=why) for view in faulty}


def _prepared(views: list[NoticeView], rules: NodeRules) -> dict[str, NoticeView]:
    """The first ones given, so that one stays prepared for as long as it stands."""
    possible = sorted(
        (view for view in views if view.confidence == "possible"), key=lambda each: (each.since, each.node)
    )
    return {view.node: replace(view, prepared=True) for view in possible[: rules.prepare_at_once]}
