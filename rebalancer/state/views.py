"""From Kubernetes objects to what planning may know of them. Pure, one value in, one value out."""

from collections.abc import Iterable, Sequence

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict, replace

from rebalancer.domain.autoscalers import Hpa, Originals, PodAutoscaler, ScaledObject
from rebalancer.domain.cluster import (
    DisruptionBudget,
    Node,
    NodeClaim,
    NodePool,
    Pod,
    SavedNodePool,
    Toleration,
    Workload,
)
from rebalancer.domain.devices import OnNode
from rebalancer.domain.gpu_shapes import Offer, offer
from rebalancer.domain.instant import Instant
from rebalancer.domain.parents import ControllerRef
from rebalancer.domain.policy import Model, Pool
from rebalancer.domain.pool_view import NodeClaimView, NodePoolView, NodeView
from rebalancer.domain.snapshot import AppliedView, AutoscalerView, OwnerView, PodView, Shape, TargetView
from rebalancer.domain.target_spec import TargetSpec
from rebalancer.domain.tolerated import tolerated
from rebalancer.state.preemption import LowestPriority, is_preemptible

KEDA_DEFAULT_MAXIMUM = 100
AIBRIX = "autoscaling.aibrix.ai"
HELD_REASONS = frozenset({"Empty", "Underutilized"})


def pod_phase(pod: Pod, *, lost: bool = False) -> str:
    """Pending (no node), loading, ready, lost or terminating.

    `lost`: its node is not listed. Until its kubelet or the garbage collector of pods speaks (PodGC takes 40-60 s),
    such a pod stays Ready by its last word, and serves nobody.
    """
    if pod.deleting_at is not None or pod.terminal:
        return "terminating"
    if pod.node is None:
        return "pending"
    if not pod.ready:
        return "loading"
    return "lost" if lost else "ready"


def pod_view(pod: Pod, *, lost: bool = False) -> PodView:
    """One pod.

    `since`: Kubernetes dates creation, Ready and the end that a deletion sets (request + grace). Of a requester that
    has ended and is not deleted nobody dates the end, so it counts from creation.
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
        placed_at=_placed(pod),
        gated=True if pod.gates else UNSET,
        trouble=pod.trouble if pod.trouble and phase in {"pending", "loading"} else UNSET,
    )


def _placed(pod: Pod) -> Instant | UnsetType:
    """Kubernetes dates in whole seconds: a pod placed at once is one placed within a second."""
    waited = pod.placed_at is not None and pod.placed_at - pod.created_at > 1.0
    return pod.placed_at if waited and pod.placed_at is not None else UNSET


def missing_target(model: Model, spec: TargetSpec) -> TargetView:
    """The policy names it, the cluster does not have it."""
    return TargetView(pool=spec.pool, namespace=model.namespace, kind=spec.kind, name=spec.name, missing=True)


def target_view(  # noqa: PLR0913  # what it is made from
    workload: Workload,
    pool: Pool,
    autoscaler: AutoscalerView | None,
    pods: Iterable[PodView],
    unconfirmed: int | None,
    *,
    claimed_gpus: int = 0,
    running_gpus: int | None = None,
    by_others: bool = False,
    victims: str = "replicaSet",
    borne: Sequence[tuple[Toleration, ...] | None] = (),
) -> TargetView:
    """One scale target; `unconfirmed` is what we wrote and have not seen yet, others as in `TargetView`.

    claimed_gpus: devices of the pool that each of its pods gets by claims.
    borne: what each of its pods tolerates, None of one that does not tell.
    """
    of_template = workload.tolerations if workload.templated else None
    tolerations = tolerated(of_template, borne, pool.resource if workload.gpus.get(pool.resource) else "")
    guessed = () if borne else tuple(one for one in tolerations if one not in (of_template or ()))
    return TargetView(
        pool=pool.name,
        namespace=workload.ref.namespace,
        kind=workload.ref.kind,
        name=workload.ref.name,
        uid=workload.uid,
        resource_version=workload.resource_version,
        replicas=workload.replicas,
        unconfirmed_replicas=unconfirmed,
        rolling=workload.rolling,
        autoscaler=autoscaler,
        gpus_per_pod=workload.gpus.get(pool.resource, 0) + claimed_gpus,
        node_selector=workload.node_selector,
        tolerations=tolerations,
        grace_seconds=workload.grace_seconds,
        pods=tuple(sorted(pods, key=lambda pod: pod.uid)),
        running_gpus=running_gpus,
        by_others=by_others,
        placement=workload.placement,
        shape=_shape(workload, pool, victims, claimed_gpus),
        unproven=True if workload.unproven else UNSET,
        guessed=guessed or UNSET,
    )


def _shape(workload: Workload, pool: Pool, victims: str, claimed_gpus: int) -> Shape | UnsetType:
    if not workload.resource:
        return UNSET
    each = workload.gpus.get(pool.resource, 0)
    first = each if workload.leader_gpus is None else workload.leader_gpus.get(pool.resource, 0)
    gpus = first + each * (workload.pods - 1) + claimed_gpus * workload.pods if workload.templated else None
    return Shape(workload.resource, victims, workload.pods, gpus)


def autoscaler_view(
    scaled_objects: Iterable[ScaledObject], hpas: Iterable[Hpa], installation: str
) -> AutoscalerView | None:
    """The autoscaler of a target: its ScaledObject with the HPA that KEDA made for it, else an HPA, or None."""
    by_name = sorted(scaled_objects, key=lambda each: each.name)
    hpas = sorted(hpas, key=lambda each: each.name)
    chosen = chosen_autoscaler(by_name, hpas)
    if chosen is None:
        return None
    others: list[ScaledObject | Hpa] = [*by_name, *_bare(by_name, hpas)]
    beside = tuple(" ".join(_name(one)) for one in others if one is not chosen)
    if isinstance(chosen, ScaledObject):
        mine = next((hpa for hpa in hpas if made_for(hpa, chosen)), None)
        return replace(_of_scaled_object(chosen, mine, installation), beside=beside)
    return replace(_of_hpa(chosen, installation), beside=beside)


def chosen_autoscaler(scaled_objects: Iterable[ScaledObject], hpas: Iterable[Hpa]) -> ScaledObject | Hpa | None:
    """The object whose bounds would be written: the first ScaledObject by name, else the first HPA, or None."""
    scaled = min(scaled_objects, key=lambda each: each.name, default=None)
    return scaled or min(hpas, key=lambda each: each.name, default=None)


def _bare(scaled_objects: Iterable[ScaledObject], hpas: Iterable[Hpa]) -> list[Hpa]:
    """The HPAs that KEDA made for none of its ScaledObjects."""
    ours = tuple(scaled_objects)
    names = {one.name for one in ours}
    return [hpa for hpa in hpas if hpa.owner_scaled_object not in names and not any(made_for(hpa, one) for one in ours)]


def _name(autoscaler: ScaledObject | Hpa) -> tuple[str, str]:
    """Kind and name."""
    return ("ScaledObject" if isinstance(autoscaler, ScaledObject) else "HorizontalPodAutoscaler"), autoscaler.name


def owner_views(
    workload: Workload, autoscaler: ScaledObject | Hpa | None, pod_autoscalers: Iterable[PodAutoscaler]
) -> tuple[OwnerView, ...]:
    """The controllers above a target and its autoscaler, and the PodAutoscalers that point at it."""
    owners = []
    if autoscaler is not None and autoscaler.controller is not None:
        owners.append(_owner(*_name(autoscaler), autoscaler.controller))
    if workload.controller is not None:
        owners.append(_owner(workload.ref.kind, workload.ref.name, workload.controller))
    names = sorted(one.name for one in pod_autoscalers)
    by_reference = (ControllerRef(AIBRIX, "PodAutoscaler", name) for name in names)
    return (*owners, *(_owner(workload.ref.kind, workload.ref.name, one) for one in by_reference))


def _owner(kind: str, name: str, above: ControllerRef) -> OwnerView:
    return OwnerView(of_kind=kind, of_name=name, **asdict(above))


def applied_views(workload: Workload, autoscaler: ScaledObject | Hpa | None) -> tuple[AppliedView, ...]:
    """The tools that apply the numbers we would write: an autoscaler's bounds where there is one, else the replicas."""
    kind, name = (workload.ref.kind, workload.ref.name) if autoscaler is None else _name(autoscaler)
    applied = workload.applied if autoscaler is None else autoscaler.applied
    return tuple(AppliedView(of_kind=kind, of_name=name, **asdict(one)) for one in applied)


def by_others(workload: Workload, scaled_objects: Iterable[ScaledObject], hpas: Iterable[Hpa]) -> bool:
    """Whether somebody else wrote the number in force.

    That is the maximum of an autoscaler that we have taken over. Without an autoscaler it is the workload's replicas,
    and so it is before we take one over: then its replicas are what counts in any case.
    """
    owner = chosen_autoscaler(scaled_objects, hpas)
    if owner is None or owner.originals is None:
        return workload.writer != ""
    return owner.writers[1] != ""


def made_for(hpa: Hpa, scaled: ScaledObject) -> bool:
    """Whether KEDA made the HPA for that ScaledObject."""
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
        wakes=hpa.wakes,
    )


def _other(saved: Originals | SavedNodePool | None, installation: str) -> str:
    """The installation that wrote to the object, "" where that was us, or none by name, or nobody."""
    return "" if saved is None or saved.by in {"", installation} else saved.by


def shows(replicas: int, workload: Workload | None, autoscaler: AutoscalerView | None) -> bool:
    """Whether the watch shows what was asked: the maximum where an autoscaler owns the target, else the replicas."""
    if autoscaler is not None and is_bounded(autoscaler):
        return autoscaler.maximum == replicas
    return workload is not None and workload.replicas == replicas


def is_bounded(autoscaler: AutoscalerView | None) -> bool:
    """Whether a target's numbers are written as the bounds of its autoscaler."""
    return autoscaler is not None and not autoscaler.paused and autoscaler.originals is not None


def node_view(  # noqa: PLR0913  # what it is made from
    node: Node,
    pool: Pool,
    foreign: Iterable[Pod],
    models: LowestPriority | None,
    ready_changed_at: float | None,
    fell_at: float | None,
) -> NodeView:
    """One node of `pool`; `foreign`: the pods on it that are no model's; instants as in `NodeView`, by our clock.

    models: the lowest priority of pods of the pool's models.
    """
    offer = offer_of(node, pool)
    requested = {False: 0, True: 0}  # by whether placeholders do
    preemptible = 0
    for pod in foreign:
        gpus = pod.gpus.get(pool.resource, 0) if pod.holds_gpus else 0
        requested[pod.placeholder] += gpus
        if not pod.placeholder and is_preemptible(pod, pool, models):
            preemptible += gpus
    return NodeView(
        name=node.name,
        gpus=offer.devices,
        ready=node.ready,
        schedulable=not node.unschedulable and not node.deleting,
        foreign_gpus=requested[False],
        ready_changed_at=ready_changed_at,
        node_pool=node.node_pool,
        labels=node.labels,
        taints=node.taints,
        fell_at=fell_at,
        refused=offer.refused,
        memory_gib=offer.memory_gib or pool.memory_gib,
        warm_gpus=requested[True],
        preemptible_gpus=preemptible,
        created_at=node.created_at,
    )


def with_devices(view: NodeView, devices: OnNode, pool: Pool) -> NodeView:
    """The node with the devices that claims can have in place of those that it lists."""
    return replace(
        view,
        gpus=devices.count,
        foreign_gpus=devices.foreign,
        refused=f"has devices that nobody can count: {devices.unknown}" if devices.unknown else "",
        memory_gib=devices.memory_gib or pool.memory_gib,
    )


def offer_of(node: Node, pool: Pool) -> Offer:
    """What a node offers its pool."""
    return offer(pool.resource, pool.isolation, pool.node_labels, node.labels, node.allocatable, node.registered)


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
        weight=node_pool.weight,
        fixed=node_pool.fixed,
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
