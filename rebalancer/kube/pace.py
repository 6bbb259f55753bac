"""How long a watch waits before it connects to the API server again: a second at least, longer with each failure."""

import random
from dataclasses import dataclass
from typing import Final

from rebalancer.obs.backoff import Backoff
from rebalancer.obs.clock import Clock

_LONGEST_RETRY_AFTER_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class WatchPace:
    """Waits of a reflector, in seconds.

    gap_seconds: least time between two connections, whatever happens.
    backoff_cap_seconds: the wait doubles with each failure up to this.
    idle_seconds: a watch without a byte for this long is followed by a list. It may be dead, or the server young:
        bookmarks come each minute, but not for a resource without any event since the server started.
    watch_seconds: a watch is asked to end somewhere in between, so that reconnects spread out.
    resync_seconds: a list is asked for again this often, in case an event was lost without a trace; None: never.
    absent_seconds: how often a resource that is not installed is looked for.
    """

    gap_seconds: float = 1.0
    backoff_cap_seconds: float = 30.0
    idle_seconds: float = 75.0
    watch_seconds: tuple[float, float] = (300.0, 600.0)
    resync_seconds: float | None = 300.0
    absent_seconds: float = 30.0


class Pacer:
    """Says when the next connection may be made; counts failures and waits accordingly."""

    def __init__(self, pace: WatchPace, clock: Clock, rng: random.Random) -> None:
        self._pace = pace
        self._clock = clock
        self._backoff = Backoff(rng, pace.gap_seconds, pace.backoff_cap_seconds)
        self._not_before_monotonic = clock.monotonic()

    def succeeded(self) -> None:
        """Something came through: forget the failures."""
        self._backoff.succeeded()

    @property
    def failures(self) -> int:
        """Failures in a row."""
        return self._backoff.failures

    def failed(self, *, at_least_seconds: float | None = None) -> float:
        """Put the next turn off and return by how many seconds.

        1st failure 0.5-1 s, then 1-2 s, 2-4 s ... up to half to the whole cap.
        """
        wait = max(self._backoff.failed(), min(at_least_seconds or 0.0, _LONGEST_RETRY_AFTER_SECONDS))
        self._not_before_monotonic = max(self._not_before_monotonic, self._clock.monotonic() + wait)
        return wait

    async def turn(self) -> None:
        """Wait until the next connection may be made."""
        wait = self._not_before_monotonic - self._clock.monotonic()
        if wait > 0:
            await self._clock.sleep(wait)
        self._not_before_monotonic = self._clock.monotonic() + self._pace.gap_seconds
