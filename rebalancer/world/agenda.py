"""What will happen when: the order in which a simulated cluster lives through its own future."""

import heapq
import itertools
from collections.abc import Callable

Deed = Callable[[], None]


class Agenda:
    """Deeds by their instants; at one instant, in the order in which they were entered."""

    def __init__(self, now: float) -> None:
        self.now = now
        self._entries: list[tuple[float, int, Deed]] = []
        self._serials = itertools.count()

    def after(self, seconds: float, deed: Deed) -> None:
        """Do `deed` that many seconds from now."""
        self.at(self.now + max(0.0, seconds), deed)

    def at(self, instant: float, deed: Deed) -> None:
        """Do `deed` at that instant, or now if it has passed."""
        heapq.heappush(self._entries, (max(instant, self.now), next(self._serials), deed))

    def next_before(self, instant: float) -> Deed | None:
        """Move on to the next deed due by `instant` and hand it out; to `instant` itself when none is due."""
        if not self._entries or self._entries[0][0] > instant:
            self.now = max(self.now, instant)
            return None
        due, _, deed = heapq.heappop(self._entries)
        self.now = due
        return deed
