"""Measurements of a model, each a value with an age or a reason why there is none. Unknown is never zero."""

from msgspec import UNSET, Struct, UnsetType

from rebalancer.domain.instant import Instant
from rebalancer.domain.outlook import Outlook

FRESH_INTERVALS = 3  # a reading older than its producer's usual lag and three of its intervals is stale ...
LEAST_FRESH_SECONDS = 10.0  # ... but never one younger than lag and this: 1-s producers are late by more than 3 s
MOST_LAG_SECONDS = 180.0  # no habit beyond it, however steady
TOLD_LAG_SECONDS = 10.0  # from here on people are told of a lag: it costs what they would notice


class Reading(Struct, frozen=True, tag="reading", omit_defaults=True):
    """A value that was measured at `at` (event time) on the share `coverage` (0-1) of the model's Ready pods.

    value: in the signal's unit.
    at: when it was measured.
    coverage: share of the pods of which it is.
    above: whether the truth lies above `value`, nobody knows how far: a percentile in its histogram's last bucket.
    """

    value: float
    at: Instant
    coverage: float
    above: bool = False


NOT_LEARNT = "what a replica carries is not learnt yet"  # why offered work is unknown, and concurrency has no vote


class NoReading(Struct, frozen=True, tag="none"):
    """The reason why there is no value: never-seen, absent or not-finite."""

    why: str


Signal = Reading | NoReading


def keeps(latency_seconds: float, slo_seconds: float, *, above: bool) -> bool | None:
    """Whether a latency keeps an SLO. None where it lies `above` a figure within the SLO: that says neither."""
    if above:
        return False if latency_seconds >= slo_seconds else None
    return latency_seconds <= slo_seconds


class Work(Struct, frozen=True):
    """Offered work in replicas (replica-seconds per second), as means over windows that end where knowledge ends.

    A mean is None where fewer than half of its window's seconds were observed.

    short: mean over the policy's short surge window.
    last_60s: mean over 60 s.
    long: mean over the policy's long surge window.
    slow: 0.1, 0.5 and 0.4 times the means over 60, 300 and 1200 s, over those of them that are known.
    source: how it was found, from the best to the worst: arrivals, concurrency or utilisation; "" while no sample
        serves.
    resolution_seconds: seconds within which arrivals are not told apart.
    why_not_better: what a better source lacks, as a clause; "" at the best one.
    """

    short: float | None = None
    last_60s: float | None = None
    long: float | None = None
    slow: float | None = None
    source: str = ""
    resolution_seconds: float = 0.0
    why_not_better: str = ""

    @property
    def newest(self) -> float | None:
        """By the shortest window that is known; None where neither that nor the last 60 s are."""
        return self.last_60s if self.short is None else self.short


class Carries(Struct, frozen=True):
    """Requests running on one replica that it serves within its SLO, as learnt from replicas under load.

    prior: the policy's figure, None where it has none.
    learnt: middle of the likely range.
    readings: number of looks at loaded replicas that taught it.
    low: lower end of the range in which it is four times out of five; None while it is unknown.
    high: upper end of that range; None where no load has broken the SLO and no replica was full.
    cached: requests that the replica's cache would have room for where that is less than `prior`, else None.
    """

    prior: float | None
    learnt: float
    readings: int
    low: float | None = None
    high: float | None = None
    cached: float | None = None


class TokenRate(Struct, frozen=True):
    """Tokens per second: read (`prompt`) and written (`generated`)."""

    prompt: float
    generated: float


class ModelLoad(Struct, frozen=True):
    """The load of one model, as metrics show it.

    model: id of the model.
    signals: by name: concurrency (requests in flight), queue (requests waiting), kvCache (use of the cache, 0-1),
        latency (p95, seconds), utilisation (of the GPUs, 0-1). Requests are sums over Ready pods, ratios means, latency
        the worst.
    work: its offered work.
    interval_seconds: seconds between two of its samples; 0 before the first.
    intervals_live: metric intervals seen since the process started, as the guard `start` counts them.
    pod_requests: requests in flight by pod UID, where samples come by the pod.
    outlook: cost of each count of replicas; None before anything was observed.
    carries: requests that one replica serves in time; None while nothing is known of it.
    lag_seconds: seconds by which its samples are usually late, beyond an interval.
    known_until: instant at which knowledge of its work ends; None where no sample has come.
    told_by: producers whose failure would silence the model, sorted: each that measures it as a whole (its gateway),
        and the one that measures all of its pods. Several that measure some pods each do not fail at once.
    tokens: tokens of all pods in a second, between their newest two samples; None where nobody counts them.
    unheard_requests: those in flight on pods that lead no replica, which count nowhere; left out where there are none.
    """

    model: str
    signals: dict[str, Signal] = {}
    work: Work = Work()
    interval_seconds: float = 0.0
    intervals_live: int = 0
    pod_requests: dict[str, float] = {}
    outlook: Outlook | None = None
    carries: Carries | None = None
    lag_seconds: float = 0.0
    known_until: Instant | None = None
    told_by: tuple[str, ...] = ()
    tokens: TokenRate | None = None
    unheard_requests: float | UnsetType = UNSET
