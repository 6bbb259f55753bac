"""Rejected records on their way to the dead-letter topic; nothing waits for them, and none is lost."""

import asyncio
import random
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, NoReturn, Protocol

from aiokafka import ConsumerRecord

from rebalancer.domain.events import Rejection
from rebalancer.kafka.frontier import Frontier
from rebalancer.obs.backoff import Backoff
from rebalancer.obs.clock import Clock

MAX_LETTER_VALUE_BYTES = 512 * 1024
MAX_WAITING_BYTES = 16 * 1024 * 1024
LETTER_OVERHEAD_BYTES = 500
AT_ONCE = 100
BACKOFF_SECONDS = (1.0, 10.0)  # the first and the longest


class Keeper(Protocol):
    """Where dead letters go: `kafka.outbox.Outbox`."""

    async def dead_letter(
        self,
        rejection: Rejection,
        key: bytes | None,
        value: bytes,
        headers: Sequence[tuple[str, bytes | None]],
        *,
        value_bytes: int | None = None,
    ) -> bool:
        """Whether the record is kept for good. `value_bytes`: how long its value was, where `value` is a part of it."""
        ...


class Letter(NamedTuple):
    """One rejected record on its way to the dead-letter topic.

    record: the record, its value shortened by `cut` where it is large.
    rejection: why it was rejected.
    frontier: frontier of its partition, which waits until the record is kept.
    value_bytes: length of the value before `cut` shortened it, None where it is whole.
    passing: whether a second reading of the record would not reject it.
    """

    record: ConsumerRecord
    rejection: Rejection
    frontier: Frontier
    value_bytes: int | None = None
    passing: bool = False

    def cut(self) -> "Letter":
        """The letter with as much of a large value as is kept: of 16 MiB room, one of 8 MiB left none to the next."""
        value = self.record.value or b""
        if len(value) <= MAX_LETTER_VALUE_BYTES:
            return self
        record = replace(self.record, value=value[:MAX_LETTER_VALUE_BYTES])
        return self._replace(record=record, value_bytes=len(value))

    @property
    def size(self) -> int:
        """Bytes it takes while it waits."""
        headers = sum(len(name) + len(text or b"") for name, text in self.record.headers)
        return LETTER_OVERHEAD_BYTES + len(self.record.key or b"") + len(self.record.value or b"") + headers


class DeadLetters:
    """Run `run()` as a task; `bury` from anywhere, it returns at once.

    `counts`: buried (acknowledged), put-off (no room to wait in: they are read again, see `kafka.put_off`).
    """

    def __init__(
        self, keeper: Keeper, clock: Clock, rng: random.Random, *, max_waiting_bytes: int = MAX_WAITING_BYTES
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.waiting_bytes = 0
        self._keeper = keeper
        self._clock = clock
        self._backoff = Backoff(rng, *BACKOFF_SECONDS)
        self._max_waiting_bytes = max_waiting_bytes
        self._queue: deque[Letter] = deque()
        self._wanted = asyncio.Event()

    @property
    def has_room(self) -> bool:
        """Whether what was put off may come again: there is as much room left as is taken."""
        return 2 * self.waiting_bytes <= self._max_waiting_bytes

    def bury(self, letter: Letter) -> None:
        """Keep the letter's offset open until the dead-letter topic has it."""
        letter, offset = letter.cut(), letter.record.offset
        if self.waiting_bytes + letter.size > self._max_waiting_bytes:
            letter.frontier.put_off(offset, letter.rejection if letter.passing else None)
            self.counts["put-off"] += 1
            return
        letter.frontier.hold(offset)
        self.waiting_bytes += letter.size
        self._queue.append(letter)
        self._wanted.set()

    async def run(self) -> NoReturn:
        """Deliver, again and again until acknowledged. Raises nothing but cancellation."""
        while True:
            await self._wanted.wait()
            if await self._deliver():
                self._backoff.succeeded()
            else:
                await self._clock.sleep(self._backoff.failed())

    async def _deliver(self) -> bool:
        """Try the oldest letters, leave what is not acknowledged in the queue; whether all were."""
        letters = list(islice(self._queue, AT_ONCE))
        acknowledged = await asyncio.gather(*(self._keep(letter) for letter in letters))
        for _ in letters:
            self._queue.popleft()
        for letter, done in zip(letters, acknowledged, strict=True):
            if done:
                self._buried(letter)
        self._queue.extendleft(
            letter for letter, done in zip(reversed(letters), reversed(acknowledged), strict=True) if not done
        )
        if not self._queue:
            self._wanted.clear()
        return all(acknowledged)

    async def _keep(self, letter: Letter) -> bool:
        record = letter.record
        value = record.value or b""
        return await self._keeper.dead_letter(
            letter.rejection, record.key, value, record.headers, value_bytes=letter.value_bytes
        )

    def _buried(self, letter: Letter) -> None:
        self.waiting_bytes -= letter.size
        self.counts["buried"] += 1
        letter.frontier.acknowledged(letter.record.offset)
