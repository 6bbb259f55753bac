"""Runs cycles: one every planning period, and one at once when something happens that cannot wait.

A notice, an override, a write stop, a surge, a replica becoming Ready: at the first such event, then at most every 100
ms. A freed GPU waits as long for others that are freed with it, so that one grant takes them together. The runner reads
the one Clock and hands `now` in.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import structlog

from rebalancer.loop.cycle import CyclePorts, CycleTurn, cycle
from rebalancer.obs.clock import Clock

AT_MOST_EVERY_SECONDS = 0.1

log = structlog.get_logger()


class RecoverablePorts(CyclePorts, Protocol):
    """Ports that find their way back after a cycle that failed."""

    def recover(self, now: float) -> None:
        """Nothing of what the failed cycle was told goes into the next one."""
        ...


class Runner:
    """Runs cycles until cancelled. `turned` hears the seconds each cycle took and whether it planned.

    `began_monotonic`: when the first cycle began; `ended_monotonic`: when the last one ended, failed or not;
    `planned_monotonic`: when the last one ended that planned (None: none yet). `failed_in_a_row`: how many failed since
    then, `failure`: what the last of them raised. `pools_failed_in_a_row`: how many of those that planned failed on a
    pool, up to the last one; pools that are planned are not in it.
    """

    def __init__(
        self, ports: RecoverablePorts, clock: Clock, turned: Callable[[float, bool], None] = lambda _seconds, _ok: None
    ) -> None:
        self._ports = ports
        self._clock = clock
        self._turned = turned
        self._wanted = asyncio.Event()
        self._due_monotonic = math.inf  # what cannot wait for the next period wants a turn by then
        self._not_before_monotonic = -math.inf
        self._stopping = False
        self._stopped = asyncio.Event()
        self.began_monotonic: float | None = None
        self.ended_monotonic: float | None = None
        self.planned_monotonic: float | None = None
        self.failed_in_a_row = 0
        self.failure = ""
        self.pools_failed_in_a_row: dict[str, int] = {}
        self._unexplained: set[str] = set()

    def wake(self, within_seconds: float = 0.0) -> None:
        """Something happened that cannot wait for the next period, but may wait `within_seconds` for more of its kind.

        The first event counts: more of its kind do not put the turn off, and a more urgent one brings it forward.
        """
        self._due_monotonic = min(self._due_monotonic, self._clock.monotonic() + within_seconds)
        self._wanted.set()

    @contextmanager
    def no_turns(self, most_seconds: float) -> Iterator[None]:
        """No turn begins within the context, for so long at most: what is done there has the processor for itself."""
        self._not_before_monotonic = self._clock.monotonic() + most_seconds
        try:
            yield
        finally:
            self._not_before_monotonic = -math.inf
            self._wanted.set()

    async def stop(self, deadline_seconds: float) -> None:
        """Begins no new cycle and waits for the one under way, so that no write is cut in two."""
        self._stopping = True
        self.wake()
        try:
            async with asyncio.timeout(deadline_seconds):
                await self._stopped.wait()
        except TimeoutError:
            log.warning("the last cycle did not end in time")

    async def run(self) -> None:
        """Turn after turn. An exception in a cycle is told and the wheel turns on: the next cycle looks again."""
        self.began_monotonic = self._clock.monotonic()
        while not self._stopping:
            await self._turn()
            await self._rest()
        self._stopped.set()
        await asyncio.Event().wait()  # a part of the service ends when it is cancelled, not before

    async def _rest(self) -> None:
        """Sleeps until the next planning period or the first thing that cannot wait, at least 100 ms."""
        period = self._ports.policy.plan_every_seconds
        await self._clock.sleep(min(AT_MOST_EVERY_SECONDS, period))
        ends_monotonic = self._clock.monotonic() + period
        while (left_seconds := self._begins_monotonic(ends_monotonic) - self._clock.monotonic()) > 0:
            await self._until_woken(left_seconds)

    def _begins_monotonic(self, at_latest_monotonic: float) -> float:
        """When the next turn begins, as things are."""
        due_monotonic = min(at_latest_monotonic, self._due_monotonic)
        return due_monotonic if self._stopping else max(due_monotonic, self._not_before_monotonic)

    async def _until_woken(self, most_seconds: float) -> None:
        self._wanted.clear()
        resting = asyncio.ensure_future(self._clock.sleep(most_seconds))
        woken = asyncio.ensure_future(self._wanted.wait())
        try:
            await asyncio.wait({resting, woken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            resting.cancel()
            woken.cancel()
            await asyncio.gather(resting, woken, return_exceptions=True)

    async def _turn(self) -> None:
        self._due_monotonic = math.inf
        began = self._clock.monotonic()
        try:
            turn = await cycle(self._clock.now(), self._ports)
        except Exception as error:  # the loop outlives every cycle
            log.exception("a cycle failed; the next one looks again", in_a_row=self.failed_in_a_row + 1)
            self._failed(error)
        else:
            self.failed_in_a_row, self.failure = 0, ""
            self.planned_monotonic = self._clock.monotonic()
            self._count_pools(turn)
            self._tell_unexplained(turn)
        self.ended_monotonic = self._clock.monotonic()
        self._turned(self.ended_monotonic - began, self.failed_in_a_row == 0)

    def _count_pools(self, turn: CycleTurn) -> None:
        """Pools on which planning failed, in a row; the log has the whole of it once, when it begins."""
        before, self.pools_failed_in_a_row = self.pools_failed_in_a_row, {}
        for unplanned, failure in zip(turn.decision.plan.unplanned or (), turn.failures, strict=True):
            if not before.keys() >= set(unplanned.pools):
                log.error("planning fails on pools, and goes on without them", why=unplanned.why, exc_info=failure)
            self.pools_failed_in_a_row |= {pool: before.get(pool, 0) + 1 for pool in unplanned.pools}

    def _tell_unexplained(self, turn: CycleTurn) -> None:
        """Models and pools without sentences; the log has the whole of what is new to it."""
        before, self._unexplained = self._unexplained, {repr(failure) for failure in turn.unexplained}
        for failure in turn.unexplained:
            if repr(failure) not in before:
                log.error("what was decided cannot be explained to people", exc_info=failure)

    def _failed(self, error: Exception) -> None:
        self.failed_in_a_row += 1
        self.failure = f"{type(error).__name__}: {error}"
        try:
            self._ports.recover(self._clock.now())
        except Exception:  # then the next cycle has what this one had
            log.exception("what a failed cycle was told could not be remembered")
