"""Readings become votes: replicas that each signal asks for; a stale, absent or barely covered signal has no vote.

Worked example: chat has 5 Ready replicas and a floor of 1, one replica carries 10 requests, and 32 are in flight: the
signal concurrency votes for ceil(32 / 10) = 4. Its queue is empty, so the signal queue votes for the floor, 1. GPU
utilisation was last seen 5 minutes ago and abstains. The highest vote is the need: 4. Both votes agree to fewer
replicas than there are, so demand may fall from 5 to 4 once the cooldown of the class is over.
"""

import math

from msgspec import Struct

from rebalancer.domain.policy import BlindRule, ClassRules, Model
from rebalancer.domain.readings import (
    FRESH_INTERVALS,
    LEAST_FRESH_SECONDS,
    NOT_LEARNT,
    ModelLoad,
    NoReading,
    Reading,
    keeps,
)
from rebalancer.domain.words import seconds

QUEUE_LOW = 0.0  # an empty queue is the only queue that asks for fewer replicas
LATENCY_LOW = 0.5  # below half of the SLO latency agrees to fewer replicas
LATENCY_MOST = 2.0  # latency explodes near saturation: it never asks for more than twice the replicas at once
NEVER_SEEN = NoReading(why="never-seen")
NOT_FINITE = frozenset({"not-finite", "not finite"})  # why some readings have no vote: somebody measured that
IN_FLIGHT = ("concurrency", "queue")  # who runs and waits: an idle model is seen to have nobody in either
CHANCE_ROOTS = 2.0  # requests come by chance: so many roots of those in flight are more by it once in 40 looks
ROUNDING = 1e-6  # planning's grid: 3.0000004 replicas of work are 3


def replicas_for(amount: float) -> int:
    """Whole replicas that carry `amount` replicas' worth of work."""
    return max(0, math.ceil(amount - ROUNDING))


UNTIL_LEARNT = (
    "until it is known what one of its replicas carries (signals.concurrency.perReplica in the policy says it at once)"
)
_ABSENCES = {
    "never-seen": "was never seen",
    "absent": "is not in the samples",
    "not-finite": "is not a finite number",
    "not finite": "is not a finite number",
    "no ready replica": "has no Ready replica to look at",
    NOT_LEARNT: "says nothing while what a replica carries is not learnt",
}


def abstention(signal: str, why: str) -> str:
    """Why a signal has no vote, as a sentence: `latency was never seen`, `concurrency is 48 s old`."""
    plain = f"was {why}" if why.startswith("seen on") else f"is {why}"
    return f"{signal} {_ABSENCES.get(why, plain)}"


class Vote(Struct, frozen=True):
    """The replicas that one signal asks for.

    signal: name of the signal.
    replicas: how many replicas it asks for.
    value: the reading behind it, in the signal's unit; None: the model is idle, so nobody measures it.
    at: when that was measured.
    fewer: whether it agrees to fewer replicas than there are.
    above: whether the reading lies above `value`, nobody knows how far: then the vote is the least it asks for.
    crosses: whether chance alone may make it ask for one replica more.
    """

    signal: str
    replicas: int
    value: float | None
    at: float
    fewer: bool
    above: bool = False
    crosses: bool = False

    def age(self, now: float) -> float:
        """Seconds since it was seen."""
        return max(0.0, now - self.at)

    def keeps(self, slo_seconds: float) -> bool | None:
        """Whether a latency keeps this SLO; None where nobody measures it, or it may lie on either side."""
        return None if self.value is None else keeps(self.value, slo_seconds, above=self.above)

    @property
    def in_seconds(self) -> str:
        """A latency for people: `0.25 s`, `more than 30 s`; `idle` where nobody measures it."""
        return "idle" if self.value is None else seconds(self.value, above=self.above)


class Ballot(Struct, frozen=True):
    """All votes on one model. `abstained`: (signal, why) of those without a vote."""

    votes: tuple[Vote, ...]
    abstained: tuple[tuple[str, str], ...]
    configured: int

    @property
    def blind(self) -> bool:
        """Whether no vote is usable: then nothing may be taken from this model on its own account."""
        return not self.votes

    @property
    def silence(self) -> str:
        """Which signals have no vote and why, in words; "" where all have one."""
        return "; ".join(abstention(signal, why) for signal, why in self.abstained)

    @property
    def need(self) -> int | None:
        """The highest vote; None when there is none."""
        return max((vote.replicas for vote in self.votes), default=None)

    @property
    def enough(self) -> int:
        """Replicas beyond which no vote asks for one more by chance."""
        return max((vote.replicas + vote.crosses for vote in self.votes), default=0)

    @property
    def unlearnt(self) -> bool:
        """Whether it has requests in flight, and nobody knows what a replica carries."""
        return any(why == NOT_LEARNT for _, why in self.abstained)

    @property
    def may_fall(self) -> bool:
        """A decrease needs two votes that agree to it, or all where one signal is configured; no vote may object.

        Of a model of which nobody knows what a replica carries nothing is taken: who is kept in time is not idle.
        """
        if self.unlearnt:
            return False
        agree = sum(1 for vote in self.votes if vote.fewer)
        return agree == len(self.votes) and agree >= min(2, self.configured)


class _Electorate(Struct, frozen=True):
    """The model by which its signals' readings are counted.

    model: its entry in the policy.
    ready: its Ready replicas.
    floor: replicas below which no vote goes.
    rules: watermarks of its class.
    carries: requests that one replica serves in time, None while nobody knows.
    """

    model: Model
    ready: int
    floor: int
    rules: ClassRules
    carries: float | None

    def watermark(self, use: float, high: float, low: float) -> tuple[int, bool]:
        """Use >= high: more; use <= low: fewer, not under the floor; between: hold."""
        if use >= high:
            return replicas_for(self.ready * use / high), False
        if use <= low:
            return max(self.floor, replicas_for(self.ready * use / high)), True
        return self.ready, False

    def by_chance(self, requests: float) -> int:
        """Replicas that so many requests in flight take, with as many more as come by chance."""
        most = requests + CHANCE_ROOTS * math.sqrt(max(0.0, requests))
        return 0 if self.carries is None else replicas_for(most / self.carries)


def poll(model: Model, load: ModelLoad, ready: int, rules: ClassRules, blind: BlindRule, now: float) -> Ballot:  # noqa: PLR0913  # fmt: skip  # each is one thing a vote depends on
    """The ballot of one model at `now`. Votes know no past: how long they must stand is `demand`'s business."""
    concurrency = model.signals.concurrency
    carries = load.carries.learnt if load.carries is not None else concurrency.per_replica if concurrency else None
    who = _Electorate(model=model, ready=ready, floor=model.min_replicas, rules=rules, carries=carries)
    votes: list[Vote] = []
    abstained: list[tuple[str, str]] = []
    configured = model.signals.configured
    for signal in configured:
        cast = _cast(signal, load, who, blind, now)
        if isinstance(cast, Vote):
            votes.append(cast)
        else:
            abstained.append((signal, cast))
    return Ballot(tuple(votes), tuple(abstained), len(configured))


def _cast(signal: str, load: ModelLoad, who: _Electorate, blind: BlindRule, now: float) -> Vote | str:
    """The vote of one signal, or why it has none."""
    reading = load.signals.get(signal, NEVER_SEEN)
    why = _abstains(reading, load, blind, now)
    if who.ready == 0 and signal != "concurrency":
        return why or "no ready replica"
    if signal == "concurrency" and who.carries is None and not (why is None and _is_zero(reading)):
        return NOT_LEARNT
    if why is None and isinstance(reading, Reading):
        replicas, fewer = _count(signal, reading.value, who)
        if fewer and reading.above:  # how far above decides, and nobody knows
            return seconds(reading.value, above=True)
        crosses = signal == "concurrency" and who.by_chance(reading.value) > replicas
        return Vote(signal, replicas, reading.value, reading.at, fewer, reading.above, crosses)
    idle_at = _idle_at(load, blind, now) if signal == "latency" and why not in NOT_FINITE else None
    return why or "absent" if idle_at is None else Vote(signal, who.floor, None, idle_at, fewer=True)


def _is_zero(reading: Reading | NoReading) -> bool:
    """Whether it was measured and is 0: no request in flight is no work, whatever a replica carries."""
    return isinstance(reading, Reading) and reading.value == 0.0


def fresh_until(load: ModelLoad, blind: BlindRule) -> float:
    """An instant, a second early, before which no reading is stale; -inf where there are none."""
    seen = [reading.at for reading in load.signals.values() if isinstance(reading, Reading)]
    return min(seen) + _oldest(load, blind) - 1.0 if seen else -math.inf


def usable(load: ModelLoad, signal: str, blind: BlindRule, now: float) -> float | None:
    """The value of a signal that may vote; None where it abstains."""
    reading = load.signals.get(signal, NEVER_SEEN)
    if isinstance(reading, Reading) and _abstains(reading, load, blind, now) is None:
        return reading.value
    return None


def asked_for(load: ModelLoad, blind: BlindRule, now: float) -> bool:
    """Whether the model is seen to have a request, running or waiting."""
    return any(usable(load, signal, blind, now) for signal in IN_FLIGHT)


def _oldest(load: ModelLoad, blind: BlindRule) -> float:
    longest = min(blind.stale_seconds, max(LEAST_FRESH_SECONDS, FRESH_INTERVALS * load.interval_seconds))
    return load.lag_seconds + longest


def _abstains(reading: Reading | NoReading, load: ModelLoad, blind: BlindRule, now: float) -> str | None:
    """Why a reading has no vote, None when it has one."""
    if isinstance(reading, NoReading):
        return reading.why
    if not math.isfinite(reading.value):
        return "not finite"
    age = now - reading.at
    if age > _oldest(load, blind):
        return f"{age:.0f} s old"
    if reading.coverage < blind.min_coverage:
        return f"seen on {reading.coverage:.0%} of the pods"
    return None


def _idle_at(load: ModelLoad, blind: BlindRule, now: float) -> float | None:
    """The instant at which the model was seen without any request, running or waiting; None where it was not.

    Nobody measures how long answers take that nobody asks for: without this an idle model would never agree to fewer.
    """
    seen = [load.signals.get(signal, NEVER_SEEN) for signal in IN_FLIGHT]
    known = [one for one in seen if isinstance(one, Reading) and _abstains(one, load, blind, now) is None]
    if len(known) < len(IN_FLIGHT) or any(one.value for one in known):
        return None
    return min(one.at for one in known)


def _count(signal: str, value: float, who: _Electorate) -> tuple[int, bool]:
    """(replicas asked for, consents to fewer than there are)."""
    signals = who.model.signals
    if signal == "concurrency":
        return 0 if who.carries is None else replicas_for(value / who.carries), True
    if signal == "queue" and signals.queue is not None:
        return who.watermark(value / who.ready, signals.queue.high, QUEUE_LOW)
    if signal == "kvCache" and signals.kv_cache is not None:
        return who.watermark(value, signals.kv_cache.high, signals.kv_cache.low)
    if signal == "latency" and who.model.slo is not None:
        use = value / who.model.slo.latency_seconds
        return who.watermark(min(use, LATENCY_MOST), 1.0, LATENCY_LOW)
    return who.watermark(value, who.rules.high_utilisation, who.rules.low_utilisation)
