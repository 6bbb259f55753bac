"""prometheus-kafka-adapter: one sample of Prometheus' remote write per record.

Its two formats, `json` and `avro-json`, spell the same object: Avro's JSON of strings and a map of strings is plain
JSON. It writes no binary Avro.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from rebalancer.ingest.instants import epoch
from rebalancer.ingest.producers.bodies import Body, each_of
from rebalancer.ingest.producers.series import MetricSeries
from rebalancer.ingest.rejected import RejectedError


class _Sample(Struct, frozen=True):
    value: str
    timestamp: str
    name: str
    labels: dict[str, str]


_sample = msgspec.json.Decoder(_Sample).decode


def decode_prometheus(value: bytes) -> Iterator[MetricSeries | RejectedError]:
    """The sample; its value is text, `NaN` and `+Inf` among it."""
    return each_of(value, _in_body)


def _in_body(body: Body) -> Iterator[MetricSeries]:
    sample = _sample(body.text)
    yield MetricSeries(sample.name, sample.labels, float(sample.value), epoch(sample.timestamp))
