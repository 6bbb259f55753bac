"""The cluster's things as `domain.cluster` values, for whoever feeds the service's state without an API between."""

import msgspec

from rebalancer.act.originals import ANNOTATION
from rebalancer.domain import autoscalers
from rebalancer.domain import cluster as domain
from rebalancer.domain import dual_pods as pods
from rebalancer.domain.dual_pods import Requester
from rebalancer.domain.quotas import ContainerAsk, PodAsk
from rebalancer.world.faults import CORDONED
from rebalancer.world.karpenter import WorldNodeClaim, WorldNodePool
from rebalancer.world.slots import WorldLauncher
from rebalancer.world.things import Deployment, WorldHpa, WorldNode, WorldPod, WorldScaledObject


class _Bounds(msgspec.Struct):
    """An autoscaler's originals as its annotation spells them."""

    min: int | None
    max: int | None
    by: str = ""


def value(thing: object, version: int) -> tuple[str, domain.ClusterObject]:  # noqa: PLR0911  # one per kind
    """(source, value) of a thing as it is now; `version` becomes its resource version. Raises TypeError."""
    match thing:
        case WorldNode():
            return "nodes", _node(thing, str(version))
        case WorldLauncher():
            return "pods", _launcher(thing, str(version))
        case WorldPod():
            return "pods", _pod(thing, str(version))
        case Deployment():
            return "deployments", _deployment(thing, str(version))
        case WorldHpa():
            return "hpas", _hpa(thing, str(version))
        case WorldScaledObject():
            return "scaledobjects", _scaled_object(thing, str(version))
        case WorldNodePool():
            return "nodepools", _node_pool(thing, str(version))
        case WorldNodeClaim():
            return "nodeclaims", _node_claim(thing, str(version))
        case _:
            raise TypeError(f"{thing!r} is nothing that a cluster is made of")


def _node(node: WorldNode, version: str) -> domain.Node:
    return domain.Node(
        name=node.name,
        uid=node.uid,
        resource_version=version,
        provider_id=node.provider_id,
        labels=node.labels,
        taints=node.taints,
        unschedulable=CORDONED in node.taints,
        cordoned_by=node.cordoned_by,
        allocatable={node.resource: node.allocatable},
        ready=node.ready,
        ready_changed_at=node.created_at if node.ready_changed_at is None else node.ready_changed_at,
        created_at=node.created_at,
    )


def _pod(pod: WorldPod, version: str) -> domain.Pod:
    return domain.Pod(
        namespace=pod.owner.ref.namespace,
        name=pod.name,
        uid=pod.uid,
        resource_version=version,
        workload=pod.owner.ref,
        node=None if pod.node is None else pod.node.name,
        gpus={pod.owner.resource: pod.gpus},
        phase="Failed" if pod.failed else "Pending" if pod.node is None else "Running",
        ready=pod.ready_at is not None,
        ready_at=pod.ready_at,
        created_at=pod.created_at,
        deleting_at=pod.ends_at,
        grace_seconds=pod.owner.grace_seconds,
        deletion_cost=pod.deletion_cost,
        placed_at=pod.placed_at,
        dual=None if pod.launcher is None else Requester(pod.launcher),
        tolerations=() if pod.gpus else None,
    )


def _launcher(launcher: WorldLauncher, version: str) -> domain.Pod:
    bound = launcher.requester
    signature = ",".join(sorted(launcher.engines))
    dual = pods.Launcher(signature=signature)
    if bound is not None:
        dual = pods.Launcher(bound.uid, bound.name, f"engine-of-{bound.owner.model}", signature)
    return domain.Pod(
        namespace=launcher.namespace,
        name=launcher.name,
        uid=launcher.uid,
        resource_version=version,
        phase="Running",
        created_at=launcher.created_at,
        dual=dual,
    )


def _deployment(owner: Deployment, version: str) -> domain.Workload:
    devices = {owner.resource: 1000 * owner.gpus}
    return domain.Workload(
        ref=owner.ref,
        uid=owner.uid,
        resource_version=version,
        replicas=owner.replicas,
        gpus={owner.resource: owner.gpus},
        node_selector=owner.node_selector,
        tolerations=owner.tolerations,
        grace_seconds=owner.grace_seconds,
        rolling=owner.rolling,
        unproven=owner.unproven,
        writer=owner.writer,
        ask=PodAsk((ContainerAsk(devices, devices),)),
    )


def _originals(annotations: dict[str, str]) -> autoscalers.Originals | None:
    saved = annotations.get(ANNOTATION)
    own = None if saved is None else msgspec.json.decode(saved, type=_Bounds)
    return None if own is None else autoscalers.Originals(own.min, own.max, own.by)


def _hpa(hpa: WorldHpa, version: str) -> autoscalers.Hpa:
    return autoscalers.Hpa(
        namespace=hpa.namespace,
        name=hpa.name,
        uid=hpa.uid,
        resource_version=version,
        target=hpa.target,
        minimum=hpa.minimum,
        maximum=hpa.maximum,
        owner_scaled_object=hpa.owner,
        originals=_originals(hpa.annotations),
        writers=hpa.writers,
        controller=hpa.controller,
    )


def _scaled_object(scaled: WorldScaledObject, version: str) -> autoscalers.ScaledObject:
    return autoscalers.ScaledObject(
        namespace=scaled.namespace,
        name=scaled.name,
        uid=scaled.uid,
        resource_version=version,
        target=scaled.target,
        minimum=scaled.minimum,
        maximum=scaled.maximum,
        idle=scaled.idle,
        paused=scaled.paused,
        hpa_name=None if scaled.hpa is None else scaled.hpa.name,
        originals=_originals(scaled.annotations),
        writers=scaled.writers,
    )


def _node_pool(pool: WorldNodePool, version: str) -> domain.NodePool:
    saved = pool.annotations.get(ANNOTATION)
    return domain.NodePool(
        name=pool.name,
        uid=pool.uid,
        resource_version=version,
        limits={} if pool.limit is None else {pool.resource: pool.limit},
        used={pool.resource: pool.used},
        budgets=None if pool.budgets is None else msgspec.convert(pool.budgets, tuple[domain.DisruptionBudget, ...]),
        saved=None if saved is None else msgspec.json.decode(saved, type=domain.SavedNodePool),
    )


def _node_claim(claim: WorldNodeClaim, version: str) -> domain.NodeClaim:
    return domain.NodeClaim(
        name=claim.name,
        uid=claim.uid,
        resource_version=version,
        node_pool=claim.node_pool.name,
        gpus={claim.node_pool.resource: claim.node_pool.gpus_per_node},
        node=None if claim.node is None else claim.node.name,
        provider_id=claim.provider_id,
        created_at=claim.created_at,
        initialized=claim.node is not None,
        failed=claim.failed,
        deleting_at=claim.deleted_at,
    )
