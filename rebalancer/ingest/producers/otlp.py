"""OTLP metrics, as the OpenTelemetry collector's Kafka exporter writes them: `otlp_json` and `otlp_proto`.

Both are one message; in JSON keys are camelCase and 64-bit integers are texts. Gauges are read, and sums and histograms
that say where they stand: an increment (delta) says how much was added, and to what nobody knows. Attributes of the
resource are labels of every point in it. Unknown fields are ignored, as OTLP asks. The classes here have the names of
the protobuf messages' fields, so that one walk reads both.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from rebalancer.ingest.producers.bodies import Body, each_of
from rebalancer.ingest.producers.series import MAX_BATCH_BYTES, MetricSeries, number_of
from rebalancer.ingest.rejected import Reason, RejectedError

NO_RECORDED_VALUE = 1  # flag of a point that only says that its series ended
NANOSECONDS = 1e-9
DELTA = frozenset((1, "AGGREGATION_TEMPORALITY_DELTA"))
NEEDS = "OTLP in protobuf needs the extra: pip install 'rebalancer[otlp]', or set the exporter's encoding to otlp_json"

Whole = int | str


class _Value(Struct, frozen=True, rename="camel"):
    string_value: str | None = None
    int_value: Whole | None = None
    double_value: float | str | None = None
    bool_value: bool | None = None


class _Attribute(Struct, frozen=True, rename="camel"):
    key: str
    value: _Value = _Value()


class _Point(Struct, frozen=True, rename="camel"):
    attributes: list[_Attribute] = []
    time_unix_nano: Whole = 0
    as_double: float | str | None = None
    as_int: Whole | None = None
    flags: int = 0


class _Points(Struct, frozen=True, rename="camel"):
    data_points: list[_Point] = []
    aggregation_temporality: int | str = 0


class _Histogram(Struct, frozen=True, rename="camel"):
    attributes: list[_Attribute] = []
    time_unix_nano: Whole = 0
    bucket_counts: list[Whole] = []
    explicit_bounds: list[float | str] = []
    sum: float | str | None = None
    flags: int = 0


class _Histograms(Struct, frozen=True, rename="camel"):
    data_points: list[_Histogram] = []
    aggregation_temporality: int | str = 0


class _Metric(Struct, frozen=True, rename="camel"):
    name: str
    gauge: _Points = _Points()
    sum: _Points = _Points()
    histogram: _Histograms = _Histograms()


class _Scope(Struct, frozen=True, rename="camel"):
    metrics: list[_Metric] = []


class _Resource(Struct, frozen=True, rename="camel"):
    attributes: list[_Attribute] = []


class _Of(Struct, frozen=True, rename="camel"):
    resource: _Resource = _Resource()
    scope_metrics: list[_Scope] = []


class _Message(Struct, frozen=True, rename="camel"):
    resource_metrics: list[_Of]


_message = msgspec.json.Decoder(_Message).decode


def decode_otlp_json(value: bytes) -> Iterator[MetricSeries | RejectedError]:
    """The points of gauges and sums, and histograms as Prometheus has them: their buckets and `_sum`."""
    return each_of(value, _in_body)


def decode_otlp_proto(value: bytes) -> Iterator[MetricSeries | RejectedError]:
    """The same of protobuf's bytes. Raises RejectedError, without the extra for every record."""
    if len(value) > MAX_BATCH_BYTES:
        raise RejectedError(Reason.TOO_LARGE, f"{len(value)} bytes, at most {MAX_BATCH_BYTES} are read: batch less")
    parse = _protobuf()
    if parse is None:
        raise RejectedError(Reason.CONTENT_TYPE, NEEDS)
    try:
        message = parse(value)
    except Exception as error:
        raise RejectedError(Reason.INVALID_DATA, "no MetricsData of OTLP: is its encoding otlp_proto?") from error
    yield from _walk(message)


@cache
def _protobuf() -> Any:  # noqa: ANN401  protobuf's generated class has no types
    try:
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData  # noqa: PLC0415  only with the extra
    except ImportError:
        return None
    return MetricsData.FromString


def _in_body(body: Body) -> Iterator[MetricSeries]:
    return _walk(_message(body.text))


def _walk(message: Any) -> Iterator[MetricSeries]:  # noqa: ANN401  one of two kinds of classes
    for of in message.resource_metrics:
        whose = _labels(of.resource.attributes)
        for scope in of.scope_metrics:
            for metric in scope.metrics:
                for point in (*metric.gauge.data_points, *_cumulative(metric.sum)):
                    number = _number(point)
                    if number is not None and not point.flags & NO_RECORDED_VALUE:
                        own = _labels(point.attributes)
                        yield MetricSeries(metric.name, {**whose, **own}, number, _at(point), own)
                for point in _cumulative(metric.histogram):
                    if not point.flags & NO_RECORDED_VALUE:
                        yield from _of_histogram(metric.name, whose, point)


def _cumulative(points: Any) -> Any:  # noqa: ANN401  protobuf's class has no types
    return () if points.aggregation_temporality in DELTA else points.data_points


def _at(point: Any) -> float | None:  # noqa: ANN401  protobuf's class has no types
    return number_of(point.time_unix_nano) * NANOSECONDS or None


def _of_histogram(name: str, whose: dict[str, str], point: Any) -> Iterator[MetricSeries]:  # noqa: ANN401  protobuf's class has no types
    """The sum and the buckets of a histogram's point: OTLP counts each bucket alone, Prometheus all up to its bound."""
    own = _labels(point.attributes)
    labels, at, below, total = {**whose, **own}, _at(point), 0.0, _sum(point)
    if total is not None:
        yield MetricSeries(f"{name}_sum", labels, total, at, own)
    for upper, count in zip((*point.explicit_bounds, "+Inf"), point.bucket_counts, strict=False):
        below += number_of(count)
        yield MetricSeries(f"{name}_bucket", {**labels, "le": str(upper)}, below, at, own)


def _sum(point: Any) -> float | None:  # noqa: ANN401  protobuf's class has no types
    if isinstance(point, _Histogram):
        return None if point.sum is None else number_of(point.sum)
    return float(point.sum) if point.HasField("sum") else None


def _number(point: Any) -> float | None:  # noqa: ANN401  protobuf's class has no types
    if isinstance(point, _Point):
        given = point.as_int if point.as_double is None else point.as_double
        return None if given is None else number_of(given)
    which = point.WhichOneof("value")
    return None if which is None else float(getattr(point, which))


def _labels(attributes: Any) -> dict[str, str]:  # noqa: ANN401  protobuf's class has no types
    return {one.key: text for one in attributes if (text := _text(one.value)) is not None}


def _text(value: Any) -> str | None:  # noqa: ANN401  protobuf's class has no types
    if isinstance(value, _Value):
        given = next(
            (one for one in (value.string_value, value.int_value, value.double_value) if one is not None), None
        )
    else:
        which = value.WhichOneof("value")
        given = getattr(value, which) if which in {"string_value", "int_value", "double_value"} else None
    return None if given is None else str(given)
