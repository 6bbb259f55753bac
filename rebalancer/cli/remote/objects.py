"""The objects that decisions become, and their way to the API server: once, however often it is tried."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime

from rebalancer.api.ports.requests import OverrideRequest
from rebalancer.cli.failure import UNREACHABLE, Failed
from rebalancer.cli.remote.cluster import OpenedCluster
from rebalancer.kube.errors import Ambiguous, Conflict, Forbidden, NotFound
from rebalancer.kube.resources import OVERRIDES, WRITESTOPS, Object, Ref, Resource

TRIES = 3
STATUS_SECONDS = 5.0
POLL_SECONDS = 0.25


def override_name(actor: str, key: str) -> str:
    """An Override's name, the same for each repeat of `key` by one person."""
    return f"ov-{hashlib.sha256(f'cli {actor} {key}'.encode()).hexdigest()[:12]}"


def stop_name(key: str) -> str:
    """A WriteStop's name, the same for each repeat of `key`. Each press has its own: a resume takes those it showed."""
    return f"stop-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def override_object(request: OverrideRequest, name: str, namespace: str, actor: str, expires_at: float) -> Object:
    """The Override as it is to be stored."""
    target = {"model": request.target.model, "node": request.target.node, "pool": request.target.pool}
    spec: Object = {
        "kind": request.kind,
        "target": {key: value for key, value in target.items() if value is not None},
        "reason": request.reason,
        "expiresAt": datetime.fromtimestamp(round(expires_at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "actor": actor,
    }
    if request.value is not None:
        spec["value"] = request.value
    if request.allow_below_floor:
        spec["allowBelowFloor"] = True
    return _object(OVERRIDES, {"name": name, "namespace": namespace}, spec)


def stop_object(name: str, reason: str, actor: str) -> Object:
    """The WriteStop as it is to be stored."""
    return _object(WRITESTOPS, {"name": name}, {"reason": reason, "actor": actor})


def _object(resource: Resource, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


async def create_once(cluster: OpenedCluster, resource: Resource, obj: Object) -> Object:
    """Create `obj`, whose name its key chose; the object as stored. A lost reply is tried again: no second one comes.

    Raises Failed when another decision has the name, KubeError when the API server refuses.
    """
    ref = Ref(resource, obj["metadata"].get("namespace"), obj["metadata"]["name"])
    for _ in range(TRIES):
        try:
            return await cluster.kube.create(resource, obj)
        except Conflict as conflict:
            if not conflict.already_exists:
                raise
            return _same(obj, await cluster.kube.get(ref))
        except Ambiguous:
            continue  # made or not: the same name says which
    raise Failed(f"no reply about {ref.name} after {TRIES} tries; it may have been applied: look", UNREACHABLE)


def _same(wanted: Object, existing: Object) -> Object:
    decided = {key: value for key, value in wanted["spec"].items() if key != "expiresAt"}  # a repeat comes later
    if all(existing["spec"].get(key) == value for key, value in decided.items()):
        return existing
    raise Failed(f"{wanted['metadata']['name']} is another decision, made with the same --key: choose another key")


async def with_status(cluster: OpenedCluster, ref: Ref) -> Object | None:
    """The object once its status says something; None when it does not within 5 s."""
    give_up = cluster.clock.monotonic() + STATUS_SECONDS
    while True:
        obj = await cluster.kube.get(ref)
        if obj.get("status", {}).get("phase"):
            return obj
        if cluster.clock.monotonic() > give_up:
            return None
        await cluster.clock.sleep(POLL_SECONDS)


async def find_override(cluster: OpenedCluster, name: str) -> Ref:
    """Where the override `name` is. Raises Failed when it is nowhere, or in several namespaces."""
    try:
        namespaces = await _namespaces_of(cluster, name)
    except Forbidden as error:
        what = f"you may not look for {name} in every namespace"
        raise Failed(f"{what}: say where it is with -n NAMESPACE") from error
    if not namespaces:
        raise Failed(f"no override {name}; rebalancer override list shows them")
    if len(namespaces) > 1:
        raise Failed(f"override {name} is in {', '.join(namespaces)}: say which with -n")
    return Ref(OVERRIDES, namespaces[0], name)


async def override_in(cluster: OpenedCluster, name: str, namespace: str, warn: Callable[[str], None]) -> Ref | None:
    """The override `name` in `namespace`, None when it is gone from there. Raises Failed when it is elsewhere.

    `warn` is called when it is gone from there and nobody may look elsewhere.
    """
    ref = Ref(OVERRIDES, namespace, name)
    try:
        await cluster.kube.get(ref)
    except NotFound:
        pass  # it may be elsewhere, and in force
    except Forbidden:  # who may delete it need not be let read it
        return ref
    else:
        return ref
    try:
        elsewhere = await _namespaces_of(cluster, name)
    except Forbidden:
        warn(f"warning: {name} is not in {namespace}; you may not look whether it is in force in another namespace")
        return None
    if elsewhere:
        raise Failed(f"override {name} is in {', '.join(elsewhere)}, not in {namespace}; it was not taken back")
    return None


async def _namespaces_of(cluster: OpenedCluster, name: str) -> list[str]:
    items = (await cluster.kube.list(OVERRIDES)).items
    return sorted(each["metadata"]["namespace"] for each in items if each["metadata"]["name"] == name)


async def remove(cluster: OpenedCluster, ref: Ref, *, uid: str | None = None) -> bool:
    """Delete; whether it was there. With `uid` only that very object. A lost reply is tried again."""
    for _ in range(TRIES):
        try:
            await cluster.kube.delete(ref, uid=uid)
            return True
        except NotFound:
            return False
        except Conflict:
            if uid is None:
                raise
            return False  # another has its name by now
        except Ambiguous:
            continue
    raise Failed(f"no reply about {ref.name} after {TRIES} tries; it may be gone: look", UNREACHABLE)
