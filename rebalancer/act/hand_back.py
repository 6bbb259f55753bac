"""Gives back what we took: bounds, limits and budgets as saved on the objects, and our deletion costs.

Found by what is on the objects themselves, so that it works without the service, its policy or its memory.
"""

from collections.abc import Callable, Collection
from typing import Final

from rebalancer.act.bounds import Dialect
from rebalancer.act.deletion_cost import ANNOTATION as DELETION_COST
from rebalancer.act.driver import Refused
from rebalancer.act.hpa import HPA
from rebalancer.act.node_pool_parts import Parts, patch
from rebalancer.act.originals import annotated, saved_on
from rebalancer.act.scaled_object import SCALED_OBJECT
from rebalancer.domain.cluster import WorkloadRef
from rebalancer.kube.calls import FIELD_MANAGER
from rebalancer.kube.client import KubeClient
from rebalancer.kube.errors import Conflict, KubeError, NotFound
from rebalancer.kube.resources import NODEPOOLS, PODS, Object, Ref, Resource

TRIES: Final = 5  # an object that somebody else writes meanwhile is read again

Restore = Callable[[Object], Object | None]  # the merge patch that gives an object back, None when nothing is ours


async def hand_back(
    kube: KubeClient, only: Collection[WorkloadRef] | None, *, dry_run: bool, namespaces: Collection[str] = ()
) -> tuple[str, ...]:
    """Restore all of ours in the cluster, or the autoscalers of the workloads in `only`. Lines of what was done.

    `namespaces`: those that this installation manages (empty: all), when another one manages others. What fails is one
    line and stops nothing else: lines that begin with `failed` are what is left to do.
    """

    def here(restore: Restore) -> Restore:
        return lambda obj: restore(obj) if not namespaces or obj["metadata"]["namespace"] in namespaces else None

    lines: list[str] = []
    for dialect in (SCALED_OBJECT, HPA):
        lines += await _restore_all(kube, dialect.resource, here(_autoscaler_restorer(dialect, only)), dry_run=dry_run)
    if only is None:
        lines += await _restore_all(kube, NODEPOOLS, _node_pool, dry_run=dry_run)
        lines += await _restore_all(kube, PODS, here(_pod), dry_run=dry_run)
    return tuple(lines)


async def _restore_all(kube: KubeClient, resource: Resource, restore: Restore, *, dry_run: bool) -> list[str]:
    try:
        objects = (await kube.list(resource)).items
    except NotFound:
        return []  # the cluster has no such API, so nothing of ours in it
    except KubeError as error:
        return [f"failed {resource.plural}: {error}"]
    lines = [await _restore(kube, resource, obj, restore, dry_run=dry_run) for obj in objects]
    return [line for line in lines if line]


async def _restore(kube: KubeClient, resource: Resource, obj: Object, restore: Restore, *, dry_run: bool) -> str:
    """One line about one object; empty when nothing on it is ours."""
    ref = Ref(resource, obj["metadata"].get("namespace"), obj["metadata"]["name"])
    name = "/".join(filter(None, (resource.kind.lower(), ref.namespace, ref.name)))
    try:
        for _ in range(TRIES):
            body = restore(obj)
            if body is None:
                return ""
            if dry_run:
                return f"would restore {name}: {_told(body)}"
            # A pod is named by its uid instead: its status changes all the time.
            version = None if "uid" in body["metadata"] else obj["metadata"]["resourceVersion"]
            try:
                await kube.patch(ref, body, resource_version=version)
            except Conflict:
                obj = await kube.get(ref)
                continue
            return f"restored {name}: {_told(body)}"
    except NotFound:
        return ""
    except (KubeError, Refused) as error:
        return f"failed {name}: {error}"
    return f"failed {name}: changed by somebody else {TRIES} times in a row; run it again"


def _autoscaler_restorer(dialect: Dialect, only: Collection[WorkloadRef] | None) -> Restore:
    def restore(obj: Object) -> Object | None:
        target = obj.get("spec", {}).get("scaleTargetRef", {})
        workload = WorkloadRef(obj["metadata"]["namespace"], target.get("kind", "Deployment"), target.get("name", ""))
        if only is not None and workload not in only:
            return None
        if any(owner.get("kind") == "ScaledObject" for owner in obj["metadata"].get("ownerReferences") or ()):
            return None  # KEDA copies a ScaledObject's annotations to its HPA, and takes edits of it back
        saved = saved_on(obj)
        if saved is None:
            return None
        return {"metadata": annotated(None), "spec": dialect.spec(saved.get("min"), saved.get("max"))}

    return restore


def _node_pool(obj: Object) -> Object | None:
    saved = Parts.saved(obj)
    if saved is None:
        return None
    return patch(obj, Parts(saved.limits, Parts.of(obj).without_hold(saved).budgets))


def _pod(obj: Object) -> Object | None:
    """Deletion costs that we wrote, by the field manager the API server noted: others' stay."""
    key = f"f:{DELETION_COST}"
    for entry in obj["metadata"].get("managedFields") or ():
        annotations = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:annotations", {})
        if entry.get("manager") == FIELD_MANAGER and key in annotations:
            return {"metadata": {"uid": obj["metadata"]["uid"], "annotations": {DELETION_COST: None}}}
    return None


def _told(body: Object) -> str:
    """What a restoring patch sets, in words."""
    parts = [f"{key} {_shown(value)}" for key, value in body.get("spec", {}).items()]
    return ", ".join(parts) or "annotation removed"


def _shown(value: object) -> str:
    return "removed" if value is None else str(value)
