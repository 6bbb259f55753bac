"""The one Clock. Nothing else in the service reads time; tests and the demo hand in a scaled or virtual one."""

import asyncio
import time
from collections.abc import Callable

from rebalancer.obs.clock import Clock

STEP_SECONDS = 0.5  # what UTC may run away from the monotonic clock before that counts as a step


class RealClock:
    """UTC from the system, durations from the monotonic clock."""

    def now(self) -> float:
        """UTC epoch seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never step."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait that many real seconds."""
        await asyncio.sleep(max(0.0, seconds))


class ScaledClock:
    """Time that runs `speed` times as fast from `epoch` on: the demo's world and service share one."""

    def __init__(self, speed: float = 1.0, epoch: float | None = None) -> None:
        self._speed = speed
        self._started = time.monotonic()
        self._epoch = time.time() if epoch is None else epoch

    def now(self) -> float:
        """UTC epoch seconds of the scaled world."""
        return self._epoch + self.monotonic()

    def monotonic(self) -> float:
        """Scaled seconds since this clock was made."""
        return (time.monotonic() - self._started) * self._speed

    def wall_seconds(self, scaled: float) -> float:
        """How long `scaled` seconds of this clock take for whoever watches."""
        return scaled / self._speed

    async def sleep(self, seconds: float) -> None:
        """Wait that many scaled seconds."""
        await asyncio.sleep(max(0.0, seconds) / self._speed)


class SteppedClock:
    """A Clock that notices when its UTC is set: whoever stamped what came in hears of it before the next `now`.

    `steps`: each is told by how many seconds UTC went beyond what passed. `stepped_seconds`: their sum.
    A machine that slept looks like one whose clock was set forward: its monotonic clock slept, too.
    """

    def __init__(self, clock: Clock) -> None:
        self.steps: list[Callable[[float], None]] = []
        self.stepped_seconds = 0.0
        self._clock = clock
        self._epoch = clock.now() - clock.monotonic()  # of the monotonic clock, in UTC

    def now(self) -> float:
        """UTC epoch seconds."""
        before = self._clock.monotonic()
        now = self._clock.now()
        earliest, latest = now - self._clock.monotonic(), now - before  # it may have been a while from look to look
        if not earliest - STEP_SECONDS <= self._epoch <= latest + STEP_SECONDS:
            self._stepped(latest - self._epoch)
        return now

    def _stepped(self, seconds: float) -> None:
        self._epoch += seconds
        self.stepped_seconds += seconds
        for hears in self.steps:
            hears(seconds)

    def monotonic(self) -> float:
        """Seconds that never step."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait that many seconds of this clock."""
        await self._clock.sleep(seconds)
