"""Metrics of all models: each sample finds its model and pod, the rings get the work, the snapshot gets readings.

A sample is put in its series when it comes; its seconds wait in a batch that goes to the rings in one piece, when
somebody looks or 4,096 of them wait.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf

from msgspec import UNSET

from rebalancer.domain.couples import couples
from rebalancer.domain.events import MAX_AHEAD_SECONDS, MetricSample
from rebalancer.domain.policy import Policy
from rebalancer.domain.readings import FRESH_INTERVALS, LEAST_FRESH_SECONDS, ModelLoad, Work
from rebalancer.domain.starts import MeasuredStart
from rebalancer.state.batch import RingBatch
from rebalancer.state.capacity import AGREES
from rebalancer.state.checkpoint import ModelPast, Offsets, spelled
from rebalancer.state.highest import Highest, seconds_of
from rebalancer.state.latest import Latest
from rebalancer.state.loaded import MeasuredLoads
from rebalancer.state.offered import ARRIVALS
from rebalancer.state.rings import Rings
from rebalancer.state.series import Arrivals
from rebalancer.state.signals import SignalReadings, signals_of
from rebalancer.state.spoken import NOBODY
from rebalancer.state.subject import SampledSubject
from rebalancer.state.track import LIVE_INTERVALS, SETTLING_INTERVALS, Track
from rebalancer.state.windows import Windows, known_until, means, moves_on_at

UNKNOWN_NAMES = 50  # unknown model names kept by name; the rest is only counted
CHECK_EVERY_SECONDS = 0.05  # how often one model is looked at for a surge, at most


class Loads:
    """Tracks per model and the rings; `ModelLoad`s are rebuilt only where something changed or grew old.

    `loaded`: GPU memory that replicas took once loaded.
    """

    def __init__(self, policy: Policy, started_at: float) -> None:
        self.accepted = 0
        self.counters: Counter[str] = Counter()  # what became of the other samples
        self.unknown_models: Counter[str] = Counter()
        self.tracks: dict[str, Track] = {}
        self._started_at = started_at
        self._by_name: dict[str, Track] = {}
        self._rings = Rings(0)
        self._batch = RingBatch()
        self._latest = Latest()
        self._model_of_pod: dict[str, str] = {}
        self._model_of_worker: dict[str, str] = {}  # of pods that lead no replica
        self._loads: dict[str, ModelLoad] = {}
        self._all: tuple[ModelLoad, ...] | None = None
        self._dirty: set[Track] = set()
        self.loaded = MeasuredLoads(policy)
        self._alarmed: set[Track] = set()
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Tracks for the policy's models; those that stay keep their past."""
        self._flush()
        self._policy = policy
        self.loaded.set_policy(policy)
        self._windows = Windows(policy.surge)
        self._couples = couples(policy)
        wanted = {model.id for model in policy.models}
        for gone in sorted(self.tracks.keys() - wanted):
            track = self.tracks.pop(gone)
            track.end(self._latest)
            self._rings.clear(track.column)
            self._loads.pop(gone, None)
        free = sorted(set(range(len(wanted))) - {track.column for track in self.tracks.values()}, reverse=True)
        if len(wanted) > self._rings.columns:
            self._rings = self._rings.widened(len(wanted))
        self._by_name = {}
        for model in policy.models:
            if model.id not in self.tracks:
                self.tracks[model.id] = Track(model.id, free.pop())
            track = self.tracks[model.id]
            rules = getattr(policy.classes, model.workload_class)
            track.min_coverage = policy.guards.blind.min_coverage
            track.offered.configure(
                model.signals.concurrency,
                high_utilisation=rules.high_utilisation,
                slo_seconds=model.slo.latency_seconds if model.slo else None,
            )
            self._by_name.update(dict.fromkeys((model.id, *model.aliases), track))
        self._dirty, self._all = set(self.tracks.values()), None

    @property
    def columns(self) -> dict[str, int]:
        """Each model's column in the rings."""
        return {name: track.column for name, track in self.tracks.items()}

    @property
    def rings(self) -> Rings:
        """The rings with all that came in by now."""
        self._flush()
        return self._rings

    # --- what comes in

    def set_pods(self, pods: Mapping[str, tuple[str, float | None]], workers: Mapping[str, str]) -> None:
        """Takes over all pods of all models: by UID the model, and since when the pod is Ready.

        workers: by UID the model of each pod that works in a multi-pod replica and does not lead it.
        """
        for uid in [uid for uid, model in self._model_of_worker.items() if workers.get(uid) != model]:
            self._worker_gone(uid)
        for uid in [uid for uid, model in self._model_of_pod.items() if pods.get(uid, ("", None))[0] != model]:
            self.pod_gone(uid)
        self._model_of_worker = dict(workers)
        for uid, (model, ready_at) in pods.items():
            self.pod_is(model, uid, ready_at)

    def worker_is(self, model: str, uid: str) -> None:
        """Pod `uid` is a worker of a multi-pod replica of `model`: its samples are no load, its leader's are."""
        self._model_of_worker[uid] = model

    def pod_is(self, model: str, uid: str, ready_at: float | None) -> None:
        """Pod `uid` belongs to `model`, Ready since `ready_at` or not Ready."""
        self._model_of_pod[uid] = model
        track = self.tracks[model]
        track.pod_is(uid, ready_at)
        self._dirty.add(track)

    def pod_gone(self, uid: str) -> None:
        """Pod `uid` is no longer any model's."""
        self.loaded.gone(uid)
        track = self.tracks.get(self._model_of_pod.pop(uid, ""))
        if track is not None:
            track.pod_gone(uid, self._latest)
            self._dirty.add(track)
        self._worker_gone(uid)

    def _worker_gone(self, uid: str) -> None:
        worked_for = self.tracks.get(self._model_of_worker.pop(uid, ""))
        if worked_for is not None and worked_for.unheard.pop(uid, None) is not None:
            self._dirty.add(worked_for)

    def silenced(self, pods: Iterable[str]) -> None:
        """A node says nothing any more, and has said nothing for a while; `pods`: of each pod there its model.

        A tenth of a model's pods misleads by no more than what contradicts nothing (`capacity.AGREES`).
        """
        for model, silent in Counter(pods).items():
            track = self.tracks[model]
            if silent >= AGREES * (track.ready_pods or silent):
                track.offered.unlearn(track.newest_at)
                self._count_anew(track)
                self._dirty.add(track)

    def model_of(self, pod: str) -> str | None:
        """The model whose pod has this UID, whether it leads a replica or not; None where it is nobody's."""
        return self._model_of_pod.get(pod) or self._model_of_worker.get(pod)

    def take(self, sample: MetricSample, now: float) -> None:
        """One sample, in any order and any number of times."""
        track = self._by_name.get(sample.model)
        if track is None:
            self._unknown(sample.model)
            return
        couple = self._couples.get(track.id) if self._couples else None
        if couple is not None and self._model_of_pod.get(sample.pod or "") == couple.other(track.id):
            track = self.tracks[couple.other(track.id)]  # engines of both roles tell one name: the pod says whose it is
        subject = track.whole if sample.pod is None else track.pods.get(sample.pod)
        if subject is None:
            self._unheard(sample, now)
        elif sample.at - now > MAX_AHEAD_SECONDS:
            self.counters["time-ahead"] += 1
        else:
            if subject is track.whole and (until := _in_flight_until(sample, now)):
                track.whole_until = until
            self._take(track, subject, sample, now)

    def _take(self, track: Track, subject: SampledSubject, sample: MetricSample, now: float) -> None:
        series, latest = subject.series.get(sample.source), self._latest
        arrivals = track.begin(subject, sample, latest, now) if series is None else series.take(sample, latest, now)
        late = series is not None and sample.at < series.at
        track.sampled = True
        self._dirty.add(track)  # also for a second record of one instant: the later one stands
        if arrivals is None:
            self.counters["too-many-sources" if series is None else "duplicate"] += 1
            return
        self.accepted += 1
        if series is None:
            self._begins(track, subject, sample.source)
        elif late:
            self.counters["late"] += 1
        if track.intervals_live < LIVE_INTERVALS and sample.at >= self._started_at:
            track.seen_live(sample)
        again = track.redelivered(sample, subject, late=late)
        if subject.ready_at is not None:
            self.loaded.take(track.id, sample, subject.ready_at)
        elif subject is not track.whole:
            return
        if again:
            track.known(subject, sample, arrivals[0] if arrivals and not late else None)
        else:
            self._record(track, subject, sample, arrivals, late=late)

    def _unheard(self, sample: MetricSample, now: float) -> None:
        """Notes what a pod tells that leads no replica; one that nobody knows is only counted."""
        uid, gauges = sample.pod or "", sample.gauges
        track = self.tracks.get(self._model_of_worker.get(uid, ""))
        self.counters["unknown-pod" if track is None else "worker-pod"] += 1
        if track is not None and (until := _in_flight_until(sample, now)):
            track.unheard[uid] = until, (gauges.running or 0.0) + (gauges.waiting or 0.0)
            self._dirty.add(track)

    def _record(self, track: Track, subject: SampledSubject, sample: MetricSample, arrivals: list[Arrivals], *, late: bool) -> None:  # noqa: E501  # fmt: skip
        at, interval = sample.at, sample.interval_seconds
        if subject.arrived is None:
            for segment in arrivals:
                self._batch.arrived(track.column, segment[0], segment[1], segment[2])
        elif not late:  # one that is late only says better when they came
            self._arrived_once(track, subject, arrivals)
        if at > track.newest_at:
            track.newest_at, track.interval_seconds, track.stepped_seconds = at, interval, 0.0
        if late and track.offered.path.source == ARRIVALS:
            return  # the one after it spoke for all that came since the one before it
        came = None if late or not arrivals else arrivals[0]
        if came is not None:
            track.tokens.took(sample, came)
        offered = track.work(subject, sample, came, self._latest, again=at < self._started_at)
        if track.offered.told_before != 1.0:
            self._count_anew(track)
        if offered is not None:
            self._worked(track, subject, sample, *offered)

    def _worked(self, track: Track, subject: SampledSubject, sample: MetricSample, work: float, seconds: float) -> None:
        at = sample.at
        share = track.share(subject, at - SETTLING_INTERVALS * sample.interval_seconds)
        if subject.worked is None:
            place = subject.series[sample.source].place
            self._batch.worked(track.column, at, seconds, work, share, place)
        else:
            for second, more, seen in track.worked_once(subject, seconds_of(at - seconds, at), work, share):
                self._batch.worked(track.column, second, 1.0, more, seen, NOBODY)
        if work > track.alarm_above * share:
            self._alarmed.add(track)

    def _count_anew(self, track: Track) -> None:
        """Scales the work in a model's rings: a replica carries something else than was believed."""
        self._flush()
        self._rings.scale_work(track.column, track.offered.told_before)
        track.alarm_above *= track.offered.told_before
        track.offered.told_before = 1.0

    def _begins(self, track: Track, subject: SampledSubject, source: str) -> None:
        """Prepares `subject` for a new producer: from the second one on, figures of the same seconds are compared.

        The first sample of a producer tells of no arrivals, so of those nothing was told before that it could repeat.
        """
        self._batch.begins(subject.series[source].place)
        both = bool(track.whole.series) and any(pod.series for pod in track.pods.values())
        if len(subject.series) == 1 and not both:
            return
        for one in (track.whole, *track.pods.values()) if both else (subject,):
            if one.worked is None and one.series:
                first = next(iter(one.series.values()))
                one.worked, one.arrived = Highest(self._batch.looks_of(first.place)), Highest()
        if both and track.worked_sides is None:
            track.take_sides()

    def _arrived_once(self, track: Track, subject: SampledSubject, arrivals: list[Arrivals]) -> None:
        for since, until, requests, *_ in arrivals:
            seconds = seconds_of(since, until)
            for second, more, _ in track.arrived_once(subject, seconds, requests / len(seconds)):
                self._batch.arrived(track.column, second - 1.0, second, more)

    def _unknown(self, name: str) -> None:
        self.counters["unknown-model"] += 1
        if name in self.unknown_models or len(self.unknown_models) < UNKNOWN_NAMES:
            self.unknown_models[name] += 1

    def _flush(self) -> None:
        self.counters["too-old"] += self._batch.pour(self._rings)

    def stepped(self, seconds: float) -> None:
        """The clock was set by so many seconds: what was heard is as old as before."""
        self._started_at += seconds
        self._latest.stepped(seconds)
        for track in self.tracks.values():
            track.stepped_seconds += seconds
            track.checked_at += seconds
            track.whole_until += seconds
            track.unheard = {uid: (until + seconds, requests) for uid, (until, requests) in track.unheard.items()}
        self._dirty.update(self.tracks.values())

    # --- what goes out

    def pour(self) -> None:
        """Add what waits to the rings, once there is enough of it to be worth a numpy call."""
        if self._batch.full:
            self._flush()

    def surge(self, now: float) -> bool:
        """Whether some model has just entered a surge, by the short and long windows alone.

        Only models are looked at of which a sample since the last look was high enough to make one.
        """
        due = _in_order(track for track in self._alarmed if now - track.checked_at >= CHECK_EVERY_SECONDS)
        if not due:
            return False
        self._alarmed.difference_update(due)
        surge = self._policy.surge
        self._flush()
        (shorts,) = means(self._rings, due, now, (surge.short_window_seconds,))
        for track in due:
            track.checked_at = now
        high = [track for track, mean in zip(due, shorts.tolist(), strict=True) if mean > track.alarm_above]
        if not high:
            return False
        both = means(self._rings, high, now, (surge.short_window_seconds, surge.long_window_seconds)).tolist()
        rises = [track.rises(short, long, surge) for track, short, long in zip(high, *both, strict=True)]
        return any(rises)

    def loads(self, now: float) -> tuple[ModelLoad, ...]:
        """All models' loads, by id; what did not change is the same value as last time."""
        due = _in_order(track for track in self.tracks.values() if track in self._dirty or now >= track.due_at)
        self._dirty.clear()
        if due:
            self._flush()
            signals = signals_of(due, self._latest, now, self._policy.guards.blind)
            for track, readings in zip(due, signals, strict=True):
                track.lag_seconds = track.lag_seconds if readings.lag_seconds is None else readings.lag_seconds
            works = self._windows.works(self._rings, due, now)
            for track, work, readings in zip(due, works, signals, strict=True):
                self._rebuild(track, work, readings, now)
        if self._all is None:
            self._all = tuple(self._loads[model] for model in sorted(self._loads))
        return self._all

    def _rebuild(self, track: Track, work: Work, readings: SignalReadings, now: float) -> None:
        unheard = [(until, requests) for until, requests in track.unheard.values() if track.whole_until <= now < until]
        heard_until = track.whole_until if track.unheard and now < track.whole_until else inf
        changes = (readings.fresh_until, moves_on_at(track, work, now), heard_until, *(until for until, _ in unheard))
        track.due_at = min(changes)
        load = ModelLoad(
            model=track.id,
            signals=readings.by_name,
            work=work,
            interval_seconds=track.interval_seconds,
            intervals_live=track.intervals_live,
            pod_requests=readings.pod_requests,
            carries=track.offered.carries,
            lag_seconds=round(track.lag_seconds, 3),
            known_until=None if work == Work() else float(known_until(track, now)),
            told_by=track.told_by,
            tokens=track.tokens.now,
            unheard_requests=sum(requests for _, requests in unheard) or UNSET,
        )
        if load != self._loads.get(track.id):
            self._loads[track.id] = load
            self._all = None

    # --- the checkpoint

    def past(self, model: str, offsets: Offsets, starts: tuple[MeasuredStart, ...]) -> ModelPast:
        """One model's past. Raises KeyError for a model that the policy does not name."""
        self._flush()
        track = self.tracks[model]
        loads, caching = self.loaded.past(model)
        return ModelPast(
            rings=self._rings.to_bytes(track.column),
            newest_at=track.newest_at,
            interval_seconds=track.interval_seconds,
            offsets=spelled(offsets),
            offered=track.offered.past,
            starts=starts,
            positions=spelled(track.seen_offsets),
            loads=loads,
            caching=caching,
        )

    def restore(self, model: str, past: ModelPast) -> None:
        """Put a model's past back. Raises ValueError when the rings are damaged."""
        track = self.tracks[model]
        self._rings.restore(track.column, past.rings)
        track.newest_at, track.interval_seconds = past.newest_at, past.interval_seconds
        track.restore_offsets(past.seen_offsets)
        track.offered.restore(past.offered)
        self.loaded.restore(model, past.loads, caching=past.caching)
        self._dirty.add(track)


def _in_flight_until(sample: MetricSample, now: float) -> float | None:
    """The instant up to which the sample's requests in flight are fresh; None where it has none."""
    if sample.gauges.running is None and sample.gauges.waiting is None:
        return None
    return now + max(LEAST_FRESH_SECONDS, FRESH_INTERVALS * sample.interval_seconds)


def _in_order(tracks: Iterable[Track]) -> list[Track]:
    return sorted(tracks, key=lambda track: track.column)
