"""The policy's pools as the cluster shows them. Only nodes and pools with a change are looked at again."""

from collections.abc import Callable
from typing import NamedTuple

from rebalancer.domain.cluster import Node, NodeClaim, NodePool, Pod
from rebalancer.domain.policy import Policy, Pool
from rebalancer.domain.snapshot import NodePoolView, NodeView, PoolView
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state.objects import Change, Objects
from rebalancer.state.views import claim_view, node_pool_view, node_view


class _Fall(NamedTuple):
    """A node's allocatable devices of one resource were `before`, and became fewer at `at`."""

    before: int
    at: float


class Pools:
    """Pool views, kept until one of their objects changes. `model_of` says whose a workload is."""

    def __init__(
        self,
        policy: Policy,
        objects: Objects,
        model_of: Callable[[WorkloadRef | None], str | None],
        installation: str = "",
    ) -> None:
        self._objects = objects
        self._installation = installation
        self._model_of = model_of
        self._views: dict[str, PoolView] = {}
        self._all: tuple[PoolView, ...] = ()
        self._fell: dict[tuple[str, str], _Fall] = {}  # by node and resource
        self._ready_changed: dict[str, float] = {}  # by node, by our clock
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Take over the pools; a node of two pools is the first's in the policy."""
        self._pools = {pool.name: pool for pool in policy.pools}
        self._pool_of_node_pool = {name: pool.name for pool in policy.pools for name in pool.node_pools}
        self._nodes: dict[str, dict[str, NodeView]] = {name: {} for name in self._pools}
        homes = ((node.name, self._home(node)) for node in self._objects.all(Node))
        self._pool_of_node = {node: home for node, home in homes if home is not None}
        self._views = {name: view for name, view in self._views.items() if name in self._pools}
        self._dirty_nodes = set(self._pool_of_node)
        self._dirty_pools = set(self._pools)

    def _home(self, node: Node) -> str | None:
        return next((pool.name for pool in self._pools.values() if _belongs(node, pool)), None)

    def nodes_of(self, pool: str) -> tuple[str, ...]:
        """Names of the pool's nodes."""
        return tuple(sorted(name for name, home in self._pool_of_node.items() if home == pool))

    def pool_of(self, node: str) -> str | None:
        """The pool a node belongs to."""
        return self._pool_of_node.get(node)

    def grows(self, node: str) -> bool:
        """Whether the pool of a node can get others."""
        home = self._pool_of_node.get(node)
        return home is not None and bool(self._pools[home].node_pools)

    # --- what comes in

    def moved(self, change: Change, at: float) -> None:
        """An object was added, changed or removed, seen at `at`."""
        old, new = change
        if isinstance(new, Node):
            before = old if isinstance(old, Node) else None
            self._fall(before, new, at)
            self._condition(before, new, at)
            self._node_moved(new.name, self._home(new))
        elif isinstance(old, Node):
            self._fell = {key: fall for key, fall in self._fell.items() if key[0] != old.name}
            self._ready_changed.pop(old.name, None)
            self._node_moved(old.name, None)
        for found in change:
            if isinstance(found, Pod):
                if found.node in self._pool_of_node and found.gpus and self._model_of(found.workload) is None:
                    self._dirty_nodes.add(found.node)
            elif isinstance(found, Node):  # a claim may have got its node, or lost it
                self._dirty_pools.update(self._pools_of_node_pool(found.node_pool))
            elif isinstance(found, NodePool):
                self._dirty_pools.update(self._pools_of_node_pool(found.name))
            elif isinstance(found, NodeClaim):
                self._dirty_pools.update(self._pools_of_node_pool(found.node_pool))

    def stepped(self, seconds: float) -> None:
        """The clock was set by so many seconds: a node is not Ready, and shows fewer devices, for as long as before."""
        self._ready_changed = {name: at + seconds for name, at in self._ready_changed.items()}
        self._fell = {key: fall._replace(at=fall.at + seconds) for key, fall in self._fell.items()}
        self._dirty_nodes.update(self._pool_of_node)

    def _fall(self, old: Node | None, new: Node, at: float) -> None:
        """Note what has become fewer, until it is as many again as it was."""
        for resource in {*new.allocatable, *(old.allocatable if old is not None else ())}:
            key, there = (new.name, resource), new.allocatable.get(resource, 0)
            before = old.allocatable.get(resource, 0) if old is not None else there
            known = self._fell.get(key)
            if there < before:
                self._fell[key] = _Fall(max(before, known.before if known is not None else 0), at)
            elif known is not None and there >= known.before:
                del self._fell[key]

    def _condition(self, old: Node | None, new: Node, at: float) -> None:
        """Note since when the node has been Ready or not, by our clock: what was seen at `at` is no later than that."""
        if old is not None and old.ready_changed_at == new.ready_changed_at:
            return
        if new.ready_changed_at is None:
            self._ready_changed.pop(new.name, None)
        else:
            self._ready_changed[new.name] = min(new.ready_changed_at, at)

    def _node_moved(self, name: str, home: str | None) -> None:
        before = self._pool_of_node.pop(name, None)
        if before is not None and before != home:
            self._nodes[before].pop(name, None)
            self._dirty_pools.add(before)
        if home is not None:
            self._pool_of_node[name] = home
            self._dirty_nodes.add(name)

    def _pools_of_node_pool(self, node_pool: str | None) -> tuple[str, ...]:
        pool = self._pool_of_node_pool.get(node_pool) if node_pool is not None else None
        return () if pool is None else (pool,)

    # --- what goes out

    def views(self) -> tuple[PoolView, ...]:
        """All pools, by name; what did not change is the same value as last time."""
        for node in self._dirty_nodes:
            self._refresh(node)
        self._dirty_nodes.clear()
        changed = False
        for name in self._dirty_pools:
            view = self._view(self._pools[name])
            if view != self._views.get(name):
                self._views[name] = view
                changed = True
        self._dirty_pools.clear()
        if changed or len(self._all) != len(self._views):
            self._all = tuple(self._views[name] for name in sorted(self._views))
        return self._all

    def _refresh(self, name: str) -> None:
        home, node = self._pool_of_node.get(name), self._objects.one(Node, name)
        if home is None or node is None:
            return
        foreign = (pod for pod in self._objects.pods_on.get(name) if self._model_of(pod.workload) is None)
        pool = self._pools[home]
        fall = self._fell.get((name, pool.resource))
        fell_at = None if fall is None else fall.at
        view = node_view(node, pool, foreign, self._ready_changed.get(name), fell_at)
        if view != self._nodes[home].get(name):
            self._nodes[home][name] = view
            self._dirty_pools.add(home)

    def _view(self, pool: Pool) -> PoolView:
        nodes = self._nodes[pool.name]
        found = ((name, self._objects.one(NodePool, name)) for name in sorted(pool.node_pools))
        node_pools = (self._node_pool(node_pool, pool.resource) for _, node_pool in found if node_pool is not None)
        return PoolView(
            name=pool.name, nodes=tuple(nodes[name] for name in sorted(nodes)), node_pools=tuple(node_pools)
        )

    def _node_pool(self, node_pool: NodePool, resource: str) -> NodePoolView:
        claims = (claim for claim in self._objects.claims_of.get(node_pool.name) if self._to_come(claim))
        return node_pool_view(
            node_pool, resource, [claim_view(claim, resource) for claim in claims], self._installation
        )

    def _to_come(self, claim: NodeClaim) -> bool:
        """Karpenter deletes a claim it could not fulfil: until then it tells why."""
        if claim.deleting_at is not None:
            return claim.failed is not None
        node = self._objects.one(Node, claim.node) if claim.node is not None else None
        return node is None or not node.ready


def _belongs(node: Node, pool: Pool) -> bool:
    return pool.node_labels.items() <= node.labels.items()
