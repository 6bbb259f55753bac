"""What a cluster is made of. Things change as time goes by, and only the cluster they belong to changes them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rebalancer.domain.cluster import Taint, Toleration
from rebalancer.domain.parents import ControllerRef
from rebalancer.domain.workload_ref import WorkloadRef

GPU = "nvidia.com/gpu"


@dataclass(slots=True, eq=False)
class Deployment:
    """One scale target.

    ref: its namespace, kind and name.
    uid: its Kubernetes UID.
    model: id of the model that it serves.
    replicas: replicas that it asks for.
    gpus: devices that one pod of its template requests.
    created_at: UTC epoch seconds at which it was created.
    resource: extended resource that these devices are, as `nvidia.com/gpu`.
    node_selector: labels that a node must have for its pods, by key.
    tolerations: the taints that its pods bear.
    load_seconds: seconds that a pod needs from getting a node to Ready, on average; not used where engines sleep.
    stop_seconds: seconds that a pod needs to end; the grace cuts it short.
    grace_seconds: seconds that a pod is given to end.
    pods: its pods by UID, until they are gone.
    generation: number of its template, from 0 on; a rollout replaces pods of an older one.
    broken: whether no pod of its template becomes Ready.
    proven: number of the last template of which all pods were Ready together.
    writer: the field manager that set its replicas last, "" where that was the service, an HPA, KEDA or nobody.
    """

    ref: WorkloadRef
    uid: str
    model: str
    replicas: int
    gpus: int
    created_at: float
    resource: str = GPU
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    load_seconds: float = 60.0
    stop_seconds: float = 10.0
    grace_seconds: int = 30
    pods: dict[str, "WorldPod"] = field(default_factory=dict)
    generation: int = 0
    broken: bool = False
    proven: int = 0
    writer: str = ""

    @property
    def active(self) -> "list[WorldPod]":
        """The pods that its ReplicaSets count: all that nobody has deleted and that have not failed."""
        return [pod for pod in self.pods.values() if pod.deleted_at is None and not pod.failed]

    @property
    def rolling(self) -> bool:
        """Whether a rollout is under way: pods of an older template are left."""
        return self.generation > 0 and any(pod.generation < self.generation for pod in self.active)

    @property
    def unproven(self) -> bool:
        """Whether all pods are of a newer template, none of them is Ready, and not all ever were: it may have hung."""
        serves = any(pod.ready for pod in self.active)
        return self.proven < self.generation and bool(self.active) and not self.rolling and not serves


@dataclass(slots=True, eq=False)
class WorldNode:
    """A machine with devices of one resource, and its Node object.

    name: name of the Node.
    uid: its Kubernetes UID; another one where the Node was removed and has come back.
    gpus: devices that the machine has.
    labels: labels of the Node, by key.
    created_at: UTC epoch seconds at which it was created.
    provider_id: the cloud's name of the machine, "" where it has none.
    resource: extended resource that the devices are, as `nvidia.com/gpu`.
    taints: taints of the Node.
    node_pool: name of the NodePool that launched it, None where nobody launches it.
    used: devices that pods hold, which they do until they are gone or have failed.
    pods: pods on it by UID, until they are gone.
    shown: devices that its device plugin reports, None where it reports all of them.
    alive: whether the machine runs and answers.
    ready: whether the API shows the Node as Ready: it does so for 40 s after the machine has fallen silent.
    ready_changed_at: UTC epoch seconds at which `ready` changed last, None where it has not changed since creation.
    listed: whether the Node is still an object of the API.
    taken: the silence in which the machine does not answer, as the UID and the UTC epoch seconds at its beginning; None
        before there is one, and after `Faults.heal` has ended it.
    cordoned_by: the annotation that names who cordoned it, "" where nobody did or left a name.
    """

    name: str
    uid: str
    gpus: int
    labels: dict[str, str]
    created_at: float
    provider_id: str = ""
    resource: str = GPU
    taints: tuple[Taint, ...] = ()
    node_pool: str | None = None
    used: int = 0
    pods: dict[str, "WorldPod"] = field(default_factory=dict)
    shown: int | None = None
    alive: bool = True
    ready: bool = True
    ready_changed_at: float | None = None
    listed: bool = True
    taken: tuple[str, float] | None = None
    cordoned_by: str = ""

    @property
    def allocatable(self) -> int:
        """Devices that the API shows."""
        return self.gpus if self.shown is None else min(self.shown, self.gpus)

    @property
    def free(self) -> int:
        """Devices that the API shows and nobody holds; below 0 where devices went under pods that hold them."""
        return self.allocatable - self.used


@dataclass(slots=True, eq=False)
class WorldPod:
    """One pod. Its instants are in UTC epoch seconds.

    name: its name; its namespace is that of its owner.
    uid: its Kubernetes UID.
    owner: the Deployment that it belongs to.
    created_at: when it was created.
    node: the node that it runs on, None until it has got one.
    placed_at: when it got its node, None until then.
    ready_at: since when the API shows it as Ready, None while it does not.
    deleted_at: when its deletion was requested, None until then.
    ends_at: when its grace is over, which Kubernetes writes as deletionTimestamp; None until its deletion is requested,
        and always where it had no node by then.
    deletion_cost: its pod-deletion-cost annotation; a ReplicaSet ends lower ones first. None where it has none.
    gpus: devices that it requests.
    generation: number of its owner's template that it was made from.
    loaded: whether its containers are up, though the API may not show it as Ready.
    stuck: whether it does not become Ready until `Faults.free`.
    clings: whether it stays Terminating once it was deleted, until `Faults.free`.
    failed: whether it is over and holds no device any more, though its object is still there.
    launcher: name of the launcher whose engine serves for it; None where no engines sleep, and before it has a node.
    """

    name: str
    uid: str
    owner: Deployment
    created_at: float
    node: WorldNode | None = None
    placed_at: float | None = None
    ready_at: float | None = None
    deleted_at: float | None = None
    ends_at: float | None = None
    deletion_cost: int | None = None
    gpus: int = 0
    generation: int = 0
    loaded: bool = False
    stuck: bool = False
    clings: bool = False
    failed: bool = False
    launcher: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """(namespace, name)."""
        return self.owner.ref.namespace, self.name

    @property
    def ready(self) -> bool:
        """Whether the API shows it as serving: loaded, and not on its way out."""
        return self.ready_at is not None and self.deleted_at is None

    @property
    def serves(self) -> bool:
        """Whether it really serves: requests come in while the API shows it as Ready, if its machine runs."""
        return self.ready and (self.node is None or (self.node.alive and self.node.listed))


@dataclass(slots=True, eq=False)
class WorldHpa:
    """A HorizontalPodAutoscaler: somebody decides between its bounds, and asks its target for that.

    namespace: `metadata.namespace` of the object.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    target: the Deployment that it scales.
    minimum: fewest replicas that it allows.
    maximum: most replicas that it allows.
    annotations: its annotations, by key.
    owner: name of the ScaledObject for which KEDA made it, None where KEDA did not make it.
    writers: the field managers that set minimum and maximum last, each "" where that was the service, KEDA or nobody.
    controller: the controller above it by its owner references, None where there is none or only KEDA.
    """

    namespace: str
    name: str
    uid: str
    target: WorkloadRef
    minimum: int
    maximum: int
    annotations: dict[str, str] = field(default_factory=dict)
    owner: str | None = None
    writers: tuple[str, str] = ("", "")
    controller: ControllerRef | None = None


@dataclass(slots=True, eq=False)
class WorldScaledObject:
    """KEDA's ScaledObject.

    namespace: `metadata.namespace` of the object.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    target: the Deployment that it scales.
    minimum: its minReplicaCount in replicas, None for KEDA's default of 0.
    maximum: its maxReplicaCount in replicas, None for KEDA's default of 100.
    idle: its idleReplicaCount, the replicas to which KEDA takes the target while nobody asks; None where it has none.
    paused: whether an annotation pauses it.
    annotations: its other annotations, by key.
    writers: the field managers that set minimum and maximum last, each "" where that was the service or nobody.
    hpa: the HPA that KEDA made for it; None before it did, and while the object is paused.
    """

    namespace: str
    name: str
    uid: str
    target: WorkloadRef
    minimum: int | None
    maximum: int | None
    idle: int | None = None
    paused: bool = False
    annotations: dict[str, str] = field(default_factory=dict)
    writers: tuple[str, str] = ("", "")
    hpa: WorldHpa | None = None


def may_land(owner: Deployment, labels: dict[str, str], taints: Iterable[Taint]) -> bool:
    """Whether the owner's pods may run on a node with these labels and taints."""
    if any(labels.get(key) != value for key, value in owner.node_selector.items()):
        return False
    hard = [taint for taint in taints if taint.effect != "PreferNoSchedule"]
    return all(any(one.tolerates(taint) for one in owner.tolerations) for taint in hard)
