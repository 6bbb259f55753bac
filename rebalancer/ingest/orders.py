"""Signed overrides on their way to the API server: each becomes an object, or a dead letter that says why not."""

import asyncio
import random
from collections import Counter, deque
from typing import NamedTuple, NoReturn, Protocol

import structlog
from aiokafka import ConsumerRecord

from rebalancer.ingest.dead_letters import DeadLetters, Letter
from rebalancer.ingest.frontier import Frontier
from rebalancer.ingest.rejected import Reason, rejection
from rebalancer.ingest.signed import SignedOverride
from rebalancer.obs.clock import Clock

WAITING_AT_MOST = 1_000
BACKOFF_CAP_SECONDS = 5.0

log = structlog.get_logger()


class Door(Protocol):
    """Where an order becomes an object: `app.kafka_door`."""

    async def take(self, signed: SignedOverride) -> str | None:
        """None when the object is there, else why it never will be. Raises TryAgain."""
        ...


class TryAgain(Exception):
    """Not now; the text says why."""


class Order(NamedTuple):
    """One record that waits, and the frontier that waits for it."""

    record: ConsumerRecord
    signed: SignedOverride
    frontier: Frontier


class Orders:
    """Run `run()` as a task; `put` from anywhere, it returns at once. Orders are taken in theirs.

    `counts`: orders-taken, orders-put-off (no room to wait in: the next start reads them again).
    """

    def __init__(self, door: Door, dead_letters: DeadLetters, clock: Clock, rng: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._door = door
        self._dead_letters = dead_letters
        self._clock = clock
        self._rng = rng
        self._queue: deque[Order] = deque()
        self._wanted = asyncio.Event()

    def put(self, order: Order) -> None:
        """Keep the record's offset open until its object is there."""
        if len(self._queue) >= WAITING_AT_MOST:
            order.frontier.give_up(order.record.offset)
            self.counts["orders-put-off"] += 1
            return
        order.frontier.hold(order.record.offset)
        self._queue.append(order)
        self._wanted.set()

    async def run(self) -> NoReturn:
        """Take them, again and again until each is done. Raises nothing but cancellation."""
        failures = 0
        while True:
            await self._wanted.wait()
            failures = 0 if await self._take(self._queue[0]) else failures + 1
            if failures:
                ceiling = min(BACKOFF_CAP_SECONDS, 0.2 * 2.0 ** min(failures, 10))
                await self._clock.sleep(ceiling * self._rng.uniform(0.5, 1.0))

    async def _take(self, order: Order) -> bool:
        """Whether the first in the queue is done with, for good or ill."""
        now = self._clock.now()
        reason, why = Reason.OVERRIDE_REFUSED, None
        if now > order.signed.until:
            reason, why = Reason.OVERRIDE_LATE, "it waited for the API server for too long: sign it again"
        else:
            try:
                why = await self._door.take(order.signed)
            except TryAgain as error:
                log.warning("a signed override waits", id=order.signed.id, why=str(error))
                return False
            except Exception as error:
                log.exception("a signed override was not taken", id=order.signed.id)
                reason, why = Reason.NOT_APPLIED, f"{type(error).__name__}: {error}"
        self._done(order, reason, why, now)
        return True

    def _done(self, order: Order, reason: Reason, why: str | None, now: float) -> None:
        self._queue.popleft()
        if not self._queue:
            self._wanted.clear()
        if why is None:
            self.counts["orders-taken"] += 1
            order.frontier.acknowledged(order.record.offset)
        else:
            self.counts[f"rejected.{reason}"] += 1
            said = rejection(order.signed.position, now, reason, why)
            self._dead_letters.bury(Letter(order.record, said, order.frontier))
