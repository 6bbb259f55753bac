"""Who brings nodes to a pool now: one of Karpenter's NodePools, or node groups of Cluster Autoscaler.

Both launch nodes for pending pods. Of NodePools Karpenter takes the one of the highest weight, so nodes are expected of
that one, too; what its cloud has just refused is refused again for three minutes, so that comes last.
"""

from rebalancer.domain.memory import GrantFailure
from rebalancer.domain.node_groups import NodeGroupView
from rebalancer.domain.pool_view import NodePoolView
from rebalancer.domain.words import sentences
from rebalancer.planning.facts.alike import kind_of, risky
from rebalancer.planning.facts.limits import whole_nodes
from rebalancer.planning.facts.scene import PoolFacts, Scene
from rebalancer.planning.shares.share import ModelShare

NODES = "nodes"  # constraint, and guard of the refusal: nobody brings nodes to the pool now
REFUSED_FOR_SECONDS = 180.0  # so long Karpenter asks a cloud no more for what it did not have

Bringer = NodePoolView | NodeGroupView


def willing(scene: Scene[ModelShare], state: PoolFacts, nodes: dict[str, int], but: str = "") -> Bringer | None:
    """The one that is to bring the next nodes, None where nobody does.

    `nodes`: wanted by this plan, by bringer. `but`: one that has just brought nothing.
    """
    node_pool = _node_pool(scene, state, but)
    if node_pool is not None:
        return node_pool
    resting = {but, *(failure.node_pool for failure in resting_of(scene, state))}
    groups = (group for group in state.view.node_groups if group.name not in resting)
    return next((group for group in groups if not _none_of(group, scene, state, nodes)), None)


def room(bringer: Bringer, scene: Scene[ModelShare], state: PoolFacts, nodes: dict[str, int]) -> int | None:
    """Nodes that it may bring beyond those asked for; None where only the policy's gpuLimit bounds it."""
    if isinstance(bringer, NodePoolView):
        return None
    grants = [grant for grant in scene.memory.node_grants if grant.node_pool == bringer.name]
    granted = sum(whole_nodes(grant.gpus, state.pool.gpus_per_node) for grant in grants) // state.pool.gpus_per_node
    return bringer.room(scene.now, granted + nodes.get(bringer.name, 0))


def none_words(scene: Scene[ModelShare], state: PoolFacts, nodes: dict[str, int]) -> tuple[str, float | None]:
    """Why nobody brings nodes to the pool now, and when that may end; None where nobody knows."""
    resting = resting_of(scene, state)
    last = f" (the last grant there: {resting[-1].why})" if resting else ""
    fixed = "; ".join(fixed_words(view) for view in state.view.node_pools if view.fixed is not None)
    groups = "; ".join(filter(None, (_none_of(one, scene, state, nodes) for one in state.view.node_groups)))
    whom = "NodePool" if state.pool.node_pools else "node group"
    why = f"no {whom} of pool {state.pool.name} brings nodes now{last}"
    return sentences(why, fixed, groups), min((failure.until for failure in resting), default=None)


def fixed_words(view: NodePoolView) -> str:
    """What is known of a NodePool that pods bring no nodes to, as a clause."""
    return f"NodePool {view.name} has as many nodes as its spec.replicas of {view.fixed} says, which its owner changes"


def resting_of(scene: Scene[ModelShare], state: PoolFacts) -> list[GrantFailure]:
    """Failures of the pool's bringers that have not rested long enough."""
    names = state.pool.brings_nodes
    return [one for one in scene.memory.grant_failures if one.until > scene.now and one.node_pool in names]


def _none_of(group: NodeGroupView, scene: Scene[ModelShare], state: PoolFacts, nodes: dict[str, int]) -> str:
    """Why the group brings no node now, as a clause; "" where it may."""
    if group.known(scene.now) and (group.refuses or room(group, scene, state, nodes) == 0):
        return group.words(scene.now)
    return ""


def _node_pool(scene: Scene[ModelShare], state: PoolFacts, but: str) -> NodePoolView | None:
    """The first NodePool that may grow and has not just failed; if it can be, one whose nodes are not likely to go."""
    failing = {but, *(failure.node_pool for failure in resting_of(scene, state))}
    views = {view.name: view for view in state.view.node_pools if view.fixed is None}
    able = [views[name] for name in state.pool.node_pools if name in views and name not in failing]
    able.sort(key=lambda view: (refused(view, scene.now), -view.weight))
    kinds = risky(state.view, scene.snapshot.notices)
    bring = {view.name: {kind_of(node) for node in state.view.nodes if node.node_pool == view.name} for view in able}
    safe = [view for view in able if not bring[view.name] or bring[view.name] - kinds] if kinds else able
    return next(iter(safe or able), None)


def refused(view: NodePoolView, at: float) -> bool:
    """Whether the cloud had no capacity for it so lately that Karpenter does not ask again."""
    return view.refused_at is not None and at - view.refused_at < REFUSED_FOR_SECONDS
