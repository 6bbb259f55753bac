"""Pods and Deployments. Pods come by the ten thousand: of their labels and annotations only ours are decoded."""

from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct, field

from rebalancer.domain.cluster import Pod, Toleration, Workload, WorkloadRef
from rebalancer.domain.placement import Placement
from rebalancer.ingest.objects.meta import (
    Managed,
    Metadata,
    Owner,
    Quantities,
    created_at,
    extended,
    instant,
    writer,
)
from rebalancer.ingest.objects.placement import AffinityWire, SpreadWire, placement

GRACE_SECONDS = 30  # Kubernetes' default


class _Resources(Struct, frozen=True, gc=False):
    requests: Quantities | None = None
    limits: Quantities | None = None

    def devices(self) -> dict[str, int]:
        """Extended resources asked for; they cannot be overcommitted, so a limit alone is a request too."""
        return extended(self.limits) | extended(self.requests)


NO_RESOURCES = _Resources()


class _Container(Struct, frozen=True, gc=False, rename="camel"):
    resources: _Resources = NO_RESOURCES
    restart_policy: str | None = None


class _Port(Struct, frozen=True, gc=False, rename="camel"):
    host_port: int | None = None


class _TemplateContainer(_Container, frozen=True, gc=False):
    ports: tuple[_Port, ...] | None = None


class _Toleration(Struct, frozen=True, gc=False):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _PodSpec(Struct, frozen=True, gc=False, rename="camel"):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] | None = None
    node_name: str | None = None
    termination_grace_period_seconds: int | None = None


class _Labels(Struct, frozen=True, gc=False):
    template_hash: str | None = field(name="pod-template-hash", default=None)


class _Annotations(Struct, frozen=True, gc=False):
    deletion_cost: str | None = field(name="controller.kubernetes.io/pod-deletion-cost", default=None)


class _PodMetadata(Metadata, frozen=True, gc=False, rename="camel"):
    labels: _Labels | None = None
    annotations: _Annotations | None = None
    owner_references: tuple[Owner, ...] | None = None


class _PodCondition(Struct, frozen=True, gc=False, rename="camel"):
    type: str
    status: str
    last_transition_time: str | None = None


class _PodStatus(Struct, frozen=True, gc=False):
    phase: str = "Pending"
    conditions: tuple[_PodCondition, ...] | None = None


class PodWire(Struct, frozen=True, gc=False):
    """`v1` Pod, the part that matters."""

    metadata: _PodMetadata
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _TemplateSpec(_PodSpec, frozen=True, gc=False, rename="camel"):
    containers: tuple[_TemplateContainer, ...] = ()
    node_selector: dict[str, str] | None = None
    tolerations: tuple[_Toleration, ...] | None = None
    affinity: AffinityWire | None = None
    topology_spread_constraints: tuple[SpreadWire, ...] | None = None


class _TemplateMetadata(Struct, frozen=True, gc=False):
    labels: dict[str, str] | None = None


class _Template(Struct, frozen=True, gc=False):
    metadata: _TemplateMetadata = _TemplateMetadata()
    spec: _TemplateSpec = _TemplateSpec()


class _DeploymentSpec(Struct, frozen=True, gc=False):
    replicas: int | None = None
    template: _Template = _Template()


class _DeploymentStatus(Struct, frozen=True, gc=False, rename="camel"):
    replicas: int = 0
    updated_replicas: int = 0


class DeploymentWire(Struct, frozen=True, gc=False):
    """`apps/v1` Deployment, the part that matters."""

    metadata: Managed
    spec: _DeploymentSpec = _DeploymentSpec()
    status: _DeploymentStatus = _DeploymentStatus()


def pod(wire: PodWire) -> Pod:
    """Raises ValueError."""
    meta, spec = wire.metadata, wire.spec
    ready = _ready(wire.status)
    return Pod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        workload=_workload(meta),
        node=spec.node_name or None,
        gpus=_devices(spec),
        phase=wire.status.phase,
        ready=ready is not None,
        ready_at=None if ready is None else instant(ready.last_transition_time),
        created_at=created_at(meta),
        deleting_at=instant(meta.deletion_timestamp),
        grace_seconds=_grace(spec),
        deletion_cost=_cost(meta.annotations),
    )


def workload(wire: DeploymentWire) -> Workload:
    """Raises ValueError."""
    meta, template, status = wire.metadata, wire.spec.template.spec, wire.status
    return Workload(
        ref=WorkloadRef(meta.namespace, "Deployment", meta.name),
        uid=meta.uid,
        resource_version=meta.resource_version,
        replicas=1 if wire.spec.replicas is None else wire.spec.replicas,
        gpus=_devices(template),
        node_selector=template.node_selector or {},
        tolerations=tuple(_toleration(one) for one in template.tolerations or ()),
        grace_seconds=_grace(template),
        # While a template is rolled out some pods are of the old one. A pure scale keeps all of them updated, and the
        # generation, which it moves as well, says nothing.
        rolling=status.updated_replicas < status.replicas,
        writer=writer(meta, "replicas"),
        placement=_placement(wire.spec.template),
    )


def _placement(template: _Template) -> Placement:
    spec = template.spec
    ports = (port for one in spec.containers for port in one.ports or ())
    return placement(
        template.metadata.labels or {},
        spec.affinity,
        spec.topology_spread_constraints or (),
        host_ports=any(port.host_port for port in ports),
    )


def _ready(status: _PodStatus) -> _PodCondition | None:
    for one in status.conditions or ():
        if one.type == "Ready":
            return one if one.status == "True" else None
    return None


def _workload(meta: _PodMetadata) -> WorkloadRef | None:
    """The controller above the pod; above its ReplicaSet where that is a Deployment's (named by the template hash)."""
    owner = next((one for one in meta.owner_references or () if one.controller), None)
    if owner is None:
        return None
    if owner.kind == "ReplicaSet" and meta.labels is not None and meta.labels.template_hash:
        deployment = owner.name.removesuffix(f"-{meta.labels.template_hash}")
        if deployment != owner.name:
            return _ref(meta.namespace, "Deployment", deployment)
    return _ref(meta.namespace, owner.kind, owner.name)


_ref = lru_cache(maxsize=65_536)(WorkloadRef)  # a workload's pods share one value


def _devices(spec: _PodSpec) -> dict[str, int]:
    steps = ((one.restart_policy == "Always", one.resources.devices()) for one in spec.init_containers or ())
    return devices_of(steps, (one.resources.devices() for one in spec.containers))


def devices_of(steps: Iterable[tuple[bool, dict[str, int]]], containers: Iterable[dict[str, int]]) -> dict[str, int]:
    """What the scheduler counts for a pod: containers and sidecars together, or the largest step of initialisation.

    steps: of each init container in its order, whether it is a sidecar (restartPolicy Always), and what it asks for.
    containers: what each of the others asks for.
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for sidecar, asked in steps:
        if sidecar:
            running = _sum(running, asked)
        else:
            peak = _most(peak, _sum(running, asked))
    for asked in containers:
        running = _sum(running, asked)
    return _most(running, peak)


def _sum(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in left | right} if left else right


def _most(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in left | right} if right else left


def _grace(spec: _PodSpec) -> int:
    return GRACE_SECONDS if spec.termination_grace_period_seconds is None else spec.termination_grace_period_seconds


def _cost(annotations: _Annotations | None) -> int | None:
    """None also for a cost that Kubernetes itself ignores because it is no number."""
    try:
        return None if annotations is None or annotations.deletion_cost is None else int(annotations.deletion_cost)
    except ValueError:
        return None


def _toleration(wire: _Toleration) -> Toleration:
    return Toleration(wire.key or "", wire.operator or "Equal", wire.value or "", wire.effect or "")
