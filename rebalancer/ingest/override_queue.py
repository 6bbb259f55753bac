"""Signed overrides on their way to the API server: each becomes an object, or a dead letter that says why not."""

import asyncio
import random
from collections import Counter, deque
from typing import NamedTuple, NoReturn, Protocol

import structlog

from rebalancer.ingest.rejected import Reason, rejection
from rebalancer.ingest.signed import SignedOverride
from rebalancer.kafka.dead_letters import DeadLetters, Letter
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.records import ConsumerRecord
from rebalancer.obs.backoff import Backoff
from rebalancer.obs.clock import Clock

WAITING_AT_MOST = 1_000
BACKOFF_SECONDS = (0.4, 5.0)  # the first and the longest

log = structlog.get_logger()


class OverrideWriter(Protocol):
    """Makes the object that a signed override asks for: `app.signed_overrides`."""

    async def write(self, signed: SignedOverride) -> str | None:
        """None when the object is there, else why it never will be. Raises TryAgain."""
        ...


class TryAgain(Exception):
    """Not now; the text says why."""


class QueuedOverride(NamedTuple):
    """One record that waits, and the frontier that waits for it."""

    record: ConsumerRecord
    signed: SignedOverride
    frontier: Frontier


class OverrideQueue:
    """Run `run()` as a task; `put` from anywhere, it returns at once. Overrides are written in their order.

    `counts`: orders-taken, orders-put-off (no room to wait in: they are read again, see
    `kafka.put_off`).
    """

    def __init__(self, writer: OverrideWriter, dead_letters: DeadLetters, clock: Clock, rng: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._writer = writer
        self._dead_letters = dead_letters
        self._clock = clock
        self._backoff = Backoff(rng, *BACKOFF_SECONDS)
        self._queue: deque[QueuedOverride] = deque()
        self._wanted = asyncio.Event()

    @property
    def has_room(self) -> bool:
        """Whether what was put off may come again: there is as much room left as is taken."""
        return 2 * len(self._queue) <= WAITING_AT_MOST

    def put(self, queued: QueuedOverride) -> None:
        """Keep the record's offset open until its object is there."""
        if len(self._queue) >= WAITING_AT_MOST:
            queued.frontier.put_off(queued.record.offset)
            self.counts["orders-put-off"] += 1
            return
        queued.frontier.hold(queued.record.offset)
        self._queue.append(queued)
        self._wanted.set()

    async def run(self) -> NoReturn:
        """Take them, again and again until each is done. Raises nothing but cancellation."""
        while True:
            await self._wanted.wait()
            if await self._take(self._queue[0]):
                self._backoff.succeeded()
            else:
                await self._clock.sleep(self._backoff.failed())

    async def _take(self, queued: QueuedOverride) -> bool:
        """Whether the first in the queue is done with, for good or ill."""
        now = self._clock.now()
        reason, why = Reason.OVERRIDE_REFUSED, None
        if now > queued.signed.until:
            reason, why = Reason.OVERRIDE_LATE, "it waited for the API server for too long: sign it again"
        else:
            try:
                why = await self._writer.write(queued.signed)
            except TryAgain as error:
                log.warning("a signed override waits", id=queued.signed.id, why=str(error))
                return False
            except Exception as error:
                log.exception("a signed override was not taken", id=queued.signed.id)
                reason, why = Reason.NOT_APPLIED, f"{type(error).__name__}: {error}"
        self._done(queued, reason, why, now)
        return True

    def _done(self, queued: QueuedOverride, reason: Reason, why: str | None, now: float) -> None:
        self._queue.popleft()
        if not self._queue:
            self._wanted.clear()
        if why is None:
            self.counts["orders-taken"] += 1
            queued.frontier.acknowledged(queued.record.offset)
        else:
            self.counts[f"rejected.{reason}"] += 1
            refusal = rejection(queued.signed.position, now, reason, why)
            self._dead_letters.bury(Letter(queued.record, refusal, queued.frontier))
