"""What each verb does to the store: list, get, create, update, patch, delete, evict. No HTTP here, nothing waits."""

import base64
import itertools
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rebalancer.sandbox.api import objects
from rebalancer.sandbox.api.json_patch import json_patched
from rebalancer.sandbox.api.resources import Obj, Target
from rebalancer.sandbox.api.schemas import conforming
from rebalancer.sandbox.api.selection import Selection
from rebalancer.sandbox.api.status import (
    Cause,
    StatusError,
    already_exists,
    conflict,
    expired,
    integer,
    invalid,
    not_found,
    success,
)
from rebalancer.sandbox.api.store import Revision, Store

JSON_PATCH = "application/json-patch+json"
SNAPSHOTS = 16  # paged lists that can be under way at once

Admit = Callable[[Target, Obj | None, Obj], None]  # (target, old or None, new): raises StatusError to refuse a write
RefuseEviction = Callable[[Obj], str | None]  # (pod): the reason to refuse its eviction, None to allow it
Snapshot = tuple[int, Sequence[Revision]]  # a list as it was at a revision


@dataclass(frozen=True)
class ApiRequest:
    """One request, decoded.

    method: its HTTP method.
    target: what its path points at.
    query: parameters of its query, by name.
    body: its decoded JSON, a list for a JSON patch; {} where it has no body.
    content_type: media type of the body, by which the kinds of patches differ.
    agent: its User-Agent, which names the program that sends it; fields that it changes are noted as that program's
        own, unless the query names a field manager.
    """

    method: str
    target: Target
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = field(default_factory=dict)
    content_type: str = "application/json"
    agent: str = "unknown"

    @property
    def manager(self) -> str:
        """The field manager of a write."""
        return self.query.get("fieldManager") or self.agent.partition("/")[0]


class Verbs:
    """The API's verbs over one store; `admit` and `refuse_eviction` are how a test or a demo says no."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.admit: Admit = lambda _target, _old, _new: None
        self.refuse_eviction: RefuseEviction = lambda _pod: None
        self._snapshots: OrderedDict[int, Snapshot] = OrderedDict()
        self._serials = itertools.count(1)

    def answer(self, call: ApiRequest) -> tuple[int, Obj]:
        """The HTTP status and the body that answer a call on one object, or a create. Raises StatusError."""
        if "dryRun" in call.query:
            raise StatusError(400, "dryRun is not served here")
        part = call.target.subresource
        if (call.method, part) == ("POST", "eviction"):
            return self._evict(call)
        if call.method == "POST" and not call.target.name:
            return self._create(call)
        allowed = {"GET": self._get, "PUT": self._change, "PATCH": self._change}
        if not part:
            allowed["DELETE"] = self._delete
        if not call.target.name or part == "eviction" or call.method not in allowed:
            raise StatusError(405, "the server does not allow this method on the requested resource")
        return 200, allowed[call.method](call)

    def page(self, call: ApiRequest) -> tuple[Sequence[Revision], Obj]:
        """The objects of one page of a list, and the list's metadata.

        Raises StatusError 410 for a page of a lost list.
        """
        resource, limit = call.target.resource, integer(call.query.get("limit") or 0, "limit")
        token = call.query.get("continue")
        serial, start = _opened(token) if token else (next(self._serials), 0)
        if token:
            revision, items = self._snapshot(serial)
            self.store.log(resource).position_after(revision)
        else:
            selection = Selection.parse(call.target.namespace, call.query)
            revision, items = self.store.revision, self.store.select(resource, selection)
        metadata: Obj = {"resourceVersion": str(revision)}
        end = start + limit if limit else len(items)
        if end < len(items):
            self._keep(serial, (revision, items))
            metadata |= {"continue": _token(serial, end), "remainingItemCount": len(items) - end}
        return items[start:end], metadata

    def _snapshot(self, serial: int) -> Snapshot:
        if serial not in self._snapshots:
            raise expired("the provided continue parameter is too old to display a consistent list result")
        return self._snapshots[serial]

    def _keep(self, serial: int, snapshot: Snapshot) -> None:
        """Later pages come from the list as it was: objects are never changed in place, so references do."""
        self._snapshots[serial] = snapshot
        while len(self._snapshots) > SNAPSHOTS:
            self._snapshots.popitem(last=False)

    def _stored(self, target: Target) -> Obj:
        obj = self.store.get(target.resource, target.name, target.namespace)
        if obj is None:
            raise not_found(target.resource, target.name)
        return obj

    def _get(self, call: ApiRequest) -> Obj:
        return objects.view(self._stored(call.target), call.target.subresource)

    def _create(self, call: ApiRequest) -> tuple[int, Obj]:
        target, body = call.target, call.body
        resource, metadata = target.resource, body.get("metadata", {})
        name = metadata.get("name") or f"{metadata.get('generateName', '')}{self.store.revision:05d}"
        _agree(call, objects.typed(resource, {}), body)
        if not metadata.get("name") and not metadata.get("generateName"):
            raise invalid(resource, "", Cause("metadata.name", "name or generateName is required"))
        if resource.namespaced and not target.namespace:
            raise StatusError(400, f"{resource.kind} needs a namespace in the request path")
        if self.store.get(resource, name, target.namespace):
            raise already_exists(resource, name)
        place = {"name": name, **({"namespace": target.namespace} if target.namespace else {})}
        new = objects.with_metadata(objects.born(resource, body), **place)
        return 201, self.store.write(resource, self._checked(call, None, new))

    def _change(self, call: ApiRequest) -> Obj:
        """PUT and PATCH, of an object or a subresource: what the client sees is replaced or patched, then settled."""
        resource, part = call.target.resource, call.target.subresource
        old = self._stored(call.target)
        seen = objects.view(old, part)
        wanted = call.body if call.method == "PUT" else _patched(call, seen)
        _agree(call, seen, wanted)
        new = objects.managed(old, objects.settled(resource, old, wanted, part), call.manager)
        new = self._checked(call, old, new)
        if objects.released(new):
            return self.store.remove(resource, call.target.name, call.target.namespace, last=new) or new
        return objects.view(self.store.write(resource, new), part)

    def _checked(self, call: ApiRequest, old: Obj | None, new: Obj) -> Obj:
        """The object as it may be stored. Raises StatusError for what its schema or `admit` refuses."""
        resource = call.target.resource
        objects.check(resource, new)
        new = conforming(resource, old, new, strict=call.query.get("fieldValidation") == "Strict")
        self.admit(call.target, old, new)
        return new

    def _delete(self, call: ApiRequest) -> Obj:
        target = call.target
        old = self._stored(target)
        _hold(target, old, call.body.get("preconditions") or {})
        seconds = call.query.get("gracePeriodSeconds", call.body.get("gracePeriodSeconds"))
        grace = None if seconds is None else integer(seconds, "gracePeriodSeconds")
        self.store.delete(target.resource, target.name, target.namespace, grace)
        left = self.store.get(target.resource, target.name, target.namespace)
        return left or success(target.resource, old)

    def _evict(self, call: ApiRequest) -> tuple[int, Obj]:
        pod = self._stored(call.target)
        options = call.body.get("deleteOptions") or {}
        _hold(call.target, pod, options.get("preconditions") or {})
        refusal = self.refuse_eviction(pod)
        if refusal:
            causes = [{"reason": "DisruptionBudget", "message": refusal}]
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            raise StatusError(429, message, details={"causes": causes})
        self._delete(ApiRequest("DELETE", call.target, body=options))
        return 201, success(call.target.resource, pod)


def _patched(call: ApiRequest, seen: Obj) -> Obj:
    """The object a PATCH asks for. Raises StatusError 415 for patches this API does not speak."""
    if call.content_type == JSON_PATCH:
        return json_patched(seen, call.body)
    if call.content_type == "application/merge-patch+json":
        return objects.merged(seen, call.body)
    if call.content_type == "application/strategic-merge-patch+json" and not call.target.resource.custom:
        return objects.merged(seen, call.body, strategic=True)
    raise StatusError(415, f"the body of the request was in an unsupported format ({call.content_type})")


def _agree(call: ApiRequest, seen: Obj, wanted: Obj) -> None:
    """Raise StatusError unless `wanted` is the object that the path names, at the revision its client read."""
    for key in ("apiVersion", "kind"):
        if wanted.get(key, seen[key]) != seen[key]:
            raise StatusError(400, f"{key} in the body ({wanted[key]}) is not that of the request ({seen[key]})")
    target, metadata = call.target, wanted.get("metadata", {})
    for key, named in (("name", target.name), ("namespace", target.namespace)):
        if named and metadata.get(key, named) != named:
            raise StatusError(400, f"the {key} of the object ({metadata[key]}) does not match the request ({named})")
    if call.method == "POST":
        return
    if target.resource.guarded and target.subresource != "scale" and not metadata.get("resourceVersion"):
        cause = Cause("metadata.resourceVersion", "must be specified for an update")
        raise invalid(target.resource, target.name, cause)
    _hold(target, seen, metadata)


def _hold(target: Target, obj: Obj, preconditions: Obj) -> None:
    """Raise StatusError 409 unless the uid and resourceVersion named in `preconditions` are still the object's."""
    changed = "the object has been modified; please apply your changes to the latest version and try again"
    for key, why in (("uid", "the UID in the precondition is not the object's"), ("resourceVersion", changed)):
        expected = preconditions.get(key)
        if expected and expected != obj["metadata"][key]:
            raise conflict(target.resource, target.name, why)


def _token(serial: int, start: int) -> str:
    return base64.urlsafe_b64encode(f"{serial}:{start}".encode()).decode()


def _opened(token: str) -> tuple[int, int]:
    try:
        serial, start = base64.urlsafe_b64decode(token).decode().split(":")
        return int(serial), int(start)
    except ValueError as error:
        raise StatusError(400, f"continue key is not valid: {token!r}") from error
