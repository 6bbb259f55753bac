"""The objects and their history. One revision counter for all, as in etcd; every change is told to the subscribers."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import NAMESPACE_OID, uuid5

import msgspec

from rebalancer.obs.clock import Clock
from rebalancer.sandbox.api import objects
from rebalancer.sandbox.api.resources import RESOURCES, Obj, ResourceTable, ServedResource
from rebalancer.sandbox.api.selection import Selection, Term
from rebalancer.sandbox.api.status import expired

HISTORY = 10_000  # changes kept per resource, so that a watch can go on where it was cut

Kind = Literal["ADDED", "MODIFIED", "DELETED"]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, eq=False)
class Revision:
    """One change of one object.

    kind: ADDED, MODIFIED or DELETED.
    resource: the resource that the object is of.
    obj: the object as it became, or as it was when it went.
    previous: the object before the change, None where there was none.
    revision: number of the change, counted over all resources; it is the object's resource version.
    raw: `obj` as JSON.
    """

    kind: Kind
    resource: ServedResource
    obj: Obj
    previous: Obj | None
    revision: int
    raw: bytes


class Log:
    """The latest changes of one resource. A position counts changes since the start, forgotten ones included."""

    def __init__(self, limit: int) -> None:
        self._changes: list[Revision] = []
        self._limit = limit
        self._forgotten = 0
        self._floor = 0  # revisions below have lost their successors

    def append(self, change: Revision) -> None:
        """Add the newest change; forget the older half when twice the limit is reached."""
        self._changes.append(change)
        if len(self._changes) >= 2 * self._limit:
            self.forget(self._changes[self._limit - 1].revision)

    def forget(self, revision: int) -> None:
        """Drop what happened up to `revision`."""
        count = bisect_right(self._changes, revision, key=lambda change: change.revision)
        del self._changes[:count]
        self._forgotten += count
        self._floor = revision

    @property
    def end(self) -> int:
        """The position behind the newest change."""
        return self._forgotten + len(self._changes)

    def position_after(self, revision: int) -> int:
        """Where to go on after `revision`. Raises StatusError 410 when that history is gone."""
        if revision < self._floor:
            raise _too_old(revision, self._floor)
        return self._forgotten + bisect_right(self._changes, revision, key=lambda change: change.revision)

    def since(self, position: int) -> list[Revision]:
        """The changes from `position` on. Raises StatusError 410 when some were forgotten unread."""
        if position < self._forgotten:
            raise _too_old(position, self._floor)
        return self._changes[position - self._forgotten :]


class Store:
    """Synchronous and cheap; belongs to one event loop. What it hands out is what it holds: read it, never change it.

    `put`, `patch` and `remove` are for the simulated cluster behind the API: they are trusted and check nothing.
    """

    def __init__(self, clock: Clock, resources: Iterable[ServedResource] = RESOURCES, history: int = HISTORY) -> None:
        self.table = ResourceTable(resources)
        self.revision = 1
        self._clock = clock
        self._current: dict[ServedResource, dict[tuple[str, str], Revision]] = {r: {} for r in self.table.resources}
        self._logs = {r: Log(history) for r in self.table.resources}
        self._subscribers: list[Callable[[Revision], None]] = []
        self._untold: deque[Revision] = deque()
        self._telling = False

    def get(self, resource: ServedResource, name: str, namespace: str = "") -> Obj | None:
        """The object, None when there is none."""
        change = self._current[resource].get((namespace, name))
        return change.obj if change else None

    def list(
        self, resource: ServedResource, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> Sequence[Obj]:
        """The objects of a resource by namespace and name; an empty namespace means all, `labels` must all be equal."""
        terms = tuple(Term(key, value, wanted=True) for key, value in (labels or {}).items())
        return [change.obj for change in self.select(resource, Selection(namespace, terms))]

    def select(self, resource: ServedResource, selection: Selection) -> Sequence[Revision]:
        """The last changes of the objects a selection wants, by namespace and name."""
        current = self._current[resource]
        return [current[key] for key in sorted(current) if selection.matches(current[key].obj)]

    def put(self, obj: Obj) -> Obj:
        """Create or replace as given (copied), status and all; uid, creationTimestamp and generation are kept up.

        Raises KeyError for a kind that is not served, ValueError when the namespace is missing or too much.
        """
        copy = _decode(_encode(obj))
        resource = self.table.of(copy)
        if resource.namespaced is not bool(copy["metadata"].get("namespace")):
            wrong = "needs a" if resource.namespaced else "has no"
            raise ValueError(f"{resource.kind} {copy['metadata']['name']!r} {wrong} namespace")
        return self.write(resource, copy)

    def patch(self, resource: ServedResource, name: str, patch: Obj, namespace: str = "") -> Obj:
        """Merge `patch` into an object, status and all. Raises KeyError when there is none."""
        old = self._current[resource][(namespace, name)].obj
        return self.write(resource, objects.merged(old, _decode(_encode(patch))))

    def delete(
        self, resource: ServedResource, name: str, namespace: str = "", grace_seconds: int | None = None
    ) -> Obj | None:
        """Ask for deletion, as a client does: pods on nodes and objects with finalizers are only marked."""
        old = self.get(resource, name, namespace)
        if old is None:
            return None
        wait = objects.grace(resource, old, grace_seconds)
        if not wait and not old["metadata"].get("finalizers"):
            return self.remove(resource, name, namespace)
        return self.write(resource, objects.dying(old, self._clock.now(), wait))

    def remove(self, resource: ServedResource, name: str, namespace: str = "", last: Obj | None = None) -> Obj | None:
        """Take an object away at once, as a kubelet or a last finalizer does; `last` is how it looked in the end."""
        old = self.get(resource, name, namespace)
        return self._commit("DELETED", resource, last or old, old) if old else None

    def write(self, resource: ServedResource, obj: Obj) -> Obj:
        """Store a finished object; an unchanged one makes no revision, as in the API server."""
        old = self.get(resource, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
        if old is None:
            return self._commit("ADDED", resource, self._named(resource, obj), None)
        aged = _aged(resource, old, objects.typed(resource, obj))
        return old if aged == old else self._commit("MODIFIED", resource, aged, old)

    def _named(self, resource: ServedResource, obj: Obj) -> Obj:
        """A new object's uid (the same in every run that makes the same changes), birth and generation."""
        metadata = obj["metadata"]
        seed = f"{resource.plural}/{metadata.get('namespace', '')}/{metadata['name']}/{self.revision}"
        given: Obj = {"uid": str(uuid5(NAMESPACE_OID, seed)), "creationTimestamp": objects.stamp(self._clock.now())}
        if resource.status:
            given["generation"] = 1
        return {**obj, "metadata": {**given, **metadata}}

    def _commit(self, kind: Kind, resource: ServedResource, obj: Obj, previous: Obj | None) -> Obj:
        self.revision += 1
        obj = objects.with_metadata(objects.typed(resource, obj), resourceVersion=str(self.revision))
        change = Revision(kind, resource, obj, previous, self.revision, _encode(obj))
        key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        if kind == "DELETED":
            del self._current[resource][key]
        else:
            self._current[resource][key] = change
        self._logs[resource].append(change)
        self._untold.append(change)
        self._tell()
        return obj

    def _tell(self) -> None:
        """Tell every subscriber every change in order, also those that subscribers make while being told."""
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                change = self._untold.popleft()
                for subscriber in tuple(self._subscribers):
                    subscriber(change)
        finally:
            self._telling = False

    def subscribe(self, callback: Callable[[Revision], None]) -> Callable[[], None]:
        """Call `callback` after every change, synchronously; it may write. Returns what ends the subscription."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def log(self, resource: ServedResource) -> Log:
        """The history that watches of `resource` read."""
        return self._logs[resource]

    def drop_history(self) -> None:
        """Forget every past change: a watch or a page that starts from an older revision is answered 410."""
        self.revision += 1
        for log in self._logs.values():
            log.forget(self.revision)


def _aged(resource: ServedResource, old: Obj, obj: Obj) -> Obj:
    """An existing object's next state: same uid and birth, a new generation if more than metadata or status changed."""
    metadata = {key: old["metadata"][key] for key in ("uid", "creationTimestamp", "resourceVersion")}
    if resource.status:
        metadata["generation"] = old["metadata"].get("generation", 1) + _differs(old, obj)
    return objects.with_metadata(obj, **metadata)


def _differs(old: Obj, new: Obj) -> bool:
    """Whether anything but metadata and status changed."""
    apart = {"metadata", "status"}
    return {k: v for k, v in old.items() if k not in apart} != {k: v for k, v in new.items() if k not in apart}


def _too_old(revision: int, floor: int) -> Exception:
    return expired(f"too old resource version: {revision} ({floor})")
