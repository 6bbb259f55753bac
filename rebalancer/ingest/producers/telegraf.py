"""Telegraf's `json` serializer, one metric or a batch, and its `cloudevents` serializer, whose data is the same."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from rebalancer.ingest.instants import epoch
from rebalancer.ingest.producers.bodies import Body, each_of
from rebalancer.ingest.producers.series import MetricSeries, epoch_of, number_of
from rebalancer.ingest.rejected import RejectedError

# Fields of which the measurement's name says all: the `prometheus` input with metric_version 1 writes them.
NAMELESS = frozenset({"gauge", "value", "counter", "untyped"})
PROMETHEUS = "prometheus"  # with metric_version 2 every metric is a field of this measurement


class _Metric(Struct, frozen=True):
    name: str
    fields: dict[str, Any]
    tags: dict[str, str] = {}
    timestamp: float | str | None = None  # a text where json_timestamp_format is set


_metric = msgspec.json.Decoder(_Metric).decode


def decode_telegraf(value: bytes) -> Iterator[MetricSeries | RejectedError]:
    """The numbers of its metrics, named as Telegraf's own Prometheus output names them: `measurement_field`."""
    return each_of(value, _in_body)


def _in_body(body: Body) -> Iterator[MetricSeries]:
    metric = _metric(body.text)
    time = metric.timestamp
    at = None if time is None else epoch(time) if isinstance(time, str) else epoch_of(time)
    for field, value in metric.fields.items():
        if type(value) in {int, float}:
            yield MetricSeries(_name(metric.name, field), metric.tags, number_of(value), at)


def _name(measurement: str, field: str) -> str:
    if measurement == PROMETHEUS:
        return field
    return measurement if field in NAMELESS else f"{measurement}_{field}"
