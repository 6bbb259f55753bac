"""How many replicas each of those who share is to have: where the GPUs there are cost the fewest requests."""

from collections.abc import Mapping, Sequence

from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.facts.scene import Scene
from rebalancer.planning.shares.curves import Table, table_of
from rebalancer.planning.shares.places import Space, share_places
from rebalancer.planning.shares.sharers import Sharer
from rebalancer.planning.shares.together import Together


def counts_of(
    scene: Scene[ModelNeed], name: str, sharing: Sequence[Sharer], spaces: Mapping[str, Space]
) -> tuple[int, ...]:
    """The replicas that each is to have in its free targets, in order; `name`: of the first of their pools."""
    joined = Together.of(scene, sharing, [each.claim for each in sharing], scene.memo)
    if not joined.claims:
        return ()
    tables = scene.memo.sums(_Tables)
    tables[name] = table_of([claim.curve for claim in joined.claims], tables.get(name))
    return joined.split(scene.memo.of(name, share_places, joined.claims, spaces, tables[name]))


class _Tables(dict[str, Table]):
    """The curves of the plan before as arrays, by name of the first of the pools that are shared as one."""
