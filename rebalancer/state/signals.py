"""From the newest samples of many models to their signals, all at once: 2 us per pod in numpy, 20 in plain Python.

A row is one producer's newest sample of a subject (a Ready pod, or the model as a whole). Rows become one look per
subject: of producers that disagree the highest fresh figure stands, an idle look must not hide a busy one. Looks become
one reading per model and signal. Stale samples are used only where nothing is fresh, and then cover nothing.
"""

from collections.abc import Sequence
from math import isfinite, isinf, isnan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rebalancer.domain.policy import BlindRule
from rebalancer.domain.readings import FRESH_INTERVALS, LEAST_FRESH_SECONDS, NoReading, Reading, Signal
from rebalancer.state.latest import Latest
from rebalancer.state.track import Heard, Track

SIGNALS = ("concurrency", "queue", "kvCache", "latency", "utilisation")
MEANS = [SIGNALS.index("kvCache"), SIGNALS.index("utilisation")]  # the others are sums,
WORST = SIGNALS.index("latency")  # but for this one

NEVER_SEEN, ABSENT, NOT_FINITE = NoReading("never-seen"), NoReading("absent"), NoReading("not-finite")

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Places = NDArray[np.intp]


class Signals(NamedTuple):
    """What one model's samples say. `fresh_until`: when the first of them grows stale (inf: none will)."""

    by_name: dict[str, Signal]
    pod_requests: dict[str, float]
    fresh_until: float


class _Looks(NamedTuple):
    """Per subject and signal; NaN = unknown. `numbers`: which model each subject belongs to, ascending."""

    values: Floats
    at: Floats
    fresh: Flags
    fresh_until: Floats
    numbers: Places


class _Readings(NamedTuple):
    """Per model and signal; NaN = unknown. `usable`: enough of the model's pods are covered."""

    values: Floats
    at: Floats
    coverage: Floats
    usable: Flags
    fresh_until: Floats


def signals_of(tracks: Sequence[Track], latest: Latest, now: float, blind: BlindRule) -> list[Signals]:
    """The signals of each track at `now`."""
    pods = [track.heard for track in tracks]
    looks = _looks(pods, latest, now, blind)
    counts = np.array([track.ready_pods for track in tracks], dtype=np.float64)
    of_pods = _readings(looks, counts, blind)
    wholes = [track.heard_whole for track in tracks]
    of_wholes = _readings(_looks(wholes, latest, now, blind), np.ones(len(tracks)), blind)
    best = of_wholes if not len(looks.numbers) else _better(of_pods, of_wholes)
    requests = _pod_requests(pods, looks)
    figures = (np.round(numbers, 6) + 0.0 for numbers in (best.values, best.coverage))
    values, coverages = (numbers.tolist() for numbers in figures)
    at, fresh_until = best.at.tolist(), best.fresh_until.tolist()
    return [
        Signals(_told(track, values[n], at[n], coverages[n]), requests[n], fresh_until[n])
        for n, track in enumerate(tracks)
    ]


def _looks(heard: Sequence[Heard], latest: Latest, now: float, blind: BlindRule) -> _Looks:
    """Of all subjects that were heard, model by model."""
    places = [place for one in heard for place in one.places]
    if not places:
        nothing = np.empty((0, len(SIGNALS)))
        return _Looks(nothing, nothing, nothing > 0, np.empty(0), np.empty(0, dtype=np.intp))
    at, interval, running, waiting, kv_cache, ttft, latency, utilisation = latest.columns(places)
    in_flight = running + np.nan_to_num(waiting)
    values = np.stack((in_flight, waiting, kv_cache, np.where(np.isnan(ttft), latency, ttft), utilisation), axis=1)
    until = at + np.minimum(blind.stale_seconds, np.maximum(LEAST_FRESH_SECONDS, FRESH_INTERVALS * interval))
    known = ~np.isnan(values)
    fresh = known & (until >= now)[:, np.newaxis]
    lengths = np.array([length for one in heard for length in one.lengths], dtype=np.intp)
    some_fresh = np.logical_or.reduceat(fresh, _starts(lengths), axis=0)
    used = fresh | (known & ~np.repeat(some_fresh, lengths, axis=0))
    return _Looks(
        values=_highest(values, used, lengths),
        at=_lowest(at[:, np.newaxis], used, lengths),
        fresh=some_fresh,
        fresh_until=np.minimum.reduceat(np.where(until >= now, until, np.inf), _starts(lengths)),
        numbers=np.repeat(np.arange(len(heard)), [len(one.names) for one in heard]),
    )


def _readings(looks: _Looks, expected: Floats, blind: BlindRule) -> _Readings:
    """Looks of the same model together; `expected` subjects per model."""
    models = len(expected)
    nothing = np.full((models, len(SIGNALS)), np.nan)
    found = _Readings(nothing, nothing.copy(), nothing * 0, np.isinf(nothing), np.full(models, np.inf))
    if not len(looks.numbers):
        return found
    present, lengths = np.unique(looks.numbers, return_counts=True)
    covering = np.add.reduceat(looks.fresh.astype(np.float64), _starts(lengths), axis=0)
    stale = ~np.isnan(looks.values) & ~np.repeat(covering > 0, lengths, axis=0)
    used = looks.fresh | stale
    values = np.add.reduceat(np.where(used, looks.values, 0.0), _starts(lengths), axis=0)
    seen = np.add.reduceat(used.astype(np.float64), _starts(lengths), axis=0)
    values[seen == 0] = np.nan
    values[:, MEANS] /= np.maximum(seen[:, MEANS], 1.0)
    values[:, WORST] = _highest(looks.values, used, lengths)[:, WORST]
    coverage = covering / expected[present, np.newaxis]
    found.values[present] = values
    found.at[present] = _lowest(looks.at, used, lengths)
    found.coverage[present] = coverage
    found.usable[present] = coverage >= blind.min_coverage
    found.fresh_until[present] = np.minimum.reduceat(looks.fresh_until, _starts(lengths))
    return found


def _better(one: _Readings, other: _Readings) -> _Readings:
    """Per model and signal: the usable one; of two alike the higher."""
    higher = (other.usable == one.usable) & (other.values > one.values)
    take = ~np.isnan(other.values) & (np.isnan(one.values) | (other.usable & ~one.usable) | higher)
    values, at, coverage, usable = (np.where(take, *pair) for pair in zip(other[:4], one[:4], strict=True))
    return _Readings(values, at, coverage, usable, np.minimum(one.fresh_until, other.fresh_until))


def _told(track: Track, values: list[float], at: list[float], coverages: list[float]) -> dict[str, Signal]:
    signals: dict[str, Signal] = {}
    for name, value, instant, coverage in zip(SIGNALS, values, at, coverages, strict=True):
        if isnan(value):
            signals[name] = ABSENT if track.sampled else NEVER_SEEN
        elif isinf(value):
            signals[name] = NOT_FINITE
        else:
            signals[name] = Reading(value, instant, coverage)
    return signals


def _pod_requests(heard: Sequence[Heard], looks: _Looks) -> list[dict[str, float]]:
    """Requests in flight per Ready pod, where a sample says."""
    known = np.isfinite(looks.values[:, 0])
    in_flight = (np.round(looks.values[:, 0], 6) + 0.0).tolist()
    requests, begin = [], 0
    for one in heard:
        end = begin + len(one.names)
        told = dict(zip(one.names, in_flight[begin:end], strict=True))
        if not known[begin:end].all():
            told = {uid: value for uid, value in told.items() if isfinite(value)}
        requests.append(told)
        begin = end
    return requests


def _starts(lengths: NDArray[np.intp]) -> Places:
    return np.cumsum(lengths) - lengths


def _highest(values: Floats, used: Flags, lengths: Places) -> Floats:
    highest: Floats = np.fmax.reduceat(np.where(used, values, np.nan), _starts(lengths), axis=0)
    return highest


def _lowest(values: Floats, used: Flags, lengths: Places) -> Floats:
    lowest: Floats = np.fmin.reduceat(np.where(used, values, np.nan), _starts(lengths), axis=0)
    return lowest
