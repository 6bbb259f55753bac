"""What GPU limit a NodePool needs, and which node grants wait for one that is too low, so that no node comes."""

from collections.abc import Iterable

from rebalancer.domain.memory import NodeGrant
from rebalancer.domain.people import CLOCKS_APART_SECONDS
from rebalancer.domain.pool_view import NodePoolView
from rebalancer.domain.words import gpus
from rebalancer.planning.facts.scene import ModelFacts, PoolFacts, Scene
from rebalancer.planning.memory.open_grants import SHOWS_SECONDS


def whole_nodes(gpus: int, per_node: int) -> int:
    """GPUs of the nodes of `per_node` that bring `gpus`."""
    return -(-gpus // per_node) * per_node


def needed_limit(grants: Iterable[NodeGrant], state: PoolFacts, view: NodePoolView, nodes: int) -> int:
    """The limit, in GPUs, that covers the nodes there are, those that open `grants` wait for, and `nodes` more."""
    per_node = state.pool.gpus_per_node
    there = {node.name: node.gpus for node in state.view.nodes if node.node_pool == view.name}
    claimed = sum(claim.gpus for claim in view.claims if claim.failed is None and claim.node not in there)
    granted = sum(whole_nodes(one.gpus, per_node) for one in grants if one.node_pool == view.name)
    wanted = sum(there.values()) + max(claimed, granted) + nodes * per_node
    return max(view.gpus_used, min(wanted, state.pool.gpu_limit))


def lacks_memory(model: ModelFacts, state: PoolFacts) -> str:
    """The sum by which a replica does not fit into the GPU memory of nodes to come; "" where it does, or who knows."""
    memory = next((each.placement.memory for each in model.targets if each.pool == state.pool.name), None)
    there = state.pool.memory_gib
    return "" if memory is None or there is None else memory.lacks(model.gpus, there)


def too_low(scene: Scene[ModelFacts], grant: NodeGrant) -> str:
    """Why no node comes for the grant: the limit of the NodePool is less than is needed; "" where it is not.

    A raise that was just written may not have been seen yet. GPUs that are free on nodes created since the grant asked
    are not needed once more: they are what the grant waits for, and take no pods yet, as behind a startup taint.
    """
    state = scene.pools[grant.pool]
    view = next((each for each in state.view.node_pools if each.name == grant.node_pool), None)
    if view is None or view.gpu_limit is None:
        return ""
    since = grant.asked_at - CLOCKS_APART_SECONDS  # `asked_at` is by our clock, `created_at` the server's
    came = [node for node in state.view.nodes if node.node_pool == view.name and (node.created_at or 0.0) >= since]
    free = sum(node.gpus - (state.taken[node.name].gpus if node.name in state.taken else 0) for node in came)
    needed = needed_limit(scene.memory.node_grants, state, view, 0) - free
    if view.gpu_limit >= needed or (scene.now - grant.asked_at < SHOWS_SECONDS and not grant.limit_error):
        return ""
    limit = f"its limit is {gpus(view.gpu_limit)}, {view.gpus_used} are in use, and node grants need {needed}"
    return f"NodePool {view.name} brings no node: {limit}; {_unraised(grant)}"


def _unraised(grant: NodeGrant) -> str:
    """What became of the raise of the limit for the grant, as a clause."""
    if grant.limit_error:
        return f"to raise it fails ({grant.limit_error})"
    return "it is not raised yet" if grant.limit_due else "it was raised, and somebody has lowered it again"
