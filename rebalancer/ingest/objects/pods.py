"""Pods, and the templates of pods. Pods come by the ten thousand: of their annotations only ours are decoded."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct, field

from rebalancer.domain import dual_pods
from rebalancer.domain.cluster import Pod, Toleration
from rebalancer.domain.digits import whole_number
from rebalancer.domain.dual_pods import Launcher, Requester
from rebalancer.domain.placement import Placement
from rebalancer.domain.quantities import Quantities
from rebalancer.domain.starts import NOT_SET_UP
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.objects.images import full_name
from rebalancer.ingest.objects.meta import Metadata, Owner, created_at, extended, instant
from rebalancer.ingest.objects.placement import AffinityWire, SpreadWire, placement

GRACE_SECONDS = 30  # Kubernetes' default
TEMPLATE_HASH = "pod-template-hash"  # label: a Deployment's ReplicaSet is named DEPLOYMENT-HASH
ROLLOUT_HASH = "rollouts-pod-template-hash"  # label: so is an Argo Rollout's
GROUP_SET = "leaderworkerset.sigs.k8s.io/name"  # label: name of the LeaderWorkerSet
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"  # label: number of the group
GROUP_MEMBER = "leaderworkerset.sigs.k8s.io/worker-index"  # label: place in the group; 0 leads
EACH_POD_ITS_OWN = frozenset(  # labels that say nothing of whose a pod is; without them a target's pods share theirs
    {"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", GROUP_INDEX, GROUP_MEMBER}
)
PLACEHOLDER = "rebalancer.io/placeholder"  # label: the pod only keeps GPUs warm, for the pool that it names
NO_LABELS: Mapping[str, str] = {}
COMING_UP = {"ContainerCreating", "PodInitializing"}  # as every pod that starts
MOST_CHARACTERS = 160  # of what a pod says of itself
LOGIN, QUERY = re.compile(r"//[^/\s@]+@"), re.compile(r"(?<=\S)\?\S+=\S+")


class _Resources(Struct, frozen=True, gc=False):
    requests: Quantities | None = None
    limits: Quantities | None = None

    def devices(self) -> dict[str, int]:
        """Extended resources asked for; they cannot be overcommitted, so a limit alone is a request too."""
        return extended(self.limits) | extended(self.requests)


NO_RESOURCES = _Resources()


class Container(Struct, frozen=True, gc=False, rename="camel"):
    """A container, the part that matters."""

    resources: _Resources = NO_RESOURCES
    restart_policy: str | None = None
    image: str | None = None


class _Port(Struct, frozen=True, gc=False, rename="camel"):
    container_port: int | None = None
    host_port: int | None = None


class _TemplateContainer(Container, frozen=True, gc=False):
    ports: tuple[_Port, ...] | None = None


class _Toleration(Struct, frozen=True, gc=False, rename="camel"):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class _PodSpec(Struct, frozen=True, gc=False, rename="camel"):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    node_name: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    priority_class_name: str | None = None


class _Gate(Struct, frozen=True, gc=False):
    name: str


class _BoundSpec(_PodSpec, frozen=True, gc=False, rename="camel"):
    scheduling_gates: tuple[_Gate, ...] | None = None
    tolerations: tuple[_Toleration, ...] | None = None  # admission adds some
    priority: int | None = None  # what admission made of the class


class _Annotations(Struct, frozen=True, gc=False):
    deletion_cost: str | None = field(name="controller.kubernetes.io/pod-deletion-cost", default=None)
    engine: str | None = field(name=dual_pods.CONFIG, default=None)
    engine_patch: str | None = field(name=dual_pods.PATCH, default=None)
    requester: str | None = field(name=dual_pods.REQUESTER, default=None)
    instance: str | None = field(name=dual_pods.INSTANCE_ID, default=None)
    signature: str | None = field(name=dual_pods.SIGNATURE, default=None)


NO_ANNOTATIONS = _Annotations()


class _PodMetadata(Metadata, frozen=True, gc=False, rename="camel"):
    labels: dict[str, str] | None = None
    annotations: _Annotations | None = None
    owner_references: tuple[Owner, ...] | None = None


class _PodCondition(Struct, frozen=True, gc=False, rename="camel"):
    type: str
    status: str
    last_transition_time: str | None = None
    reason: str | None = None
    message: str | None = None


class _Waiting(Struct, frozen=True, gc=False):
    reason: str | None = None
    message: str | None = None


class _Ended(Struct, frozen=True, gc=False, rename="camel"):
    reason: str | None = None
    exit_code: int | None = None


class _ContainerState(Struct, frozen=True, gc=False):
    waiting: _Waiting | None = None
    terminated: _Ended | None = None


NO_STATE = _ContainerState()


class _ContainerStatus(Struct, frozen=True, gc=False, rename="camel"):
    state: _ContainerState | None = None
    last_state: _ContainerState | None = None


class _PodStatus(Struct, frozen=True, gc=False, rename="camel"):
    phase: str = "Pending"
    conditions: tuple[_PodCondition, ...] | None = None
    start_time: str | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None


class PodWire(Struct, frozen=True, gc=False):
    """`v1` Pod, the part that matters."""

    metadata: _PodMetadata
    spec: _BoundSpec = _BoundSpec()
    status: _PodStatus = _PodStatus()


class _PodClaim(Struct, frozen=True, gc=False, rename="camel"):
    resource_claim_template_name: str | None = None


class TemplateSpec(_PodSpec, frozen=True, gc=False, rename="camel"):
    """The `spec` of a pod template, the part that matters.

    containers: its containers, without those of the initialisation.
    node_selector: labels that a node must have, None where it wants none.
    tolerations: its tolerations, None where it has none.
    affinity: what it asks of nodes and of other pods beside it, None where it asks for nothing.
    topology_spread_constraints: how its pods are to be spread, None where nothing says so.
    resource_claims: its resource claims (DRA), None where it has none.
    host_network: whether its pods are in the network of their node.
    """

    containers: tuple[_TemplateContainer, ...] = ()
    node_selector: dict[str, str] | None = None
    tolerations: tuple[_Toleration, ...] | None = None
    affinity: AffinityWire | None = None
    topology_spread_constraints: tuple[SpreadWire, ...] | None = None
    resource_claims: tuple[_PodClaim, ...] | None = None
    host_network: bool = False  # then each container's port is one of the node


class _TemplateMetadata(Struct, frozen=True, gc=False):
    labels: dict[str, str] | None = None


class PodTemplateWire(Struct, frozen=True, gc=False):
    """A pod template."""

    metadata: _TemplateMetadata = _TemplateMetadata()
    spec: TemplateSpec = TemplateSpec()


def pod(wire: PodWire) -> Pod:
    """Raises ValueError."""
    meta, spec = wire.metadata, wire.spec
    labels = meta.labels or NO_LABELS
    ready, unready = _condition(wire.status, "Ready"), _condition(wire.status, "Ready", "False")
    placed = _condition(wire.status, "PodScheduled")
    workload, ordinal = _workload(meta, labels)
    gpus = devices_in(spec)
    return Pod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        workload=workload,
        node=spec.node_name or None,
        gpus=gpus,
        phase=wire.status.phase,
        ready=ready is not None,
        ready_at=None if ready is None else instant(ready.last_transition_time),
        unready_at=None if unready is None else instant(unready.last_transition_time),
        created_at=created_at(meta),
        deleting_at=instant(meta.deletion_timestamp),
        grace_seconds=grace_of(spec),
        deletion_cost=_cost(meta.annotations),
        ordinal=ordinal,
        member=whole_number(labels.get(GROUP_MEMBER)) or 0,
        priority_class=spec.priority_class_name or "",
        ends_at=_ends_at(wire),
        gates=tuple(one.name for one in spec.scheduling_gates or ()),
        # Without a priority below 0 no replica would take its place, whatever its label says.
        placeholder=PLACEHOLDER in labels and (spec.priority or 0) < 0,
        priority=spec.priority or 0,
        labels=_shared(tuple(sorted(labels.items() - _own(labels)))) if gpus else (),
        image=_image(spec) if gpus else "",
        placed_at=None if placed is None else instant(placed.last_transition_time),
        dual=_dual(meta.annotations or NO_ANNOTATIONS, labels),
        tolerations=_lasting(spec.tolerations or ()) if gpus else None,
        trouble="" if ready or not gpus else _trouble(wire.status),
    )


def _trouble(status: _PodStatus) -> str:
    """What the scheduler says of a pod without a node, else kubelet of the first container that does not run.

    What keeps a pod from being set up (FailedMount) kubelet says in Events alone, which are not read: of all objects
    they are the most, and the most often changed. That it is not set up is a condition of the pod.
    """
    unplaced = _condition(status, "PodScheduled", "False")
    if unplaced is not None and unplaced.reason:
        return _words(unplaced.reason, unplaced.message)
    for one in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        state, last = one.state or NO_STATE, (one.last_state or NO_STATE).terminated
        waiting, ended = state.waiting, state.terminated if state.terminated and state.terminated.exit_code else last
        before = "" if ended is None else f"its last run ended: {ended.reason}, exit code {ended.exit_code}"
        if waiting is not None and waiting.reason and waiting.reason not in COMING_UP:
            return _words(waiting.reason, "; ".join(filter(None, (before, waiting.message))))
        if before:
            return before
    return "" if _condition(status, "PodReadyToStartContainers", "False") is None else NOT_SET_UP


def _words(reason: str, message: str | None) -> str:
    """Reason and first line of the message; a login or a signature within an address is nobody's to read."""
    first = next(iter((message or "").splitlines()), "")
    shown = QUERY.sub("?...", LOGIN.sub("//", first))
    return ": ".join(filter(None, (reason, shown)))[:MOST_CHARACTERS]


def _condition(status: _PodStatus, name: str, stands: str = "True") -> _PodCondition | None:
    """The condition of that type where it stands so."""
    for one in status.conditions or ():
        if one.type == name:
            return one if one.status == stands else None
    return None


def _image(spec: _PodSpec) -> str:
    asking = (one.image for one in spec.containers if any(one.resources.devices().values()))
    return full_name(next(asking, None) or "")


def _dual(annotations: _Annotations, labels: Mapping[str, str]) -> Requester | Launcher | None:
    """The binding on the launcher is `UID NAME`."""
    if annotations.engine is not None or annotations.engine_patch is not None:
        return Requester(labels.get(dual_pods.DUAL, ""))
    if dual_pods.LAUNCHER not in labels:
        return None
    uid, _, name = (annotations.requester or "").partition(" ")
    return Launcher(uid, name, annotations.instance or "", annotations.signature or "")


def _ends_at(wire: PodWire) -> float | None:
    """The instant at which `activeDeadlineSeconds`, counted from the start, ends the pod; None without one."""
    started, seconds = instant(wire.status.start_time), wire.spec.active_deadline_seconds
    return None if started is None or seconds is None else started + seconds


def _workload(meta: _PodMetadata, labels: Mapping[str, str]) -> tuple[WorkloadRef | None, int | None]:
    """The scale target above the pod, and the number that the pod or its group has there; None where it has none.

    What stands between is told by names and labels: a Deployment's and a Rollout's ReplicaSet end in the template's
    hash; the StatefulSets of a LeaderWorkerSet's groups belong to pods.
    """
    owner = next((one for one in meta.owner_references or () if one.controller), None)
    if owner is None:
        return None, None
    if owner.kind == "ReplicaSet":
        for kind, key in (("Deployment", TEMPLATE_HASH), ("Rollout", ROLLOUT_HASH)):
            above = owner.name.removesuffix(f"-{labels[key]}") if labels.get(key) else owner.name
            if above != owner.name:
                return _ref(meta.namespace, kind, above), None
    if owner.kind == "StatefulSet":
        if GROUP_SET in labels:  # a leader's own name ends in the number of its group
            group = whole_number(labels.get(GROUP_INDEX, meta.name.rpartition("-")[2]))
            return _ref(meta.namespace, "LeaderWorkerSet", labels[GROUP_SET]), group
        return _ref(meta.namespace, owner.kind, owner.name), whole_number(meta.name.rpartition("-")[2])
    return _ref(meta.namespace, owner.kind, owner.name), None


def _own(labels: Mapping[str, str]) -> set[tuple[str, str]]:
    return {(key, labels[key]) for key in EACH_POD_ITS_OWN if key in labels}


@lru_cache(maxsize=65_536)
def _shared(labels: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """A target's pods share one value."""
    return labels


@lru_cache(maxsize=65_536)
def _lasting(wires: tuple[_Toleration, ...]) -> tuple[Toleration, ...]:
    """Those that do not end after some seconds, as every pod's for silent nodes do; a target's pods share one value."""
    return tuple(_toleration(one) for one in wires if one.toleration_seconds is None)


_ref = lru_cache(maxsize=65_536)(WorkloadRef)  # a workload's pods share one value


def devices_in(spec: _PodSpec) -> dict[str, int]:
    """What a pod of this spec requests of each extended resource."""
    steps = ((one.restart_policy == "Always", one.resources.devices()) for one in spec.init_containers or ())
    return devices_of(steps, (one.resources.devices() for one in spec.containers))


def devices_of(steps: Iterable[tuple[bool, dict[str, int]]], containers: Iterable[dict[str, int]]) -> dict[str, int]:
    """What the scheduler counts for a pod: containers and sidecars together, or the largest step of initialisation.

    steps: of each init container in its order, whether it is a sidecar (restartPolicy Always), and what it asks for.
    containers: what each of the others asks for.
    """
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for sidecar, devices in steps:
        if sidecar:
            running = _sum(running, devices)
        else:
            peak = _most(peak, _sum(running, devices))
    for devices in containers:
        running = _sum(running, devices)
    return _most(running, peak)


def _sum(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in left | right} if left else right


def _most(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in left | right} if right else left


def grace_of(spec: _PodSpec) -> int:
    """Seconds that a pod has to end."""
    return GRACE_SECONDS if spec.termination_grace_period_seconds is None else spec.termination_grace_period_seconds


def _cost(annotations: _Annotations | None) -> int | None:
    """None also for a cost that Kubernetes itself ignores because it is no number."""
    try:
        return None if annotations is None or annotations.deletion_cost is None else int(annotations.deletion_cost)
    except ValueError:
        return None


def tolerations_of(spec: TemplateSpec) -> tuple[Toleration, ...]:
    """The tolerations of a template."""
    return tuple(_toleration(one) for one in spec.tolerations or ())


def placement_of(template: PodTemplateWire) -> Placement:
    """What a template asks of nodes beside selector and tolerations."""
    spec = template.spec
    ports = [port for one in spec.containers for port in one.ports or ()]
    taken = [port.host_port or (port.container_port if spec.host_network else None) for port in ports]
    spreads = spec.topology_spread_constraints or ()
    return placement(template.metadata.labels or {}, spec.affinity, spreads, list(filter(None, taken)))


def _toleration(wire: _Toleration) -> Toleration:
    return Toleration(wire.key or "", wire.operator or "Equal", wire.value or "", wire.effect or "")
