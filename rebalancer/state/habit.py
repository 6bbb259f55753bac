"""A producer's habit: how far behind what it tells usually is, beyond its interval.

The newest sample is at its oldest just before the next one comes: by then its way here and an interval have passed. How
old it got is noted each time; of each minute the worst counts (jitter, and samples that come in bunches), of the last
three minutes the least. So one outage is no habit, nor is a lag that grows: what it was two to three minutes ago is.

Before there is such a minute the second sample is believed, unless what is told runs faster than time: that is a
backlog on its way to now, whose age is an outage's and not the producer's.
"""

from rebalancer.domain.readings import MOST_LAG_SECONDS

MINUTES = 3  # two outages in a row are no habit; a lag that is there to stay is believed when all of them show it
LEAST_STOOD = 0.5  # intervals that a sample was the newest: those of a backlog that is read at once say nothing
MOST_GAINED = 0.5  # intervals by which what is told may gain on time: jitter does, too


class Habit:
    """`lag_seconds`: what a new sample may be older than one that comes at once; `known`: whether it was measured.

    It begins with a sample that was `behind_seconds` old when it came.
    """

    __slots__ = ("_behind", "_came_at", "_minute", "_worst", "_worsts", "known", "lag_seconds")

    def __init__(self, now: float, lag_seconds: float, behind_seconds: float) -> None:
        self.lag_seconds = lag_seconds
        self.known = False
        self._came_at = now
        self._behind = behind_seconds
        self._minute = -1.0
        self._worst = 0.0
        self._worsts: tuple[float, ...] = ()

    def came(self, now: float, newest_at: float, interval_seconds: float) -> None:
        """The next sample came, and `newest_at` was the newest until then."""
        stood, self._came_at = now - self._came_at, now
        if stood < LEAST_STOOD * interval_seconds:  # also after the clock was set back
            return
        age, minute = now - newest_at, now // 60.0
        if not self._worsts and self._catches_up(age, stood, interval_seconds):
            return
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

    def _catches_up(self, age: float, stood: float, interval_seconds: float) -> bool:
        """Whether what is told comes nearer to now: what was believed of it is forgotten."""
        came_behind = age - stood
        if self._behind - came_behind <= MOST_GAINED * interval_seconds:
            return False
        self._behind, self.known, self._minute = came_behind, False, -1.0
        self.lag_seconds = 0.0
        return True
