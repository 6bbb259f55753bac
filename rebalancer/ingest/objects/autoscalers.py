"""HorizontalPodAutoscalers, KEDA's ScaledObjects and AIBrix's PodAutoscalers."""

from msgspec import Struct

from rebalancer.domain.autoscalers import Hpa, Originals, PodAutoscaler, ScaledObject
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.objects.meta import Annotated, Managed, Metadata, applied, controller, saved, writer

PAUSED = "autoscaling.keda.sh/paused"
PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"

# strconv.ParseBool's words for false; KEDA takes whatever it cannot parse for true.
FALSE_WORDS = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class _Originals(Struct, frozen=True, gc=False):
    """How the annotation spells `Originals`."""

    min: int | None
    max: int | None
    by: str = ""


class _HpaTarget(Struct, frozen=True, gc=False):
    kind: str
    name: str


class _HpaSpec(Struct, frozen=True, gc=False, rename="camel"):
    scale_target_ref: _HpaTarget
    max_replicas: int
    min_replicas: int | None = None


class _HpaStatus(Struct, frozen=True, gc=False, rename="camel"):
    current_replicas: int | None = None
    desired_replicas: int | None = None


class HpaWire(Struct, frozen=True, gc=False):
    """`autoscaling/v2` HorizontalPodAutoscaler, the part that matters."""

    metadata: Managed
    spec: _HpaSpec
    status: _HpaStatus = _HpaStatus()


class _ScaledTarget(Struct, frozen=True, gc=False):
    name: str
    kind: str | None = None


class _ScaledSpec(Struct, frozen=True, gc=False, rename="camel"):
    scale_target_ref: _ScaledTarget
    min_replica_count: int | None = None
    max_replica_count: int | None = None
    idle_replica_count: int | None = None


class _ScaledStatus(Struct, frozen=True, gc=False, rename="camel"):
    hpa_name: str | None = None


class ScaledObjectWire(Struct, frozen=True, gc=False):
    """`keda.sh/v1alpha1` ScaledObject, the part that matters."""

    metadata: Managed
    spec: _ScaledSpec
    status: _ScaledStatus = _ScaledStatus()


class _PodTarget(Struct, frozen=True, gc=False):
    kind: str
    name: str
    namespace: str = ""


class _PodSpec(Struct, frozen=True, gc=False, rename="camel"):
    scale_target_ref: _PodTarget


class PodAutoscalerWire(Struct, frozen=True, gc=False):
    """`autoscaling.aibrix.ai/v1alpha1` PodAutoscaler, the part that matters."""

    metadata: Metadata
    spec: _PodSpec


def hpa(wire: HpaWire) -> Hpa:
    """Raises ValueError."""
    meta, spec, status = wire.metadata, wire.spec, wire.status
    return Hpa(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        target=WorkloadRef(meta.namespace, spec.scale_target_ref.kind, spec.scale_target_ref.name),
        minimum=1 if spec.min_replicas is None else spec.min_replicas,
        maximum=spec.max_replicas,
        current=status.current_replicas or 0,
        desired=status.desired_replicas or 0,
        owner_scaled_object=next(
            (owner.name for owner in meta.owner_references or () if owner.kind == "ScaledObject"), None
        ),
        originals=_originals(meta),
        writers=(writer(meta, "hpa_minimum"), writer(meta, "hpa_maximum")),
        controller=controller(meta),
        applied=applied(meta, "hpa_minimum", "hpa_maximum"),
    )


def scaled_object(wire: ScaledObjectWire) -> ScaledObject:
    """Raises ValueError."""
    meta, spec = wire.metadata, wire.spec
    return ScaledObject(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        target=WorkloadRef(meta.namespace, spec.scale_target_ref.kind or "Deployment", spec.scale_target_ref.name),
        minimum=spec.min_replica_count,
        maximum=spec.max_replica_count,
        idle=spec.idle_replica_count,
        paused=is_paused(meta.annotations or {}),
        hpa_name=wire.status.hpa_name or None,
        originals=_originals(meta),
        writers=(writer(meta, "keda_minimum"), writer(meta, "keda_maximum")),
        controller=controller(meta),
        applied=applied(meta, "keda_minimum", "keda_maximum"),
    )


def pod_autoscaler(wire: PodAutoscalerWire) -> PodAutoscaler:
    """Without a namespace its target is in its own."""
    meta, target = wire.metadata, wire.spec.scale_target_ref
    return PodAutoscaler(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        target=WorkloadRef(target.namespace or meta.namespace, target.kind, target.name),
    )


def is_paused(annotations: dict[str, str]) -> bool:
    """As KEDA reads it: a number of paused replicas pauses by being there, whatever `paused` says."""
    if PAUSED_REPLICAS in annotations:
        return True
    return PAUSED in annotations and annotations[PAUSED] not in FALSE_WORDS


def _originals(meta: Annotated) -> Originals | None:
    saved_numbers = saved(meta, _Originals)
    return None if saved_numbers is None else Originals(saved_numbers.min, saved_numbers.max, saved_numbers.by)
