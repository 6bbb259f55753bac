"""The one producer: decisions, state and dead letters go out through it, and nothing ever waits for it without end.

aiokafka's idempotent producer keeps a record until the broker took it, however long that lasts, and its `stop()` waits
as long (aio-libs/aiokafka#1101). Here a send has a deadline, memory a bound, and the end of the service an end.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import structlog
from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    InvalidTopicError,
    KafkaError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from rebalancer.domain.events import Rejection
from rebalancer.kafka import effects
from rebalancer.kafka.broker import BROKER_ERRORS, REQUEST_SECONDS, Broker, finish
from rebalancer.kafka.dead_letters import MAX_LETTER_VALUE_BYTES
from rebalancer.obs.backoff import Backoff
from rebalancer.obs.clock import Clock
from rebalancer.obs.effects import effect

MAX_PENDING_BYTES = 32 * 1024 * 1024
BACKOFF_SECONDS = (1.0, 10.0)  # the first and the longest
SILENT_SECONDS = 1.0  # that closing waits for a broker which acknowledges nothing
LOOK_SECONDS = 2.0  # between looks at the files with credentials
LOST_SECONDS = 15.0  # of trouble before, and between two, looks whether others find the brokers that we do not
LOST_TRIES = 3  # to find them, in one look
RECORD_OVERHEAD_BYTES = 200  # about what a future, a header list and the batch around it take

# A dead letter must fit into the 1 MiB that brokers take by default; what is cut off still is in its own topic.
MAX_LETTER_HEADER_BYTES = 64 * 1024
LETTER_HEADER_PREFIX = "rebalancer-"

# Refusals that say something about the record or its topic, and nothing about the producer.
RECORD_ERRORS = (
    InvalidTopicError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

Headers = Sequence[tuple[str, bytes | None]]

log = structlog.get_logger()


class Outbox:
    """Run `run()` as a task; `send` from anywhere.

    `counts`: acknowledged, unacknowledged (the deadline passed, the record may still arrive), failed, dropped (no room
    left), connected. `trouble` says why nothing can be sent, None while it can.
    """

    def __init__(
        self, broker: Broker, clock: Clock, rng: random.Random, *, max_pending_bytes: int = MAX_PENDING_BYTES
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.trouble: str | None = "not connected yet"
        self.pending_bytes = 0
        self._broker = broker
        self._clock = clock
        self._backoff = Backoff(rng, *BACKOFF_SECONDS)
        self._max_pending_bytes = max_pending_bytes
        self._producer: AIOKafkaProducer | None = None
        self._connected = asyncio.Event()
        self._broken = asyncio.Event()
        self._answered_monotonic = clock.monotonic()
        self._looked_monotonic = clock.monotonic()  # for brokers that we do not find; or when trouble began

    async def run(self) -> NoReturn:
        """Keep a producer connected. Raises nothing but cancellation."""
        while True:
            try:
                await self._connect()
                self._backoff.succeeded()
                await self._until_broken()
            except BROKER_ERRORS as error:
                self.trouble = f"Kafka at {self._broker.bootstrap} cannot be written to: {error!r}"
            await self._disconnect(seconds=1.0)
            await self._clock.sleep(self._backoff.failed())

    async def send(
        self, topic: str, key: bytes | None, value: bytes, headers: Headers = (), deadline_seconds: float = 5.0
    ) -> bool:
        """Whether all in-sync replicas have the record within the deadline; False may turn out true later.

        `topic` is one of `broker.TOPICS`. Records to one topic under one key keep their order.
        """
        size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value) + _header_bytes(headers)
        if self.pending_bytes + size > self._max_pending_bytes:
            self.counts["dropped"] += 1
            return False
        self.pending_bytes += size
        began_monotonic = self._clock.monotonic()
        producer: AIOKafkaProducer | None = None
        sent: asyncio.Future[object] | None = None
        try:
            async with asyncio.timeout(deadline_seconds):
                await self._connected.wait()
                producer = self._producer
                with effect(effects.name_of(topic, key), topic):
                    sent = await self._put(producer, topic, key, value, headers)
                    await asyncio.wait({sent})
                    sent.result()
        except TimeoutError:
            self._unanswered(began_monotonic, deadline_seconds)
            return False
        except BROKER_ERRORS as error:
            self._failed(producer, error)
            return False
        finally:
            self._release(size, sent)
        self._answered(producer)
        return True

    async def dead_letter(  # noqa: PLR0913  # what a letter is made of, and for how long it is tried
        self,
        rejection: Rejection,
        key: bytes | None,
        value: bytes,
        headers: Headers,
        deadline_seconds: float = 10.0,
        *,
        value_bytes: int | None = None,
    ) -> bool:
        """Keep a rejected record's bytes beside the reason; whether the broker has it within the deadline.

        `value_bytes`: how long its value was, where `value` is a part of it.
        """
        position = rejection.position
        ours = {
            "topic": position.topic,
            "partition": str(position.partition),
            "offset": str(position.offset),
            "reason": rejection.reason,
            "detail": rejection.detail,
            "at": f"{rejection.at:.3f}",
        }
        theirs = [header for header in headers if not header[0].startswith(LETTER_HEADER_PREFIX)]
        if _header_bytes(theirs) > MAX_LETTER_HEADER_BYTES:
            theirs = []
            ours["headers-cut"] = "true"
        value_bytes = value_bytes or len(value)
        if value_bytes > MAX_LETTER_VALUE_BYTES:
            ours["value-cut"] = f"{value_bytes} bytes"
        named = [(f"{LETTER_HEADER_PREFIX}{name}", text.encode()) for name, text in ours.items()]
        key = None if key is None else key[:MAX_LETTER_HEADER_BYTES]
        value = value[:MAX_LETTER_VALUE_BYTES]
        return await self.send("dead-letter", key, value, [*theirs, *named], deadline_seconds)

    async def close(self, deadline_seconds: float = 5.0) -> None:
        """Wait for what is under way, at most until the deadline. Cancel `run()` first; sends are False from now on.

        A broker that was silent for a whole send is given `SILENT_SECONDS`: an ordered end has waited for it already.
        """
        await self._disconnect(deadline_seconds if self.trouble is None else min(SILENT_SECONDS, deadline_seconds))
        self._connected.set()  # who waits for a connection finds that there is no producer

    async def _until_broken(self) -> None:
        """Wait until the producer is to be replaced: it is past repair, or its credentials have changed.

        Also one in trouble that holds no record whose way would show the end of that: a standby sends nothing then.
        And one that has lost its way; what it holds is given up, long after its deadline.
        """
        credentials = await self._broker.credentials()
        while not self._broken.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._broken.wait()
            if await self._broker.credentials() != credentials or (self.trouble is not None and not self.pending_bytes):
                return
            if self.trouble is not None and self._clock.monotonic() - self._looked_monotonic >= LOST_SECONDS:
                if await self._lost():
                    return
                self._looked_monotonic = self._clock.monotonic()

    async def _lost(self) -> bool:
        """Whether a client made anew finds the brokers and the producer's does not, and so never will.

        It asks the brokers that it knows where the brokers are: not one of them is left once an answer was spoiled, or
        all have moved. Where brokers are found and acknowledge nothing, or are away, it keeps what it holds for them.
        """
        for _ in range(LOST_TRIES):
            if self._producer is None or await self._finds_brokers(self._producer):
                return False
            await self._clock.sleep(BACKOFF_SECONDS[0])
        with suppress(*BROKER_ERRORS):
            await self._broker.make_topics()
            log.warning("the producer has lost its way to Kafka, and is replaced", held_bytes=self.pending_bytes)
            return True
        return False

    @staticmethod
    async def _finds_brokers(producer: AIOKafkaProducer) -> bool:
        """Its question waits behind a record that is not acknowledged, until that is given up and sent anew."""
        with suppress(*BROKER_ERRORS):
            async with asyncio.timeout(REQUEST_SECONDS):
                return bool(await producer.client.force_metadata_update())
        return False

    async def _connect(self) -> None:
        await self._broker.make_topics()
        self._broken.clear()
        self._producer = AIOKafkaProducer(
            **await self._broker.connection(), acks="all", enable_idempotence=True, compression_type="lz4"
        )
        async with asyncio.timeout(REQUEST_SECONDS):
            await self._producer.start()
        self.counts["connected"] += 1
        self.trouble = None
        self._connected.set()

    async def _put(
        self, producer: AIOKafkaProducer | None, topic: str, key: bytes | None, value: bytes, headers: Headers
    ) -> asyncio.Future[object]:
        """The record in the producer's hands; the future resolves when it is acknowledged."""
        if producer is None:
            raise KafkaError("there is no producer any more")
        sent: asyncio.Future[object] = await producer.send(self._broker.topic(topic), value, key, headers=list(headers))
        return sent

    def _answered(self, producer: AIOKafkaProducer | None) -> None:
        self.counts["acknowledged"] += 1
        self._answered_monotonic = self._clock.monotonic()
        if producer is self._producer and not self._broken.is_set():
            self.trouble = None

    def _unanswered(self, since_monotonic: float, seconds: float) -> None:
        """A deadline passed. The producer tries on in silence, so unless others were answered meanwhile we say it."""
        self.counts["unacknowledged"] += 1
        if self.trouble is None and self._answered_monotonic < since_monotonic:
            self._looked_monotonic = self._clock.monotonic()
            self.trouble = f"Kafka at {self._broker.bootstrap} acknowledged nothing within {seconds:g} s"

    def _failed(self, producer: AIOKafkaProducer | None, error: BaseException) -> None:
        """A record was refused. Unless that is about the record itself the producer may be past repair: replace it."""
        self.counts["failed"] += 1
        if producer is not None and producer is self._producer and not isinstance(error, RECORD_ERRORS):
            self.trouble = f"Kafka at {self._broker.bootstrap} refused a record: {error!r}"
            self._broken.set()

    def _release(self, size: int, sent: asyncio.Future[object] | None) -> None:
        """Give the record's room back as soon as the producer does not hold it any more."""

        def done(future: asyncio.Future[object] | None) -> None:
            self.pending_bytes -= size
            if future is not None and not future.cancelled():
                future.exception()  # looked at, else asyncio complains that nobody did

        if sent is None or sent.done():  # maybe refused in the very moment in which the deadline passed
            done(sent)
        else:
            sent.add_done_callback(done)

    async def _disconnect(self, seconds: float) -> None:
        self._connected.clear()
        producer, self._producer = self._producer, None
        if producer is None:
            return
        stopping = asyncio.ensure_future(producer.stop())
        await asyncio.wait({stopping}, timeout=seconds)
        if not stopping.done():
            await _give_up(producer, seconds=1.0)
            await asyncio.wait({stopping}, timeout=1.0)
        stopping.cancel()
        await asyncio.wait({stopping}, timeout=1.0)
        if stopping.done() and not stopping.cancelled():
            stopping.exception()


async def _give_up(producer: AIOKafkaProducer, seconds: float) -> None:
    """Fail what the broker did not take: no public call makes an idempotent producer do so.

    Its sender goes first: it would try again what has failed, and stumbles over both with a traceback of its own.
    """
    sender, batches = producer._sender, producer._message_accumulator  # noqa: SLF001  no public call does it
    if (sending := sender.sender_task) is not None:
        sending.remove_done_callback(sender._fail_all)  # noqa: SLF001  as above
        sending.add_done_callback(lambda task: task.cancelled() or task.exception())
        sending.cancel()
        await asyncio.wait({sending}, timeout=seconds)
    # A batch that waits to be tried again is looked for among those under way when it fails.
    batches._pending_batches.update(*batches._batches.values())  # noqa: SLF001  as above
    given_up = list(batches._pending_batches)  # noqa: SLF001  as above
    batches.fail_all(KafkaError("the producer was closed"))
    for batch in given_up:  # whether it was sent, the sender alone asks; else asyncio complains that nobody did
        batch._drain_waiter.exception()  # noqa: SLF001  as above


async def send_once(broker: Broker, topic: str, value: bytes, headers: Headers) -> None:
    """Write one record with a producer of its own, and wait until it is acknowledged. Raises one of BROKER_ERRORS."""
    producer = AIOKafkaProducer(**await broker.connection(), acks="all")
    try:
        await producer.start()
        await producer.send_and_wait(topic, value=value, headers=list(headers))
    finally:
        await finish(producer.stop(), seconds=1.0)


def _header_bytes(headers: Headers) -> int:
    return sum(len(name) + len(text or b"") for name, text in headers)
