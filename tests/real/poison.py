"""Records that no rebalancer can use: one in a hundred, of every kind, among good ones."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiokafka.structs import RecordMetadata

from tests.real.traffic import STRUCTURED, Headers, Traffic, cloud_event

Json = dict[str, Any]

ONE_IN = 100
SAMPLE = "io.rebalancer.metric.sample.v1"
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Kind:
    """`make` gives the bytes of one such record; the rebalancer is to name `reason`."""

    reason: str
    make: Callable[[], bytes]
    topic: str = "metrics"
    headers: Headers = STRUCTURED


@dataclass(frozen=True)
class Dose:
    """One record as Kafka took it."""

    reason: str
    value: bytes
    taken: RecordMetadata


def _sample(kind: str = SAMPLE, ahead_seconds: float = 0.0, **data: object) -> bytes:
    return cloud_event(kind, {"model": "chat", "intervalSeconds": 1.0, **data}, time.time() + ahead_seconds)[1]


def _of_another_producer(**gauges: float) -> bytes:
    """A sample whose source has told nothing before: of gauges left out each producer is told once a minute."""
    event: Json = json.loads(_sample(gauges=gauges))
    event["source"] = f"poison/{event['id']}"
    return json.dumps(event).encode()


def _without(attribute: str) -> bytes:
    event: Json = json.loads(_sample())
    del event[attribute]
    return json.dumps(event).encode()


def _bare() -> bytes:
    """The data of a sample, without an event around it."""
    return json.dumps(json.loads(_sample(gauges={"running": 1}))["data"]).encode()


KINDS = (
    Kind("not-utf8", lambda: _sample(gauges={"running": 1}).replace(b"chat", b"ch\xfft")),
    Kind("not-json", lambda: _sample(gauges={"running": 1})[:-7]),
    Kind("not-finite", lambda: _sample(gauges={"running": 1}, intervalSeconds=float("nan"))),
    Kind("impossible-gauge", lambda: _of_another_producer(running=float("nan"))),
    Kind("too-deep", lambda: _sample(gauges={}).replace(b"{}", b"[" * 20_000 + b"]" * 20_000)),
    Kind("too-large", lambda: _sample(gauges={}, model="chat" * 20_000)),
    Kind("not-cloudevent", _bare, headers=()),
    Kind("unsupported-content-type", _sample, headers=(("content-type", b"application/cloudevents+avro"),)),
    Kind("bad-envelope", lambda: _without("id")),
    Kind("unknown-type", lambda: _sample(kind="org.example.sample.v9", gauges={"running": 1})),
    Kind("time-ahead", lambda: _sample(ahead_seconds=3600, gauges={"running": 500})),
    Kind("impossible-gauge", lambda: _of_another_producer(running=-1)),
    Kind("invalid-data", lambda: _sample(gauges={"running": "500"})),
    Kind("unknown-gauge", lambda: _of_another_producer(load=500)),
    Kind("duplicate-key", lambda: b'{"source": "aws.ec2", "source": "aws.ec3"}', topic="notices", headers=()),
    Kind("override-unsigned", lambda: b'{"kind": "pin", "model": "chat", "value": 0}', topic="overrides"),
)


@dataclass
class Poison:
    """Every hundredth record that Kafka takes from `traffic` is followed by one of these."""

    traffic: Traffic
    doses: list[Dose] = field(default_factory=list)

    @asynccontextmanager
    async def trickling(self) -> AsyncIterator[None]:
        """Poison the topics until the context ends."""
        task = asyncio.create_task(self._trickle())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _trickle(self) -> None:
        for kind in itertools.cycle(KINDS):
            while len(self.traffic.acknowledged) < ONE_IN * (len(self.doses) + 1):
                await asyncio.sleep(_LOOK_SECONDS)
            value = kind.make()
            taken = await self.traffic.send(kind.topic, value, key=b"chat", headers=kind.headers)
            self.doses.append(Dose(kind.reason, value, taken))
