"""`behavior` of the Horizontal Pod Autoscaler: how fast, and how surely, a recommendation may be followed.

From the algorithm of `stabilizeRecommendationWithBehaviors` and `convertDesiredReplicasWithBehaviorRate` in
kubernetes/kubernetes pkg/controller/podautoscaler/horizontal.go.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Past = Iterable[tuple[float, int]]  # (second, recommendation or change)


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `value` pods (or, with `percent`, that share of them) within `period_seconds`."""

    value: int
    period_seconds: int
    percent: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """One direction: its rates, which of them counts, and its stabilisation window."""

    rates: tuple[Rate, ...]
    window_seconds: int = 0
    select: Literal["Max", "Min", "Disabled"] = "Max"


UP = Rules((Rate(4, 15), Rate(100, 15, percent=True)))  # Kubernetes' defaults
DOWN = Rules((Rate(100, 15, percent=True),), window_seconds=300)
RECIPE_DOWN = Rules((Rate(25, 60, percent=True),), window_seconds=300)  # what the common recipe for GPUs sets


def stabilised(past: Past, now: float, current: int, desired: int, windows: tuple[int, int]) -> int:
    """`current`, raised to the least and lowered to the most that was recommended in its window, now included.

    `windows`: seconds of the window for raising and of the one for lowering.
    """
    since_up, since_down = now - windows[0], now - windows[1]
    least = most = desired
    for at, recommended in past:  # 20 of them at every sync: comparisons cost a third of what min and max do
        if recommended < least and at > since_up:
            least = recommended
        elif recommended > most and at > since_down:
            most = recommended
    return min(max(current, least), most)


def up_limit(rules: Rules, now: float, current: int, added: Past, removed: Past) -> int:
    """The most that the rates let there be; the changes are sizes, never negative."""
    if rules.select == "Disabled":
        return current
    proposals = []
    for rate in rules.rates:
        begin = current - _within(added, now, rate) + _within(removed, now, rate)
        proposals.append(math.ceil(begin * (100 + rate.value) / 100) if rate.percent else begin + rate.value)
    limit = min(proposals) if rules.select == "Min" else max(proposals)
    return max(limit, current)


def down_limit(rules: Rules, now: float, current: int, added: Past, removed: Past) -> int:
    """The least that the rates let there be."""
    if rules.select == "Disabled":
        return current
    proposals = []
    for rate in rules.rates:
        begin = current - _within(added, now, rate) + _within(removed, now, rate)
        proposals.append(int(begin * (100 - rate.value) / 100) if rate.percent else begin - rate.value)
    limit = max(proposals) if rules.select == "Min" else min(proposals)
    return min(limit, current)


def _within(changes: Past, now: float, rate: Rate) -> int:
    return sum(size for at, size in changes if at > now - rate.period_seconds)


@dataclass(slots=True)
class Behaviour:
    """One workload's rules with what they remember: recommendations and changes.

    up: rules for increases.
    down: rules for decreases.
    _recommended: recommendations of the last `_window_seconds`, oldest first: (second, replicas).
    _added: increases of the last `_period_seconds`, oldest first: (second, replicas added).
    _removed: decreases of the last `_period_seconds`, oldest first: (second, replicas removed, a positive number).
    _window_seconds: the longer one of the two stabilisation windows, in seconds.
    _period_seconds: the longest period of any rate, in seconds; 0 without rates.
    """

    up: Rules = UP
    down: Rules = DOWN
    _recommended: deque[tuple[float, int]] = field(default_factory=deque)
    _added: deque[tuple[float, int]] = field(default_factory=deque)
    _removed: deque[tuple[float, int]] = field(default_factory=deque)
    _window_seconds: int = 0
    _period_seconds: int = 0

    def __post_init__(self) -> None:
        self._window_seconds = max(self.up.window_seconds, self.down.window_seconds)
        periods = (rate.period_seconds for rate in (*self.up.rates, *self.down.rates))
        self._period_seconds = max(periods, default=0)

    def follow(self, now: float, current: int, desired: int, least: int, most: int) -> int:
        """From what the metrics say to what is asked for; both are remembered."""
        self._forget(now)
        settled = stabilised(
            self._recommended, now, current, desired, (self.up.window_seconds, self.down.window_seconds)
        )
        self._recommended.append((now, desired))
        if settled > current:
            replicas = min(settled, most, up_limit(self.up, now, current, self._added, self._removed))
        elif settled < current:
            replicas = max(settled, least, down_limit(self.down, now, current, self._added, self._removed))
        else:
            replicas = settled
        self.changed(now, replicas - current)
        return replicas

    def changed(self, now: float, by: int) -> None:
        """The replicas were changed at `now`."""
        if by > 0:
            self._added.append((now, by))
        elif by < 0:
            self._removed.append((now, -by))

    def _forget(self, now: float) -> None:
        _drop_until(self._recommended, now - self._window_seconds)
        _drop_until(self._added, now - self._period_seconds)
        _drop_until(self._removed, now - self._period_seconds)


def _drop_until(past: deque[tuple[float, int]], second: float) -> None:
    while past and past[0][0] <= second:
        past.popleft()
