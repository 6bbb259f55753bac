"""A reading is a value with an age, or a reason why there is none. Unknown is never zero."""

from msgspec import Struct

from rebalancer.domain.instant import Instant
from rebalancer.domain.outlook import Outlook

FRESH_INTERVALS = 3  # a reading older than its producer's usual lag and three of its intervals is stale ...
LEAST_FRESH_SECONDS = 10.0  # ... but never one younger than lag and this: 1-s producers are late by more than 3 s
MOST_LAG_SECONDS = 180.0  # no habit beyond it, however steady
TOLD_LAG_SECONDS = 10.0  # from here on people are told of a lag: it costs what they would notice


class Reading(Struct, frozen=True, tag="reading"):
    """`value` seen at `at` (event time) on `coverage` (0-1) of the model's Ready pods."""

    value: float
    at: Instant
    coverage: float


class NoReading(Struct, frozen=True, tag="none"):
    """Why there is no value: never-seen, absent, not-finite."""

    why: str


Signal = Reading | NoReading


class Work(Struct, frozen=True):
    """Offered work: replicas kept busy (replica-seconds per second), means over windows that end where knowledge does.

    None = fewer than half of the window's seconds were observed. `short` and `long` are the policy's surge windows,
    `slow` weighs 60/300/1200 s by .1/.5/.4 over those that are known (the look-ahead's level before what it learns).
    `source`: how it was found, from the best to the worst: arrivals, concurrency, utilisation; "" while nothing told.
    `resolution_seconds`: how finely arrivals are told apart. `why_not_better`: what the source above it lacks.
    """

    short: float | None = None
    last_60s: float | None = None
    long: float | None = None
    slow: float | None = None
    source: str = ""
    resolution_seconds: float = 0.0
    why_not_better: str = ""


class Carries(Struct, frozen=True):
    """Requests running on one replica within its SLO: the policy's figure, and what `readings` loaded looks taught.

    `prior`: None where the policy has no figure. `learnt`: the middle of what is likely; `low`, `high`: four of five
    times it is between; None where nobody has seen so much carried in time, or so much break it. `cached`: how many its
    cache would hold where that is less than the policy's figure, else None.
    """

    prior: float | None
    learnt: float
    readings: int
    low: float | None = None
    high: float | None = None
    cached: float | None = None


class ModelLoad(Struct, frozen=True):
    """What one model is asked to do, as metrics show it.

    signals: in-flight requests (concurrency), waiting requests (queue), KV-cache use 0-1 (kvCache), p95 seconds
    (latency), GPU utilisation 0-1 (utilisation). Counts are sums over Ready pods, ratios are means, latency the worst.
    `pod_requests`: requests in flight per pod UID, where samples come per pod. `intervals_live`: metric intervals
    seen since the process started (guard `start`). `carries`: None while nothing is known of it.
    `outlook`: what each count of replicas is worth; None before anything was observed. `lag_seconds`: how far behind
    its samples usually are, beyond an interval; `known_until`: where knowledge ends, None: nothing was told. `told_by`:
    producers whose silence would be the model's, sorted: whoever tells of it as a whole, as its gateway does, and who
    tells of all of its pods where that is one; several that each tell of some do not fall silent at once.
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
