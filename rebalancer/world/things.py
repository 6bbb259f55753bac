"""What a cluster is made of. Things change as time goes by, and only the cluster they belong to changes them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rebalancer.domain.cluster import Taint, Toleration
from rebalancer.domain.parents import ControllerRef
from rebalancer.domain.workload_ref import WorkloadRef

GPU = "nvidia.com/gpu"


@dataclass(slots=True, eq=False)
class Deployment:
    """One scale target. Its pods need `load_seconds` to become Ready and `stop_seconds` (at most the grace) to end.

    `generation` counts its templates; pods of an older one are replaced by a rollout. Of a template that is `broken` no
    pod becomes Ready. `proven`: the last of which all pods were Ready together. `writer`: the field manager that set
    its replicas, "" = the service.
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
    """A machine with `gpus` devices of one resource. `used`: held by pods until they are gone.

    `shown`: the devices that its device plugin reports, None = all of them. `alive`: whether the machine runs, which
    the API shows as `ready` only some time later; `listed`: whether it still is an object of the API; `taken`: by which
    silence it does not answer. `cordoned_by`: the annotation of who cordoned it.
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
    """One pod. Instants are None until they come; `ends_at` is what Kubernetes writes as deletionTimestamp.

    `loaded`: its containers are up, though the API may not show it as Ready. `stuck`: it will never be; `clings`: once
    deleted it stays Terminating; `failed`: it is over, and holds no device any more.
    `launcher`: name of the pod that serves for it.
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

    `owner`: the ScaledObject for which KEDA made it. `writers`: the field managers that set minimum and maximum, "" =
    the service. `controller`: who stands above it by its owner references, KEDA not told here.
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
    """KEDA's ScaledObject; None bounds are KEDA's defaults. `hpa`: the one that KEDA made for it, none while paused."""

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
