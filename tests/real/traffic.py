"""Metric samples into the real Kafka: each model has a voice that speaks every second until it is told otherwise."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Self

from aiokafka import AIOKafkaProducer
from aiokafka.structs import RecordMetadata

Headers = Sequence[tuple[str, bytes]]

INTERVAL_SECONDS = 1.0
STRUCTURED: Headers = (("content-type", b"application/cloudevents+json"),)
# The surge windows of a test reach back this far: with less past a rise has nothing to be measured against.
PAST_SECONDS = 60


class Traffic:
    """`says` sets what a model's samples carry from now on; `silent` ends them.

    `acknowledged` has every record that Kafka took, by its CloudEvents id. A broker that is away delays the
    samples, which keep the time at which they were taken.
    """

    def __init__(self, producer: AIOKafkaProducer, topic_prefix: str) -> None:
        self.acknowledged: dict[str, RecordMetadata] = {}
        self._producer = producer
        self._prefix = topic_prefix
        self._gauges: dict[tuple[str, str | None], dict[str, float]] = {}
        self._sending: set[asyncio.Task[None]] = set()

    @classmethod
    @asynccontextmanager
    async def to(cls, bootstrap: str, topic_prefix: str) -> AsyncIterator[Self]:
        """Speak to this broker until the context ends."""
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True) as producer:
            traffic = cls(producer, topic_prefix)
            speaking = asyncio.create_task(traffic._speak())
            try:
                yield traffic
            finally:
                for task in (speaking, *traffic._sending):
                    task.cancel()
                await asyncio.gather(speaking, *traffic._sending, return_exceptions=True)

    def says(self, model: str, *, pod: str | None = None, **gauges: float) -> None:
        """From now on the model's samples (or those of its pod with this UID) carry these gauges.

        By their names on the wire: running, waiting, kvCacheUse, gpuUtilisation, ttftP95Seconds...
        """
        self._gauges[model, pod] = gauges

    def silent(self, model: str, *, pod: str | None = None) -> None:
        """No sample of it from now on."""
        self._gauges.pop((model, pod), None)

    async def hush(self) -> None:
        """Nobody says anything from now on, and Kafka has what was said (or lost it: then it is not acknowledged)."""
        self._gauges.clear()
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def past(self, model: str, *, seconds: int = PAST_SECONDS, **gauges: float) -> None:
        """The model has said this for the last `seconds`; from now on it goes on saying it."""
        now = time.time()
        samples = [self._sample(model, None, gauges, now - age) for age in range(seconds, 0, -1)]
        await asyncio.gather(*(self._send_sample(*each) for each in samples))
        self._gauges[model, None] = gauges

    async def send(
        self, topic: str, value: bytes, *, key: bytes | None = None, headers: Headers = STRUCTURED
    ) -> RecordMetadata:
        """Any record to one of the topics (`notices`, `metrics`...), acknowledged."""
        sent = await self._producer.send(f"{self._prefix}{topic}", value, key=key, headers=list(headers))
        taken: RecordMetadata = await sent
        return taken

    async def event(self, topic: str, kind: str, data: object, *, at: float | None = None) -> str:
        """A CloudEvent of type `kind` to a topic, acknowledged; its id."""
        event_id, value = cloud_event(kind, data, time.time() if at is None else at)
        self.acknowledged[event_id] = await self.send(topic, value)
        return event_id

    async def _speak(self) -> None:
        """Nobody waits for an acknowledgement here: a broker that is away must not change what is said."""
        while True:
            now = time.time()
            for (model, pod), gauges in list(self._gauges.items()):
                task = asyncio.create_task(self._send_sample(*self._sample(model, pod, gauges, now)))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)
            await asyncio.sleep(INTERVAL_SECONDS)

    async def _send_sample(self, model: str, event_id: str, value: bytes) -> None:
        self.acknowledged[event_id] = await self.send("metrics", value, key=model.encode())

    def _sample(self, model: str, pod: str | None, gauges: dict[str, float], at: float) -> tuple[str, str, bytes]:
        data: dict[str, Any] = {"model": model, "intervalSeconds": INTERVAL_SECONDS, "gauges": gauges}
        if pod is not None:
            data["pod"] = pod
        return model, *cloud_event("io.rebalancer.metric.sample.v1", data, at)


def cloud_event(kind: str, data: object, at: float) -> tuple[str, bytes]:
    """A CloudEvent in structured mode: (its id, its bytes)."""
    event_id = secrets.token_hex(8)
    event = {
        "specversion": "1.0",
        "type": kind,
        "source": "traffic",
        "id": event_id,
        "time": datetime.fromtimestamp(at, UTC).isoformat(),
        "datacontenttype": "application/json",
        "data": data,
    }
    return event_id, json.dumps(event).encode()
