"""The shape of the one Clock: `rebalancer.loop.clock` implements it over real time; tests and the demo scale it."""

from typing import Protocol


class Clock(Protocol):
    """UTC for instants, monotonic for durations, sleep for whoever must wait."""

    def now(self) -> float:
        """UTC epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that never step."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait that many seconds of this clock."""
        ...
