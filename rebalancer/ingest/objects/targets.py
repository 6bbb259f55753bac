"""Scale targets: Deployments, StatefulSets, and whatever else serves `/scale`, read where its API keeps that."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from rebalancer.domain.cluster import Workload
from rebalancer.domain.part import MOST_REPLICAS
from rebalancer.domain.placement import Placement
from rebalancer.domain.quotas import PodAsk
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.ingest.objects.meta import Condition, Managed, applied, condition, controller, writer
from rebalancer.ingest.objects.pods import PodTemplateWire, devices_in, grace_of, placement_of, tolerations_of
from rebalancer.ingest.objects.quotas import QUEUE, pod_ask
from rebalancer.kube.resources import Resource

GROUPED = "LeaderWorkerSet"
# Annotations of a LeaderWorkerSet, whose webhook makes required affinity of them when it admits pods: a topology key in
# one of whose domains each group stands alone, and the same for parts of a group.
GROUP_TOPOLOGY = "leaderworkerset.sigs.k8s.io/exclusive-topology"
PART_TOPOLOGY = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
REVISION = "deployment.kubernetes.io/revision"  # of a Deployment's templates, the first is 1
# Of the condition Progressing while the latest template has not been Available in all its pods. Once it was, the reason
# is NewReplicaSetAvailable until there is another template, whatever becomes of its pods.
UNFINISHED = {"NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated", "ProgressDeadlineExceeded"}


class _DeploymentSpec(Struct, frozen=True, gc=False):
    replicas: int | None = None
    template: PodTemplateWire = PodTemplateWire()


class _DeploymentStatus(Struct, frozen=True, gc=False, rename="camel"):
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    conditions: tuple[Condition, ...] | None = None


class DeploymentWire(Struct, frozen=True, gc=False):
    """`apps/v1` Deployment, the part that matters."""

    metadata: Managed
    spec: _DeploymentSpec = _DeploymentSpec()
    status: _DeploymentStatus = _DeploymentStatus()


class _Ordinals(Struct, frozen=True, gc=False):
    start: int = 0


class _StatefulSetSpec(_DeploymentSpec, frozen=True, gc=False):
    ordinals: _Ordinals | None = None


class _StatefulSetStatus(Struct, frozen=True, gc=False, rename="camel"):
    replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class StatefulSetWire(Struct, frozen=True, gc=False):
    """`apps/v1` StatefulSet, the part that matters."""

    metadata: Managed
    spec: _StatefulSetSpec = _StatefulSetSpec()
    status: _StatefulSetStatus = _StatefulSetStatus()


class TargetWire(Struct, frozen=True, gc=False):
    """A target of a custom kind: what its API keeps where is that kind's own."""

    metadata: Managed
    spec: dict[str, Any] = {}
    status: dict[str, Any] | None = None


class ScalePaths(NamedTuple):
    """Where a custom kind keeps its scale, as its CustomResourceDefinition says: keys from the object's top down.

    selector: where the labels of its pods stand, as text; () where it does not say.
    """

    replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()


def deployment(wire: DeploymentWire) -> Workload:
    """Raises ValueError."""
    # While a template is rolled out some pods are of the old one. A pure scale keeps all of them updated, and the
    # generation, which it moves as well, says nothing.
    workload = _of_template(
        WorkloadRef(wire.metadata.namespace, "Deployment", wire.metadata.name),
        wire.metadata,
        wire.spec.replicas,
        wire.spec.template,
        rolling=wire.status.updated_replicas < wire.status.replicas,
    )
    return msgspec.structs.replace(workload, unproven=True) if _unproven(wire) else workload


def _unproven(wire: DeploymentWire) -> bool:
    """Whether all pods are of a newer template, of which none is Ready and all never were Available together.

    So it is after a rollout that hung, once the old pods have died with their nodes: by its counts it is over.
    """
    status, progress = wire.status, condition(wire.status.conditions, "Progressing")
    again = (wire.metadata.annotations or {}).get(REVISION, "1") != "1"
    none_serves = status.replicas > 0 and status.updated_replicas == status.replicas and not status.ready_replicas
    return again and none_serves and progress is not None and progress.reason in UNFINISHED


def replica_set(wire: DeploymentWire) -> Workload:
    """One that no Deployment made. Raises ValueError."""
    ref = WorkloadRef(wire.metadata.namespace, "ReplicaSet", wire.metadata.name)
    workload = _of_template(ref, wire.metadata, wire.spec.replicas, wire.spec.template, rolling=False)
    return msgspec.structs.replace(workload, resource="apps/v1/replicasets")


def stateful_set(wire: StatefulSetWire) -> Workload:
    """Raises ValueError."""
    # With the update strategy OnDelete the current revision stays the old one though all pods are of the newest.
    status = wire.status
    workload = _of_template(
        WorkloadRef(wire.metadata.namespace, "StatefulSet", wire.metadata.name),
        wire.metadata,
        wire.spec.replicas,
        wire.spec.template,
        rolling=status.current_revision != status.update_revision and status.updated_replicas < status.replicas,
    )
    start = 0 if wire.spec.ordinals is None else wire.spec.ordinals.start
    return msgspec.structs.replace(workload, resource="apps/v1/statefulsets", first_ordinal=start)


def custom(wire: TargetWire, resource: Resource, paths: ScalePaths) -> Workload:
    """A target of `resource`, whose scale stands at `paths`. Raises ValueError."""
    meta, tree = wire.metadata, {"spec": wire.spec, "status": wire.status or {}}
    replicas, selector = _at(tree, paths.replicas), _at(tree, paths.selector)
    if not isinstance(replicas, int | None):
        raise ValueError(f"`{'.'.join(paths.replicas)}` is no number of replicas")  # noqa: TRY004  its values, not ours
    grouped = resource.kind == GROUPED
    template, leader, pods = _group(wire.spec) if grouped else (_template(wire.spec), None, 1)
    workload = _of_template(
        WorkloadRef(meta.namespace, resource.kind, meta.name),
        meta,
        replicas,
        template or PodTemplateWire(),
        rolling=_rolling(resource.kind, wire.status or {}),
    )
    return msgspec.structs.replace(
        workload,
        resource=f"{resource.api_version}/{resource.plural}",
        pods=pods,
        leader_gpus=None if leader is None else devices_in(leader.spec),
        leader_ask=None if leader is None else _asks(meta, leader),
        templated=template is not None,
        placement=_grouped(workload.placement, meta) if grouped else workload.placement,
        selector="" if grouped or not isinstance(selector, str) else selector,  # a group's selector finds leaders alone
    )


def _of_template(
    ref: WorkloadRef, meta: Managed, replicas: int | None, template: PodTemplateWire, *, rolling: bool
) -> Workload:
    spec = template.spec
    if replicas is not None and not 0 <= replicas <= MOST_REPLICAS:
        raise ValueError(f"{replicas} replicas are none that a policy could allow: 0 to {MOST_REPLICAS:,}")
    return Workload(
        ref=ref,
        uid=meta.uid,
        resource_version=meta.resource_version,
        replicas=1 if replicas is None else replicas,
        gpus=devices_in(spec),
        claims=tuple(filter(None, (one.resource_claim_template_name for one in spec.resource_claims or ()))),
        node_selector=spec.node_selector or {},
        tolerations=tolerations_of(spec),
        grace_seconds=grace_of(spec),
        rolling=rolling,
        writer=writer(meta, "replicas"),
        placement=placement_of(template),
        controller=controller(meta),
        applied=applied(meta, "replicas"),
        ask=_asks(meta, template),
    )


def _asks(meta: Managed, template: PodTemplateWire) -> PodAsk:
    """What its pods ask of their namespace; Kueue hands the queue of an object on to them."""
    ask, queue = pod_ask(template), (meta.labels or {}).get(QUEUE, "")
    return msgspec.structs.replace(ask, queue=queue) if queue and not ask.queue else ask


def _at(tree: Mapping[str, Any], path: tuple[str, ...]) -> object:
    """What stands at `path`, None where nothing does."""
    inner: object = tree
    for key in path:
        inner = inner.get(key) if isinstance(inner, Mapping) else None
    return inner if path else None


def _template(spec: Mapping[str, Any]) -> PodTemplateWire | None:
    """The pod template of most kinds, None where it is not there: it may stand in another object."""
    template = spec.get("template")
    pod = template.get("spec") if isinstance(template, Mapping) else None
    there = isinstance(pod, Mapping) and "containers" in pod
    return msgspec.convert(template, PodTemplateWire) if there else None


def _group(spec: Mapping[str, Any]) -> tuple[PodTemplateWire, PodTemplateWire | None, int]:
    """The workers' template of a LeaderWorkerSet, its leader's own one if any, and the number of pods in a group."""
    both = spec.get("leaderWorkerTemplate") or {}
    workers = msgspec.convert(both.get("workerTemplate") or {}, PodTemplateWire)
    own = both.get("leaderTemplate")
    leader = None if not own or own.get("spec") is None else msgspec.convert(own, PodTemplateWire)
    pods = both.get("size", 1)
    if not isinstance(pods, int) or pods < 1:
        raise ValueError("`spec.leaderWorkerTemplate.size` is no number of pods")
    return (workers if pods > 1 or leader is None else leader), leader, pods


def _grouped(placement: Placement, meta: Managed) -> Placement:
    """With what the annotations of a LeaderWorkerSet ask for."""
    annotations = meta.annotations or {}
    alone, part = annotations.get(GROUP_TOPOLOGY, ""), annotations.get(PART_TOPOLOGY, "")
    unseen = [f"keeps each group away from those of other LeaderWorkerSets ({alone})"] if alone else []
    unseen += [f"keeps each part of a group alone ({part})"] if part else []
    return msgspec.structs.replace(placement, alone=alone, unseen=(*placement.unseen, *unseen))


def _rolling(kind: str, status: Mapping[str, Any]) -> bool:
    """Whether a rollout is under way, where the kind's status says so."""
    if kind == "Rollout":
        return bool(status.get("stableRS")) and status.get("currentPodHash") != status.get("stableRS")
    conditions = status.get("conditions")
    listed = conditions if isinstance(conditions, list) else ()  # kinds of others may mean something else by it
    return any(
        isinstance(one, Mapping) and one.get("type") == "UpdateInProgress" and one.get("status") == "True"
        for one in listed
    )
