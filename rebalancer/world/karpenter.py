"""Nodes that come for pending pods and go on a notice: what Karpenter does, in its own time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypedDict

from rebalancer.domain.cluster import Taint
from rebalancer.world.agenda import Agenda
from rebalancer.world.cluster import Cluster
from rebalancer.world.things import GPU, WorldNode, WorldPod, may_land

DISRUPTED = Taint(key="karpenter.sh/disrupted", value="", effect="NoSchedule")
NODE_POOL_LABEL = "karpenter.sh/nodepool"
BATCH_SECONDS = 1.0  # it waits this long for more pending pods before it launches
DRAIN_AFTER_SECONDS = 2.0  # from the notice to the first eviction
NO_CAPACITY_AFTER_SECONDS = 3.0  # from the claim to the cloud's refusal; the claim goes as long after that
UNAVAILABLE_SECONDS = 180.0  # an offering that had no capacity is not asked for again before


class More(TypedDict, total=False):
    """Fields of a `WorldNodePool` that few of them need.

    capacity_type: how the cloud sells its machines, as `spot`.
    rest_seconds: seconds for which the cloud is not asked again after it had no capacity.
    orders: what one order after the other comes to: seconds to a Ready node, None where the cloud has no capacity.
    empty_seconds: seconds after which a node goes on which nothing runs.
    """

    capacity_type: str
    rest_seconds: float
    orders: Iterator[float | None]
    empty_seconds: float


@dataclass(slots=True, eq=False)
class WorldNodePool:
    """Nodes of one shape that may be launched.

    name: name of the NodePool.
    uid: its Kubernetes UID.
    gpus_per_node: devices of each of its nodes.
    labels: labels of its nodes, by key.
    launch_seconds: seconds from the claim to a Ready node, where `orders` is None.
    created_at: UTC epoch seconds at which it was created.
    limit: the most GPUs that its nodes may have together, None where it has no limit.
    resource: extended resource that the devices are, as `nvidia.com/gpu`.
    taints: taints of its nodes.
    zone: the cloud's zone in which its machines run.
    capacity_type: how the cloud sells its machines, as the label `karpenter.sh/capacity-type` of its nodes says.
    offered: the most nodes that the cloud gives it at a time, None where it gives any number.
    unavailable_until: UTC epoch seconds before which the cloud is not asked again, as it had no capacity; 0 where it
        never lacked any.
    rest_seconds: seconds for which the cloud is not asked again after it had no capacity.
    orders: what one order after the other comes to: seconds from the claim to a Ready node, or None where the cloud has
        no capacity, as it has none once they are used up. None: `launch_seconds` holds for each.
    empty_seconds: seconds after which a node goes on which nothing runs, None where it never goes for that.
    paid_seconds: node-seconds of nodes that have gone, each from its order to its end.
    budgets: its disruption budgets as Karpenter spells them, None where it has none; one of no nodes for the reason
        Empty, or for any reason, keeps empty nodes.
    annotations: its annotations, by key.
    claims: its NodeClaims by name, from the order of a node to its end.
    """

    name: str
    uid: str
    gpus_per_node: int
    labels: dict[str, str]
    launch_seconds: float
    created_at: float
    limit: int | None = None
    resource: str = GPU
    taints: tuple[Taint, ...] = ()
    zone: str = "eu-central-1a"
    capacity_type: str = "spot"
    offered: int | None = None
    unavailable_until: float = 0.0
    rest_seconds: float = UNAVAILABLE_SECONDS
    orders: Iterator[float | None] | None = None
    empty_seconds: float | None = None
    paid_seconds: float = 0.0
    budgets: list[dict[str, Any]] | None = None
    annotations: dict[str, str] = field(default_factory=dict)
    claims: "dict[str, WorldNodeClaim]" = field(default_factory=dict)

    @property
    def used(self) -> int:
        """GPUs of its nodes, and of those to come: what its limit is about."""
        return len(self.claims) * self.gpus_per_node

    @property
    def keeps_empty(self) -> bool:
        """Whether an empty node stays for now."""
        holds = [one for one in self.budgets or () if one.get("nodes") == "0"]
        return self.empty_seconds is None or any("Empty" in one.get("reasons", ("Empty",)) for one in holds)

    def gpu_seconds(self, now: float) -> float:
        """What was paid for so far: each node's GPUs from its order to its end."""
        there = sum(now - claim.created_at for claim in self.claims.values() if claim.failed is None)
        return self.gpus_per_node * (self.paid_seconds + there)


@dataclass(slots=True, eq=False)
class WorldNodeClaim:
    """One node of a NodePool, from the order to the end. Its instants are in UTC epoch seconds.

    name: name of the claim, and of its node.
    uid: its Kubernetes UID.
    node_pool: the NodePool that it belongs to.
    created_at: when the node was ordered.
    provider_id: the cloud's name of the machine.
    node: its node, None until that is there.
    failed: why the node cannot be had, as a sentence; None where nothing says so.
    deleted_at: when the deletion of the claim was requested, which drains its node; None until then.
    empty_since: since when nothing has run on its node; None while something does, and before it has a node.
    """

    name: str
    uid: str
    node_pool: WorldNodePool
    created_at: float
    provider_id: str
    node: WorldNode | None = None
    failed: str | None = None
    deleted_at: float | None = None
    empty_since: float | None = None


class Karpenter:
    """Looks at pending pods once a batch is complete, and at claims that have nothing left to drain."""

    def __init__(self, agenda: Agenda, cluster: Cluster) -> None:
        self.node_pools: dict[str, WorldNodePool] = {}
        self._agenda = agenda
        self._cluster = cluster
        self._batching = False

    def add_node_pool(self, node_pool: WorldNodePool, nodes: int = 0) -> None:
        """A NodePool is there, with that many nodes already running."""
        self.node_pools[node_pool.name] = node_pool
        self._cluster.touch(node_pool)
        for _ in range(nodes):
            self._register(self._claim(node_pool))

    def set_limit(self, name: str, gpus: int | None) -> None:
        """How many GPUs the NodePool may have; less than it has ends no node. Raises KeyError."""
        node_pool = self.node_pools[name]
        if node_pool.limit != gpus:
            node_pool.limit = gpus
            self._cluster.touch(node_pool)

    def turn(self) -> None:
        """Let it notice what has changed."""
        if self._cluster.pending and not self._batching:
            self._batching = True
            self._agenda.after(BATCH_SECONDS, self._provision)
        for node_pool in self.node_pools.values():
            for claim in tuple(node_pool.claims.values()):
                if claim.node is None:
                    continue
                if claim.node.pods:
                    claim.empty_since = None
                elif claim.deleted_at is not None or self._idle(claim):
                    self._end(claim)

    def _idle(self, claim: WorldNodeClaim) -> bool:
        """Whether nothing has run on the claim's node for so long that it goes."""
        if claim.empty_since is None:
            claim.empty_since = self._agenda.now
        patience = claim.node_pool.empty_seconds
        if patience is None or claim.node_pool.keeps_empty:
            return False
        return self._agenda.now - claim.empty_since >= patience

    def launch(self, name: str, ordinal: str) -> WorldNodeClaim:
        """The cloud gives the NodePool a machine by itself, as it does where a number is wanted. Raises KeyError."""
        claim = self._claim(self.node_pools[name], ordinal)
        self._register(claim)
        return claim

    # --- nodes that come

    def _provision(self) -> None:
        """Launch what the pending pods need beyond what is on its way."""
        self._batching = False
        room = {claim.name: node_pool.gpus_per_node for node_pool, claim in self._coming()}
        for pod in self._cluster.pending.values():
            claim = next(
                (claim for pool, claim in self._coming() if _suits(pod, pool) and room[claim.name] >= pod.gpus),
                None,
            )
            claim = claim or self._launch(pod)
            if claim is not None:
                room[claim.name] = room.get(claim.name, claim.node_pool.gpus_per_node) - pod.gpus

    def _coming(self) -> Iterable[tuple[WorldNodePool, WorldNodeClaim]]:
        for node_pool in self.node_pools.values():
            for claim in node_pool.claims.values():
                if claim.node is None and claim.deleted_at is None:
                    yield node_pool, claim

    def _launch(self, pod: WorldPod) -> WorldNodeClaim | None:
        for node_pool in self.node_pools.values():
            if self._agenda.now < node_pool.unavailable_until:
                continue
            within = node_pool.limit is None or node_pool.used + node_pool.gpus_per_node <= node_pool.limit
            if within and _suits(pod, node_pool) and pod.gpus <= node_pool.gpus_per_node:
                return self._order(node_pool)
        return None

    def _order(self, node_pool: WorldNodePool) -> WorldNodeClaim:
        claim = self._claim(node_pool)
        took = node_pool.launch_seconds if node_pool.orders is None else next(node_pool.orders, None)
        if took is None or (node_pool.offered is not None and len(node_pool.claims) > node_pool.offered):
            self._agenda.after(NO_CAPACITY_AFTER_SECONDS, lambda: self._refuse(claim))
        else:
            self._agenda.after(took, lambda: self._register(claim))
        return claim

    def _refuse(self, claim: WorldNodeClaim) -> None:
        """The cloud has none: the claim says so, then it goes, and the offering rests."""
        claim.failed = (
            f"InsufficientCapacityError: no {claim.node_pool.capacity_type} capacity in {claim.node_pool.zone}"
        )
        claim.node_pool.unavailable_until = self._agenda.now + claim.node_pool.rest_seconds
        self._cluster.touch(claim)
        self._agenda.after(NO_CAPACITY_AFTER_SECONDS, lambda: self._end(claim))

    def _claim(self, node_pool: WorldNodePool, ordinal: str | None = None) -> WorldNodeClaim:
        uid = self._cluster.uid("claim")
        provider_id = f"aws:///{node_pool.zone}/i-{uid.replace('-', '')[:17]}"
        name = f"{node_pool.name}-{ordinal or self._cluster.suffix()}"
        claim = WorldNodeClaim(name, uid, node_pool, self._agenda.now, provider_id)
        node_pool.claims[name] = claim
        self._cluster.touch(claim)
        self._cluster.touch(node_pool)
        return claim

    def _register(self, claim: WorldNodeClaim) -> None:
        if claim.deleted_at is not None:
            self._end(claim)
            return
        node_pool = claim.node_pool
        claim.node = WorldNode(
            name=claim.name,
            uid=self._cluster.uid("node"),
            gpus=node_pool.gpus_per_node,
            labels={
                **node_pool.labels,
                NODE_POOL_LABEL: node_pool.name,
                "karpenter.sh/capacity-type": node_pool.capacity_type,
            },
            created_at=self._agenda.now,
            provider_id=claim.provider_id,
            resource=node_pool.resource,
            taints=node_pool.taints,
            node_pool=node_pool.name,
        )
        self._cluster.add_node(claim.node)
        self._cluster.touch(claim)

    # --- nodes that go

    def offer(self, node_pool: WorldNodePool, nodes: int | None, notice_seconds: float) -> list[WorldNodeClaim]:
        """The cloud gives that many nodes at a time from now on; the youngest beyond it are taken back."""
        node_pool.offered = nodes
        running = [claim for claim in node_pool.claims.values() if claim.node is not None and claim.deleted_at is None]
        taken = [] if nodes is None else running[nodes:]
        for claim in taken:
            if notice_seconds > 0:
                self.interrupt(claim, self._agenda.now + notice_seconds)
            else:
                self._end(claim)
        return taken

    def interrupt(self, claim: WorldNodeClaim, deadline: float, read_seconds: float = DRAIN_AFTER_SECONDS) -> None:
        """The cloud takes the machine at `deadline`; it is drained when Karpenter reads the notice, so much later."""
        self._agenda.after(read_seconds, lambda: self.drain(claim))
        self._agenda.at(deadline, lambda: self._end(claim))

    def lose(self, claim: WorldNodeClaim) -> None:
        """The machine is gone at once."""
        self._end(claim)

    def drain(self, claim: WorldNodeClaim) -> None:
        """Delete the claim: its node takes nobody any more, its pods are evicted, then it goes."""
        if claim.deleted_at is not None or claim.name not in claim.node_pool.claims:
            return
        claim.deleted_at = self._agenda.now
        self._cluster.touch(claim)
        if claim.node is not None:
            claim.node.taints = (*claim.node.taints, DISRUPTED)
            self._cluster.touch(claim.node)
            for pod in tuple(claim.node.pods.values()):
                self._cluster.delete(pod)

    def _end(self, claim: WorldNodeClaim) -> None:
        """The machine is gone."""
        if claim.node_pool.claims.pop(claim.name, None) is None:
            return
        if claim.failed is None:
            claim.node_pool.paid_seconds += self._agenda.now - claim.created_at
        if claim.node is not None:
            self._cluster.remove_node(claim.node)
        self._cluster.touch(claim, gone=True)
        self._cluster.touch(claim.node_pool)


def _suits(pod: WorldPod, node_pool: WorldNodePool) -> bool:
    labels = {**node_pool.labels, NODE_POOL_LABEL: node_pool.name}
    return node_pool.resource == pod.owner.resource and may_land(pod.owner, labels, node_pool.taints)
