"""Metric samples and overrides from Kafka records. Pure; no input raises."""

from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from rebalancer.domain.events import (
    METRIC_SAMPLE_TYPE,
    Amount,
    Counters,
    Gauges,
    MetricSample,
    Position,
    Rejection,
)
from rebalancer.ingest.envelope import Envelope, Headers, event_time, unwrap
from rebalancer.ingest.gauges import without_impossible
from rebalancer.ingest.instants import epoch
from rebalancer.ingest.rejected import MAX_VALUE_BYTES, Reason, RejectedError, explain, rejection

Name = Annotated[str, Meta(min_length=1, max_length=253)]
# A sample every 0.1 s is a burst, one an hour is history: neither says what a model needs now.
Interval = Annotated[float, Meta(ge=0.1, le=3600)]


class _Counters(Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """`Counters` with its start time as the wire spells it."""

    start_time: str
    requests_finished: Amount | None = None
    requests_left: Amount | None = None
    prompt_tokens: Amount | None = None
    generated_tokens: Amount | None = None


class _Sample(Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """Data of a metric sample, version 1."""

    model: Name
    interval_seconds: Interval
    gauges: Gauges = Gauges()
    pod: Name | None = None
    counters: _Counters | None = None


_sample = msgspec.json.Decoder(_Sample).decode


@dataclass(frozen=True, slots=True)
class Mended:
    """A sample without the gauges that cannot be, what its sender should know, and which they were."""

    sample: MetricSample
    rejection: Rejection
    left_out: tuple[str, ...]


def decode_metric(
    value: bytes, headers: Headers, position: Position, kafka_timestamp: float, now: float
) -> MetricSample | Mended | Rejection:
    """One metric sample; `kafka_timestamp` and `now` in epoch seconds. The model's name stays as it was sent."""
    try:
        return _metric(value, headers, position, kafka_timestamp, now)
    except RejectedError as rejected:
        try:
            return _mended(value, headers, position, kafka_timestamp, now) or rejected.at(position, now)
        except RejectedError:  # something else is wrong with it, too
            return rejected.at(position, now)


def _mended(value: bytes, headers: Headers, position: Position, kafka_timestamp: float, now: float) -> Mended | None:
    """None when no gauge is to blame. Raises RejectedError."""
    rest, left_out = without_impossible(value) if len(value) <= MAX_VALUE_BYTES else (value, {})
    if not left_out:
        return None
    named = ", ".join(f"`{name}` {figure:g}" for name, figure in left_out.items())
    said = rejection(position, now, Reason.IMPOSSIBLE_GAUGE, f"left out: {named}; the rest of the sample counts")
    return Mended(_metric(rest, headers, position, kafka_timestamp, now), said, tuple(left_out))


def _metric(value: bytes, headers: Headers, position: Position, kafka_timestamp: float, now: float) -> MetricSample:
    """Raises RejectedError."""
    envelope = unwrap(value, headers)
    if envelope is None or envelope.type != METRIC_SAMPLE_TYPE:
        raise _not_a(METRIC_SAMPLE_TYPE, envelope)
    at = event_time(envelope, kafka_timestamp, now)
    data = _decode_data(envelope)
    counters = None if data.counters is None else _counters(data.counters)
    return MetricSample(
        envelope.source,
        envelope.id,
        at,
        data.model,
        data.interval_seconds,
        data.gauges,
        data.pod,
        counters,
        position,
    )


def decode_override(
    value: bytes,  # noqa: ARG001  one signature for the decoders of all topics
    headers: Headers,  # noqa: ARG001  same
    position: Position,
    kafka_timestamp: float,  # noqa: ARG001  same
    now: float,
) -> Rejection:
    """Nobody can tell who wrote an unsigned record, so none of them overrides anything."""
    detail = "records are not signed, so nobody knows who asked: create an Override with kubectl or the rebalancer CLI"
    return rejection(position, now, Reason.OVERRIDE_UNSIGNED, detail)


def _decode_data(envelope: Envelope) -> _Sample:
    try:
        return _sample(envelope.data)
    except (ValueError, RecursionError) as error:
        explain(error, envelope.data, Reason.INVALID_DATA, root="$.data")


def _counters(wire: _Counters) -> Counters:
    try:
        start_time = epoch(wire.start_time)
    except ValueError as error:
        explain(error, b"", Reason.INVALID_DATA, root="$.data.counters.startTime")
    return Counters(start_time, wire.requests_finished, wire.requests_left, wire.prompt_tokens, wire.generated_tokens)


def _not_a(wanted: str, envelope: Envelope | None) -> RejectedError:
    if envelope is None:
        detail = f"no CloudEvents headers: send {wanted} in structured or binary mode"
        return RejectedError(Reason.NOT_CLOUDEVENT, detail)
    return RejectedError(Reason.UNKNOWN_TYPE, f"type {envelope.type!r} is not read here: send {wanted}")
