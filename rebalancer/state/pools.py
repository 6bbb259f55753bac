"""The policy's pools as the cluster shows them. Only nodes and pools with a change are looked at again."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from rebalancer.domain.cluster import ClusterObject, Node, NodeClaim, NodePool, Pod
from rebalancer.domain.jobs import Job
from rebalancer.domain.node_groups import AutoscalerStatus, group_view
from rebalancer.domain.policy import Policy, Pool
from rebalancer.domain.pool_view import NodePoolView, NodeView, PoolView
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state.devices import Devices
from rebalancer.state.holders import holders
from rebalancer.state.kept_views import KeptViews
from rebalancer.state.objects import Change, Objects
from rebalancer.state.preemption import LowestPriority, is_preemptible, why_not_preemptible
from rebalancer.state.views import claim_view, node_pool_view, node_view, with_devices


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
        devices: Devices,
        installation: str = "",
    ) -> None:
        self._devices = devices
        self._objects = objects
        self._installation = installation
        self._model_of = model_of
        self._views = KeptViews("pool", lambda pool: self._view(self._pools[pool]), lambda pool: (pool,))
        self.unseen = self._views.unseen
        self._unread: dict[str, Exception] = {}  # by node: what looking at it raised
        self._fell: dict[tuple[str, str], _Fall] = {}  # by node and resource
        self._ready_changed: dict[str, float] = {}  # by node, by our clock
        self._refused: dict[str, float] = {}  # by NodePool, when a claim of it failed last
        self._lowest: Mapping[str, LowestPriority] = {}
        self._seen_at = 0.0  # when the last change was seen
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Take over the pools; of two pools of one resource a node is the first's in the policy.

        A node with MIG slices of several shapes is in a pool of each.
        """
        self._pools = {pool.name: pool for pool in policy.pools}
        self._pool_of_node_pool = {name: pool.name for pool in policy.pools for name in pool.node_pools}
        self._claims_count = any(pool.device_class for pool in policy.pools)
        self._nodes: dict[str, dict[str, NodeView]] = {name: {} for name in self._pools}
        homes = ((node.name, self._homes(node)) for node in self._objects.all(Node))
        self._pools_of_node = {node: names for node, names in homes if names}
        self._dirty_nodes = set(self._pools_of_node)
        self._views.follow(self._pools)

    def _homes(self, node: Node) -> tuple[str, ...]:
        """The pools a node belongs to: of each resource the first."""
        first: dict[str, str] = {}
        for pool in self._pools.values():
            if pool.resource not in first and _belongs(node, pool):
                first[pool.resource] = pool.name
        return tuple(first.values())

    def pools_of(self, node: str) -> tuple[str, ...]:
        """Names of the pools that the node is of: several where each counts other slices of its GPUs."""
        return self._pools_of_node.get(node, ())

    def nodes_of(self, pool: str) -> tuple[str, ...]:
        """Names of the pool's nodes."""
        return tuple(sorted(name for name, homes in self._pools_of_node.items() if pool in homes))

    def has(self, node: str) -> bool:
        """Whether a node belongs to a pool."""
        return node in self._pools_of_node

    def grows(self, node: str) -> bool:
        """Whether a pool of the node can get others."""
        return any(self._pools[home].brings_nodes for home in self._pools_of_node.get(node, ()))

    # --- what comes in

    def moved(self, change: Change, at: float, nodes: Collection[str] = ()) -> None:
        """An object was added, changed or removed, seen at `at`; `nodes`: whose devices by claims it may concern."""
        self._dirty_nodes.update(self._pools_of_node.keys() & {*nodes})
        self._seen_at = at
        old, new = change
        if isinstance(new, Node):
            before = old if isinstance(old, Node) else None
            self._fall(before, new, at)
            self._condition(before, new, at)
            self._node_moved(new.name, self._homes(new))
        elif isinstance(old, Node):
            self._fell = {key: fall for key, fall in self._fell.items() if key[0] != old.name}
            self._ready_changed.pop(old.name, None)
            self._node_moved(old.name, ())
        for obj in change:
            self._touched(obj)
        if isinstance(new, NodeClaim):
            self._claimed(old if isinstance(old, NodeClaim) else None, new, at)

    def _touched(self, obj: ClusterObject | None) -> None:
        """Look again at the nodes and pools that an object is about."""
        match obj:
            case Job():
                made = self._views.made().items()
                self._views.dirty.update(name for name, view in made if view.others or view.preemptible)
            case Pod():
                if obj.node in self._pools_of_node and (
                    self._claims_count or (obj.gpus and self._model_of(obj.workload) is None)
                ):
                    self._dirty_nodes.add(obj.node)
            case Node() | NodeClaim():  # a claim may have got its node, or lost it
                self._views.dirty.update(self._pools_of_node_pool(obj.node_pool))
            case NodePool():
                self._views.dirty.update(self._pools_of_node_pool(obj.name))
            case AutoscalerStatus():
                self._views.dirty.update(name for name, pool in self._pools.items() if pool.node_groups)

    def stepped(self, seconds: float) -> None:
        """The clock was set by so many seconds: a node is not Ready, and shows fewer devices, for as long as before."""
        self._ready_changed = {name: at + seconds for name, at in self._ready_changed.items()}
        self._fell = {key: fall._replace(at=fall.at + seconds) for key, fall in self._fell.items()}
        self._refused = {name: at + seconds for name, at in self._refused.items()}
        self._dirty_nodes.update(self._pools_of_node)

    def _claimed(self, before: NodeClaim | None, claim: NodeClaim, at: float) -> None:
        """Note when the cloud last had nothing for a NodePool: Karpenter deletes such a claim within seconds.

        A node that comes ends that; whatever is written on the claim of one that was there before says nothing.
        """
        if claim.initialized:
            if before is None or not before.initialized:
                self._refused.pop(claim.node_pool, None)
        elif claim.failed is not None:
            self._refused[claim.node_pool] = at

    def _fall(self, old: Node | None, new: Node, at: float) -> None:
        """Note what has become fewer, until it is as many again as it was."""
        for resource in {*new.allocatable, *(old.allocatable if old is not None else ())}:
            there = new.allocatable.get(resource, 0)
            self._fell_to(new.name, resource, old.allocatable.get(resource, 0) if old is not None else 0, there, at)

    def _fell_to(self, node: str, resource: str, before: int, there: int, at: float) -> None:
        key, known = (node, resource), self._fell.get((node, resource))
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

    def _node_moved(self, name: str, homes: tuple[str, ...]) -> None:
        for before in self._pools_of_node.pop(name, ()):
            if before not in homes:
                self._nodes[before].pop(name, None)
                self._views.dirty.add(before)
        if homes:
            self._pools_of_node[name] = homes
            self._dirty_nodes.add(name)

    def _pools_of_node_pool(self, node_pool: str | None) -> tuple[str, ...]:
        pool = self._pool_of_node_pool.get(node_pool) if node_pool is not None else None
        return () if pool is None else (pool,)

    # --- what goes out

    def views(self, lowest: Mapping[str, LowestPriority]) -> tuple[PoolView, ...]:
        """All pools, by name; what did not change is the same value as last time, and so is what `unseen` tells of.

        `lowest`: of each pool the lowest priority of its models' pods; a pool without any is missing.
        """
        for pool in self._pools.values() if lowest != self._lowest else ():
            if pool.preemptible_priority_classes and lowest.get(pool.name) != self._lowest.get(pool.name):
                self._dirty_nodes.update(self._nodes[pool.name])
        self._lowest = lowest
        self._unread = {node: error for node in self._dirty_nodes if (error := self._failure(node)) is not None}
        self._dirty_nodes = set(self._unread)
        return self._views.all()

    def _failure(self, node: str) -> Exception | None:
        """What looking at the node raises, None where it does not: then its pools cannot be looked at."""
        try:
            self._refresh(node)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is this node's, and it is told
            self._views.dirty.update(self.pools_of(node))
            return error
        return None

    def _refresh(self, name: str) -> None:
        node = self._objects.one(Node, name)
        if node is None:
            return
        pods = list(self._objects.pods_on.get(name))
        foreign = [pod for pod in pods if self._model_of(pod.workload) is None]
        for home in self._pools_of_node.get(name, ()):
            pool = self._pools[home]
            devices = None
            if pool.device_class is not None:
                ours = {pod.uid for pod in pods if self._model_of(pod.workload) is not None}
                devices = self._devices.on_node(name, pool.device_class, ours)
                before = self._nodes[home].get(name)
                self._fell_to(name, pool.resource, 0 if before is None else before.gpus, devices.count, self._seen_at)
            fall = self._fell.get((name, pool.resource))
            fell_at, lowest = None if fall is None else fall.at, self._lowest.get(home)
            view = node_view(node, pool, foreign, lowest, self._ready_changed.get(name), fell_at)
            view = view if devices is None else with_devices(view, devices, pool)
            if node.cordoned_by:
                view = replace(view, cordoned=node.cordoned_by == self._installation)
            if view.foreign_gpus:
                self._views.dirty.add(home)  # it may be others who hold as many
            if view != self._nodes[home].get(name):
                self._nodes[home][name] = view
                self._views.dirty.add(home)

    def _view(self, pool: Pool) -> PoolView:
        for node, error in self._unread.items():
            if pool.name in self.pools_of(node):
                raise error
        nodes = self._nodes[pool.name]
        named = ((name, self._objects.one(NodePool, name)) for name in sorted(pool.node_pools))
        node_pools = (self._node_pool(node_pool, pool.resource) for _, node_pool in named if node_pool is not None)
        lowest = self._lowest.get(pool.name)
        others: list[tuple[Pod, int]] = []
        preemptible: list[tuple[Pod, int]] = []
        for pod, gpus in self._foreign(pool):
            (preemptible if is_preemptible(pod, pool, lowest) else others).append((pod, gpus))
        return PoolView(
            name=pool.name,
            nodes=tuple(nodes[name] for name in sorted(nodes)),
            node_pools=tuple(node_pools),
            others=holders(others, self._objects),
            node_groups=tuple(group_view(name, self._objects.all(AutoscalerStatus)) for name in pool.node_groups),
            preemptible=holders(preemptible, self._objects),
            not_preemptible=why_not_preemptible((pod for pod, gpus in others if gpus), pool, lowest),
        )

    def _foreign(self, pool: Pool) -> Iterator[tuple[Pod, int]]:
        """Pods of no model on the pool's nodes, each with the GPUs that it holds."""
        for name, view in self._nodes[pool.name].items():
            for pod in self._objects.pods_on.get(name) if view.foreign_gpus else ():
                if self._model_of(pod.workload) is None and not pod.placeholder:
                    yield pod, pod.gpus.get(pool.resource, 0)

    def _node_pool(self, node_pool: NodePool, resource: str) -> NodePoolView:
        claims = (claim for claim in self._objects.claims_of.get(node_pool.name) if self._to_come(claim))
        view = node_pool_view(
            node_pool, resource, [claim_view(claim, resource) for claim in claims], self._installation
        )
        return replace(view, refused_at=self._refused.get(node_pool.name))

    def _to_come(self, claim: NodeClaim) -> bool:
        """Karpenter deletes a claim it could not fulfil: until then it tells why."""
        if claim.deleting_at is not None:
            return claim.failed is not None
        node = self._objects.one(Node, claim.node) if claim.node is not None else None
        return node is None or not node.ready


def _belongs(node: Node, pool: Pool) -> bool:
    return pool.node_labels.items() <= node.labels.items()
