"""Measures starts: from a pod's creation to Ready, with what was there when it got its node.

Only pods that were seen before they became Ready for the first time: of others nobody knows which Ready was the first.
One whose readiness probe fails after days of service is no start of days.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from rebalancer.domain.cluster import Node, Pod
from rebalancer.domain.codec import quantise
from rebalancer.domain.dual_pods import FailedWake
from rebalancer.domain.starts import ENOUGH, MIDDLE, SLOW, MeasuredStart, StartView, quantile
from rebalancer.state.bindings import Bindings
from rebalancer.state.objects import Objects

REMEMBERED = 20  # of each kind in each pool: an hour of a busy day, and a new image or disk counts within as many
SLOWEST_WAKE = 3.0  # times the middle wake; what takes longer is not waking
WAKE_SECONDS = 20.0  # so long a wake may take in any case: published ones take 3 to 5 s, and probes add up to 5 s
PROMPT_SECONDS = 60.0  # a kubelet says of a pod that it is not Ready within seconds of taking it on
LONGEST_SECONDS = 7200.0  # from a node to Ready: a pod that took longer failed for most of that, and loaded at last
ASLEEP = "hot"  # no plan can count on finding an engine asleep: which GPUs a pod gets is not ours to say


@dataclass(slots=True)
class _Loading:
    """A replica that starts.

    name: name of its pod.
    model: id of its model.
    pool: name of its pool.
    gated: whether it was made at a scheduling gate; it starts when it has a node, since nobody dates the gate's end.
    kind: its kind as the node tells it, "" before it has one.
    failed: its wake, once that should have ended long ago.
    """

    name: str
    model: str
    pool: str
    gated: bool
    kind: str = ""
    failed: FailedWake | None = None


class Starts:
    """The last starts of each model by pool and kind, and the pods that are starting.

    `counts`: starts since the process began, by model, pool and kind; a wake that never ends is one, too. `failures`:
    such wakes by model.
    """

    def __init__(self, objects: Objects, bindings: Bindings) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self._objects = objects
        self._bindings = bindings
        self.failures: Counter[str] = Counter()
        self._loading: dict[str, _Loading] = {}  # by UID
        self._measured: dict[str, dict[tuple[str, str], deque[MeasuredStart]]] = {}

    # --- what comes in

    def see(self, pod: Pod, model: str, pool: str, *, known: bool) -> bool:
        """A model's pod as it stands now, `known` from before or not; whether a start of it was measured."""
        if not known and not pod.ready and not _was_ready(pod):
            self._loading[pod.uid] = _Loading(pod.name, model, pool, gated=bool(pod.gates))
        loading = self._loading.get(pod.uid)
        if loading is None:
            return False
        if loading.gated and pod.placed_at is not None:  # the wait for an admission is no part of a start
            pod = replace(pod, created_at=pod.placed_at)
        if not loading.kind and pod.node is not None:
            loading.kind = self._kind(pod, begun=pod.phase != "Pending" and not known)
        if not pod.ready:
            return False
        del self._loading[pod.uid]
        if pod.ready_at is None or (loading.gated and pod.placed_at is None):
            return False
        of_engine = self._bindings.kind(pod)
        start = _start(pod, pool, of_engine or loading.kind or "unknown", pod.ready_at)
        if start.load_seconds is not None and start.load_seconds > LONGEST_SECONDS:
            return False
        if of_engine == "unknown":  # it may have been asleep
            start = replace(start, load_seconds=None)
        if loading.failed is None:
            self.counts[model, pool, start.kind] += 1
        self._remember(model, start)
        return True

    def look(self, now: float) -> set[str]:
        """Finds wakes that should have ended long ago; their models."""
        models = set()
        for uid, loading in self._loading.items():
            waking = self._bindings.waking(uid)
            if waking is not None and now - waking[1] > self._wake_seconds(loading):
                self._bindings.failed(uid)
                loading.failed = FailedWake(loading.name, waking[0], since=waking[1], told_at=now)
                self.counts[loading.model, loading.pool, "cold"] += 1
                self.failures[loading.model] += 1
                models.add(loading.model)
        return models

    def _wake_seconds(self, loading: _Loading) -> float:
        starts = self._measured.get(loading.model, {}).get((loading.pool, ASLEEP), ())
        middle = quantile([start.seconds for start in starts], MIDDLE) if starts else 0.0
        return max(WAKE_SECONDS, SLOWEST_WAKE * middle)

    def gone(self, pod: Pod) -> None:
        """The pod is no more."""
        self._loading.pop(pod.uid, None)

    def restore(self, model: str, starts: Iterable[MeasuredStart]) -> None:
        """Add what `past` gave, as after a restart."""
        for start in starts:
            self._remember(model, start)

    def _kind(self, pod: Pod, *, begun: bool) -> str:
        """What is on its node at the moment it gets there; `begun`: we came later, when its image was there."""
        node = self._objects.one(Node, pod.node or "")
        if node is None or node.created_at is None:
            return "unknown"
        there = None if begun or not node.images or not pod.image else pod.image in node.images
        if node.created_at > pod.created_at:
            return "node-image" if there else "node"
        return "unknown" if there is None else "image" if there else "pull"

    def _remember(self, model: str, start: MeasuredStart) -> None:
        of_kind = self._measured.setdefault(model, {})
        of_kind.setdefault((start.pool, start.kind), deque(maxlen=REMEMBERED)).append(start)

    # --- what goes out

    def load_seconds(self, model: str) -> tuple[float | None, float | None]:
        """From having a node to Ready: what half of the last 20 starts took at most, and nine of ten.

        In all pools, whether the image was there or not; a node that is still to come is waited for beside it. None
        before three starts were seen. Wakes of sleeping engines do not count: see `ASLEEP`.
        """
        starts = (start for start in self.past(model) if start.kind != ASLEEP)
        seconds = [start.load_seconds for start in starts if start.load_seconds is not None][-REMEMBERED:]
        if len(seconds) < ENOUGH:
            return None, None
        return quantile(seconds, MIDDLE), quantile(seconds, SLOW)

    def views(self, model: str) -> tuple[StartView, ...]:
        """By pool and kind."""
        return tuple(self._views(model))

    def _views(self, model: str) -> Iterator[StartView]:
        for (pool, kind), starts in sorted(self._measured.get(model, {}).items()):
            if pool:
                seconds = [start.seconds for start in starts]
                yield StartView(pool, kind, len(seconds), quantile(seconds, MIDDLE), quantile(seconds, SLOW))

    def failed_wakes(self, model: str) -> tuple[FailedWake, ...]:
        """The model's wakes that should have ended long ago and have not, by pod."""
        loading = (each for each in self._loading.values() if each.model == model)
        failed = (each.failed for each in loading if each.failed is not None)
        return tuple(sorted(failed, key=lambda wake: wake.pod))

    def past(self, model: str) -> tuple[MeasuredStart, ...]:
        """The starts that are remembered, oldest first, for the checkpoint."""
        of_kind = self._measured.get(model, {})
        return tuple(sorted((start for starts in of_kind.values() for start in starts), key=lambda start: start.at))


def _was_ready(pod: Pod) -> bool:
    """Whether a pod that is not Ready was so before, or may have been: it became unready long after it got its node."""
    taken_on = pod.created_at if pod.placed_at is None else pod.placed_at
    return pod.unready_at is not None and pod.unready_at - taken_on > PROMPT_SECONDS


def _start(pod: Pod, pool: str, kind: str, ready_at: float) -> MeasuredStart:
    placed_at = pod.placed_at
    if placed_at is None and not kind.startswith("node"):
        placed_at = pod.created_at
    load = None if placed_at is None else quantise(max(0.0, ready_at - placed_at))
    return MeasuredStart(pool, kind, quantise(max(0.0, ready_at - pod.created_at)), load, ready_at)
