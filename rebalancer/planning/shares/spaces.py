"""The GPUs of each pool that are shared by worth: all of them, or by node where not every pod fits on every one."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rebalancer.planning.demand.need import ModelNeed
from rebalancer.planning.facts.scene import PoolFacts, Scene
from rebalancer.planning.shares.places import Space
from rebalancer.planning.shares.sharers import Sharing


def spaces_of(scene: Scene[ModelNeed], pools: frozenset[str], sharing: Sharing) -> dict[str, Space]:
    """The GPUs of each pool that the models share."""
    large = {target.pool for each in sharing.sharers for target in each.model.targets if target.pod_gpus > 1}
    spaces = {}
    for pool in sorted(pools):
        state = scene.pools[pool]
        gpus = (state.budget or 0) - sharing.kept_gpus[pool]
        if pool not in large and len(state.rooms) == len(state.view.nodes):  # on nodes that take any pod
            spaces[pool] = Space(gpus)
        else:
            spaces[pool] = Space.of(gpus, _nodes(scene, state, sharing.others))
    return spaces


def grown(space: Space, state: PoolFacts) -> Space:
    """The space with all nodes that the pool may still bring."""
    return space.plus(state.growth, _new_nodes(state, state.growth))


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
