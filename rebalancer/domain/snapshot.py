"""The world as one cycle sees it: everything planning may know, nothing it would have to ask for.

Tuples are sorted by their first field. Instants are kept as instants (ages are computed from `Snapshot.at`), so a part
that did not change is the same value in the next cycle: the journal writes only the difference.
"""

from msgspec import Struct

from rebalancer.domain.cluster import DisruptionBudget, Originals, Override, SavedNodePool, Taint, Toleration, WriteStop
from rebalancer.domain.instant import Instant
from rebalancer.domain.outcome import Outcome
from rebalancer.domain.readings import ModelLoad

REPAIRED_AFTER_SECONDS = 30.0  # so long our numbers must stand that others have put back, before a fight is over


class PodView(Struct, frozen=True):
    """One non-terminal pod of a target. `phase`: pending (no node), loading, ready, lost, terminating; `since` it.

    lost: Ready by its last word, but its node is not listed: it serves nobody (`since` is when it became Ready).
    `begun`: its containers run; before, its image may still be on the way.
    """

    uid: str
    name: str
    node: str | None
    phase: str
    since: Instant
    created_at: Instant
    deletion_cost: int | None = None
    begun: bool = True


class AutoscalerView(Struct, frozen=True):
    """Who owns the target's replicas. `kind`: ScaledObject or HorizontalPodAutoscaler.

    `minimum`/`maximum` are the object's own bounds, `effective_*` what the HPA shows (a release is done when it shows
    the new max). `originals` None = we have not written here yet. `idle`: a ScaledObject's idleReplicaCount, to which
    KEDA takes the target while no trigger is active, whatever the bounds are. `other`: another installation of the
    rebalancer wrote here, so we do not.
    """

    kind: str
    name: str
    uid: str
    resource_version: str
    minimum: int
    maximum: int
    effective_minimum: int
    effective_maximum: int
    paused: bool = False
    originals: Originals | None = None
    idle: int | None = None
    other: str = ""


class ForeignChange(Struct, frozen=True):
    """Somebody else changed the numbers that we write, as `manager` (their field manager), seen at `at`."""

    at: Instant
    manager: str


class TargetView(Struct, frozen=True):
    """One model's scale target in one pool.

    `replicas` is spec.replicas as last seen, `asked` what we wrote and have not seen yet (None: nothing under way);
    `missing`: the policy names it but the cluster has no such object. `foreign`: the last two foreign changes,
    `repaired_at`: since when others have put our numbers back after them (None: they have not).
    `gpus_per_pod` is what its template requests, `running_gpus` the most that one of its pods requests (None: no pods).
    `by_others`:
    somebody else wrote the number in force (the maximum where an autoscaler that we took over owns it, else replicas).
    """

    pool: str
    namespace: str
    kind: str
    name: str
    uid: str = ""
    resource_version: str = ""
    replicas: int = 0
    asked: int | None = None
    missing: bool = False
    rolling: bool = False
    autoscaler: AutoscalerView | None = None
    gpus_per_pod: int = 0
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    grace_seconds: int = 30
    pods: tuple[PodView, ...] = ()
    foreign: tuple[ForeignChange, ...] = ()
    running_gpus: int | None = None
    by_others: bool = False
    repaired_at: Instant | None = None


class ModelView(Struct, frozen=True):
    """One model's holdings. `load_seconds`: measured pod creation to Ready (median), None before the first."""

    id: str
    targets: tuple[TargetView, ...]
    load_seconds: float | None = None


class NodeView(Struct, frozen=True):
    """One node of a pool. `gpus` allocatable, `foreign_gpus` held by pods that are no model's.

    `fell_at`: when `gpus` last became fewer while we watched; None when it has not, or has come back.
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


class NodeClaimView(Struct, frozen=True):
    """A node still to come (`node` None or not Ready yet) in a NodePool."""

    name: str
    gpus: int
    created_at: Instant
    node: str | None = None
    failed: str | None = None


class NodePoolView(Struct, frozen=True):
    """A Karpenter NodePool behind a pool. `gpu_limit` None = unlimited; `held`: our consolidation hold is in place.

    `other`: another installation of the rebalancer wrote to it, so we do not.
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


class PoolView(Struct, frozen=True):
    """One pool of the policy as the cluster shows it."""

    name: str
    nodes: tuple[NodeView, ...] = ()
    node_pools: tuple[NodePoolView, ...] = ()


class NoticeView(Struct, frozen=True):
    """Node `node` goes at `deadline`. `karpenter`: Karpenter drains it, within seconds.

    `doomed_at`: from then on its pods count for nobody; None means from the notice on. Before it they serve and count
    as any others, but nothing new is granted there.
    """

    node: str
    kind: str
    since: Instant
    deadline: Instant
    voluntary: bool = False
    karpenter: bool = False
    source: str = ""
    doomed_at: Instant | None = None

    def counts(self, at: Instant) -> bool:
        """Whether it has come to its time: the pods there count for nobody at `at`."""
        return self.doomed_at is None or self.doomed_at <= at


class Sync(Struct, frozen=True):
    """`missing`: sources not listed yet; `stale`: listed once, silent now. Empty both = synced."""

    missing: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    synced_at: Instant | None = None


class Snapshot(Struct, frozen=True):
    """Input of one cycle. `outcomes`: what became of our writes since the last cycle.

    `marks_victims`: a release marks the pods that shall go; otherwise a ReplicaSet ends whichever of its Ready pods it
    likes.
    """

    cycle: int
    at: Instant
    sync: Sync = Sync()
    write_stop: WriteStop | None = None
    overrides: tuple[Override, ...] = ()
    notices: tuple[NoticeView, ...] = ()
    pools: tuple[PoolView, ...] = ()
    models: tuple[ModelView, ...] = ()
    loads: tuple[ModelLoad, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    marks_victims: bool = True
