"""Writes into the broker what metric exporters and the cloud would write there."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Self

import msgspec
from aiokafka import AIOKafkaProducer

from rebalancer.domain.events import METRIC_SAMPLE_TYPE, Counters, MetricSample
from rebalancer.kafka.broker import Broker

NOTICE_SECONDS = 120.0  # a spot notice comes this long before the machine goes

_encode = msgspec.json.Encoder().encode


class Producer:
    """Samples as CloudEvents in binary mode, spot notices as EventBridge sends them; event times may be past."""

    def __init__(self, broker: Broker) -> None:
        self._metrics = broker.topic("metrics")
        self._notices = broker.topic("notices")
        self._broker = broker

    async def __aenter__(self) -> Self:
        self._kafka = AIOKafkaProducer(**await self._broker.connection())
        await self._kafka.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._kafka.stop()

    async def samples(self, samples: Iterable[MetricSample]) -> None:
        """Queue one record per sample, keyed by its model."""
        for sample in samples:
            await self._kafka.send(
                self._metrics,
                value=_encode(_data(sample)),
                key=sample.model.encode(),
                headers=_headers(sample),
                timestamp_ms=int(sample.at * 1000),
            )

    async def flush(self) -> None:
        """Wait until the broker has everything."""
        await self._kafka.flush()

    async def spot_notice(self, provider_id: str, at: float) -> None:
        """The warning for the machine behind a node, `NOTICE_SECONDS` ahead; waits until the broker has it."""
        instance = provider_id.rpartition("/")[2]
        zone = provider_id.split("/")[-2]
        event = {
            "version": "0",
            "id": f"spot-{instance}",
            "detail-type": "EC2 Spot Instance Interruption Warning",
            "source": "aws.ec2",
            "account": "000000000000",
            "time": spelled(at),
            "region": zone[:-1],
            "resources": [f"arn:aws:ec2:{zone}:instance/{instance}"],
            "detail": {"instance-id": instance, "instance-action": "terminate"},
        }
        await self._kafka.send_and_wait(self._notices, value=_encode(event), timestamp_ms=int(at * 1000))


def spelled(at: float) -> str:
    """Epoch seconds in RFC 3339, to the microsecond."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _headers(sample: MetricSample) -> list[tuple[str, bytes]]:
    named = {
        "ce_specversion": "1.0",
        "ce_type": METRIC_SAMPLE_TYPE,
        "ce_source": sample.source,
        "ce_id": sample.id,
        "ce_time": spelled(sample.at),
        "content-type": "application/json",
    }
    return [(name, text.encode()) for name, text in named.items()]


def _data(sample: MetricSample) -> dict[str, object]:
    data: dict[str, object] = {
        "model": sample.model,
        "intervalSeconds": sample.interval_seconds,
        "gauges": sample.gauges,
    }
    if sample.pod is not None:
        data["pod"] = sample.pod
    if sample.counters is not None:
        data["counters"] = _counters(sample.counters)
    return data


def _counters(counters: Counters) -> dict[str, object]:
    by_name = {
        "requestsFinished": counters.requests_finished,
        "requestsLeft": counters.requests_left,
        "promptTokens": counters.prompt_tokens,
        "generatedTokens": counters.generated_tokens,
    }
    known = {name: amount for name, amount in by_name.items() if amount is not None}
    return {"startTime": spelled(counters.start_time), **known}
