"""Vector's metric events in JSON, as its Kafka sink writes them."""

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import Struct

from rebalancer.ingest.instants import epoch
from rebalancer.ingest.producers.bodies import Body, each_of
from rebalancer.ingest.producers.series import MetricSeries
from rebalancer.ingest.rejected import RejectedError

Tag = str | list[str | None] | None  # a list with `metric_tag_values: full`, null for a tag without a value


class _Value(Struct, frozen=True):
    value: float


class _Event(Struct, frozen=True):
    name: str
    kind: Literal["absolute", "incremental"]
    namespace: str | None = None
    tags: dict[str, Tag] | None = None
    timestamp: str | None = None
    gauge: _Value | None = None
    counter: _Value | None = None


_event = msgspec.json.Decoder(_Event).decode


def decode_vector(value: bytes) -> Iterator[MetricSeries | RejectedError]:
    """Gauges and counters that say where they stand; an increment says how much was added, and to what nobody knows."""
    return each_of(value, _in_body)


def _in_body(body: Body) -> Iterator[MetricSeries]:
    event = _event(body.text)
    metric = event.gauge or event.counter
    if metric is not None and event.kind == "absolute":
        name = f"{event.namespace}_{event.name}" if event.namespace else event.name
        tags = {key: text for key, tag in (event.tags or {}).items() if (text := _text(tag)) is not None}
        yield MetricSeries(name, tags, metric.value, None if event.timestamp is None else epoch(event.timestamp))


def _text(tag: Tag) -> str | None:
    """The last of several values: Vector itself takes it where only one has room."""
    if isinstance(tag, list):
        return next((one for one in reversed(tag) if one is not None), None)
    return tag
