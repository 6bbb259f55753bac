"""From the newest samples of many models to their signals, all at once: 2 us per pod in numpy, 20 in plain Python.

A row is one producer's newest sample of a subject (a Ready pod, or the model as a whole). Rows become one look per
subject: of producers that disagree the highest fresh figure stands, an idle look must not hide a busy one. Looks become
one reading per model and signal. Stale samples are used only where nothing is fresh, and then cover nothing.
"""

from collections.abc import Sequence
from math import isfinite, isinf, isnan
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from rebalancer.domain.policy import BlindRule
from rebalancer.domain.readings import FRESH_INTERVALS, LEAST_FRESH_SECONDS, NoReading, Reading, Signal
from rebalancer.state.latest import (
    AT,
    INTERVAL,
    LAG,
    LATENCY,
    LATENCY_ABOVE,
    RUNNING,
    TTFT,
    TTFT_ABOVE,
    WAITING,
    Latest,
)
from rebalancer.state.track import Heard, Track

SIGNALS = ("concurrency", "queue", "kvCache", "latency", "utilisation")  # as `Latest` from RUNNING on
MEANS = [SIGNALS.index("kvCache"), SIGNALS.index("utilisation")]  # the others are sums,
BOUND = len(SIGNALS)  # the column behind them: the latencies of which it is only known that they lie above
WORST = [SIGNALS.index("latency"), BOUND]  # but for these

NEVER_SEEN, ABSENT, NOT_FINITE = NoReading("never-seen"), NoReading("absent"), NoReading("not-finite")

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)


class SignalReadings(NamedTuple):
    """The signals of one model, from its newest samples.

    by_name: a reading for each signal, or the reason why there is none.
    pod_requests: requests in flight, by UID of the pod.
    fresh_until: instant at which the first of its samples grows stale; inf: none will.
    lag_seconds: the longest usual lag of producers with a fresh sample, in seconds; None where none is fresh.
    """

    by_name: dict[str, Signal]
    pod_requests: dict[str, float]
    fresh_until: float
    lag_seconds: float | None


class _Groups:
    """Neighbouring rows that belong together, by how many they are (none is empty); mostly each row is alone."""

    def __init__(self, lengths: Sequence[int], rows: int) -> None:
        self.alone = len(lengths) == rows
        if not self.alone:
            self._lengths = np.array(lengths, dtype=np.intp)
            self._starts = np.cumsum(self._lengths) - self._lengths

    def reduced(self, by: np.ufunc, rows: NDArray[T]) -> NDArray[T]:
        """One row per group."""
        return rows if self.alone else by.reduceat(rows, self._starts, axis=0)

    def spread(self, groups: Flags) -> Flags:
        """Each group's row for each of its rows."""
        return groups if self.alone else np.repeat(groups, self._lengths, axis=0)

    def highest(self, values: Floats, used: Flags) -> Floats:
        """The highest used value of each group, NaN where there is none."""
        return self.reduced(np.fmax, np.where(used, values, np.nan))

    def lowest(self, values: Floats, used: Flags) -> Floats:
        """The lowest used value of each group, NaN where there is none."""
        return self.reduced(np.fmin, np.where(used, values, np.nan))


class _Looks(NamedTuple):
    """Figures by subject and signal, (subjects, signals and BOUND) where no shape is named; NaN: unknown.

    values: the figures.
    at: when they were measured.
    fresh: whether they are fresh.
    bounds: (subjects, 2): until when its fresh producers are fresh, and minus their usual lag; inf where none is fresh.
    counts: number of subjects of each model, in the models' order.
    """

    values: Floats
    at: Floats
    fresh: Flags
    bounds: Floats
    counts: list[int]


class _Readings(NamedTuple):
    """Figures by model and signal, (models, signals and BOUND) where no shape is named; NaN: unknown.

    values: the figures.
    at: when they were measured.
    coverage: share of the model's pods with a fresh figure, 0-1.
    usable: whether that is enough of them.
    bounds: (models, 2), as of `_Looks`.
    """

    values: Floats
    at: Floats
    coverage: Floats
    usable: Flags
    bounds: Floats


def signals_of(tracks: Sequence[Track], latest: Latest, now: float, blind: BlindRule) -> list[SignalReadings]:
    """The signals of each track at `now`."""
    pods = [track.heard for track in tracks]
    answers = [not track.offered.tells_tokens for track in tracks]
    looks = _looks(pods, answers, latest, now, blind)
    whole_looks = _looks([track.heard_whole for track in tracks], answers, latest, now, blind)
    best = _readings(whole_looks, np.ones(len(tracks)), blind)
    if len(looks.values):
        expected = np.array([max(1, track.expected(now)) for track in tracks], dtype=np.float64)
        of_pods = _readings(looks, expected, blind)
        best = _better(of_pods, best) if len(whole_looks.values) else of_pods
    requests = _pod_requests(pods, looks)
    values, coverages = (np.array((best.values, best.coverage)).round(6) + 0.0).tolist()
    at, bounds = best.at.tolist(), best.bounds.tolist()
    return [
        SignalReadings(
            _signals(track, values[n], at[n], coverages[n]), requests[n], until, None if isinf(lag) else -lag
        )
        for n, (track, (until, lag)) in enumerate(zip(tracks, bounds, strict=True))
    ]


def _looks(heard: Sequence[Heard], answers: Sequence[bool], latest: Latest, now: float, blind: BlindRule) -> _Looks:
    """Figures of all subjects that have samples, model by model. `answers`: models whose SLO is about whole answers.

    Where tokens are told it is about the first of them: an answer that takes 20 s says nothing about who waits.
    """
    places = [place for one in heard for place in one.places]
    counts = [len(one.names) for one in heard]
    if not places:
        nothing = np.empty((0, BOUND + 1))
        return _Looks(nothing, nothing, nothing > 0, np.empty((0, 2)), counts)
    rows = latest.rows(places)
    waiting, ttft = rows[:, WAITING], rows[:, TTFT]
    rows[:, RUNNING] += np.where(np.isnan(waiting), 0.0, waiting)
    whole_answers = np.repeat(answers, [len(one.places) for one in heard])
    instead = np.isnan(ttft) & whole_answers
    np.copyto(ttft, rows[:, LATENCY], where=instead)
    np.copyto(rows[:, TTFT_ABOVE], rows[:, LATENCY_ABOVE], where=instead)
    at, values = rows[:, AT], rows[:, RUNNING:]
    longest = np.minimum(blind.stale_seconds, np.maximum(LEAST_FRESH_SECONDS, FRESH_INTERVALS * rows[:, INTERVAL]))
    until = at + rows[:, LAG] + longest
    live, known = until >= now, ~np.isnan(values)
    fresh = known & live[:, np.newaxis]
    subjects = _Groups([length for one in heard for length in one.lengths], len(places))
    some_fresh = subjects.reduced(np.logical_or, fresh)
    used = known if subjects.alone else fresh | (known & ~subjects.spread(some_fresh))
    return _Looks(
        values=subjects.highest(values, used),
        at=subjects.lowest(at[:, np.newaxis], used),
        fresh=some_fresh,
        bounds=subjects.reduced(np.minimum, np.where(live, (until, -rows[:, LAG]), np.inf).T),
        counts=counts,
    )


def _readings(looks: _Looks, expected: Floats, blind: BlindRule) -> _Readings:
    """Looks of the same model together; `expected` subjects per model."""
    models = _Groups([count for count in looks.counts if count], len(looks.values))
    covering = models.reduced(np.add, looks.fresh.astype(np.float64))
    joined = (looks.values, looks.at, looks.bounds) if models.alone else _joined(looks, models, covering)
    values, at, bounds = joined
    if all(looks.counts):
        coverage = np.minimum(covering / expected[:, np.newaxis], 1.0)
        return _Readings(values, at, coverage, coverage >= blind.min_coverage, bounds)
    present = [number for number, count in enumerate(looks.counts) if count]
    coverage = np.minimum(covering / expected[present, np.newaxis], 1.0)
    readings = _Readings(values, at, coverage, coverage >= blind.min_coverage, bounds)
    return _among(readings, present, len(expected))


def _joined(looks: _Looks, models: _Groups, covering: Floats) -> tuple[Floats, Floats, Floats]:
    """Values, instants and how long they are fresh, from those of several subjects each."""
    stale = ~np.isnan(looks.values) & ~models.spread(covering > 0)
    used = looks.fresh | stale
    values = models.reduced(np.add, np.where(used, looks.values, 0.0))
    seen = models.reduced(np.add, used.astype(np.float64))
    values[seen == 0] = np.nan
    values[:, MEANS] /= np.maximum(seen[:, MEANS], 1.0)
    values[:, WORST] = models.highest(looks.values[:, WORST], used[:, WORST])
    return values, models.lowest(looks.at, used), models.reduced(np.minimum, looks.bounds)


def _among(readings: _Readings, present: Sequence[int], models: int) -> _Readings:
    """The same for all models: of those that are not present everything is unknown."""
    nothing = np.full((models, BOUND + 1), np.nan)
    every = _Readings(nothing, nothing.copy(), nothing * 0, np.isinf(nothing), np.full((models, 2), np.inf))
    for some, mine in zip(every, readings, strict=True):
        some[present] = mine
    return every


def _better(one: _Readings, other: _Readings) -> _Readings:
    """Per model and signal: the usable one; of two alike the higher."""
    higher = (other.usable == one.usable) & (other.values > one.values)
    take = ~np.isnan(other.values) & (np.isnan(one.values) | (other.usable & ~one.usable) | higher)
    values, at, coverage, usable = (np.where(take, *pair) for pair in zip(other[:4], one[:4], strict=True))
    return _Readings(values, at, coverage, usable, np.minimum(one.bounds, other.bounds))


def _signals(track: Track, values: list[float], at: list[float], coverages: list[float]) -> dict[str, Signal]:
    signals: dict[str, Signal] = {}
    bound = values[BOUND]
    for name, value, instant, coverage in zip(SIGNALS, values, at, coverages, strict=False):
        if isnan(value):
            signals[name] = ABSENT if track.sampled else NEVER_SEEN
        elif isinf(value):
            signals[name] = NOT_FINITE
        else:
            signals[name] = Reading(value, instant, coverage, above=name == "latency" and value == bound)
    return signals


def _pod_requests(heard: Sequence[Heard], looks: _Looks) -> list[dict[str, float]]:
    """Requests in flight per Ready pod, where a sample says."""
    if not len(looks.values):
        return [{} for _ in heard]
    known = np.isfinite(looks.values[:, 0])
    in_flight = (looks.values[:, 0].round(6) + 0.0).tolist()
    requests, begin = [], 0
    for one in heard:
        end = begin + len(one.names)
        by_pod = dict(zip(one.names, in_flight[begin:end], strict=True))
        if not known[begin:end].all():
            by_pod = {uid: value for uid, value in by_pod.items() if isfinite(value)}
        requests.append(by_pod)
        begin = end
    return requests
