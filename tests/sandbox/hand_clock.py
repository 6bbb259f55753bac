"""A clock that stands still until a test moves it."""

import asyncio

START = 1_800_000_000.0  # 2027-01-15T08:00:00Z


class HandClock:
    """The Clock protocol; `advance` moves it and wakes whoever has slept long enough."""

    def __init__(self) -> None:
        self._passed = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return START + self._passed

    def monotonic(self) -> float:
        return self._passed

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._passed + seconds, woken))
        await woken

    def advance(self, seconds: float) -> None:
        self._passed += seconds
        due = [sleeper for sleeper in self._sleepers if sleeper[0] <= self._passed]
        self._sleepers = [sleeper for sleeper in self._sleepers if sleeper[0] > self._passed]
        for _, woken in due:
            if not woken.done():
                woken.set_result(None)
