"""A producer's habit: how far behind what it tells usually is, beyond its interval.

The newest sample is at its oldest just before the next one comes: by then its way here and an interval have passed. How
old it got is noted each time; of each minute the worst counts (jitter, and samples that come in bunches), of the last
three minutes the least. So one outage is no habit, nor is a lag that grows: what it was two to three minutes ago is.
"""

from rebalancer.domain.readings import MOST_LAG_SECONDS

MINUTES = 3  # two outages in a row are no habit; a lag that is there to stay is believed when all of them show it
LEAST_STOOD = 0.5  # intervals that a sample was the newest: those of a backlog that is read at once say nothing


class Habit:
    """`lag_seconds`: what a new sample may be older than one that comes at once; `known`: whether it was measured."""

    __slots__ = ("_came_at", "_minute", "_worst", "_worsts", "known", "lag_seconds")

    def __init__(self, now: float, lag_seconds: float) -> None:
        self.lag_seconds = lag_seconds
        self.known = False
        self._came_at = now
        self._minute = -1.0
        self._worst = 0.0
        self._worsts: tuple[float, ...] = ()

    def came(self, now: float, newest_at: float, interval_seconds: float) -> None:
        """The next sample came, and `newest_at` was the newest until then."""
        stood, self._came_at = now - self._came_at, now
        if stood < LEAST_STOOD * interval_seconds:  # also after the clock was set back
            return
        age, minute = now - newest_at, now // 60.0
        if minute == self._minute:
            if age <= self._worst:  # nearly always
                return
            self._worst = age
        else:
            if self.known:
                self._worsts = (*self._worsts[1 - MINUTES :], self._worst)
            self._minute, self._worst, self.known = minute, age, True
        usual = min(self._worsts) if self._worsts else self._worst
        self.lag_seconds = min(MOST_LAG_SECONDS, max(0.0, usual - interval_seconds))
