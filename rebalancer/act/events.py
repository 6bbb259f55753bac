"""Posts Kubernetes Events on the objects we write, which `kubectl describe` shows.

They are queued after the write and posted by a task of their own, so that no write ever waits for one.
"""

import asyncio
import itertools
from collections import deque
from dataclasses import dataclass
from typing import Final

from rebalancer.act.driver import resource_of
from rebalancer.act.intents import AnyChange
from rebalancer.act.port import Port
from rebalancer.domain.outcome import FAILED, REFUSED, UNKNOWN, WRITTEN, Outcome
from rebalancer.domain.plan import DrainChange, NodePoolChange
from rebalancer.kube.errors import KubeError
from rebalancer.kube.moment import written_as
from rebalancer.kube.resources import EVENTS, NODEPOOLS, NODES, PODS, Object, Ref, Resource
from rebalancer.obs.clock import Clock

CONTROLLER: Final = "rebalancer.io/rebalancer"
QUIET_SECONDS: Final = 300.0  # the same thing about the same object is told once in this time
WAITING: Final = 1000  # events that wait to be posted; more are dropped, oldest first
NOTE_BYTES: Final = 1024  # the API server's limit
NAME_LENGTH: Final = 220  # of 253, the rest is for the instant and a serial number

REASONS: Final = {
    "release": "ReplicasReleased",
    "grant": "ReplicasGranted",
    "replace": "ReplacementAsked",
    "settle": "ReplacementSettled",
    "withdraw": "NodeGrantWithdrawn",
    "limit": "NodePoolLimitSet",
    "restore-limit": "NodePoolLimitRestored",
    "hold": "ConsolidationHeld",
    "end-hold": "ConsolidationReleased",
    "cordon": "NodeCordoned",
    "uncordon": "NodeUncordoned",
    "evict": "ReplicaEvicted",
    "delete": "ReplicaDeleted",
}
WARNINGS: Final = {FAILED: "WriteFailed", UNKNOWN: "WriteUnknown"}
# The gate declined what planning thought right: worth a look. The other refusals are gone by the next cycle.
ALARMING: Final = ("floor", "budget", "foreign", "originals", "installation", "unrecorded")


@dataclass(frozen=True)
class _Regarding:
    """The object that an Event is about.

    resource: its API resource.
    namespace: `metadata.namespace` of the object, "" where it has none.
    name: `metadata.name` of the object.
    uid: its Kubernetes UID.
    """

    resource: Resource
    namespace: str
    name: str
    uid: str

    def reference(self) -> Object:
        place = {"namespace": self.namespace} if self.namespace else {}
        kind, version = self.resource.kind, self.resource.api_version
        return {"apiVersion": version, "kind": kind, "name": self.name, "uid": self.uid, **place}


class Events:
    """`tell` queues an event, `run` posts them until it is cancelled. `dropped` counts those that found no room."""

    def __init__(self, kube: Port, clock: Clock, instance: str) -> None:
        self.dropped = 0
        self._kube = kube
        self._clock = clock
        self._instance = instance
        self._waiting: deque[Object] = deque()
        self._news = asyncio.Event()
        self._written_monotonic: dict[tuple[str, str, str], float] = {}
        self._serials = itertools.count()

    def tell(self, change: AnyChange, outcome: Outcome) -> None:
        """Queue an event about what became of `change`, if people should see it and have not just seen it."""
        reason = _reason(change, outcome)
        if reason is None:
            return
        regarding, note = _regarding(change), _note(change, outcome)
        if not self._new((regarding.uid, reason, note)):
            return
        kind = "Normal" if outcome.status == WRITTEN else "Warning"
        self._enqueue(self._event(regarding, reason, note, kind, outcome.at))

    def tell_given_back(self, ref: Ref, uid: str, note: str, at: float, *, failed: bool = False) -> None:
        """Queue an event about an object that gets its own values back, or could not get them."""
        regarding = _Regarding(ref.resource, ref.namespace or "", ref.name, uid)
        reason, kind = ("RestoreFailed", "Warning") if failed else ("OriginalsRestored", "Normal")
        if self._new((uid, reason, note)):
            self._enqueue(self._event(regarding, reason, _cut(note), kind, at))

    async def run(self) -> None:
        """Post what was told, one after the other; an event that cannot be posted is dropped."""
        while True:
            await self._news.wait()
            await self.post()

    async def post(self) -> None:
        """Post what waits now."""
        while self._waiting:
            event = self._waiting.popleft()
            try:
                await self._kube.create(EVENTS, event)
            except KubeError:
                self.dropped += 1
        self._news.clear()

    def _enqueue(self, event: Object) -> None:
        if len(self._waiting) >= WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(event)
        self._news.set()

    def _new(self, key: tuple[str, str, str]) -> bool:
        monotonic = self._clock.monotonic()
        written = self._written_monotonic.items()
        self._written_monotonic = {each: when for each, when in written if monotonic - when < QUIET_SECONDS}
        if key in self._written_monotonic:
            return False
        self._written_monotonic[key] = monotonic
        return True

    def _event(self, regarding: _Regarding, reason: str, note: str, kind: str, at: float) -> Object:
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": f"{regarding.name[:NAME_LENGTH]}.{int(at * 1e6):x}{next(self._serials) % 4096:03x}",
                "namespace": regarding.namespace or "default",  # where events about cluster-scoped objects live
            },
            "eventTime": written_as(at),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": "Rebalance",
            "reason": reason,
            "regarding": regarding.reference(),
            "note": note,
            "type": kind,
        }


def _reason(change: AnyChange, outcome: Outcome) -> str | None:
    if outcome.status == WRITTEN:
        return REASONS.get(change.kind, "BoundsSet")
    if outcome.status == REFUSED:
        return "WriteRefused" if outcome.detail.startswith(ALARMING) else None
    return WARNINGS.get(outcome.status)


def _note(change: AnyChange, outcome: Outcome) -> str:
    return _cut(f"{change}: {outcome.detail}" if outcome.detail else str(change))


def _cut(text: str) -> str:
    one_line = " ".join(text.split()).encode()
    return one_line[:NOTE_BYTES].decode(errors="ignore")


def _regarding(change: AnyChange) -> _Regarding:
    if isinstance(change, DrainChange):
        if change.pod:
            return _Regarding(PODS, change.namespace, change.pod, change.uid)
        return _Regarding(NODES, "", change.node, change.node)  # kubelets name their node so in events, too
    if isinstance(change, NodePoolChange):
        return _Regarding(NODEPOOLS, "", change.name, change.uid)
    target = change.target
    return _Regarding(resource_of(target), target.namespace, target.name, target.uid)
