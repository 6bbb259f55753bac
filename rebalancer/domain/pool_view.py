"""The pools of a snapshot: their nodes, and the NodePools, NodeClaims and node groups behind them."""

from msgspec import Struct

from rebalancer.domain.cluster import DisruptionBudget, SavedNodePool, Taint
from rebalancer.domain.instant import Instant
from rebalancer.domain.node_groups import NodeGroupView
from rebalancer.domain.quota_view import Holder


class NodeView(Struct, frozen=True):
    """One node of a pool.

    name: `metadata.name` of the Node.
    gpus: allocatable GPUs of the pool's resource.
    ready: whether its Ready condition is True.
    schedulable: whether it is neither cordoned nor being deleted.
    foreign_gpus: GPUs that pods of no model request there.
    ready_changed_at: when its Ready condition last changed; None where it has no such condition.
    node_pool: name of its Karpenter NodePool, None where Karpenter does not own it.
    labels: `metadata.labels` of the Node.
    taints: `spec.taints` of the Node.
    fell_at: when `gpus` last became fewer while we watched; None when it has not, or all of them are back.
    refused: why devices that it offers do not count in `gpus`, as the end of a sentence; "" where all do.
    memory_gib: GiB of GPU memory that each of `gpus` has; None where nobody says.
    cordoned: whether it carries our mark: we cordoned it, and have not taken that back.
    warm_gpus: GPUs that placeholders keep warm there; they give way to any pod, so they are free.
    preemptible_gpus: GPUs of `foreign_gpus` whose pods the scheduler ends for a replica: to planning they are free.
    created_at: when its object was created, by the API server's clock; None where nobody says.
    """

    name: str
    gpus: int
    ready: bool
    schedulable: bool
    foreign_gpus: int = 0
    ready_changed_at: Instant | None = None
    node_pool: str | None = None
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    fell_at: Instant | None = None
    refused: str = ""
    memory_gib: float | None = None
    cordoned: bool = False
    warm_gpus: int = 0
    preemptible_gpus: int = 0
    created_at: Instant | None = None

    @property
    def unpreemptible_gpus(self) -> int:
        """GPUs of `foreign_gpus` that are not preemptible."""
        return self.foreign_gpus - self.preemptible_gpus


class NodeClaimView(Struct, frozen=True):
    """A node still to come in a NodePool.

    name: name of its NodeClaim.
    gpus: GPUs of the pool's resource that it is to bring.
    created_at: when it was ordered.
    node: name of the node it became that is not Ready yet, None before that.
    failed: sentence that says why it cannot be had; None while nothing speaks against it.
    """

    name: str
    gpus: int
    created_at: Instant
    node: str | None = None
    failed: str | None = None


class NodePoolView(Struct, frozen=True):
    """A Karpenter NodePool behind a pool; GPUs are of the pool's resource.

    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server.
    gpu_limit: most GPUs that Karpenter may bring, None where that is unlimited.
    gpus_used: GPUs that its nodes have, by its status.
    budgets: its disruption budgets; None where the key is absent.
    held: whether our budget that forbids consolidation is in place.
    saved: its own limits and budgets from before our first write; None: we have not written to it.
    claims: its nodes still to come, by name.
    other: name of another installation of the rebalancer that wrote to it, so we do not; "" where none did.
    weight: by which Karpenter prefers it to others, higher first.
    fixed: nodes that it is to have whatever pods there are (`spec.replicas`), None where pods decide.
    refused_at: when the cloud last had no capacity for a NodeClaim of it; None where it brought a node since.
    """

    name: str
    uid: str
    resource_version: str
    gpu_limit: int | None
    gpus_used: int
    budgets: tuple[DisruptionBudget, ...] | None = None
    held: bool = False
    saved: SavedNodePool | None = None
    claims: tuple[NodeClaimView, ...] = ()
    other: str = ""
    weight: int = 0
    fixed: int | None = None
    refused_at: Instant | None = None


class PoolView(Struct, frozen=True):
    """One pool of the policy as the cluster shows it.

    name: name of the pool in the policy.
    nodes: its nodes, by name.
    node_pools: the Karpenter NodePools behind it, in the policy's order.
    others: who holds GPUs of it besides the models and keeps them, the most first.
    preemptible: who holds those that a replica gets by preemption, the most first.
    not_preemptible: why pods of the policy's classes are not preempted, a sentence; "" where all are, or none is there.
    node_groups: the node groups of Cluster Autoscaler behind it, in the policy's order.
    """

    name: str
    nodes: tuple[NodeView, ...] = ()
    node_pools: tuple[NodePoolView, ...] = ()
    others: tuple[Holder, ...] = ()
    node_groups: tuple[NodeGroupView, ...] = ()
    preemptible: tuple[Holder, ...] = ()
    not_preemptible: str = ""
