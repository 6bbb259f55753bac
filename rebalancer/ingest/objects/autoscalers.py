"""HorizontalPodAutoscalers, KEDA's ScaledObjects and AIBrix's PodAutoscalers."""

from typing import Any

import msgspec
from msgspec import Struct, field

from rebalancer.domain.autoscalers import Hpa, Originals, PodAutoscaler, ScaledObject
from rebalancer.domain.metric_trigger import (
    HPA_STABILIZATION_SECONDS,
    HPA_TOLERANCE,
    Fallback,
    HpaPace,
    HpaPolicy,
    MetricTrigger,
    metric_trigger,
)
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.objects.meta import (
    Annotated,
    Condition,
    Managed,
    Metadata,
    applied,
    condition,
    controller,
    saved,
    writer,
)

PAUSED = "autoscaling.keda.sh/paused"
PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"
KEDA_POLLING_SECONDS = 30  # where a ScaledObject does not say

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


class _Policy(Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    value: int = 0
    period_seconds: int = 0


class _Rules(Struct, frozen=True, gc=False, rename="camel"):
    tolerance: str | float | None = None
    stabilization_window_seconds: int | None = None
    select_policy: str | None = None
    policies: tuple[_Policy, ...] | None = None


class BehaviorWire(Struct, frozen=True, gc=False, rename="camel"):
    """An HPA's behavior, the part that matters."""

    scale_up: _Rules | None = None
    scale_down: _Rules | None = None


class _HpaSpec(Struct, frozen=True, gc=False, rename="camel"):
    scale_target_ref: _HpaTarget
    max_replicas: int
    min_replicas: int | None = None
    behavior: BehaviorWire | None = None


class _HpaStatus(Struct, frozen=True, gc=False, rename="camel"):
    current_replicas: int | None = None
    desired_replicas: int | None = None
    conditions: list[Condition] | None = None


class HpaWire(Struct, frozen=True, gc=False):
    """`autoscaling/v2` HorizontalPodAutoscaler, the part that matters."""

    metadata: Managed
    spec: _HpaSpec
    status: _HpaStatus = _HpaStatus()


class _ScaledTarget(Struct, frozen=True, gc=False):
    name: str
    kind: str | None = None


class _Trigger(Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    metric_type: str = ""
    metadata: dict[str, Any] = {}  # text by KEDA's schema; what else a manifest has must not hide the object
    use_cached_metrics: bool | None = None


class _Fallback(Struct, frozen=True, gc=False):
    replicas: int = 0
    behavior: str | dict[str, Any] = ""  # a mapping where a manifest has the HPA's behaviour in the wrong place


class _HpaConfig(Struct, frozen=True, gc=False):
    behavior: BehaviorWire | None = None


class _Modifiers(Struct, frozen=True, gc=False):
    formula: str = ""


class _Advanced(Struct, frozen=True, gc=False, rename="camel"):
    horizontal_pod_autoscaler_config: _HpaConfig | None = None
    scaling_modifiers: _Modifiers | None = None


class TriggersWire(Struct, frozen=True, gc=False):
    """What of a ScaledObject's spec says by which numbers it scales, and how its HPA follows them.

    triggers: what it asks, each with a target.
    fallback: what its HPA is told while nothing answers.
    advanced: the behavior of its HPA, and a formula over its triggers.
    polling_interval: seconds between two looks of KEDA's own; None for its default.
    """

    triggers: list[_Trigger] | None = None
    fallback: _Fallback | None = None
    advanced: _Advanced | None = None
    polling_interval: int | None = field(name="pollingInterval", default=None)


class _ScaledSpec(TriggersWire, frozen=True, gc=False, rename="camel", kw_only=True):
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
        tolerances=tolerances(spec.behavior),
        wakes=_wakes(status.conditions),
    )


def tolerances(behavior: BehaviorWire | None) -> tuple[float | None, float | None]:
    """By what part of what runs an HPA leaves a number alone, upwards and downwards; None where it does not say."""
    both = (None, None) if behavior is None else (behavior.scale_up, behavior.scale_down)
    up, down = (None if rules is None or rules.tolerance is None else _quantity(rules.tolerance) for rules in both)
    return up, down


def _wakes(conditions: list[Condition] | None) -> bool | None:
    """Kubernetes 1.37 computes nothing at 0 replicas that the HPA did not bring about, also beside a minimum of 0."""
    slept, active = condition(conditions, "ScaledToZero"), condition(conditions, "ScalingActive")
    if slept is not None and slept.status == "True":
        return True
    return False if active is not None and active.reason == "ScalingDisabled" else None


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
        metric=asking(spec),
        originals=_originals(meta),
        writers=(writer(meta, "keda_minimum"), writer(meta, "keda_maximum")),
        controller=controller(meta),
        applied=applied(meta, "keda_minimum", "keda_maximum"),
    )


def asking(spec: TriggersWire) -> MetricTrigger | None:
    """How a ScaledObject asks us for its replicas, None where it does not."""
    advanced = spec.advanced or _Advanced()
    behavior = (advanced.horizontal_pod_autoscaler_config or _HpaConfig()).behavior or BehaviorWire()
    fallback = spec.fallback
    trigger = metric_trigger(
        tuple((one.type, one.metric_type, _texts(one.metadata)) for one in spec.triggers or ()),
        (advanced.scaling_modifiers or _Modifiers()).formula,
        None if fallback is None else Fallback(fallback.replicas, str(fallback.behavior)),
        _pace(behavior.scale_up, 0),
        _pace(behavior.scale_down, HPA_STABILIZATION_SECONDS),
    )
    if trigger is None or not any(one.use_cached_metrics for one in spec.triggers or ()):
        return trigger
    polled = KEDA_POLLING_SECONDS if spec.polling_interval is None else spec.polling_interval
    return msgspec.structs.replace(trigger, cached_seconds=polled)


def _texts(metadata: dict[str, Any]) -> dict[str, str]:
    """`true` of YAML as the text that KEDA would read."""
    return {key: value if isinstance(value, str) else str(value).lower() for key, value in metadata.items()}


def _pace(rules: _Rules | None, stabilization_seconds: int) -> HpaPace:
    if rules is None:
        return HpaPace(stabilization_seconds=stabilization_seconds)
    window = rules.stabilization_window_seconds
    return HpaPace(
        HPA_TOLERANCE if rules.tolerance is None else _quantity(rules.tolerance),
        stabilization_seconds if window is None else window,
        rules.select_policy == "Disabled",
        policies=tuple(HpaPolicy(one.value, one.period_seconds, one.type == "Percent") for one in rules.policies or ()),
        least=rules.select_policy == "Min",
    )


def _quantity(written: str | float) -> float:
    """A tolerance as Kubernetes spells it: 0, 0.05 or 50m; what is none of these counts as the default."""
    word = str(written)
    try:
        return float(word.removesuffix("m")) / 1000 if word.endswith("m") else float(word)
    except ValueError:
        return HPA_TOLERANCE


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
    """Whether KEDA pauses by these annotations: a number of paused replicas does, whatever `paused` says."""
    if PAUSED_REPLICAS in annotations:
        return True
    return PAUSED in annotations and annotations[PAUSED] not in FALSE_WORDS


def _originals(meta: Annotated) -> Originals | None:
    saved_numbers = saved(meta, _Originals)
    return None if saved_numbers is None else Originals(saved_numbers.min, saved_numbers.max, saved_numbers.by)
