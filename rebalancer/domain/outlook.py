"""How late each count of replicas of a model would be, as the look-ahead finds by replays of the model's own past."""

from typing import Final

from msgspec import Struct

from rebalancer.domain.instant import Instant
from rebalancer.domain.words import figure

NEED_ROOTS: Final = 1.5
"""Replicas that a level of offered work needs beyond itself, in roots of it: for bursts shorter than a start."""


class Outlook(Struct, frozen=True):
    """How late each count of replicas of a model would be until the horizon, and why.

    Worked example: a model of priority 200 has `current` 4 replicas and looks 180 s ahead. `least` is 3, `late` is
    (18.0, 4.0, 3.0): with 3 replicas 9 requests would be late until the horizon, with 4 replicas 2, with 5 replicas
    1.5, each counted twice for the priority. `weight` is 150 / 180 = 0.83, so `values` begin with 15.0, 3.3 and 2.5,
    and some more for moves, for doubt and for surges that no replay has. The fourth replica is worth 11.7, the fifth
    0.8: a GPU that keeps more than that from being late elsewhere goes there.

    at: the second at which it was made.
    horizon_seconds: seconds from `at` to the end of the replays: a start and 90 s.
    current: replicas that serve or start, without doomed ones.
    least: the count of replicas to which the first of `values`, `late` and `errors` belongs.
    values: cost of `least`, `least` + 1, ... replicas; lower is better. It is `late` times `weight`, more for moving,
        for doubt about a decrease and for surges that no replay has, and 1e-6 less for each replica.
    late: requests that would be late until the horizon with so many replicas, times priority / 100; see `by_minute`,
        `deferred`.
    errors: standard error of each number of `late` in its difference from that of `current`.
    level: offered work that is expected on average, in replicas.
    base: that level before the correction that was learnt, in replicas: the slow mean.
    dispersion: variance over mean of the offered work in bins of 10 s, in replicas.
    shift: probability that the level has shifted to `shifted`, 0-1.
    shifted: the level that a shift would have led to, in replicas.
    excess: distance of the last 30 or 60 s from the level, as a multiple of the model's usual distance.
    replays: number of stretches of the model's past that were played.
    period_seconds: seconds after which its work repeats itself, as far as `rho` says so.
    rho: share of the replays' weight that is on whole periods of `period_seconds`, 0-1.
    work_of_one: replica-seconds that count as 1 in `late`: a request's (1 where nobody counts requests), with
        `by_minute` a usual second's.
    error: the forecast's distance from the work that came, as a share of that work, over the last hour; None: unknown.
    plain_error: the same of a forecast by the slow mean alone; None: unknown.
    usual: median of the last hour's observed minutes of offered work, in replicas; None while it is unknown.
    weight: factor between `late` and `values`: 150 s over the horizon, so that models with unequal starts compare.
    by_minute: whether the objective counts minutes; then `late` counts seconds of late minutes in place of requests.
    deferred: whether its deadline lies beyond the horizon; then `late` counts requests left undone at the horizon.
    late_arrivals: as `late`, of requests that arrive until the horizon alone: without the price of what is left waiting
        there, which may be more than all that arrive; empty where an older version made the outlook.
    busiest: offered work of the busiest five minutes of the last three hours, in replicas; 0 while none was observed.
    enough: the fewest replicas with which, had they stood still, next to nothing of the last three hours would have
        been late for longer than a start; 0 while that is unknown.
    peak: offered work of the busiest ten seconds for which these were enough, in replicas.
    minute: that of the busiest such minute.
    """

    at: Instant
    horizon_seconds: int
    current: int
    least: int
    values: tuple[float, ...]
    late: tuple[float, ...]
    errors: tuple[float, ...]
    level: float
    base: float
    dispersion: float
    shift: float
    shifted: float
    excess: float
    replays: int
    period_seconds: int
    rho: float
    work_of_one: float
    error: float | None
    plain_error: float | None
    usual: float | None = None
    weight: float = 1.0
    by_minute: bool = False
    deferred: bool = False
    late_arrivals: tuple[float, ...] = ()
    busiest: float = 0.0
    enough: int = 0
    peak: float = 0.0
    minute: float = 0.0

    @property
    def expected_level(self) -> float:
        """Replicas of work: the level, and as much of a shift as is likely."""
        return self.level + self.shift * (self.shifted - self.level)

    @property
    def expected_requests(self) -> float:
        """Requests that come until the horizon (seconds of work where the objective is by the minute)."""
        return self.expected_level * self.horizon_seconds / self.work_of_one if self.work_of_one > 0.0 else 0.0

    def at_level(self, work: float | None) -> str:
        """`at a level of 1.9`: what figures of lateness are of, where the work seen now is another; else ""."""
        level = figure(self.expected_level)
        return "" if work is not None and figure(work) == level else f"at a level of {level}"

    def late_with(self, replicas: int, priority: int) -> float | None:
        """Requests (or seconds) that are late of those that come until the horizon, with so many replicas.

        None for fewer replicas than were played; more count as the most of them.
        """
        late = self.late_arrivals or self.late
        if replicas < self.least:
            return None
        return min(late[min(replicas - self.least, len(late) - 1)] * 100.0 / priority, self.expected_requests)
