"""Turns the wheel: a joint plan every planning period, and at once when something happens that cannot wait.

A notice, an override, a write stop, a surge, a freed GPU, a replica becoming Ready: at the first such event, then at
most every 100 ms. The runner reads the one Clock and hands `now` in.
"""

import asyncio
from collections.abc import Callable

import structlog

from rebalancer.loop.cycle import Hands, cycle
from rebalancer.obs.clock import Clock

AT_MOST_EVERY_SECONDS = 0.1

log = structlog.get_logger()


class Runner:
    """Runs cycles until cancelled. `turned` hears the seconds each cycle took and whether it failed."""

    def __init__(
        self, hands: Hands, clock: Clock, turned: Callable[[float, bool], None] = lambda _seconds, _ok: None
    ) -> None:
        self._hands = hands
        self._clock = clock
        self._turned = turned
        self._wanted = asyncio.Event()
        self._stopping = False
        self._stopped = asyncio.Event()
        self.last_turn_monotonic: float | None = None

    def wake(self) -> None:
        """Something happened that cannot wait for the next period."""
        self._wanted.set()

    async def stop(self, deadline_seconds: float) -> None:
        """No new turn; wait for the one under way, so that no write is cut in two."""
        self._stopping = True
        self.wake()
        try:
            async with asyncio.timeout(deadline_seconds):
                await self._stopped.wait()
        except TimeoutError:
            log.warning("the last cycle did not end in time")

    async def run(self) -> None:
        """Turn after turn. An exception in a cycle is told and the wheel turns on: the next cycle looks again."""
        while not self._stopping:
            await self._turn()
            await self._rest()
        self._stopped.set()
        await asyncio.Event().wait()  # a part of the service ends when it is cancelled, not before

    async def _rest(self) -> None:
        """Until the next planning period or the first thing that cannot wait, but never less than 100 ms."""
        period = self._hands.policy.plan_every_seconds
        await self._clock.sleep(min(AT_MOST_EVERY_SECONDS, period))
        resting = asyncio.ensure_future(self._clock.sleep(period))
        woken = asyncio.ensure_future(self._wanted.wait())
        try:
            await asyncio.wait({resting, woken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            resting.cancel()
            woken.cancel()
            await asyncio.gather(resting, woken, return_exceptions=True)

    async def _turn(self) -> None:
        self._wanted.clear()
        began = self._clock.monotonic()
        failed = False
        try:
            await cycle(self._clock.now(), self._hands)
        except Exception:  # the loop outlives every cycle
            failed = True
            log.exception("a cycle failed; the next one looks again")
        self.last_turn_monotonic = self._clock.monotonic()
        self._turned(self._clock.monotonic() - began, not failed)
