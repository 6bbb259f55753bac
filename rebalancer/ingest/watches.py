"""Follows every Kubernetes source with one reflector each, and turns what they tell into events for the one sink."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from rebalancer.domain.cluster import ClusterObject, sources_beside
from rebalancer.domain.events import Event, ObjectChanged, ObjectGone, ObjectsListed, ObjectUnreadable, SourceState
from rebalancer.domain.policy import Policy
from rebalancer.domain.target_kinds import DEPLOYMENT, TargetKind
from rebalancer.ingest.kinds import NoScale, looks
from rebalancer.ingest.objects import SHAPES, SHAPES_BESIDE, Unusable, WireShape, value_of
from rebalancer.kube.errors import KubeError
from rebalancer.kube.pace import WatchPace
from rebalancer.kube.reader import KubeReader
from rebalancer.kube.reflector import Reflector, Trouble, trouble_of
from rebalancer.kube.resources import (
    CLAIM_TEMPLATES,
    CLUSTER_QUEUES,
    COHORTS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    FLAVORS,
    HPAS,
    JOBS,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NODECLAIMS,
    NODEPOOLS,
    NODES,
    OVERRIDES,
    POD_AUTOSCALERS,
    PODS,
    PRIORITY_CLASSES,
    QUOTAS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SCALEDOBJECTS,
    WRITESTOPS,
    Ref,
    Resource,
)
from rebalancer.obs.clock import Clock

RESOURCES: Mapping[str, Resource] = {
    "nodes": NODES,
    "pods": PODS,
    "deployments": DEPLOYMENTS,
    "hpas": HPAS,
    "scaledobjects": SCALEDOBJECTS,
    "podautoscalers": POD_AUTOSCALERS,
    "nodepools": NODEPOOLS,
    "nodeclaims": NODECLAIMS,
    "overrides": OVERRIDES,
    "writestops": WRITESTOPS,
    "resourcequotas": QUOTAS,
    "limitranges": LIMIT_RANGES,
    "priorityclasses": PRIORITY_CLASSES,
    "jobs": JOBS,
    "localqueues": LOCAL_QUEUES,
    "clusterqueues": CLUSTER_QUEUES,
    "cohorts": COHORTS,
    "resourceflavors": FLAVORS,
}

# Keys as in `domain.cluster.sources_beside`. A Ref: of that resource one object alone.
RESOURCES_BESIDE: Mapping[str, Resource | Ref] = {
    "deviceclasses": DEVICE_CLASSES,
    "resourceslices": RESOURCE_SLICES,
    "resourceclaims": RESOURCE_CLAIMS,
    "resourceclaimtemplates": CLAIM_TEMPLATES,
    "autoscalerstatus": Ref(CONFIG_MAPS, "kube-system", "cluster-autoscaler-status"),
}

MOST_WARNINGS = 3  # in an outage: the cut connection is told first, the expired certificate behind it next
ALIVE_EVERY_SECONDS = 5.0  # a busy watch speaks a hundred times a second; its age needs no more than this
DEFAULT_PACE = WatchPace()

Sink = Callable[[list[Event]], None]

log = structlog.get_logger()


class SourceSink:
    """`kube.reflector.Sink` of one source. `counts`: unusable objects met, and troubles told.

    One that cannot be read is skipped alone: the last good state of it stands, over a new list too.
    """

    def __init__(self, source: str, sink: Sink) -> None:
        self.source = source
        self.shape: WireShape | None = None  # of a kind of target that was asked for; the others are in SHAPES
        self.counts: Counter[str] = Counter()
        self.unusable: set[str] = set()
        self._sink = sink
        self._left_out: tuple[str, ...] = ()  # of the list that is about to come, by `NAMESPACE/NAME`
        self._trouble: str | None = None
        self._warned: set[str] = set()
        self._alive_at = 0.0

    def relisted(self, resource: Resource, items: Sequence[Any], resource_version: str, now: float) -> None:  # noqa: ARG002  part of the protocol
        """The full truth about the source."""
        self.unusable.clear()
        values = [value_of(self.source, item, self.shape) for item in items]
        unusable = [one for one in values if isinstance(one, Unusable)]
        for one in unusable:
            self._malformed(str(one))
        unreadable = tuple(sorted({*self._left_out, *(one.name for one in unusable)}))
        self._left_out = ()
        readable = tuple(one for one in values if not isinstance(one, Unusable))
        self._recovered(now, ObjectsListed(self.source, now, readable, unreadable))

    def changed(self, resource: Resource, obj: Any, now: float) -> None:  # noqa: ANN401, ARG002  any wire shape; the protocol's
        """One object as it is now; one that cannot be used leaves the last good one in place."""
        value = self._value(obj)
        if isinstance(value, Unusable):
            self._sink([ObjectUnreadable(self.source, now, value.name)])
        else:
            self._sink([ObjectChanged(self.source, now, value)])

    def gone(self, resource: Resource, obj: Any, now: float) -> None:  # noqa: ANN401, ARG002  any wire shape; the protocol's
        """One object less. Raises ValueError where nobody can say which: then the reflector lists again."""
        value = self._value(obj)
        if isinstance(value, Unusable):
            raise ValueError("an object was deleted that cannot be read")  # noqa: TRY004  its values, not ours
        self._sink([ObjectGone(self.source, now, value)])

    def alive(self, resource: Resource, now: float) -> None:  # noqa: ARG002  part of the protocol
        """All that happened until now was told."""
        if self._trouble is not None or not 0 <= now - self._alive_at < ALIVE_EVERY_SECONDS:
            self._recovered(now)

    def trouble(self, resource: Resource | TargetKind, reason: Trouble, now: float) -> None:
        """The source cannot be followed; an API that the cluster does not have is no trouble but absent.

        A watch without a byte may be one of a quiet resource: it is listed at once, and people hear of it when that
        fails, too.
        """
        if reason.kind == "malformed":
            self._malformed(str(reason), max(1, len(reason.objects)))
            if reason.changed:
                self._sink([ObjectUnreadable(self.source, now, reason.changed)])
            else:
                self._left_out = reason.objects
            return
        self.counts["troubles"] += 1
        absent = reason.kind == "absent"
        unheard = str(reason) not in self._warned and len(self._warned) < MOST_WARNINGS
        if unheard and (reason.kind != "silent" or self._trouble is not None):
            log.warning("watch", source=self.source, resource=str(resource), trouble=str(reason))
            self._warned.add(str(reason))
        self._trouble = str(reason)
        trouble, denied = None if absent else str(reason), reason.kind == "forbidden"
        self._sink([SourceState(self.source, now, trouble, absent=absent, denied=denied)])

    def _recovered(self, now: float, *events: Event) -> None:
        if self._warned:
            log.info("watch", source=self.source, trouble=None)
        self._trouble = None
        self._warned.clear()
        self._alive_at = now
        self._sink([*events, SourceState(self.source, now)])

    def _value(self, wire: Any) -> ClusterObject | Unusable:  # noqa: ANN401  any wire shape
        value = value_of(self.source, wire, self.shape)
        if isinstance(value, Unusable):
            self._malformed(str(value))
        return value

    def _malformed(self, what: str, objects: int = 1) -> None:
        """Objects that exist but that nobody can read: told once per list, and counted."""
        self.counts["unusable"] += objects
        if what not in self.unusable:
            log.error("object is ignored: it cannot be read", source=self.source, object=what)
        self.unusable.add(what)


class Watches:
    """All sources. Run `run()` as a task; `sources` maps each name to its sink, for counts and troubles.

    `follow` says of which kinds targets are followed, besides Deployments, and what pools want followed.
    """

    def __init__(
        self, kube: KubeReader, clock: Clock, rng: random.Random, sink: Sink, *, pace: WatchPace = DEFAULT_PACE
    ) -> None:
        self.sources = {source: SourceSink(source, sink) for source in RESOURCES}
        self._kube, self._clock, self._rng, self._sink, self._pace = kube, clock, rng, sink, pace
        self._kinds: dict[str, TargetKind | None] = {}  # None: of RESOURCES_BESIDE
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    @property
    def counts(self) -> Counter[str]:
        """Sums over all sources: unusable, troubles."""
        return sum((one.counts for one in self.sources.values()), Counter())

    def follow(self, policy: Policy) -> None:
        """Follow the kinds of targets that the policy names, and what its pools want followed besides.

        From now on, or once it runs.
        """
        specs = (spec.of for model in policy.models for spec in model.targets)
        kinds: dict[str, TargetKind | None] = {kind.source: kind for kind in specs if kind.kind != DEPLOYMENT}
        kinds |= dict.fromkeys(sources_beside(policy.pools))
        gone = [source for source, kind in self._kinds.items() if source not in kinds or kinds[source] != kind]
        for source in gone:
            del self._kinds[source], self.sources[source]
            if source in self._tasks:
                self._tasks.pop(source).cancel()
        for source, kind in kinds.items():
            if source not in self._kinds:
                self._kinds[source], self.sources[source] = kind, SourceSink(source, self._sink)
        self._begin()

    async def run(self) -> None:
        """Follow all of them until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            for source, resource in RESOURCES.items():
                self._group.create_task(
                    self._reflector(resource, self.sources[source], SHAPES[source]).run(),
                    name=f"watch-{resource.plural}",
                )
            self._begin()

    def _begin(self) -> None:
        if self._group is not None:
            for source in self._kinds.keys() - self._tasks.keys():
                self._tasks[source] = self._group.create_task(self._targets(source), name=f"watch-{source}")

    async def _targets(self, source: str) -> None:
        """Follow the targets of one kind, once the API server has said where it has them."""
        kind, sink = self._kinds[source], self.sources[source]
        if kind is None:
            await self._reflector(RESOURCES_BESIDE[source], sink, SHAPES_BESIDE[source]).run()
        while True:
            try:
                resource, sink.shape = await looks(self._kube, kind)
            except KubeError as error:
                sink.trouble(kind, trouble_of(error), self._clock.now())
            except NoScale as error:
                sink.trouble(kind, Trouble("absent", str(error)), self._clock.now())
            else:
                await self._reflector(resource, sink, sink.shape).run()
            await self._clock.sleep(self._pace.absent_seconds)

    def _reflector(self, what: Resource | Ref, sink: SourceSink, shape: WireShape) -> Reflector[Any]:
        one = Ref(what, None, "") if isinstance(what, Resource) else what
        return Reflector(
            self._kube,
            one.resource,
            sink,
            self._clock,
            self._rng,
            namespace=one.namespace,
            name=one.name,
            into=shape.wire,
            pace=self._pace,
        )
