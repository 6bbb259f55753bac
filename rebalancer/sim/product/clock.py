"""Virtual time for code that awaits: a Clock that shows the world's time, an event loop that never waits."""

import asyncio

from rebalancer.world import World


class WorldClock:
    """Implements `obs.clock.Clock`: time stands still while somebody acts, and moves when the world does."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> float:
        """UTC epoch seconds of the world."""
        return self._world.now

    def monotonic(self) -> float:
        """The same: the world's time never steps back."""
        return self._world.now

    async def sleep(self, seconds: float) -> None:
        """Raise RuntimeError: who waits here waits for ever."""
        raise RuntimeError(f"nothing sleeps in a simulation, and somebody wants to for {seconds:g} s")


class StillLoop(asyncio.SelectorEventLoop):
    """An event loop whose time stands still: no deadline in it ends, however slow the machine is."""

    def time(self) -> float:
        """Always 0."""
        return 0.0


def still() -> asyncio.Runner:
    """Runs what awaits, in a loop whose time stands still."""
    return asyncio.Runner(loop_factory=StillLoop)
