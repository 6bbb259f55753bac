"""Prometheus' readings as records of our own: for who has only Prometheus, and wants the events in Kafka.

It needs no access to a cluster: each record names its pod by namespace and name, and the service knows whose it is.
A poll that fails or finds nothing writes nothing.
"""

import asyncio
import random
from collections.abc import Collection
from datetime import UTC, datetime
from typing import NoReturn

import msgspec
import structlog

from rebalancer.app.tasks import end
from rebalancer.domain.events import METRIC_SAMPLE_TYPE, Event, MetricSample
from rebalancer.ingest.prometheus import PrometheusReadings, Server
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.outbox import Outbox
from rebalancer.obs.clock import Clock

SOURCE = "rebalancer-bridge"
HEADERS = (("content-type", b"application/cloudevents+json"),)

log = structlog.get_logger()


class Bridge:
    """`run()` until cancelled, or `poll()` once while `outbox` runs. `written`: records that Kafka has."""

    def __init__(  # noqa: PLR0913  # the parts it connects
        self,
        server: Server,
        broker: Broker,
        namespaces: Collection[str],
        interval_seconds: float,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.written = 0
        self.outbox = Outbox(broker, clock, rng)
        self.prometheus = PrometheusReadings(
            server, interval_seconds, clock, self._take, lambda: namespaces, _by_name, counted=True
        )
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._taken: list[Event] = []

    async def run(self) -> NoReturn:
        """Poll and write, for ever."""
        sending = asyncio.create_task(self.outbox.run(), name="outbox")
        try:
            while True:
                await self.poll()
                await self._clock.sleep(self._interval_seconds)
        finally:
            await end(sending)
            await self.outbox.close()

    async def once(self) -> int:
        """One poll; the number of records that Kafka has of it."""
        sending = asyncio.create_task(self.outbox.run(), name="outbox")
        try:
            await self.poll()
        finally:
            await end(sending)
            await self.outbox.close()
        return self.written

    async def poll(self) -> None:
        """Ask Prometheus, and write a record for each pod that it knows."""
        self._taken = []
        await self.prometheus.poll()
        samples = [one for one in self._taken if isinstance(one, MetricSample)]
        sent = await asyncio.gather(
            *(self.outbox.send("metrics", (one.pod or "").encode(), record_of(one), HEADERS) for one in samples)
        )
        self.written += sum(sent)
        if not all(sent):
            log.warning("records were not written", failed=len(sent) - sum(sent), trouble=self.outbox.trouble)

    def _take(self, events: list[Event]) -> None:
        self._taken += events


def record_of(sample: MetricSample) -> bytes:
    """The CloudEvent of a sample whose `pod` is `namespace/name`."""
    namespace, _, pod = (sample.pod or "").partition("/")
    counters = {}
    if sample.counters is not None:
        counters = msgspec.to_builtins(sample.counters) | {"startTime": _spelled(sample.counters.start_time)}
    event = {
        "specversion": "1.0",
        "type": METRIC_SAMPLE_TYPE,
        "source": SOURCE,
        "id": sample.id,
        "time": _spelled(sample.at),
        "datacontenttype": "application/json",
        "data": {
            "namespace": namespace,
            "pod": pod,
            "intervalSeconds": sample.interval_seconds,
            "gauges": sample.gauges,
            **({"counters": counters} if counters else {}),
        },
    }
    return msgspec.json.encode(event)


def _spelled(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def _by_name(namespace: str, name: str) -> tuple[str, str, float]:
    """Every pod is somebody's as far as we know here."""
    return "", f"{namespace}/{name}", 0.0
