"""The Kubernetes objects as last seen, one store per source, and the few indexes that the views need."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar, cast

from rebalancer.domain.autoscalers import Hpa, PodAutoscaler, ScaledObject
from rebalancer.domain.cluster import (
    DEVICE_SOURCES,
    GROUP_SOURCES,
    SOURCES,
    ClusterObject,
    Node,
    NodeClaim,
    Pod,
    Workload,
)
from rebalancer.domain.events import ObjectChanged, ObjectGone, ObjectsListed, ObjectUnreadable
from rebalancer.domain.workload_ref import WorkloadRef
from rebalancer.state.claims import Claims

T = TypeVar("T", bound=ClusterObject)

Key = tuple[str, str]  # namespace ("" where there is none), name
Change = tuple[ClusterObject | None, ClusterObject | None]  # before, after; an object made anew is two changes


class Index(Generic[T]):
    """Objects of one source by something they may share."""

    def __init__(self, key: Callable[[T], object | None]) -> None:
        self._key = key
        self._by_key: dict[object, dict[Key, T]] = {}

    def move(self, old: T | None, new: T | None) -> None:
        """Replace `old` by `new`."""
        if old is not None and (key := self._key(old)) is not None:
            bucket = self._by_key[key]
            del bucket[key_of(old)]
            if not bucket:
                del self._by_key[key]
        if new is not None and (key := self._key(new)) is not None:
            self._by_key.setdefault(key, {})[key_of(new)] = new

    def get(self, key: object) -> Iterable[T]:
        """Whatever shares `key`, in no particular order."""
        return self._by_key.get(key, {}).values()


class Objects:
    """The objects of all sources. A relist is the full truth; a single object never goes back to an older version."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.listed: set[str] = set()  # sources of which a complete list came
        self._stores: dict[str, dict[Key, ClusterObject]] = {source: {} for source in SOURCES}
        self._unread: dict[str, set[Key]] = {source: set() for source in SOURCES}  # there, as nobody knows
        self._kinds = dict(SOURCES)
        self._source_of: dict[str, str] = {}
        self._claims = Claims()
        self.pods_of = Index[Pod](lambda pod: pod.workload)
        self.pods_numbered = Index[Pod](_numbered)
        self.pods_on = Index[Pod](lambda pod: pod.node)
        self.device_pods_in = Index[Pod](lambda pod: pod.namespace if pod.gpus else None)
        self.hpas_of = Index[Hpa](lambda hpa: hpa.target)
        self.scaled_objects_of = Index[ScaledObject](lambda scaled: scaled.target)
        self.pod_autoscalers_of = Index[PodAutoscaler](lambda each: each.target)
        self.claims_of = Index[NodeClaim](lambda claim: claim.node_pool)
        self.nodes_of_instance = Index[Node](lambda node: instance_id(node.provider_id))
        self._indexes: dict[type, tuple[Index[ClusterObject], ...]] = {
            kind: cast("tuple[Index[ClusterObject], ...]", indexes)
            for kind, indexes in (
                (Pod, (self.pods_of, self.pods_numbered, self.pods_on, self.device_pods_in)),
                (Hpa, (self.hpas_of,)),
                (ScaledObject, (self.scaled_objects_of,)),
                (PodAutoscaler, (self.pod_autoscalers_of,)),
                (NodeClaim, (self.claims_of,)),
                (Node, (self.nodes_of_instance,)),
            )
        }

    def follow(self, sources: Mapping[str, str], others: Mapping[str, type]) -> Iterator[Change]:
        """Take targets of other kinds from `sources` too, each with its kind; what came from others is forgotten.

        `others`: sources of other objects, as of `domain.cluster.sources_beside`.
        """
        besides: dict[str, type] = dict.fromkeys(sources, Workload) | {**others}
        for source in [source for source in self._kinds if source not in SOURCES and source not in besides]:
            for key in tuple(self._stores[source]):
                yield from self._put(source, key, None)
            del self._stores[source], self._unread[source], self._kinds[source]
            self.listed.discard(source)
        for source, kind in besides.items():
            if source not in self._kinds:
                self._stores[source], self._unread[source], self._kinds[source] = {}, set(), kind
        self._source_of = {kind: source for source, kind in sources.items()}

    def takes(self, source: str) -> bool:
        """Whether objects of `source` are of use."""
        return source in self._kinds

    # --- looking things up

    def all(self, kind: type[T]) -> Iterable[T]:
        """Every object of one kind, in no particular order."""
        return cast("Iterable[T]", self._stores.get(_SOURCE_OF[kind], {}).values())

    def one(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """The object of that name, None when there is none."""
        return cast("T | None", self._stores.get(_SOURCE_OF[kind], {}).get((namespace, name)))

    def workload(self, ref: WorkloadRef) -> Workload | None:
        """The scale target `ref` names."""
        source = self._source_of.get(ref.kind, "deployments")
        workload = cast("Workload | None", self._stores[source].get((ref.namespace, ref.name)))
        return workload if workload is not None and workload.ref == ref else None

    def node_of_instance(self, instance: str) -> Node | None:
        """The node that runs on cloud instance `instance` (see `instance_id`).

        None, too, where machines of several zones or resource groups share that name: nobody knows which is meant.
        """
        nodes = tuple(self.nodes_of_instance.get(instance))
        return nodes[0] if len({node.provider_id.lower() for node in nodes}) == 1 else None

    def lacks(self, node: str | None) -> bool:
        """Whether nodes were listed and this one is not among them: gone, or never seen yet.

        One that is among them and cannot be read is there, also where it was never read before.
        """
        known = node is None or self.one(Node, node) is not None or ("", node) in self._unread["nodes"]
        return not known and "nodes" in self.listed

    # --- what comes in

    def relisted(self, event: ObjectsListed) -> Iterator[Change]:
        """Take a list as the full truth; yields what differs, each after it took effect."""
        self.listed.add(event.source)
        listed = {key_of(obj): obj for obj in event.objects}
        self._unread[event.source] = {_key(name) for name in event.unreadable}
        staying = listed.keys() | self._unread[event.source]
        for key in [key for key in self._stores[event.source] if key not in staying]:
            yield from self._put(event.source, key, None)
        for key, obj in listed.items():
            yield from self._put(event.source, key, obj)

    def changed(self, event: ObjectChanged) -> Iterator[Change]:
        """Take one object as it stands now, unless what we have of it is younger."""
        key = key_of(event.object)
        self._unread[event.source].discard(key)
        known = self._stores[event.source].get(key)
        if known is not None and known.uid == event.object.uid and _older(event.object, known):
            self.counters["older-object"] += 1
            return
        yield from self._put(event.source, key, event.object)

    def unreadable(self, event: ObjectUnreadable) -> None:
        """Note that one object is there, whatever it is like."""
        self._unread[event.source].add(_key(event.name))

    def gone(self, event: ObjectGone) -> Iterator[Change]:
        """Forget one object; another one of the same name stays."""
        key = key_of(event.object)
        self._unread[event.source].discard(key)
        known = self._stores[event.source].get(key)
        if known is not None and known.uid == event.object.uid:
            yield from self._put(event.source, key, None)

    def _put(self, source: str, key: Key, new: ClusterObject | None) -> Iterator[Change]:
        store = self._stores[source]
        old = store.get(key)
        if isinstance(new, Pod):
            new = self._claims.claimed(new)
        if old == new:
            return
        if old is not None and new is not None and old.uid != new.uid:
            yield from self._put(source, key, None)
            old = None
        if new is None:
            del store[key]
            if isinstance(old, Pod):
                self._claims.gone(old)
        else:
            store[key] = new
        for index in self._indexes.get(self._kinds[source], ()):
            index.move(old, new)
        yield old, new
        if self._kinds[source] is Workload and self._claims.moved(old, new):
            for pod in [pod for pod in self.all(Pod) if pod.labels and pod.namespace == key[0]]:
                yield from self._put("pods", key_of(pod), self._claims.own(pod))


_SOURCE_OF: Mapping[type, str] = {kind: source for source, kind in (SOURCES | DEVICE_SOURCES | GROUP_SOURCES).items()}


def key_of(obj: ClusterObject) -> Key:
    """The object's key: namespace ("" where it has none) and name."""
    if isinstance(obj, Workload):
        return obj.ref.namespace, obj.ref.name
    return getattr(obj, "namespace", ""), obj.name


def _numbered(pod: Pod) -> tuple[WorkloadRef, int] | None:
    """What the pods of one numbered replica share: their workload, and their number in it."""
    return None if pod.workload is None or pod.ordinal is None else (pod.workload, pod.ordinal)


def _key(name: str) -> Key:
    """The key of `NAMESPACE/NAME`, or of `NAME` where there is no namespace."""
    namespace, _, own = name.rpartition("/")
    return namespace, own


def instance_id(provider_id: str) -> str | None:
    """The instance's id in a provider id, as the cloud's notices spell it; None where there is none.

    `i-0abc` of `aws:///eu-west-1a/i-0abc`. Azure numbers the machines of each scale set from 0, so `gpu-vmss_1` of
    `azure:///.../virtualMachineScaleSets/gpu-vmss/virtualMachines/1`. In lower case: Azure spells at random.
    """
    *rest, name = provider_id.lower().split("/")
    if rest[-3:-2] == ["virtualmachinescalesets"] and name:
        return f"{rest[-2]}_{name}"
    return name or None


def _older(new: ClusterObject, known: ClusterObject) -> bool:
    """Whether `new` is older by resource version, where both are the integers that API servers hand out.

    Compared as Kubernetes says they may be, by length and then by their digits: they have no longest one.
    """
    versions = new.resource_version, known.resource_version
    if not all(version.isascii() and version.isdigit() for version in versions):
        return False
    first, second = ((len(version), version) for version in versions)
    return first < second
