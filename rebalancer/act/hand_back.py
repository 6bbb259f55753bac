"""Gives back what we took: bounds, limits and budgets as saved on the objects, and our deletion costs.

Found by what is on the objects themselves, so that it works without the service, its policy or its memory.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Final

from rebalancer.act.bounds import Dialect
from rebalancer.act.deletion_cost import ANNOTATION as DELETION_COST
from rebalancer.act.driver import Refused
from rebalancer.act.hpa import HPA
from rebalancer.act.node_pool_parts import Parts, patch
from rebalancer.act.originals import annotated, owner_of, saved_on
from rebalancer.act.port import Port
from rebalancer.act.scaled_object import SCALED_OBJECT
from rebalancer.kube.calls import FIELD_MANAGER
from rebalancer.kube.errors import Conflict, KubeError, NotFound
from rebalancer.kube.resources import HPAS, NODEPOOLS, PODS, SCALEDOBJECTS, Object, Ref, Resource

TRIES: Final = 5  # an object that somebody else writes meanwhile is read again

Restore = Callable[[Object], Object | None]  # the merge patch that gives an object back, None when nothing is ours
Ask = Callable[[], Awaitable[None]]  # asked before each write; raises Refused when it must not be


async def hand_back(
    kube: Port, installation: str, *, dry_run: bool, unnamed: bool = False, namespaces: Collection[str] = ()
) -> tuple[str, ...]:
    """Restore all that `installation` wrote to in the cluster. Lines of what was done.

    `unnamed`: also what carries no installation's name, as an older version left it. `namespaces`: only in these, and
    NodePools (empty: everywhere). What fails is one line and stops nothing else: lines that begin with `failed` are
    what is left to do, those that begin with `left` are not ours by name.
    """

    def here(restore: Restore) -> Restore:
        return lambda obj: restore(obj) if not namespaces or obj["metadata"]["namespace"] in namespaces else None

    lines: list[str] = []
    for resource in (SCALEDOBJECTS, HPAS, NODEPOOLS):
        restore = restorer(resource, installation, unnamed=unnamed)
        lines += await _restore_all(kube, resource, here(restore) if resource.namespaced else restore, dry_run=dry_run)
    lines += await _restore_all(kube, PODS, here(_pod), dry_run=dry_run)
    return tuple(lines)


def restorer(resource: Resource, installation: str, *, unnamed: bool) -> Restore:
    """A function that makes the patch by which an autoscaler or a NodePool gets its own values back.

    It raises Refused for what another installation wrote to, and without `unnamed` for what carries no name.
    """
    dialect = SCALED_OBJECT if resource == SCALEDOBJECTS else HPA

    def restore(obj: Object) -> Object | None:
        saved = None if _is_kedas(obj) else saved_on(obj, installation)
        if saved is None:
            return None
        if not unnamed and owner_of(saved) != installation:
            raise Refused("installation", "it carries no installation's name; `hand-back --unnamed` gives it back")
        return _node_pool(obj, installation) if resource == NODEPOOLS else _autoscaler(saved, dialect)

    return restore


async def write_back(kube: Port, ref: Ref, obj: Object, restore: Restore, ask: Ask) -> Object | None:
    """Write the patch that `restore` makes of `obj`, read again when somebody else wrote it meanwhile.

    What was written, None when nothing was. Raises Refused, and KubeErrors: Conflict when it was changed each time.
    """
    for _ in range(TRIES):
        body = restore(obj)
        if body is None:
            return None
        await ask()
        # A pod is named by its uid instead: its status changes all the time.
        version = None if "uid" in body["metadata"] else obj["metadata"]["resourceVersion"]
        try:
            await kube.patch(ref, body, resource_version=version)
        except Conflict:
            obj = await kube.get(ref)
            continue
        return body
    raise Conflict(f"changed by somebody else {TRIES} times in a row; run it again")


def values_text(body: Object) -> str:
    """The values that a restoring patch sets, in words."""
    parts = [f"{key} {_shown(value)}" for key, value in body.get("spec", {}).items()]
    return ", ".join(parts) or "annotation removed"


async def _restore_all(kube: Port, resource: Resource, restore: Restore, *, dry_run: bool) -> list[str]:
    try:
        objects = (await kube.list(resource)).items
    except NotFound:
        return []  # the cluster has no such API, so nothing of ours in it
    except KubeError as error:
        return [f"failed {resource.plural}: {error}"]
    lines = [await _restore(kube, resource, obj, restore, dry_run=dry_run) for obj in objects]
    return [line for line in lines if line]


async def _restore(kube: Port, resource: Resource, obj: Object, restore: Restore, *, dry_run: bool) -> str:
    """One line about one object; empty when nothing on it is ours."""
    ref = Ref(resource, obj["metadata"].get("namespace"), obj["metadata"]["name"])
    name = "/".join(filter(None, (resource.kind.lower(), ref.namespace, ref.name)))
    try:
        body = restore(obj) if dry_run else await write_back(kube, ref, obj, restore, _always)
    except NotFound:
        return ""
    except Refused as refused:
        return f"{'left' if refused.check == 'installation' else 'failed'} {name}: {refused}"
    except KubeError as error:
        return f"failed {name}: {error}"
    except Exception as error:  # noqa: BLE001  # it is told; an object that cannot be understood concerns itself alone
        return f"failed {name}: it cannot be understood: {type(error).__name__}: {error}"
    if body is None:
        return ""
    return f"{'would restore' if dry_run else 'restored'} {name}: {values_text(body)}"


async def _always() -> None:
    """A person's command asks nobody."""


def _is_kedas(obj: Object) -> bool:
    """KEDA copies a ScaledObject's annotations to its HPA, and takes edits of it back."""
    return any(owner.get("kind") == "ScaledObject" for owner in obj["metadata"].get("ownerReferences") or ())


def _autoscaler(saved: Object, dialect: Dialect) -> Object:
    return {"metadata": annotated(None), "spec": dialect.spec(saved.get("min"), saved.get("max"))}


def _node_pool(obj: Object, installation: str) -> Object | None:
    saved = Parts.saved(obj, installation)
    if saved is None:
        return None
    return patch(obj, Parts(saved.limits, Parts.of(obj).without_hold(saved).budgets), installation)


def _pod(obj: Object) -> Object | None:
    """Deletion costs that we wrote, by the field manager the API server noted: others' stay."""
    key = f"f:{DELETION_COST}"
    for entry in obj["metadata"].get("managedFields") or ():
        annotations = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:annotations", {})
        if entry.get("manager") == FIELD_MANAGER and key in annotations:
            return {"metadata": {"uid": obj["metadata"]["uid"], "annotations": {DELETION_COST: None}}}
    return None


def _shown(value: object) -> str:
    return "removed" if value is None else str(value)
