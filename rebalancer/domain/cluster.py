"""Kubernetes objects, reduced to the fields that the rebalancer uses; `ingest` makes them, `state` keeps them."""

from collections.abc import Iterable

from msgspec import Struct

from rebalancer.domain.autoscalers import Hpa, PodAutoscaler, ScaledObject
from rebalancer.domain.devices import ClaimTemplate, DeviceClass, ResourceClaim, ResourceSlice
from rebalancer.domain.dual_pods import Launcher, Requester
from rebalancer.domain.instant import Instant
from rebalancer.domain.jobs import Job
from rebalancer.domain.kueue import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from rebalancer.domain.node_groups import AutoscalerStatus
from rebalancer.domain.parents import Applied, ControllerRef
from rebalancer.domain.people import Override, WriteStop
from rebalancer.domain.placement import ANYWHERE, Placement
from rebalancer.domain.policy import Pool
from rebalancer.domain.quotas import LimitRange, PodAsk, PriorityClass, ResourceQuota
from rebalancer.domain.workload_ref import WorkloadRef


class Taint(Struct, frozen=True):
    """A node taint; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


class Toleration(Struct, frozen=True):
    """A pod toleration, as Kubernetes spells it.

    key: the taint's key; an empty key with operator Exists tolerates every taint.
    operator: Equal (key and value must match) or Exists (the key alone must).
    value: the taint's value, compared under operator Equal alone.
    effect: the taint effect that it covers; an empty one covers every effect.
    """

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


class NodeCondition(Struct, frozen=True):
    """A condition of a Node.

    type: which.
    status: True, False or Unknown; for some types True is good, for others bad.
    message: reason and sentence of whoever set it, cut after 300 characters; "" where there are none.
    changed_at: when the status last changed; None where nobody said.
    """

    type: str
    status: str
    message: str = ""
    changed_at: Instant | None = None


class Node(Struct, frozen=True):
    """A Kubernetes node.

    name: name of the Node object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    provider_id: the cloud's id, whose last part names the instance; "" where there is no cloud.
    labels: its labels, by which pools find their nodes.
    taints: `spec.taints`.
    allocatable: whole devices by extended resource that pods may request; the node's `capacity` may promise more.
    ready: whether its Ready condition is True.
    ready_changed_at: when that condition last changed; None where it has no such condition.
    unschedulable: whether it is cordoned.
    deleting: whether its deletion has begun.
    conditions: its conditions without the kubelet's four of pressure and network, and without a Ready that is True.
    created_at: when its object was created; None where nobody says.
    images: the images on it, spelled in full, of which a kubelet lists the 50 largest; none where it lists none.
    registered: cards that a scheduler of its own sells in parts, by who that is (`gpu_shapes.REGISTERED_BY`).
    cordoned_by: the installation of the rebalancer that cordoned it, "" where none did.
    """

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
    conditions: tuple[NodeCondition, ...] = ()
    created_at: Instant | None = None
    images: tuple[str, ...] = ()
    registered: dict[str, int] = {}
    cordoned_by: str = ""

    @property
    def node_pool(self) -> str | None:
        """The Karpenter NodePool behind this node, None when Karpenter does not own it."""
        return self.labels.get("karpenter.sh/nodepool")


class Pod(Struct, frozen=True):
    """A pod of the cluster, of a model or of somebody else.

    namespace: `metadata.namespace` of the object.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    workload: the scale target that owns it by owner references, None where none does.
    node: name of the node it is bound to, None before it has one.
    gpus: devices by extended resource that its containers request together.
    phase: Kubernetes' phase: Pending, Running, Succeeded, Failed or Unknown.
    ready: whether its Ready condition is True.
    ready_at: when that condition became True, None while it is not.
    unready_at: when that condition became False, None while it is not; of one never Ready, when its kubelet took it on.
    trouble: why it does not run or get a node, in the words of kubelet or scheduler; "" where neither complains.
    created_at: when it was created.
    deleting_at: the instant by which a deletion ends it (the request and its grace period), None before one.
    grace_seconds: seconds that its containers have to end once it is deleted.
    deletion_cost: its pod-deletion-cost annotation; a ReplicaSet ends lower ones first. None where it has none.
    ordinal: the number that its controller gave it, or its group of pods; None where it numbers none.
    member: its place among the pods of one replica; 0 is the one that leads and serves.
    labels: its labels, sorted, where it asks for devices: a target may find its pods by them.
    image: image of the container that asks for devices, spelled in full; "" where none asks.
    placed_at: when it got its node, None before that or where nobody dates it.
    dual: what it is to another pod that serves for it, or for which it serves; None of any other pod.
    priority_class: name of its PriorityClass, "" where it has none.
    ends_at: when its activeDeadlineSeconds end it; None where it has none, or has not started.
    gates: names of the scheduling gates that keep it from the scheduler.
    placeholder: whether it keeps GPUs warm until another pod wants them: labelled so, and of a priority below 0.
    priority: its priority, by which the scheduler ends some for others.
    tolerations: the taints that it bears for good, where it asks for devices; None where it does not.
    """

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
    ordinal: int | None = None
    member: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    image: str = ""
    placed_at: Instant | None = None
    dual: Requester | Launcher | None = None
    priority_class: str = ""
    ends_at: Instant | None = None
    gates: tuple[str, ...] = ()
    placeholder: bool = False
    priority: int = 0
    unready_at: Instant | None = None
    tolerations: tuple[Toleration, ...] | None = None
    trouble: str = ""

    @property
    def terminal(self) -> bool:
        """Whether it has succeeded or failed: its containers have ended for good."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def holds_gpus(self) -> bool:
        """Whether its devices are taken: until it is terminal; where an engine may outlive it, until it is deleted."""
        # A requester's engine runs in another pod, and its finalizer keeps the object until that engine sleeps.
        return not self.terminal or isinstance(self.dual, Requester)


class Workload(Struct, frozen=True):
    """A scale target, the object whose replicas a model's target counts; a Deployment where it says nothing else.

    ref: its namespace, kind and name.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    replicas: replicas in its spec.
    gpus: devices by extended resource that one pod of its template requests.
    node_selector: labels that its template wants of a node.
    tolerations: the tolerations of its template.
    grace_seconds: seconds that one of its pods has to end.
    rolling: whether a rollout is under way.
    writer: the field manager that set its replicas, "" where that is us or unknown.
    placement: what its template asks of nodes beside selector and tolerations.
    controller: its controller; None where nothing controls it.
    applied: who applies the numbers of it that we write.
    resource: where the API serves it, as `apps/v1/statefulsets`; "" for Deployments.
    pods: pods of one replica, by its template.
    leader_gpus: as `gpus`, of the first pod of a replica where that has a template of its own; else None.
    templated: whether it has a pod template that could be read: without one nobody knows what its pods will request.
    first_ordinal: the number of its first replica, where its controller numbers them.
    selector: labels by which its scale finds its pods, as `key=value,...`; "" where owner references do.
    ask: what a pod of its template asks of the namespace.
    leader_ask: as `ask`, of the first pod of a replica where that has a template of its own; else None.
    claims: names of the ResourceClaimTemplates by which each of its pods gets devices.
    unproven: whether its pods are of a newer template of which none is Ready, and not all ever were.
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
    placement: Placement = ANYWHERE
    controller: ControllerRef | None = None
    applied: tuple[Applied, ...] = ()
    resource: str = ""
    pods: int = 1
    leader_gpus: dict[str, int] | None = None
    templated: bool = True
    first_ordinal: int = 0
    selector: str = ""
    ask: PodAsk = PodAsk()
    leader_ask: PodAsk | None = None
    claims: tuple[str, ...] = ()
    unproven: bool = False


class DisruptionBudget(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One entry of a NodePool's spec.disruption.budgets, as Karpenter spells it.

    nodes: nodes that may be disrupted at once, as a number or as a percentage.
    reasons: the reasons it applies to (Empty, Underutilized, Drifted); none means all of them.
    schedule: cron expression at which it comes into force, None where it always is in force.
    duration: how long it is in force each time, as Kubernetes spells durations; None without a schedule.
    """

    nodes: str = "10%"
    reasons: tuple[str, ...] = ()
    schedule: str | None = None
    duration: str | None = None


class SavedNodePool(Struct, frozen=True):
    """A NodePool's own limits and budgets, saved on it before our first write. None = the key was absent.

    `limits`: None, too, where we have not written them. `by`: as of `Originals`.
    """

    limits: dict[str, str] | None = None
    budgets: tuple[DisruptionBudget, ...] | None = None
    by: str = ""


class NodePool(Struct, frozen=True):
    """A Karpenter NodePool.

    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    limits: most devices by extended resource that Karpenter may bring in all; a resource without a key is unlimited.
    used: devices by extended resource that its nodes have, by its status.
    weight: its weight, by which Karpenter prefers one NodePool to another.
    budgets: its disruption budgets; None where the key is absent.
    ready: whether its Ready condition is True, or it has none.
    saved: its own limits and budgets, as our annotation saved them; None where it has no such annotation.
    fixed: nodes that it is to have whatever pods there are (`spec.replicas`), None where pods decide.
    """

    name: str
    uid: str
    resource_version: str
    limits: dict[str, int] = {}
    used: dict[str, int] = {}
    weight: int = 0
    budgets: tuple[DisruptionBudget, ...] | None = None
    ready: bool = True
    saved: SavedNodePool | None = None
    fixed: int | None = None


class NodeClaim(Struct, frozen=True):
    """A Karpenter NodeClaim: one node that it has ordered.

    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    node_pool: name of the NodePool it belongs to.
    gpus: devices by extended resource that the node is to bring.
    node: name of the node it became, None before that.
    provider_id: the cloud's id, whose last part names the instance; "" before there is one.
    created_at: when it was created.
    initialized: whether its node is Ready with all its devices.
    failed: message of the condition that says why it cannot be had; None while nothing speaks against it.
    deleting_at: when its deletion was requested, None while nobody deletes it.
    disruption_reason: why Karpenter disrupts its node (Empty, Underutilized, Drifted, ...); None where it does not.
    """

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


DeviceObject = DeviceClass | ResourceSlice | ResourceClaim | ClaimTemplate
Permission = ResourceQuota | LimitRange | PriorityClass | LocalQueue | ClusterQueue | Cohort | ResourceFlavor
ClusterObject = (
    Node
    | Pod
    | Workload
    | Hpa
    | ScaledObject
    | PodAutoscaler
    | NodePool
    | NodeClaim
    | Override
    | WriteStop
    | Permission
    | Job
    | DeviceObject
    | AutoscalerStatus
)

# Sources that plans are better with and are made without: where nobody gave the right to read them, where the cluster
# does not have them, and while they are silent, what they told last stands.
ADVISORY_SOURCES: dict[str, type] = {
    "resourcequotas": ResourceQuota,
    "limitranges": LimitRange,
    "priorityclasses": PriorityClass,
    "jobs": Job,
    "localqueues": LocalQueue,
    "clusterqueues": ClusterQueue,
    "cohorts": Cohort,
    "resourceflavors": ResourceFlavor,
}

# The sources whose lists must be complete before anything is decided, but for the advisory ones, in the words that
# status and readiness print; besides them one for each other kind of target that the policy names
# (`target_kinds.TargetKind.source`).
SOURCES: dict[str, type] = {
    "nodes": Node,
    "pods": Pod,
    "deployments": Workload,
    "hpas": Hpa,
    "scaledobjects": ScaledObject,
    "podautoscalers": PodAutoscaler,
    "nodepools": NodePool,
    "nodeclaims": NodeClaim,
    "overrides": Override,
    "writestops": WriteStop,
    **ADVISORY_SOURCES,
}
# No list: samples that others read for us. While it is not known that they have read all of them, it is silent.
READINGS = "readings"
# No list either: this machine's clock. While the API server's says something else by a minute, it is silent.
CLOCK = "clock"

# Besides, where a pool of the policy counts the devices of a DeviceClass.
DEVICE_SOURCES: dict[str, type] = {
    "deviceclasses": DeviceClass,
    "resourceslices": ResourceSlice,
    "resourceclaims": ResourceClaim,
    "resourceclaimtemplates": ClaimTemplate,
}

# Besides, where a pool of the policy names node groups.
GROUP_SOURCES: dict[str, type] = {"autoscalerstatus": AutoscalerStatus}

ADVISORY = frozenset({*ADVISORY_SOURCES, *GROUP_SOURCES})
# What people decide: nothing may be written before it is known, and who never writes can do without it.
OF_PEOPLE = frozenset({"overrides", "writestops"})


def sources_beside(pools: Iterable[Pool]) -> dict[str, type]:
    """The sources that these pools want followed besides, each with the kind of its objects."""
    sources: dict[str, type] = {}
    for pool in pools:
        sources |= (DEVICE_SOURCES if pool.device_class else {}) | (GROUP_SOURCES if pool.node_groups else {})
    return sources
