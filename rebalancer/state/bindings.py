"""Which requester each launcher served when (`domain.dual_pods`), and with that how each of them started.

Readings of a launcher are its requester's: that is the model's pod. An engine that was bound and is no more sleeps in
its launcher; when it is bound again, and no engine comes into the launcher for that, the start is hot.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from rebalancer.domain.cluster import Pod
from rebalancer.domain.dual_pods import Launcher, Requester
from rebalancer.domain.events import Gauges, MetricSample
from rebalancer.state.objects import Change, Objects

KEPT_SECONDS = 900.0  # a sample that is later than this says nothing that still counts
ASLEEP = Gauges(running=0.0, waiting=0.0)


class Binding(Struct, frozen=True):
    """A launcher served for a requester.

    requester: UID of the requester.
    instance: the engine that was awake for it, "" where none was named.
    since: when that was first seen, epoch seconds; 0 where it was so before we looked.
    until: when it was over, None while it serves.
    """

    requester: str
    instance: str
    since: float
    until: float | None = None

    def at(self, instant: float) -> bool:
        """Whether it did so at that instant."""
        return self.since <= instant and (self.until is None or instant < self.until)


class Bindings:
    """The bindings of each launcher in the last 15 minutes, and the engines that sleep in it.

    `launchers`: bindings by the launcher's UID, the newest last.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.launchers: dict[str, list[Binding]] = {}
        self._asleep: dict[str, set[str]] = {}  # engines by the launcher's UID
        self._kinds: dict[str, str] = {}  # by the requester's UID
        self._waking: dict[str, tuple[str, float]] = {}  # launcher's name, and since when, by the requester's UID
        self._last: dict[tuple[str, str, str], MetricSample] = {}  # by the launcher's UID, engine and producer

    # --- what comes in

    def moved(self, change: Change, at: float) -> None:
        """An object was added, changed or removed."""
        old, new = change
        obj = new or old
        if not isinstance(obj, Pod) or obj.dual is None:
            return
        if isinstance(obj.dual, Requester):
            if new is None:
                self._kinds.pop(obj.uid, None)
                self._waking.pop(obj.uid, None)
        elif new is None:
            self._forget(obj.uid)
        else:
            self._launcher(old.dual if isinstance(old, Pod) else None, obj, obj.dual, at)

    def _launcher(self, old: object, launcher: Pod, new: Launcher, at: float) -> None:
        bound = self.launchers.setdefault(launcher.uid, [])
        before = old if isinstance(old, Launcher) else None
        if before is not None and before.requester != new.requester and before.requester:
            bound[-1] = replace(bound[-1], until=at)
            self._asleep.setdefault(launcher.uid, set()).add(bound[-1].instance)
        changed = before is not None and before.signature != new.signature
        if changed and before is not None and not (before.requester or new.requester):
            self._asleep.pop(launcher.uid, None)  # an engine came or went unbound: nobody says which
        if new.requester and (before is None or before.requester != new.requester):
            self._bind(bound, launcher, new, since=0.0 if before is None else at)
        elif new.requester and before is not None and new.instance and not bound[-1].instance:
            self._bind(bound, launcher, new, since=bound.pop().since)  # the engine is named after the binding
        if changed and self._waking.pop(new.requester, None) is not None:
            self._kinds[new.requester] = "warm"  # an engine came for it: the one that slept had been put out
        self.launchers[launcher.uid] = [one for one in bound if one.until is None or at - one.until < KEPT_SECONDS]

    def _bind(self, bound: list[Binding], launcher: Pod, new: Launcher, since: float) -> None:
        requester = self._requester(launcher, new.requester, new.name)
        bound.append(Binding(new.requester, new.instance, since))
        if new.instance in self._asleep.get(launcher.uid, ()):
            self._kinds[new.requester] = "hot"
            self._waking[new.requester] = launcher.name, since
        elif requester is not None and launcher.created_at > requester.created_at:
            self._kinds[new.requester] = "cold"
        elif since:
            self._kinds[new.requester] = "warm"
        else:
            self._kinds[new.requester] = "unknown"  # bound before we looked: nobody saw what slept there

    def _requester(self, launcher: Pod, uid: str, name: str) -> Pod | None:
        pod = self._objects.one(Pod, name, launcher.namespace)
        return pod if pod is not None and pod.uid == uid else None

    def _forget(self, launcher: str) -> None:
        self.launchers.pop(launcher, None)
        self._asleep.pop(launcher, None)
        self._last = {key: sample for key, sample in self._last.items() if key[0] != launcher}

    def stepped(self, seconds: float) -> None:
        """The clock was set by so many seconds."""
        for launcher, bound in self.launchers.items():
            self.launchers[launcher] = [
                replace(one, since=one.since and one.since + seconds, until=one.until and one.until + seconds)
                for one in bound
            ]
        self._waking = {uid: (name, since + seconds) for uid, (name, since) in self._waking.items()}

    # --- what goes out

    def kind(self, pod: Pod) -> str | None:
        """How a requester started; None of any other pod."""
        return self._kinds.get(pod.uid, "unknown") if isinstance(pod.dual, Requester) else None

    def waking(self, requester: str) -> tuple[str, float] | None:
        """Name of the launcher that wakes an engine for that requester (its UID), and since when; None: none does."""
        return self._waking.get(requester)

    def failed(self, requester: str) -> None:
        """The wake of that requester (its UID) never ended: whatever comes of it is a cold start."""
        self._kinds[requester] = "cold"
        del self._waking[requester]

    def serves(self, launcher: Pod) -> Binding | None:
        """For whom a launcher serves now."""
        bound = self.launchers.get(launcher.uid, ())
        return bound[-1] if bound and bound[-1].until is None else None

    def attributed(self, sample: MetricSample) -> Iterable[MetricSample]:
        """A launcher's sample as its requester's of that instant, none where it served nobody; any other as it is.

        Counters go on over sleep: where the engine was heard before it slept, what it had counted then is where the
        new requester begins, from the instant of its binding on. So its first sample is neither lost nor a burst.
        """
        bound = self.launchers.get(sample.pod or "")
        if sample.pod is None or bound is None:
            return (sample,)
        of = next((one for one in reversed(bound) if one.at(sample.at)), None)
        if of is None:
            return ()
        key = sample.pod, of.instance, sample.source
        before = self._last.get(key)
        mine = replace(sample, pod=of.requester, source=f"{sample.source}/{of.instance}")
        if before is None or before.at < sample.at:
            self._last[key] = mine
        if before is None or before.pod == of.requester or before.counters is None or not before.at < of.since:
            return (mine,)
        begins = replace(
            mine, id=f"{mine.id}/asleep", at=of.since, gauges=ASLEEP, counters=before.counters, position=None
        )
        return begins, mine
