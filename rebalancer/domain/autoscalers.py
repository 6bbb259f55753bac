"""Whatever sets the replicas of a target beside us, reduced to the fields that the rebalancer uses."""

from msgspec import Struct

from rebalancer.domain.metric_trigger import MetricTrigger
from rebalancer.domain.parents import Applied, ControllerRef
from rebalancer.domain.workload_ref import WorkloadRef


class Originals(Struct, frozen=True):
    """An autoscaler's own bounds, saved on it once before our first write and restored on hand-back.

    `by`: the installation that saved them, "" where an older version did, which named none.
    """

    minimum: int | None
    maximum: int | None
    by: str = ""


class BoundedAutoscaler(Struct, frozen=True, kw_only=True):
    """An autoscaler whose bounds we may write.

    namespace: `metadata.namespace` of the object.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    target: the workload that it scales.
    originals: its own bounds, as our annotation saved them; None where it has no such annotation.
    writers: the field managers that set minimum and maximum, "" where that is us or unknown.
    controller: its controller; None where nothing controls it.
    applied: who applies the numbers of it that we write.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    target: WorkloadRef
    originals: Originals | None = None
    writers: tuple[str, str] = ("", "")
    controller: ControllerRef | None = None
    applied: tuple[Applied, ...] = ()


class Hpa(BoundedAutoscaler, frozen=True, kw_only=True):
    """A HorizontalPodAutoscaler (autoscaling/v2).

    minimum: fewest replicas that its spec allows.
    maximum: most replicas that its spec allows.
    current: replicas that its status counts now.
    desired: replicas that its status wants.
    owner_scaled_object: name of the ScaledObject for which KEDA made it, None where nobody did.
    tolerances: by what part of what runs a number may differ and be left alone, upwards and downwards; None where its
        behavior does not say.
    wakes: whether it brings its target back from 0 replicas: True where it took the target there itself (Kubernetes
        1.37 says so), False where it is disabled there, None where its conditions say neither.
    """

    minimum: int
    maximum: int
    current: int = 0
    desired: int = 0
    owner_scaled_object: str | None = None
    tolerances: tuple[float | None, float | None] = (None, None)
    wakes: bool | None = None


class ScaledObject(BoundedAutoscaler, frozen=True, kw_only=True):
    """KEDA's ScaledObject, which makes an HPA of its own and acts through it.

    minimum: its minReplicaCount, None for KEDA's default of 0.
    maximum: its maxReplicaCount, None for KEDA's default of 100.
    idle: its idleReplicaCount, to which KEDA takes the target while no trigger is active; None where it has none.
    paused: whether an annotation pauses it: then it moves nothing.
    hpa_name: name of the HPA that KEDA made for it, None while that is unknown.
    metric: how it asks us for its replicas, None where none of its triggers does.
    """

    minimum: int | None = None
    maximum: int | None = None
    idle: int | None = None
    paused: bool = False
    hpa_name: str | None = None
    metric: MetricTrigger | None = None


class PodAutoscaler(Struct, frozen=True):
    """`autoscaling.aibrix.ai` PodAutoscaler, which sets replicas every 10 s, or makes an HPA for that.

    It points at what it scales and owns nothing there, so that only reading it shows it.

    namespace: `metadata.namespace` of the object.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    resource_version: its version in the API server; of two, the newer stands.
    target: what it scales.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    target: WorkloadRef
