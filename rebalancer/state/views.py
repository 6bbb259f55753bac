"""From Kubernetes objects to what planning may know of them. Pure, one value in, one value out."""

from collections.abc import Iterable, Sequence

from msgspec import UNSET, UnsetType

from rebalancer.domain.cluster import (
    DisruptionBudget,
    Hpa,
    Node,
    NodeClaim,
    NodePool,
    Originals,
    Pod,
    SavedNodePool,
    ScaledObject,
    Workload,
)
from rebalancer.domain.policy import Model, Pool
from rebalancer.domain.snapshot import AutoscalerView, NodeClaimView, NodePoolView, NodeView, PodView, Shape, TargetView
from rebalancer.domain.target_spec import TargetSpec

KEDA_DEFAULT_MAXIMUM = 100
HELD_REASONS = frozenset({"Empty", "Underutilized"})


def pod_phase(pod: Pod, *, lost: bool = False) -> str:
    """Pending (no node), loading, ready, lost or terminating.

    `lost`: its node is not listed. Until its kubelet or the garbage collector of pods speaks (PodGC takes 40-60 s),
    such a pod stays Ready by its last word, and serves nobody.
    """
    if pod.deleting_at is not None:
        return "terminating"
    if pod.node is None:
        return "pending"
    if not pod.ready:
        return "loading"
    return "lost" if lost else "ready"


def pod_view(pod: Pod, *, lost: bool = False) -> PodView:
    """One pod.

    `since`: Kubernetes dates creation, Ready and the end that a deletion sets (request + grace); it does not date
    that a pod got its node, so loading counts from creation.
    """
    phase = pod_phase(pod, lost=lost)
    since = pod.created_at
    if phase in {"ready", "lost"}:
        since = pod.ready_at or pod.created_at
    elif phase == "terminating" and pod.deleting_at is not None:
        since = max(pod.created_at, pod.deleting_at - pod.grace_seconds)
    return PodView(
        uid=pod.uid,
        name=pod.name,
        node=pod.node,
        phase=phase,
        since=since,
        created_at=pod.created_at,
        deletion_cost=pod.deletion_cost,
        begun=pod.phase != "Pending",
    )


def missing_target(model: Model, spec: TargetSpec) -> TargetView:
    """The policy names it, the cluster does not have it."""
    return TargetView(pool=spec.pool, namespace=model.namespace, kind=spec.kind, name=spec.name, missing=True)


def target_view(  # noqa: PLR0913  # what it is made from
    workload: Workload,
    pool: Pool,
    autoscaler: AutoscalerView | None,
    pods: Iterable[PodView],
    asked: int | None,
    *,
    running_gpus: int | None = None,
    by_others: bool = False,
    victims: str = "replicaSet",
) -> TargetView:
    """One scale target; `asked` is what we wrote and have not seen yet, the last three as in `TargetView`."""
    return TargetView(
        pool=pool.name,
        namespace=workload.ref.namespace,
        kind=workload.ref.kind,
        name=workload.ref.name,
        uid=workload.uid,
        resource_version=workload.resource_version,
        replicas=workload.replicas,
        unconfirmed_replicas=asked,
        rolling=workload.rolling,
        autoscaler=autoscaler,
        gpus_per_pod=workload.gpus.get(pool.resource, 0),
        node_selector=workload.node_selector,
        tolerations=workload.tolerations,
        grace_seconds=workload.grace_seconds,
        pods=tuple(sorted(pods, key=lambda pod: pod.uid)),
        running_gpus=running_gpus,
        by_others=by_others,
        shape=_shape(workload, pool, victims),
    )


def _shape(workload: Workload, pool: Pool, victims: str) -> Shape | UnsetType:
    if not workload.resource:
        return UNSET
    each = workload.gpus.get(pool.resource, 0)
    first = each if workload.leader_gpus is None else workload.leader_gpus.get(pool.resource, 0)
    gpus = first + each * (workload.pods - 1) if workload.templated else None
    return Shape(workload.resource, victims, workload.pods, gpus)


def autoscaler_view(
    scaled_objects: Iterable[ScaledObject], hpas: Iterable[Hpa], installation: str
) -> AutoscalerView | None:
    """The autoscaler of a target: its ScaledObject with the HPA that KEDA made for it, else an HPA, or None."""
    scaled = min(scaled_objects, key=lambda found: found.name, default=None)
    by_name = sorted(hpas, key=lambda found: found.name)
    if scaled is not None:
        mine = next((hpa for hpa in by_name if _made_for(hpa, scaled)), None)
        return _of_scaled_object(scaled, mine, installation)
    return _of_hpa(by_name[0], installation) if by_name else None


def by_others(workload: Workload, scaled_objects: Iterable[ScaledObject], hpas: Iterable[Hpa]) -> bool:
    """Whether somebody else wrote the number in force.

    That is the maximum of an autoscaler that we have taken over. Without an autoscaler it is the workload's replicas,
    and so it is before we take one over: then its replicas are what counts in any case.
    """
    owner: ScaledObject | Hpa | None = min(scaled_objects, key=lambda found: found.name, default=None)
    owner = owner or min(hpas, key=lambda found: found.name, default=None)
    if owner is None or owner.originals is None:
        return workload.writer != ""
    return owner.writers[1] != ""


def _made_for(hpa: Hpa, scaled: ScaledObject) -> bool:
    if scaled.hpa_name is not None:
        return hpa.name == scaled.hpa_name
    return hpa.owner_scaled_object == scaled.name


def _of_scaled_object(scaled: ScaledObject, hpa: Hpa | None, installation: str) -> AutoscalerView:
    other = _other(scaled.originals, installation)
    minimum = scaled.minimum or 0
    maximum = KEDA_DEFAULT_MAXIMUM if scaled.maximum is None else scaled.maximum
    return AutoscalerView(
        kind="ScaledObject",
        name=scaled.name,
        uid=scaled.uid,
        resource_version=scaled.resource_version,
        minimum=minimum,
        maximum=maximum,
        effective_minimum=minimum if hpa is None else hpa.minimum,
        effective_maximum=maximum if hpa is None else hpa.maximum,
        paused=scaled.paused,
        originals=None if other else scaled.originals,
        idle=scaled.idle,
        other=other,
    )


def _of_hpa(hpa: Hpa, installation: str) -> AutoscalerView:
    other = _other(hpa.originals, installation)
    return AutoscalerView(
        kind="HorizontalPodAutoscaler",
        name=hpa.name,
        uid=hpa.uid,
        resource_version=hpa.resource_version,
        minimum=hpa.minimum,
        maximum=hpa.maximum,
        effective_minimum=hpa.minimum,
        effective_maximum=hpa.maximum,
        originals=None if other else hpa.originals,
        other=other,
    )


def _other(saved: Originals | SavedNodePool | None, installation: str) -> str:
    """The installation that wrote to the object, "" where that was us, or none by name, or nobody."""
    return "" if saved is None or saved.by in {"", installation} else saved.by


def shows(asked: int, workload: Workload | None, autoscaler: AutoscalerView | None) -> bool:
    """Whether the watch shows what was asked: the maximum where an autoscaler owns the target, else the replicas."""
    if autoscaler is not None and not autoscaler.paused and autoscaler.originals is not None:
        return autoscaler.maximum == asked
    return workload is not None and workload.replicas == asked


def node_view(
    node: Node, pool: Pool, foreign: Iterable[Pod], ready_changed_at: float | None, fell_at: float | None
) -> NodeView:
    """One node of `pool`; `foreign`: the pods on it that are no model's; instants as in `NodeView`, by our clock."""
    return NodeView(
        name=node.name,
        gpus=node.allocatable.get(pool.resource, 0),
        ready=node.ready,
        schedulable=not node.unschedulable and not node.deleting,
        foreign_gpus=sum(pod.gpus.get(pool.resource, 0) for pod in foreign if not pod.terminal),
        ready_changed_at=ready_changed_at,
        node_pool=node.node_pool,
        labels=node.labels,
        taints=node.taints,
        fell_at=fell_at,
    )


def node_pool_view(
    node_pool: NodePool, resource: str, claims: Sequence[NodeClaimView], installation: str
) -> NodePoolView:
    """A NodePool in GPUs of one resource, with the nodes still to come."""
    other = _other(node_pool.saved, installation)
    saved = None if other else node_pool.saved
    return NodePoolView(
        name=node_pool.name,
        uid=node_pool.uid,
        resource_version=node_pool.resource_version,
        gpu_limit=node_pool.limits.get(resource),
        gpus_used=node_pool.used.get(resource, 0),
        budgets=node_pool.budgets,
        held=saved is not None and any(map(_holds, node_pool.budgets or ())),
        saved=saved,
        claims=tuple(sorted(claims, key=lambda claim: claim.name)),
        other=other,
    )


def _holds(budget: DisruptionBudget) -> bool:
    return budget.nodes == "0" and frozenset(budget.reasons) == HELD_REASONS and budget.schedule is None


def claim_view(claim: NodeClaim, resource: str) -> NodeClaimView:
    """A node still to come."""
    return NodeClaimView(
        name=claim.name,
        gpus=claim.gpus.get(resource, 0),
        created_at=claim.created_at,
        node=claim.node,
        failed=claim.failed,
    )
