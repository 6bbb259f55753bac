"""How far this machine's clock is from the API server's: a minute off, it moves every instant that others announced.

A leader whose clock is minutes ahead would end replicas for a deadline that is not near yet, and one whose clock is
behind would be late for it. Which of the two is wrong nobody can tell, so nothing is taken while they differ.
"""

from typing import NoReturn

from rebalancer.app.sources import Sink
from rebalancer.domain.cluster import CLOCK
from rebalancer.domain.events import SourceState
from rebalancer.kube.reader import KubeReader
from rebalancer.obs.clock import Clock

OFF_SECONDS = 60.0  # a reply's Date has whole seconds, and the reply may have been under way for some
LOOK_SECONDS = 2.0


class ClockOffset:
    """Tells the state whether the clocks agree, in which it is a source like any other."""

    def __init__(self, kube: KubeReader, sink: Sink, clock: Clock) -> None:
        self._kube, self._sink, self._clock = kube, sink, clock

    async def run(self) -> NoReturn:
        """Look for ever."""
        while True:
            self.look()
            await self._clock.sleep(LOOK_SECONDS)

    def stepped(self, _seconds: float) -> None:
        """Our clock was set: the next plan knows it already."""
        self.look()

    def look(self) -> None:
        """By the last reply; before the first nothing is known, and nothing is told."""
        seconds = self._kube.server_offset_seconds
        if seconds is None:
            return
        trouble = None
        if abs(seconds) >= OFF_SECONDS:
            trouble = f"ours is {abs(seconds):.0f} s {'behind' if seconds > 0.0 else 'ahead of'} the API server's"
        self._sink([SourceState(CLOCK, self._clock.now(), trouble)])
