"""What Kubernetes shows, reduced to the fields we use: `ingest` makes these values, `state` keeps them."""

from msgspec import Struct

from rebalancer.domain.instant import Instant

GPU_OWNERS = ("Deployment",)  # target kinds we can scale today


class Taint(Struct, frozen=True):
    """A node taint; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


class Toleration(Struct, frozen=True):
    """A pod toleration; an empty key with operator Exists tolerates everything, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration covers `taint` (Kubernetes' ToleratesTaint)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


class Node(Struct, frozen=True):
    """`allocatable` holds extended resources only (whole devices); capacity is a promise, allocatable is not."""

    name: str
    uid: str
    resource_version: str
    provider_id: str = ""
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: dict[str, int] = {}
    ready: bool = False
    ready_changed_at: Instant | None = None
    unschedulable: bool = False
    deleting: bool = False

    @property
    def node_pool(self) -> str | None:
        """The Karpenter NodePool behind this node, None when Karpenter does not own it."""
        return self.labels.get("karpenter.sh/nodepool")


class WorkloadRef(Struct, frozen=True, order=True):
    """A scale target by name."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.namespace}/{self.name}"


class Pod(Struct, frozen=True):
    """`gpus` sums the containers' requests per extended resource; `workload` is the owner by its owner reference."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    workload: WorkloadRef | None = None
    node: str | None = None
    gpus: dict[str, int] = {}
    phase: str = "Pending"
    ready: bool = False
    ready_at: Instant | None = None
    created_at: Instant = 0.0
    deleting_at: Instant | None = None
    grace_seconds: int = 30
    deletion_cost: int | None = None

    @property
    def terminal(self) -> bool:
        """Succeeded and Failed pods hold no GPU any more."""
        return self.phase in {"Succeeded", "Failed"}


class Workload(Struct, frozen=True):
    """A Deployment. `gpus`, `node_selector`, `tolerations` come from its pod template.

    `writer`: the field manager that set its replicas, "" when that is us or unknown.
    """

    ref: WorkloadRef
    uid: str
    resource_version: str
    replicas: int
    gpus: dict[str, int] = {}
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    grace_seconds: int = 30
    rolling: bool = False
    writer: str = ""


class Originals(Struct, frozen=True):
    """An autoscaler's own bounds, saved on it once before our first write and restored on hand-back.

    `by`: the installation that saved them, "" where an older version did, which named none.
    """

    minimum: int | None
    maximum: int | None
    by: str = ""


class Hpa(Struct, frozen=True):
    """A HorizontalPodAutoscaler (autoscaling/v2). `owner_scaled_object` names the ScaledObject KEDA made it for.

    `writers`: the field managers that set minimum and maximum, "" where that is us or unknown.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    target: WorkloadRef
    minimum: int
    maximum: int
    current: int = 0
    desired: int = 0
    owner_scaled_object: str | None = None
    originals: Originals | None = None
    writers: tuple[str, str] = ("", "")


class ScaledObject(Struct, frozen=True):
    """KEDA's ScaledObject. None bounds mean KEDA's defaults (min 0, max 100). `writers` as of an Hpa."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    target: WorkloadRef
    minimum: int | None = None
    maximum: int | None = None
    idle: int | None = None
    paused: bool = False
    hpa_name: str | None = None
    originals: Originals | None = None
    writers: tuple[str, str] = ("", "")


class DisruptionBudget(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One entry of a NodePool's spec.disruption.budgets, as Karpenter spells it."""

    nodes: str = "10%"
    reasons: tuple[str, ...] = ()
    schedule: str | None = None
    duration: str | None = None


class SavedNodePool(Struct, frozen=True):
    """A NodePool's own limits and budgets, saved on it before our first write. None = the key was absent.

    `by`: as of `Originals`.
    """

    limits: dict[str, str] | None
    budgets: tuple[DisruptionBudget, ...] | None
    by: str = ""


class NodePool(Struct, frozen=True):
    """A Karpenter NodePool. `limits` and `used` hold whole devices per extended resource."""

    name: str
    uid: str
    resource_version: str
    limits: dict[str, int] = {}
    used: dict[str, int] = {}
    weight: int = 0
    budgets: tuple[DisruptionBudget, ...] | None = None
    ready: bool = True
    saved: SavedNodePool | None = None


class NodeClaim(Struct, frozen=True):
    """A node that Karpenter asked for. `failed` carries the condition's message when it cannot be had."""

    name: str
    uid: str
    resource_version: str
    node_pool: str
    gpus: dict[str, int] = {}
    node: str | None = None
    provider_id: str = ""
    created_at: Instant = 0.0
    initialized: bool = False
    failed: str | None = None
    deleting_at: Instant | None = None
    disruption_reason: str | None = None


class Override(Struct, frozen=True):
    """A person's decision. `subject`: a model id; for drain and exclude a node or pool name."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    kind: str
    subject: str
    subject_kind: str
    reason: str
    actor: str
    created_at: Instant
    expires_at: Instant
    value: int | None = None
    model: str | None = None
    allow_below_floor: bool = False
    phase: str = ""
    message: str = ""


class WriteStop(Struct, frozen=True):
    """The red button: while one exists nothing is written to workloads, autoscalers, pods or NodePools."""

    name: str
    uid: str
    resource_version: str
    reason: str = ""
    actor: str = ""
    created_at: Instant = 0.0


ClusterObject = Node | Pod | Workload | Hpa | ScaledObject | NodePool | NodeClaim | Override | WriteStop

# The sources whose lists must be complete before anything is decided, in the words that status and readiness print.
SOURCES: dict[str, type] = {
    "nodes": Node,
    "pods": Pod,
    "deployments": Workload,
    "hpas": Hpa,
    "scaledobjects": ScaledObject,
    "nodepools": NodePool,
    "nodeclaims": NodeClaim,
    "overrides": Override,
    "writestops": WriteStop,
}
