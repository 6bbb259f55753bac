"""What a namespace lets its pods ask for: ResourceQuota, LimitRange, PriorityClass; and what a template asks for."""

from msgspec import Struct, field

from rebalancer.domain.quantities import Quantities, thousandths
from rebalancer.domain.quotas import ContainerAsk, LimitRange, Limits, PodAsk, PriorityClass, ResourceQuota, Scope
from rebalancer.ingest.objects.meta import Metadata
from rebalancer.ingest.objects.pods import Container, PodTemplateWire

QUEUE = "kueue.x-k8s.io/queue-name"  # label: the LocalQueue whose admission the pod waits for


class _ScopeTerm(Struct, frozen=True, gc=False, rename="camel"):
    scope_name: str
    operator: str = "Exists"
    values: tuple[str, ...] | None = None


class _ScopeSelector(Struct, frozen=True, gc=False, rename="camel"):
    match_expressions: tuple[_ScopeTerm, ...] | None = None


class _QuotaSpec(Struct, frozen=True, gc=False, rename="camel"):
    hard: Quantities | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: _ScopeSelector | None = None


class _QuotaStatus(Struct, frozen=True, gc=False):
    hard: Quantities | None = None
    used: Quantities | None = None


class ResourceQuotaWire(Struct, frozen=True, gc=False):
    """`v1` ResourceQuota, the part that matters."""

    metadata: Metadata
    spec: _QuotaSpec = _QuotaSpec()
    status: _QuotaStatus = _QuotaStatus()


def resource_quota(wire: ResourceQuotaWire) -> ResourceQuota:
    """Raises ValueError."""
    meta, spec = wire.metadata, wire.spec
    terms = (spec.scope_selector.match_expressions or ()) if spec.scope_selector is not None else ()
    return ResourceQuota(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        hard=_amounts(wire.status.hard if wire.status.hard is not None else spec.hard),
        used=_amounts(wire.status.used),
        scopes=(
            *(Scope(name) for name in spec.scopes or ()),
            *(Scope(one.scope_name, one.operator, one.values or ()) for one in terms),
        ),
    )


class _Limits(Struct, frozen=True, gc=False, rename="camel"):
    type: str
    default: Quantities | None = None
    default_request: Quantities | None = None
    least: Quantities | None = field(default=None, name="min")
    most: Quantities | None = field(default=None, name="max")


class _LimitRangeSpec(Struct, frozen=True, gc=False):
    limits: tuple[_Limits, ...] | None = None


class LimitRangeWire(Struct, frozen=True, gc=False):
    """`v1` LimitRange, the part that matters."""

    metadata: Metadata
    spec: _LimitRangeSpec = _LimitRangeSpec()


def limit_range(wire: LimitRangeWire) -> LimitRange:
    """Raises ValueError."""
    meta = wire.metadata
    return LimitRange(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        rows=tuple(
            Limits(
                kind=row.type,
                requests=_amounts(row.default_request),
                limits=_amounts(row.default),
                least=_amounts(row.least),
                most=_amounts(row.most),
            )
            for row in wire.spec.limits or ()
        ),
    )


class PriorityClassWire(Struct, frozen=True, gc=False, rename="camel"):
    """`scheduling.k8s.io/v1` PriorityClass, the part that matters.

    metadata: its name, UID and version.
    value: the priority of its pods, the higher first.
    global_default: whether pods that name no class are of it.
    preemption_policy: `Never` where its pods may not end others for their place; any other word, or None: they may.
    """

    metadata: Metadata
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


def priority_class(wire: PriorityClassWire) -> PriorityClass:
    """Raises ValueError."""
    meta = wire.metadata
    return PriorityClass(
        meta.name,
        meta.uid,
        meta.resource_version,
        wire.value,
        wire.global_default,
        wire.preemption_policy != "Never",
    )


def pod_ask(template: PodTemplateWire) -> PodAsk:
    """What a pod of the template asks of its namespace. Raises ValueError."""
    spec = template.spec
    return PodAsk(
        containers=(
            *(_ask(one, "sidecar" if one.restart_policy == "Always" else "init") for one in spec.init_containers or ()),
            *(_ask(one, "") for one in spec.containers),
        ),
        priority_class=spec.priority_class_name or "",
        ends=spec.active_deadline_seconds is not None,
        queue=(template.metadata.labels or {}).get(QUEUE, ""),
    )


def _ask(one: Container, step: str) -> ContainerAsk:
    return ContainerAsk(_amounts(one.resources.requests), _amounts(one.resources.limits), step)


def _amounts(quantities: Quantities | None) -> dict[str, int]:
    return {name: thousandths(quantity) for name, quantity in (quantities or {}).items()}
