"""Notices from a queue of SQS of our own: each message goes into the topic `notices` as it came, then it is deleted.

From there it is read like any other: by every replica, with the same decoders, once in spite of deliveries that SQS
repeats, and what cannot be understood becomes a dead letter. While Kafka is away messages stay in the queue.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn, Protocol

import msgspec
import structlog

from rebalancer.aws.owner import of_another
from rebalancer.aws.queue import QueueMessage, QueueRefusal, SqsQueue
from rebalancer.domain.events import Position, Rejection
from rebalancer.ingest.rejected import Reason, rejection
from rebalancer.obs.backoff import Backoff
from rebalancer.obs.clock import Clock

# A notice has 1 KB. Brokers take records of 1 MiB by default, and dead letters are cut at half of that.
MAX_BODY_BYTES = 512 * 1024
BACKOFF_SECONDS = (1.0, 60.0)  # the first and the longest
KAFKA_SECONDS = 1.0  # between looks whether Kafka is back
NOT_OURS_SECONDS = 300.0  # between looks whether another's queue has become ours

log = structlog.get_logger()

Headers = Sequence[tuple[str, bytes | None]]


class NoticesTopic(Protocol):
    """Where messages go: `kafka.outbox.Outbox`."""

    trouble: str | None

    async def send(self, topic: str, key: bytes | None, value: bytes) -> bool:
        """Whether the topic has the record for good."""
        ...

    async def dead_letter(self, rejection: Rejection, key: bytes | None, value: bytes, headers: Headers) -> bool:
        """Whether the dead-letter topic has it for good."""
        ...


class NoticeQueue:
    """Run `run()` as a task.

    `read_by`: queues that others in the cluster read, as `sqs.owner.queues_read` has them.
    `trouble`: why nothing is read, None while it is; `since` when that is so (epoch seconds). `counts`: messages by
    what became of them: forwarded (Kafka has it), too-large (the dead-letter topic has what fits), put-off (Kafka did
    not take it: SQS delivers it again), undeleted (Kafka has it, SQS delivers it again, which changes nothing).
    """

    def __init__(
        self,
        queue: SqsQueue,
        topic: NoticesTopic,
        clock: Clock,
        rng: random.Random,
        read_by: Callable[[], Awaitable[dict[str, str]]],
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.trouble: str | None = "not asked yet"
        self.since = clock.now()
        self._queue = queue
        self._topic = topic
        self._clock = clock
        self._backoff = Backoff(rng, *BACKOFF_SECONDS)
        self._read_by = read_by

    async def run(self) -> NoReturn:
        """Read until cancelled, whatever happens. Raises nothing else."""
        try:
            while True:
                try:
                    await self._session()
                except Exception as error:  # noqa: BLE001  # whatever SQS or a defect of ours does, the next try is later
                    self._is(str(error) or repr(error))
                    await self._clock.sleep(self._backoff.failed())
        finally:
            await self._queue.close()

    async def _session(self) -> None:
        """Read while all is well. Raises where the queue or the API server is away, or refuses us."""
        while (why := await self._of_another()) is not None:
            self._is(why)
            await self._clock.sleep(NOT_OURS_SECONDS)
        while True:
            await self._await_kafka()
            messages = await self._queue.take()
            self._is(None)
            self._backoff.succeeded()
            if messages:
                await self._forward(messages)

    async def _of_another(self) -> str | None:
        """Whose the queue is. A queue whose tags we may not read is judged by the rest."""
        name = self._queue.address.name
        try:
            tags = await self._queue.tags()
        except QueueRefusal as error:
            log.info("the tags of the queue of notices are not known", queue=name, why=str(error))
            tags = {}
        return of_another(name, tags, await self._read_by())

    async def _await_kafka(self) -> None:
        """Take nothing that could not be handed on: each delivery counts towards the queue's own dead letters."""
        while self._topic.trouble is not None:
            self._is(f"messages stay in the queue until Kafka takes them: {self._topic.trouble}")
            await self._clock.sleep(KAFKA_SECONDS)

    async def _forward(self, messages: Sequence[QueueMessage]) -> None:
        """Each message on its own way; those that Kafka has are deleted."""
        became = await asyncio.gather(*(self._put(message) for message in messages))
        self.counts.update(became)
        done = [message for message, what in zip(messages, became, strict=True) if what != "put-off"]
        if done:
            self.counts["undeleted"] += await self._queue.delete(done)

    async def _put(self, message: QueueMessage) -> str:
        key, value = record_of(message)
        if len(value) <= MAX_BODY_BYTES:
            return "forwarded" if await self._topic.send("notices", key, value) else "put-off"
        detail = f"a message of {len(value)} bytes in queue {self._queue.address.name}: a notice has some 1,000"
        why = rejection(Position(f"sqs/{self._queue.address.name}", 0, 0), self._clock.now(), Reason.TOO_LARGE, detail)
        return "too-large" if await self._topic.dead_letter(why, key, value, ()) else "put-off"

    def _is(self, trouble: str | None) -> None:
        """The first failure is told, not the five hundred after it."""
        if (trouble is None) != (self.trouble is None):
            self.since = self._clock.now()
        if trouble != self.trouble:
            tell = log.info if trouble is None else log.warning
            tell("queue of notices", queue=self._queue.address.name, trouble=trouble)
        self.trouble = trouble


def record_of(message: QueueMessage) -> tuple[bytes, bytes]:
    """Key and value of its record in the topic `notices`: the message as SQS's API spells it."""
    value = {"MessageId": message.message_id, "Body": message.body, "Attributes": message.attributes}
    return message.message_id.encode(), msgspec.json.encode(value)
