"""The work offered to a model as one sample shows it, by the best path that its producer allows.

`arrivals`: where the engine counts requests and tokens. Tokens written are work that came and is done; requests that
joined the queue brought the work of one request each (`state.pace`), running ones have half of it ahead. Requests that
came, times the work of one, would be 1.0 (30 s) to 0.6 (5 min) of a standard deviation off where lengths vary: this is
0.3 to 0.1.

`concurrency`: Little's law. Requests running keep their replicas busy, those of an engine with a cache more than by
their number: it batches, and usually does half of the work with a quarter of the slots in use. Requests that joined the
queue are work that came and is not done, requests that left it are done by now, unless the client gave up: that work
came, too, and without it the demand on an overloaded model would look like the work that it can do. Where nobody counts
finished requests, the work of waiting ones is unknown, and they count as if they were running, at most as much as runs:
doubling finds a surge's size in a few starts, and a queue of minutes would look like 29 times the work there is. Where
no replica serves nothing can run: there those who wait count up to one replica's work, or nobody would ever serve them.

`utilisation`: the share of full use (the class's high watermark) of the replicas there are. The low watermark is the
vote's: held between the two, work would follow the replicas upwards and never come down.
"""

from collections import deque
from math import inf, isfinite, sqrt
from typing import NamedTuple

from msgspec import Struct

from rebalancer.domain.events import Counters, Gauges, MetricSample
from rebalancer.domain.readings import NOT_LEARNT, Carries, keeps
from rebalancer.domain.signals import ConcurrencySignal
from rebalancer.state.capacity import Capacity, CapacityPast
from rebalancer.state.cost import beginning
from rebalancer.state.pace import Pace, PacePast
from rebalancer.state.series import Arrivals, Loaded

ARRIVALS, CONCURRENCY, UTILISATION = "arrivals", "concurrency", "utilisation"
# A worse path waits until nobody has spoken for a better one for so long. Two producers often tell of the same pods
# (Prometheus beside Kafka, DCGM beside the engine), and the higher of both would be the better one and the noise of
# the worse. Who sees far more in flight than those who count does not wait.
COUNTED_SECONDS = 90.0
UNSERVED = 1.0  # replicas of work: as much may wait where no replica serves


class Path(NamedTuple):
    """Where offered work comes from, and what a better source lacks."""

    source: str
    why_not_better: str


BY_TOKENS = Path(ARRIVALS, "")
BY_REQUESTS = Path(CONCURRENCY, "nobody counts tokens")
NOT_YET = Path(CONCURRENCY, "nothing is known to be finished yet")
UNCOUNTED = Path(CONCURRENCY, "nobody counts the requests that are finished")
NO_RUNNING = Path(UTILISATION, "nobody tells the requests running")
NO_FIGURE = Path(UTILISATION, "the policy has no signals.concurrency")
UNLEARNT = Path("", NOT_LEARNT)

FULL_WAITING = 0.1  # of those who run wait: an engine with room would take them on
FULL_ROOTS = 2.0  # standard deviations of what was finished meanwhile: a shorter queue may have been empty in between
FULL_KV_USE = 0.98  # of the cache: the next request must wait, or is preempted
FILLING = 0.1  # more in an interval than this share of those who run, and one a replica: it takes on who waits
USUAL_PROMPT_TOKENS = 6.0  # for each generated one, where nobody counts them: 5.5 in Azure's conversations
MEASURED = 0.02  # more than which what a replica carries must have changed to count all work anew
BROKE_SECONDS = 120.0  # after a queue, in which latencies tell of it still: they are of a window
SILENT_SECONDS = 60.0  # a kubelet says nothing for 40 to 50 s before its node is NotReady, and a sample is of seconds
KEPT_SECONDS = 15.0  # between two states of what was learnt that are kept for that
DOUBTED_SECONDS = SILENT_SECONDS + KEPT_SECONDS


class OfferedPast(NamedTuple):
    """An `Offered` for the checkpoint.

    path: where the newest figure of offered work came from.
    resolution_seconds: seconds within which the finest source does not tell arrivals apart.
    tells_tokens: whether it is an LLM's engine, whose SLO is the time to the first token.
    pace: what one request costs.
    capacity: what one replica carries, None where the policy has no signal concurrency.
    spoken_at: instants of the newest count of requests running, of finished requests, and of the finest source; 0:
        never.
    owed: replica-seconds, at most 0, that finished requests take back from the promise of their beginning.
    """

    path: Path = Path("", "")
    resolution_seconds: float = 0.0
    tells_tokens: bool = False
    pace: PacePast = PacePast()
    capacity: CapacityPast | None = None
    spoken_at: tuple[float, float, float] = (0.0, 0.0, 0.0)
    owed: float = 0.0


class SampledPods(Struct, frozen=True, gc=False):
    """The pods that a sample speaks for.

    pods: number of pods that are counted.
    part: their share of the model's Ready pods.
    ready_at: instant since when all of them are Ready.
    others: whether pods that are not counted may have served as well, so that each carried less than it seems.
    """

    pods: int
    part: float
    ready_at: float
    others: bool = False


Spread = tuple[float, float]  # replicas kept busy by what arrived, and over how many seconds up to the sample


class Offered:
    """One model's paths to its offered work, and what they learnt.

    `path`: of the newest sample that told of work; `resolution_seconds`: of the finest of them lately.
    `tells_tokens`: an LLM's engine, whose SLO is the time to the first token. `told_before`: how many times what was
    told so far is as much by what is known now; whoever keeps it counts it anew and sets this to 1.
    """

    def __init__(self) -> None:
        self.pace = Pace()
        self.capacity: Capacity | None = None
        self.told_before = 1.0
        self.path = Path("", "")
        self.resolution_seconds = 0.0
        self.tells_tokens = False
        self._counted_at = self._finished_at = self._resolved_at = -inf
        self._measure: float | None = None  # requests on a replica, by which work is told
        self._owed = 0.0  # replica-seconds, 0 or less: a request that ends takes back what its beginning promised
        self._before: deque[tuple[float, CapacityPast]] = deque()  # what was known then, in the last `DOUBTED_SECONDS`

    def configure(
        self, concurrency: ConcurrencySignal | None, high_utilisation: float, slo_seconds: float | None
    ) -> None:
        """Takes over the policy: signal concurrency (None: not configured), full use, and the SLO (None: no SLO)."""
        self._high_utilisation = high_utilisation
        self._slo_seconds = slo_seconds
        known = None if self.capacity is None else self.capacity.past
        self.capacity = None if concurrency is None else Capacity(concurrency.per_replica, known)
        if self.capacity is None:
            self._measure = None
        else:
            self._measure_by(self.capacity.learnt)

    def learn(self, sample: MetricSample, came: Arrivals | None, before: Loaded, served: SampledPods) -> Loaded:
        """Learns from a producer's newest sample what replicas carry; returns the state in which it found them.

        `came`: as for `work`; `before`: what the sample before said. Where others may have served as well, a replica
        carried no more than it seems to: that bears out what is believed, or less, and never more.
        """
        gauges, seconds = sample.gauges, sample.interval_seconds
        running, waiting = gauges.running or 0.0, gauges.waiting or 0.0
        at, pods = sample.at, served.pods
        queued = waiting >= 1.0 and waiting >= FULL_WAITING * running
        cache = gauges.kv_cache_use or 0.0
        # Whoever does not count beside one who does cannot tell a queue from one that is empty in between.
        knows = came is not None or at - self._finished_at >= COUNTED_SECONDS
        lasting = queued and knows and waiting >= FULL_ROOTS * sqrt(0.0 if came is None else max(0.0, came[4]))
        full = running > 0.0 and (lasting or cache >= FULL_KV_USE)
        queued_at = at if queued else before.queued_at
        same = before.replicas == pods and at - before.at <= 1.5 * seconds and served.ready_at <= at - seconds
        if same and self.capacity is not None and running > 0.0 and isfinite(running):
            within = self._within(gauges)
            if within is False and at - queued_at < BROKE_SECONDS:
                within = None  # the queue broke it
            filling = running - before.running > max(pods, FILLING * running)
            throughout = full and before.full and not filling
            carried, weight = running / pods, served.part * seconds
            if cache > 0.0 and not served.others:
                self.capacity.cached(carried, cache, weight)
            if (within is not None or throughout) and not (served.others and carried > (self.capacity.learnt or 0.0)):
                self.capacity.saw(carried, weight, full=throughout, within=within)
            self._measure_by(self.capacity.learnt)
        return Loaded(at, pods, full, queued_at, running)

    def about_to_learn(self, at: float) -> None:
        """What is known at that instant is kept, in case that it was silent pods that taught what comes: `unlearn`."""
        self._forget_old(at)
        if self.capacity is not None and (not self._before or at - self._before[-1][0] >= KEPT_SECONDS):
            self._before.append((at, self.capacity.past))

    def _forget_old(self, at: float) -> None:
        """States of long ago, or of a clock that has been set back since."""
        while self._before and abs(at - self._before[0][0]) > DOUBTED_SECONDS:
            self._before.popleft()

    def unlearn(self, at: float) -> None:
        """Forgets the lessons of the minute up to `at`: some of the pods that counted as serving were gone.

        In samples of a model as a whole what ran on the others was divided by all, and a replica seemed full with half
        of what it carries. Where no such sample came for so long, nothing is forgotten.
        """
        self._forget_old(at)
        if self.capacity is not None and self._before:
            self.capacity = Capacity(self.capacity.prior, self._before[0][1])
            self._before.clear()
            self._measure_by(self.capacity.learnt)

    def _measure_by(self, learnt: float | None) -> None:
        """All that was seen counts by what is known now: else half of a day's work would look like twice the next."""
        measure = self._measure
        if self.capacity is not None:
            self.pace.full, self.pace.cached = learnt or 0.0, self.capacity.cached_requests
        if learnt is None or measure is None:
            self._measure = learnt
        elif abs(learnt - measure) > MEASURED * measure:
            times, self._measure = measure / learnt, learnt
            self.pace.scale(times)
            self._owed *= times
            self.told_before *= times

    def work(self, sample: MetricSample, came: Arrivals | None, pods: int, *, contradicts: bool = False) -> Spread | None:  # noqa: E501  # fmt: skip
        """The work that a sample shows, in replicas, and for how many seconds up to it; None when it cannot tell.

        `came`: the counters' change since its producer's sample before, None if that is unknown. `pods`: number of pods
        that the sample speaks for. `contradicts`: whether its producer sees more than those of a better path can have
        missed.
        """
        gauges, seconds = sample.gauges, sample.interval_seconds
        measure = self._measure
        if not self.tells_tokens:
            self.tells_tokens = _of_tokens(gauges, sample.counters)
        running = gauges.running
        if running is None or self.capacity is None:
            return self._of_utilisation(sample, pods)
        if measure is None:
            self.path = UNLEARNT
            return None
        waiting = gauges.waiting or 0.0
        if not isfinite(running + waiting):
            return None
        self._counted_at = sample.at
        if seconds <= self.resolution_seconds or sample.at - self._resolved_at >= COUNTED_SECONDS:
            self.resolution_seconds, self._resolved_at = seconds, sample.at
        busy = running / measure
        if came is not None:
            self._finished_at = sample.at
            spread = self._of_counters(came, busy, pods, seconds)
            if spread is not None:
                return spread
            self.path = NOT_YET
        elif not self._may_speak_uncounted(sample) and not contradicts:
            return None
        done = self._done(busy, pods)
        most = done if pods else max(UNSERVED, done)
        return done + min(most, waiting / measure), seconds

    def _done(self, busy: float, pods: int) -> float:
        """Replicas' worth of work done where `busy` of `pods` are, by slots in use, and nobody counts tokens.

        An engine with a cache batches: the fewer run, the sooner each has its next token (`cost.beginning`). Others do
        as much as they have slots in use.
        """
        cached = self.capacity.cached_requests if self.capacity else 0.0
        if not cached or not pods or not self._measure:
            return busy
        begins = beginning(USUAL_PROMPT_TOKENS, self._measure, cached)  # of what a request costs a full replica
        return busy / (begins + (1.0 - begins) * min(1.0, busy / pods))

    def _may_speak_uncounted(self, sample: MetricSample) -> bool:
        """Also the first sample of who counts has nothing to count from; it changes no path."""
        counters = sample.counters
        if counters is not None and counters.requests_finished is not None:
            self.path = self.path if self.path.source else NOT_YET
            return True
        if sample.at - self._finished_at < COUNTED_SECONDS:
            return False
        self.path = UNCOUNTED
        return True

    def _of_counters(self, came: Arrivals, busy: float, pods: int, interval: float) -> Spread | None:
        since, until, requests, queued, finished, gone, tokens, prompts = came
        seconds, pace, joined = until - since, self.pace, queued + gone
        spread = max(seconds, 0.5 * interval)  # two records of nearly one instant are no burst
        if tokens == tokens:  # noqa: PLR0124  # NaN where nobody counts them; a call would cost more than the rest
            if finished >= 0.0 <= tokens:
                pace.wrote(until, seconds, busy, pods, finished, tokens, prompts)
            each, self.path = pace.by_tokens, BY_TOKENS
        else:
            done = self._done(busy, pods)
            if finished >= 0.0:
                pace.finished(until, done * seconds, finished)
            each, self.path = pace.by_requests, BY_REQUESTS
            return (max(0.0, joined * each / spread + done), interval) if each else None
        if not each:
            return None
        # Joined the queue: all of a request's work; began to run: half of it.
        work = max(0.0, tokens) * pace.of_token + 0.5 * (requests - finished + joined) * each + self._owed
        self._owed = min(0.0, max(work, -each))
        return max(0.0, work) / spread, spread

    def _of_utilisation(self, sample: MetricSample, pods: int) -> Spread | None:
        use = sample.gauges.gpu_utilisation
        if use is None or not self._high_utilisation or sample.at - self._counted_at < COUNTED_SECONDS:
            return None
        work = pods * use / self._high_utilisation
        if not isfinite(work):
            return None
        self.path = NO_FIGURE if self.capacity is None else NO_RUNNING
        self.resolution_seconds, self._resolved_at = sample.interval_seconds, sample.at
        return work, sample.interval_seconds

    def _within(self, gauges: Gauges) -> bool | None:
        """Whether the latency keeps the SLO; None where nobody tells it, or where nothing was promised.

        Where the policy names neither an SLO nor a figure, who runs while nobody waits is served as was promised.
        """
        if self._slo_seconds is None:
            unpromised = self.capacity is not None and self.capacity.prior is None
            return True if unpromised and gauges.waiting == 0.0 else None
        latency, above = gauges.ttft
        if latency is None and not self.tells_tokens:
            latency, above = gauges.latency
        if latency is None:
            return None
        return keeps(latency, self._slo_seconds, above=above)

    @property
    def carries(self) -> Carries | None:
        """The requests that one replica carries; None while nothing is known."""
        return None if self.capacity is None else self.capacity.carries

    @property
    def past(self) -> OfferedPast:
        """The paths and what they learnt, for the checkpoint."""
        capacity = None if self.capacity is None else self.capacity.past
        spoken_at = max(0.0, self._counted_at), max(0.0, self._finished_at), max(0.0, self._resolved_at)
        return OfferedPast(
            self.path, self.resolution_seconds, self.tells_tokens, self.pace.past, capacity, spoken_at, self._owed
        )

    def restore(self, saved: OfferedPast) -> None:
        """Go on with what `saved` said; work that was told by another measure is counted anew."""
        self.path, self.resolution_seconds, self.tells_tokens = saved.path, saved.resolution_seconds, saved.tells_tokens
        self.pace, self._owed = Pace(saved.pace), saved.owed
        self._counted_at, self._finished_at, self._resolved_at = saved.spoken_at
        if self.capacity is not None:
            self.capacity = Capacity(self.capacity.prior, saved.capacity)
            self._measure = saved.capacity.learnt or None if saved.capacity else self.capacity.learnt
            self._measure_by(self.capacity.learnt)


def _of_tokens(gauges: Gauges, counters: Counters | None) -> bool:
    if gauges.ttft[0] is not None or gauges.kv_cache_use is not None:
        return True
    return counters is not None and (counters.prompt_tokens is not None or counters.generated_tokens is not None)
