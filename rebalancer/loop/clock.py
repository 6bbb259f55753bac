"""The one Clock. Nothing else in the service reads time; tests and the demo hand in a scaled or virtual one."""

import asyncio
import time


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
