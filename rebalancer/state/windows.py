"""Offered work of models, as means over windows of the rings that end where knowledge does."""

from collections.abc import Sequence
from math import inf, isnan

import numpy as np

from rebalancer.domain.policy import SurgeRules
from rebalancer.domain.readings import Work
from rebalancer.state.offered import Offered
from rebalancer.state.rings import Floats, Rings
from rebalancer.state.track import Track

SLOW_LEVEL = ((60.0, 0.1), (300.0, 0.5), (1200.0, 0.4))  # windows (seconds) and weights
_SLOW_WEIGHTS = np.array([[weight] for _, weight in SLOW_LEVEL])
# Windows end at the newest sample; once it is older than its usual lag and this, they slide on into the unknown.
SILENT_INTERVALS = 2


class Windows:
    """The windows over which `Work` is averaged: of a surge, and of the slow level."""

    def __init__(self, surge: SurgeRules) -> None:
        self._surge = surge
        self._seconds = tuple(sorted({surge.short_window_seconds, surge.long_window_seconds, *dict(SLOW_LEVEL)}))

    def works(self, rings: Rings, tracks: Sequence[Track], now: float) -> list[Work]:
        """The offered work of each track; tracks hear what would be a surge of theirs."""
        surge = self._surge
        by_window = dict(zip(self._seconds, means(rings, tracks, now, self._seconds), strict=True))
        short, long = by_window[surge.short_window_seconds], by_window[surge.long_window_seconds]
        for track, low, high in zip(tracks, short.tolist(), long.tolist(), strict=True):
            track.expect(low, high, surge)
        figures = np.array((short, by_window[60.0], long, _slow_level(by_window))).round(6) + 0.0
        return [_work(row, track.offered) for row, track in zip(figures.T.tolist(), tracks, strict=True)]


def means(rings: Rings, tracks: Sequence[Track], now: float, seconds: Sequence[float]) -> Floats:
    """Mean offered work over windows of so many `seconds`, windows x tracks; NaN where unknown."""
    columns = np.array([track.column for track in tracks], dtype=np.int64)
    ends = [known_until(track, now) for track in tracks]
    return rings.work(columns, ends, seconds)


def known_until(track: Track, now: float) -> int:
    """The last second that samples could tell of by now: the newest one's, while it is as late as it usually is."""
    return max(int(track.newest_at), int(now - _after(track)))


def moves_on_at(track: Track, work: Work, now: float) -> float:
    """The instant at which the windows move on although nothing comes in; inf: they are empty."""
    if not work.source:
        return inf
    silent_at = track.newest_at + _after(track)
    return silent_at if now < silent_at else float(int(now) + 1)


def _after(track: Track) -> float:
    """How long after its newest sample a model is silent, by a clock that may have been set meanwhile."""
    return track.lag_seconds + SILENT_INTERVALS * track.interval_seconds + track.stepped_seconds


def _work(row: Sequence[float], offered: Offered) -> Work:
    """NaN is unknown; a source of nothing is none, but why there is none may be known."""
    path = offered.path
    short, last_60s, long, slow = (None if isnan(value) else value for value in row)
    if short is None and last_60s is None and long is None and slow is None:
        return Work(why_not_better="" if path.source else path.why_not_better)
    return Work(short, last_60s, long, slow, path.source, offered.resolution_seconds, path.why_not_better)


def _slow_level(means: dict[float, Floats]) -> Floats:
    """The weighted mean of the slow windows over those that are known."""
    values = np.array([means[window] for window, _ in SLOW_LEVEL])
    known = ~np.isnan(values)
    weights = _SLOW_WEIGHTS * known
    total = np.add.reduce(weights)
    slow = np.full(len(total), np.nan)
    np.divide(np.add.reduce(np.where(known, values, 0.0) * weights), total, out=slow, where=total > 0)
    return slow
