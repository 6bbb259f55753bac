"""Everything that metrics say about one model: its producers' samples, and the whole as far as one sample shows it.

A pod counts while it is Ready, and only if it is the model's by its owner: a UID we do not know is nobody's.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from math import ceil, inf, isnan, nan
from typing import NamedTuple

from rebalancer.domain.events import MetricSample
from rebalancer.domain.policy import SurgeRules
from rebalancer.state.habit import Habit
from rebalancer.state.highest import More, Sides, once
from rebalancer.state.latest import Latest
from rebalancer.state.offered import COUNTED_SECONDS, Offered, SampledPods
from rebalancer.state.series import Arrivals
from rebalancer.state.subject import SampledSubject
from rebalancer.state.tokens import TokenFlow

SETTLING_INTERVALS = 2  # a pod is expected to have reported this long after it became Ready
CHANCE = 3.0  # standard deviations by which two sources of one truth may differ
LEAVES_SECONDS = 120.0  # a pod that was Ready and is not Ready again by then ended, or crashes for ever
LIVE_INTERVALS = 100  # counted this far: more than any `start` guard may ask for


class Heard(NamedTuple):
    """The subjects that have samples, in order.

    names: UIDs of the pods (or the model's id).
    places: rows in `Latest`, all of a subject's together.
    lengths: number of rows of each subject.
    producers: names of the producers behind them.
    """

    names: list[str]
    places: list[int]
    lengths: list[int]
    producers: frozenset[str]


NOBODY = Heard([], [], [], frozenset())


def _sum(figures: Iterable[float]) -> float:
    """The sum of the known figures; NaN where none is known."""
    known = [figure for figure in figures if not isnan(figure)]
    return sum(known) if known else nan


def _heard(subjects: Iterable[tuple[str, SampledSubject]]) -> Heard:
    by_subject: list[tuple[str, list[int]]] = []
    producers: set[str] = set()
    for name, subject in subjects:
        if subject.series:
            by_subject.append((name, [one.place for one in subject.series.values()]))
            producers.update(subject.series)
    places = [place for _, its_places in by_subject for place in its_places]
    lengths = [len(its_places) for _, its_places in by_subject]
    return Heard([name for name, _ in by_subject], places, lengths, frozenset(producers))


class Track:
    """All that metrics told about one model.

    `column`: its place in the rings. `newest_at`: the newest sample in the rings, `stepped_seconds`: by how much the
    clock was set since it came. `lag_seconds`: how far behind its producers usually are. `seen_offsets`: next offset by
    topic and partition. `due_at`: when its load changes though nothing comes in. `alarm_above`: no surge without a
    sample that speaks for as much work as this. `offered`: how samples become work; `tokens`: how many are read and
    written. `unheard`: until when what a pod told that leads no replica is fresh, and its requests in flight, by UID;
    `whole_until`: until when requests in flight of the model as a whole are, which hold those. `worked_sides`,
    `arrived_sides`: once it was told of as a whole and pod by pod; `min_coverage`: what pods must cover to be heard
    against the whole.
    """

    def __init__(self, model: str, column: int) -> None:
        self.id = model
        self.column = column
        self.offered = Offered()
        self.tokens = TokenFlow()
        self.whole = SampledSubject()
        self.pods: dict[str, SampledSubject] = {}
        self.sampled = False
        self.interval_seconds = 0.0
        self.newest_at = 0.0
        self.stepped_seconds = 0.0
        self.lag_seconds = 0.0
        self.intervals_live = 0
        self.due_at = 0.0
        self.checked_at = -inf
        self.alarm_above = 0.0
        self.surging = False
        self.seen_offsets: dict[tuple[str, int], int] = {}
        self.unheard: dict[str, tuple[float, float]] = {}
        self.whole_until = -inf
        self.worked_sides: Sides | None = None
        self.arrived_sides: Sides | None = None
        self.min_coverage = 0.0
        self._heard: Heard | None = None
        self._heard_whole = NOBODY
        self._ready_since: list[float] = []
        self._leaving: dict[str, float] = {}  # pods that were Ready, by UID, with the newest sample's instant then
        self._left_at = -inf  # when the last of them was gone, at the latest
        self._live: set[int] = set()
        self._restored_offsets: dict[tuple[str, int], int] = {}
        self._restored_at = -inf  # of the newest sample in the rings when they were restored

    # --- pods

    def pod_is(self, uid: str, ready_at: float | None) -> None:
        """Pod `uid` is the model's, Ready since `ready_at` or not Ready."""
        subject = self.pods.get(uid)
        if subject is None:
            subject = self.pods[uid] = SampledSubject()
        if ready_at is not None:
            self._leaving.pop(uid, None)
        elif subject.ready_at is not None:
            self._leaving[uid] = self.newest_at
        self._move(subject.ready_at, ready_at)
        subject.ready_at = ready_at
        self._heard = None

    def pod_gone(self, uid: str, latest: Latest) -> None:
        """Pod `uid` is no longer the model's."""
        subject = self.pods.pop(uid, None)
        if subject is not None:
            if self._leaving.pop(uid, None) is not None or subject.ready_at is not None:
                self._left_at = self.newest_at + self.interval_seconds + self.lag_seconds
            self._move(subject.ready_at, None)
            subject.end(latest)
            self._heard = None

    def end(self, latest: Latest) -> None:
        """The model left the policy."""
        for subject in (self.whole, *self.pods.values()):
            subject.end(latest)

    def begin(self, subject: SampledSubject, sample: MetricSample, latest: Latest, now: float) -> list[Arrivals] | None:
        """The first sample of a producer of one of our subjects; None when that has too many of them.

        Until its own habit is known it is taken to be as late as the model's others are.
        """
        begun = subject.begin(sample, latest, Habit(now, self.lag_seconds, now - sample.at))
        if subject is self.whole:
            self._heard_whole = _heard([(self.id, subject)])
        else:
            self._heard = None
        return begun

    @property
    def ready_pods(self) -> int:
        """How many there are, heard or not."""
        return len(self._ready_since)

    def expected(self, now: float) -> int:
        """How many of them may be expected to have reported: those Ready for as long as samples are on their way."""
        return bisect_right(self._ready_since, now - self.lag_seconds)

    @property
    def heard(self) -> Heard:
        """The Ready pods that told something."""
        if self._heard is None:
            self._heard = _heard((uid, pod) for uid, pod in sorted(self.pods.items()) if pod.ready_at is not None)
        return self._heard

    @property
    def heard_whole(self) -> Heard:
        """The model as a whole, if somebody told something of it."""
        return self._heard_whole

    @property
    def told_by(self) -> tuple[str, ...]:
        """Producers whose silence would be the model's, sorted; silent ones too, for that is what is asked."""
        of_pods = self.heard.producers
        return tuple(sorted(self._heard_whole.producers | (of_pods if len(of_pods) == 1 else frozenset())))

    def _move(self, old: float | None, new: float | None) -> None:
        if old is not None:
            self._ready_since.remove(old)
        if new is not None:
            insort(self._ready_since, new)

    def share(self, subject: SampledSubject, settled: float) -> float:
        """Which part of the model a sample speaks for: one of the pods that may be expected to report by then.

        That are those Ready at `settled`, some intervals before. A pod that became Ready since adds its work but is
        not expected yet: the others' would be stretched to cover it, and every scale-up would look like a surge.
        """
        ready_at, ready = subject.ready_at, self._ready_since
        if ready_at is None:
            return 1.0
        if settled >= ready[-1]:
            return 1.0 / len(ready)
        expected = bisect_right(ready, settled)
        if not expected:
            return 1.0 / len(ready)
        return 1.0 / expected if ready_at <= settled else 0.0

    def work(
        self, subject: SampledSubject, sample: MetricSample, came: Arrivals | None, latest: Latest, *, again: bool
    ) -> tuple[float, float] | None:
        """Replicas kept busy by what arrived, and over how many seconds; None when the sample cannot tell.

        `again`: it is read again after a start, when pods may have become Ready that did not serve then, and others
        that did may have gone.
        """
        ready_since = self._ready_then(sample.at) if again else self._ready_since
        ready = len(ready_since)
        several = came is None and (len(subject.series) > 1 or self.worked_sides is not None)
        contradicts = several and self._contradicts(subject, sample.at - COUNTED_SECONDS, latest)
        series = subject.series[sample.source]
        pods, part = (ready, 1.0) if subject is self.whole else (1, 1.0 / ready if ready else 1.0)
        if ready and sample.at == series.at:
            ready_at = ready_since[-1] if subject.ready_at is None else subject.ready_at
            if subject is self.whole:
                self.offered.about_to_learn(sample.at)
            others = subject is self.whole and (again or self._others_serve(sample.at - sample.interval_seconds))
            served = SampledPods(pods, part, ready_at, others)
            series.loaded = self.offered.learn(sample, came, series.loaded, served)
        return self.offered.work(sample, came, pods, contradicts=contradicts)

    def known(self, subject: SampledSubject, sample: MetricSample, came: Arrivals | None) -> None:
        """A sample that the rings have already, and whose lesson is kept: the next one is held against it."""
        ready, series = len(self._ready_then(sample.at)), subject.series[sample.source]
        if ready and sample.at == series.at:
            pods = ready if subject is self.whole else 1
            series.loaded = self.offered.learn(sample, came, series.loaded, SampledPods(pods, 0.0, inf))

    def _others_serve(self, since: float) -> bool:
        """Whether pods that count no more may have served since then: who is told to end finishes what it has begun."""
        return since < self._left_at or any(since < left + LEAVES_SECONDS for left in self._leaving.values())

    def _ready_then(self, at: float) -> list[float]:
        """The instants since which pods are Ready, of those that are Ready now and were at `at`."""
        return self._ready_since[: bisect_right(self._ready_since, at)]

    def worked_once(self, subject: SampledSubject, seconds: range, work: float, share: float) -> Iterator[More]:
        """The part of `work` in these seconds that goes beyond what other producers reported of them."""
        return once(subject.worked, self.worked_sides, seconds, work, share, whole=subject is self.whole)

    def arrived_once(self, subject: SampledSubject, seconds: range, requests: float) -> Iterator[More]:
        """The same for requests per second."""
        return once(subject.arrived, self.arrived_sides, seconds, requests, 0.0, whole=subject is self.whole)

    def take_sides(self) -> None:
        """Begins to compare samples of the whole with those of its pods; so far the rings have one side's work."""
        self.worked_sides, self.arrived_sides = Sides(self.min_coverage), Sides(None)
        for subject in (self.whole, *self.pods.values()):
            for highest, sides in ((subject.worked, self.worked_sides), (subject.arrived, self.arrived_sides)):
                for second, figure, share in highest.remembered() if highest else ():
                    sides.more(second, figure, share, whole=subject is self.whole)

    def _contradicts(self, subject: SampledSubject, since: float, latest: Latest) -> bool:
        """Whether `subject` has more requests in flight than those who count them can have missed by chance.

        Looks a few seconds apart differ by the root of what they see; three times that is none. `since`: of fresh ones.
        """
        in_flight, counted = subject.in_flight(latest, since), subject.in_flight(latest, since, counted=True)
        if isnan(counted) and self.worked_sides is not None:
            pods = [pod for pod in self.pods.values() if pod.ready_at is not None]
            if subject is self.whole:
                counted = _sum(pod.in_flight(latest, since, counted=True) for pod in pods)
            else:
                in_flight = _sum(pod.in_flight(latest, since) for pod in pods)
                counted = self.whole.in_flight(latest, since, counted=True)
        return in_flight > counted and (in_flight - counted) ** 2 > CHANCE**2 * (in_flight + counted)

    def seen_live(self, sample: MetricSample) -> None:
        """Count the metric interval of a sample taken since the process started."""
        self._live.add(int(sample.at / max(sample.interval_seconds, 1e-3)))
        self.intervals_live = len(self._live)
        if self.intervals_live >= LIVE_INTERVALS:
            self._live.clear()  # nobody asks for more

    def restore_offsets(self, seen: dict[tuple[str, int], int]) -> None:
        """The rings have what stands before these offsets and is no newer than the newest sample.

        An older version numbered what it gathered from a topic itself, and its numbers may be beyond all offsets there.
        """
        self.seen_offsets, self._restored_offsets, self._restored_at = dict(seen), seen, self.newest_at

    def redelivered(self, sample: MetricSample, subject: SampledSubject, *, late: bool) -> bool:
        """Whether the rings have this very record: Kafka hands records out again after a restart, and in order.

        `late`: its producer has told of a later instant.

        In order of each subject: a sample that is gathered from several records stands where the first of them does, so
        that two pods' may come the other way round. Several samples may come in one record, one behind the other.
        """
        position = sample.position
        if position is None:
            return False
        place, offset, at = (position.topic, position.partition), position.offset, sample.at
        restored = at <= self._restored_at and offset < self._restored_offsets.get(place, 0)
        if subject.reads_again(position, late=late, restored=restored) and at <= self.newest_at:
            return True
        if offset < self.seen_offsets.get(place, 0):
            if at <= self.newest_at:
                return False
            self._restored_offsets.pop(place, None)  # the topic was made anew
        self.seen_offsets[place] = offset + 1
        return False

    def expect(self, short: float, long: float, surge: SurgeRules) -> None:
        """What these means (NaN = unknown) say about the next surge, and whether this one is over."""
        self.alarm_above = 0.0 if isnan(long) else surge.enter_ratio * long
        if not short >= surge.leave_ratio * long:
            self.surging = False

    def rises(self, short: float, long: float, surge: SurgeRules) -> bool:
        """Whether these means show the beginning of a surge."""
        self.expect(short, long, surge)
        if self.surging or not (short >= surge.enter_ratio * long and ceil(short) > ceil(long)):
            return False
        self.surging = True
        return True
