"""What the API server does to an object on its way in: patches, owned fields, scale, deletion marks. All pure.

Objects are never changed in place: every function returns a new dict that shares the untouched parts with the old one.
"""

from datetime import UTC, datetime

from rebalancer.sandbox.api.resources import Obj, ServedResource
from rebalancer.sandbox.api.status import Cause, StatusError, invalid

# Metadata that only the server writes.
OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion")
# Lists that a strategic merge patch merges by key instead of replacing (the ones anybody here patches).
MERGE_KEYS = {"conditions": "type", "containers": "name", "taints": "key", "env": "name"}
POD_GRACE_SECONDS = 30
POD_OVER = frozenset({"Succeeded", "Failed"})
KEDA_DEFAULT_MAX = 100


def stamp(at: float) -> str:
    """UTC epoch seconds as Kubernetes writes them."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def merged(obj: Obj, patch: Obj, *, strategic: bool = False) -> Obj:
    """A merge patch (RFC 7386) applied: null removes, dicts merge, all else replaces; `strategic` merges keyed lists.

    Raises StatusError 415 for the `$` directives of strategic merge patches.
    """
    result = dict(obj)
    for key, wanted in patch.items():
        there = result.get(key)
        if strategic and key.startswith("$"):
            raise StatusError(415, f"strategic merge directive {key!r} is not served here")
        if wanted is None:
            result.pop(key, None)
        elif isinstance(wanted, dict):
            result[key] = merged(there if isinstance(there, dict) else {}, wanted, strategic=strategic)
        elif strategic and key in MERGE_KEYS and isinstance(wanted, list):
            result[key] = _merged_list(there or [], wanted, MERGE_KEYS[key])
        else:
            result[key] = wanted
    return result


def _merged_list(items: list[Obj], patches: list[Obj], key: str) -> list[Obj]:
    by_key = {item.get(key): item for item in items}
    for patch in patches:
        by_key[patch.get(key)] = merged(by_key.get(patch.get(key), {}), patch, strategic=True)
    return list(by_key.values())


def typed(resource: ServedResource, obj: Obj) -> Obj:
    """`obj` with `apiVersion` and `kind` filled in, and in front."""
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**head, **{key: value for key, value in obj.items() if key not in head}}


def with_metadata(obj: Obj, **metadata: object) -> Obj:
    """`obj` with these metadata fields set."""
    return {**obj, "metadata": {**obj.get("metadata", {}), **metadata}}


def born(resource: ServedResource, obj: Obj) -> Obj:
    """What a client may create: no fields of the server's, and no status where that is a subresource."""
    metadata = {key: value for key, value in obj.get("metadata", {}).items() if key not in OWNED}
    given = {key: value for key, value in obj.items() if key != "status" or not resource.status}
    if resource.plural == "pods":
        given["status"] = {"phase": "Pending"}
    return {**given, "metadata": metadata}


def view(obj: Obj, subresource: str) -> Obj:
    """What a client sees of `obj` through a subresource: a Scale, or the object itself."""
    if subresource != "scale":
        return obj
    metadata = {
        key: obj["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }
    labels = obj.get("spec", {}).get("selector", {}).get("matchLabels", {})
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": obj.get("spec", {}).get("replicas", 1)},
        "status": {"replicas": obj.get("status", {}).get("replicas", 0), "selector": selector},
    }


def settled(resource: ServedResource, old: Obj, wanted: Obj, subresource: str) -> Obj:
    """What becomes of `old` when a client asks for `wanted` through a subresource ("" is the object itself)."""
    if subresource == "status":
        return {**old, "status": wanted.get("status", {})}
    if subresource == "scale":
        return merged(old, {"spec": {"replicas": wanted.get("spec", {}).get("replicas") or 0}})
    new = born(resource, wanted)
    if resource.status:
        new.pop("status", None)
        new |= {"status": old["status"]} if "status" in old else {}
    unchanged = ("name", "namespace", *OWNED)
    return with_metadata(new, **{key: old["metadata"][key] for key in unchanged if key in old["metadata"]})


def managed(old: Obj, new: Obj, manager: str) -> Obj:
    """`new` with `metadata.managedFields` saying whose the top fields of `spec` are, as far as writes changed them.

    Entries about other parts of the object stay as they are.
    """
    before, after = old.get("spec", {}), new.get("spec", {})
    changed: Obj = {f"f:{key}": {} for key in {**before, **after} if before.get(key) != after.get(key)}
    owned: dict[str, Obj] = {
        entry["manager"]: {key: value for key, value in entry["fieldsV1"]["f:spec"].items() if key not in changed}
        for entry in old["metadata"].get("managedFields", ())
        if "f:spec" in entry["fieldsV1"]
    }
    others = [entry for entry in old["metadata"].get("managedFields", ()) if "f:spec" not in entry["fieldsV1"]]
    owned[manager] = owned.get(manager, {}) | changed
    entries = [
        {"manager": name, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}}
        for name, fields in owned.items()
        if fields
    ]
    return with_metadata(new, managedFields=[*others, *entries]) if others or entries else new


def grace(resource: ServedResource, obj: Obj, asked_seconds: int | None) -> int:
    """Seconds a deletion waits for the kubelet: only a pod on a node that has not ended has one to wait for."""
    spec = obj.get("spec", {})
    if resource.plural != "pods" or not spec.get("nodeName") or obj.get("status", {}).get("phase") in POD_OVER:
        return 0
    own = int(spec.get("terminationGracePeriodSeconds", POD_GRACE_SECONDS))
    return own if asked_seconds is None else asked_seconds


def dying(obj: Obj, now: float, grace_seconds: int) -> Obj:
    """`obj` marked for deletion; a second request can only shorten the grace."""
    metadata = obj["metadata"]
    if metadata.get("deletionGracePeriodSeconds", grace_seconds + 1) <= grace_seconds:
        return obj
    marks = {"deletionTimestamp": stamp(now + grace_seconds), "deletionGracePeriodSeconds": grace_seconds}
    return with_metadata(obj, **marks)


def released(obj: Obj) -> bool:
    """Whether nothing holds a dying object any more: no finalizer, no kubelet."""
    metadata = obj["metadata"]
    held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    return "deletionTimestamp" in metadata and not held


def check(resource: ServedResource, obj: Obj) -> None:
    """The schema rules that our writes could break. Raises StatusError 422."""
    spec, name = obj.get("spec", {}), obj["metadata"]["name"]
    if resource.scale and _number(spec.get("replicas"), 1) < 0:
        raise invalid(resource, name, Cause("spec.replicas", "must be greater than or equal to 0"))
    if resource.plural == "horizontalpodautoscalers":
        low, high = _number(spec.get("minReplicas"), 1), _number(spec.get("maxReplicas"), 0)
        if not 1 <= low <= high:
            why = "must be greater than or equal to `minReplicas`, from 1"
            raise invalid(resource, name, Cause("spec.maxReplicas", why))
    if resource.plural == "scaledobjects":
        # KEDA's rule counts an unset maximum as 100.
        low, high = _number(spec.get("minReplicaCount"), 0), _number(spec.get("maxReplicaCount"), KEDA_DEFAULT_MAX)
        if low > high or high < 1:
            why = "MinReplicaCount must be less than or equal to MaxReplicaCount"
            raise invalid(resource, name, Cause("spec", why))


def _number(value: object, default: int) -> int:
    """An integer field; -1, which no rule lets pass, when it is something else."""
    if value is None:
        return default
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
