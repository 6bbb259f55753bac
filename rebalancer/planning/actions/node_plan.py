"""What a plan does about nodes: those that are to come, the grants behind them, and the writes to NodePools."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from rebalancer.domain.memory import NodeGrant
from rebalancer.domain.plan import NodePoolChange, Refusal
from rebalancer.domain.pool_view import NodePoolView
from rebalancer.planning.actions.bringers import NODES, Bringer, room
from rebalancer.planning.actions.node_pools import raised_limit
from rebalancer.planning.allocation.roles import Roles
from rebalancer.planning.allocation.unit import Unit, Victim
from rebalancer.planning.facts.limits import whole_nodes
from rebalancer.planning.facts.scene import PoolFacts, Scene, TargetFacts
from rebalancer.planning.shares.caps import Caps
from rebalancer.planning.shares.quotas import QuotaRoom
from rebalancer.planning.shares.share import ModelShare


@dataclass(slots=True)
class NodePlan:
    """A plan's node grants, withdrawals, and writes to NodePools.

    caps: caps on elastic pools, with all units of the allocation counted.
    quotas: replicas that the cluster lets in, with all units of the allocation counted.
    roles: how far the roles of couples move, by the allocation and by what comes and goes here.
    given: for targets that gave GPUs which are not granted yet: the model that is to have them.
    changes: writes to NodePools, in the order in which they go out.
    nodes: nodes that this plan wants to come, by NodePool or node group.
    units: replicas granted onto nodes to come, each with its grant's id and the NodePool or node group.
    withdrawn: for each grant that ended the grant, its target, how many replicas go, and why.
    handed_on: grants whose NodePool brought nothing and whose replicas stay: the grant, who is asked now, and why.
    refusals: why no node may come for a model.
    ended: ids of grants of which nothing is left.
    awaited: grants for replicas that are there and have no node, each with those that stay for it.
    """

    caps: Caps
    quotas: QuotaRoom
    roles: Roles
    given: Mapping[tuple[str, str], str] = field(default_factory=dict)
    changes: list[NodePoolChange] = field(default_factory=list)
    nodes: Counter[str] = field(default_factory=Counter)
    units: list[tuple[Unit, str, str]] = field(default_factory=list)
    withdrawn: list[tuple[NodeGrant, TargetFacts, int, str]] = field(default_factory=list)
    handed_on: list[tuple[NodeGrant, str, str]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    awaited: list[tuple[NodeGrant, tuple[Victim, ...]]] = field(default_factory=list)

    def take(self, target: TargetFacts, replicas: int) -> None:
        """So many replicas more of the target, for caps and quotas."""
        for _ in range(replicas):
            self.caps.take(target)
            self.quotas.take(target)

    @property
    def raised(self) -> set[str]:
        """Names of the NodePools whose limits are raised."""
        return {change.name for change in self.changes if change.kind == "limit"}

    @property
    def staying(self) -> list[Victim]:
        """Replicas that the allocation gave up and that stay, since nodes are asked for them."""
        return [victim for _, victims in self.awaited for victim in victims]

    @property
    def awaiting(self) -> set[str]:
        """Ids of the models for whose replicas, which are there already, nodes are asked."""
        return {grant.model for grant, _ in self.awaited}

    @property
    def opened(self) -> tuple[NodeGrant, ...]:
        """The grants that begin without a write to their target: its replicas are there already."""
        return tuple(replace(grant, limit_due=grant.node_pool in self.raised) for grant, _ in self.awaited)

    @property
    def none_come(self) -> dict[str, str]:
        """Why no nodes come, by model for which some were wanted."""
        return {refusal.subject: refusal.why for refusal in self.refusals if refusal.guard == NODES}

    def stopped(self) -> "NodePlan":
        """The same with nothing to write."""
        return dataclasses.replace(self, changes=[], handed_on=[])

    def growth(self, scene: Scene[ModelShare], state: PoolFacts) -> int:
        """GPUs that may still be added when all nodes asked for have come."""
        per_node = state.pool.gpus_per_node
        open_grants = [grant for grant in scene.memory.node_grants if grant.pool == state.pool.name]
        coming = sum(whole_nodes(grant.gpus, per_node) for grant in open_grants)
        granted_now = sum(self.nodes[name] for name in state.pool.brings_nodes) * per_node
        return max(0, state.growth - coming - granted_now)

    def room_for(self, scene: Scene[ModelShare], target: TargetFacts, state: PoolFacts, bringer: Bringer) -> int:
        """Replicas of the target for which the nodes have room that may still come."""
        nodes, most = self.growth(scene, state) // state.pool.gpus_per_node, room(bringer, scene, state, self.nodes)
        return (nodes if most is None else min(nodes, most)) * _pods_per_node(target, state) // target.pods

    def bring(  # noqa: PLR0913  # for how many of whom, and why
        self, scene: Scene[ModelShare], target: TargetFacts, bringer: Bringer, count: int, short: str, grant_id: str
    ) -> None:
        """Nodes for `count` replicas of the target are to come, and the limit lets them. `short`: as below."""
        state = scene.pools[target.pool]
        self.nodes[bringer.name] += -(-count * target.pods // _pods_per_node(target, state))
        if isinstance(bringer, NodePoolView):
            self.raise_limit(scene, state, bringer, short, grant_id)

    def raise_limit(
        self, scene: Scene[ModelShare], state: PoolFacts, view: NodePoolView, short: str, grant_id: str
    ) -> None:
        """Adds the change of a NodePool's limit, one for all that this plan grants there.

        `short`: who is short of how many replicas, as a clause.
        """
        change = raised_limit(
            scene,
            state,
            view,
            self.nodes[view.name],
            f"{short} that no shift can free, and Karpenter brings nodes up to it",
        )
        if change is None:
            return
        change = replace(change, grant=grant_id)
        earlier = [each for each in self.changes if each.id == change.id]
        if earlier:
            change = replace(change, grant=earlier[0].grant, reason=f"{short}; {earlier[0].reason}")
        self.changes = [*(each for each in self.changes if each.id != change.id), change]


def _pods_per_node(target: TargetFacts, state: PoolFacts) -> int:
    return state.pool.gpus_per_node // target.pod_gpus
