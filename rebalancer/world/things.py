"""What a cluster is made of. Things change as time goes by, and only the cluster they belong to changes them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rebalancer.domain.cluster import Taint, Toleration, WorkloadRef

GPU = "nvidia.com/gpu"


@dataclass(slots=True, eq=False)
class Deployment:
    """One scale target. Its pods need `load_seconds` to become Ready and `stop_seconds` (at most the grace) to end."""

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
    pods: dict[str, "Pod"] = field(default_factory=dict)

    @property
    def active(self) -> "list[Pod]":
        """The pods that its ReplicaSet counts: all that nobody has deleted."""
        return [pod for pod in self.pods.values() if pod.deleted_at is None]


@dataclass(slots=True, eq=False)
class Node:
    """A machine with `gpus` devices of one resource. `used`: held by pods until they are gone."""

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
    pods: dict[str, "Pod"] = field(default_factory=dict)

    @property
    def free(self) -> int:
        """Devices that nobody holds."""
        return self.gpus - self.used


@dataclass(slots=True, eq=False)
class Pod:
    """One pod. Instants are None until they come; `ends_at` is what Kubernetes writes as deletionTimestamp."""

    name: str
    uid: str
    owner: Deployment
    created_at: float
    node: Node | None = None
    ready_at: float | None = None
    deleted_at: float | None = None
    ends_at: float | None = None
    deletion_cost: int | None = None

    @property
    def key(self) -> tuple[str, str]:
        """(namespace, name)."""
        return self.owner.ref.namespace, self.name

    @property
    def ready(self) -> bool:
        """Whether it serves: loaded, and not on its way out."""
        return self.ready_at is not None and self.deleted_at is None


@dataclass(slots=True, eq=False)
class Hpa:
    """A HorizontalPodAutoscaler: somebody decides between its bounds, and asks its target for that."""

    namespace: str
    name: str
    uid: str
    target: WorkloadRef
    minimum: int
    maximum: int
    annotations: dict[str, str] = field(default_factory=dict)


def may_land(owner: Deployment, labels: dict[str, str], taints: Iterable[Taint]) -> bool:
    """Whether the owner's pods may run on a node with these labels and taints."""
    if any(labels.get(key) != value for key, value in owner.node_selector.items()):
        return False
    hard = [taint for taint in taints if taint.effect != "PreferNoSchedule"]
    return all(any(one.tolerates(taint) for one in owner.tolerations) for taint in hard)
