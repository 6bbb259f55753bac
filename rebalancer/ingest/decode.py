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
from rebalancer.ingest.gauges import without_faulty
from rebalancer.ingest.instants import epoch
from rebalancer.ingest.producers.formats import way_out
from rebalancer.ingest.rejected import MAX_VALUE_BYTES, Reason, RejectedError, explain, rejection

OF_NO_EVENT = {Reason.NOT_CLOUDEVENT, Reason.CONTENT_TYPE, Reason.BAD_ENVELOPE}  # a list may be of several
NO_GAUGES = Gauges()
Name = Annotated[str, Meta(min_length=1, max_length=253)]
# A sample every 0.1 s is a burst, one an hour is history: neither says what a model needs now.
Interval = Annotated[float, Meta(ge=0.1, le=3600)]


class CountersData(Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """Counts since the producer started, as the wire has them; None: the sample does not carry the counter.

    start_time: when counting began, as RFC 3339 spells it; another start time means that the producer restarted.
    requests_finished: requests answered.
    requests_left: requests whose clients gave up or that were turned away, none of them finished; None counts as none.
    prompt_tokens: tokens read.
    generated_tokens: tokens written.
    """

    start_time: str
    requests_finished: Amount | None = None
    requests_left: Amount | None = None
    prompt_tokens: Amount | None = None
    generated_tokens: Amount | None = None


class SampleData(Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """Data of a metric sample, version 1.

    interval_seconds: seconds between two samples of the producer.
    gauges: values at that instant.
    model: model id or one of its aliases; it may be absent beside `namespace`.
    pod: UID of the pod, or its name beside `namespace`; absent where the sample is of the whole model.
    counters: counts up to that instant.
    namespace: namespace of the pod, where that is told by its name.
    """

    interval_seconds: Interval
    gauges: Gauges = Gauges()
    model: Name | None = None
    pod: Name | None = None
    counters: CountersData | None = None
    namespace: Name | None = None


_sample = msgspec.json.Decoder(SampleData).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


@dataclass(frozen=True, slots=True)
class Mended:
    """A sample without some of its gauges.

    sample: the rest of it.
    rejection: what its sender should know.
    left_out: gauges that cannot be.
    unknown: names of gauges that nobody knows.
    """

    sample: MetricSample
    rejection: Rejection
    left_out: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Several:
    """What the CloudEvents of one record's JSON list say, each judged by itself."""

    parts: tuple[MetricSample | Mended | Rejection, ...]


def decode_metric(
    value: bytes, headers: Headers, position: Position, kafka_timestamp: float, now: float
) -> MetricSample | Mended | Several | Rejection:
    """One metric sample; `kafka_timestamp` and `now` in epoch seconds. The model's name stays as it was sent.

    Several of a JSON list of CloudEvents: Kafka's binding has no batches, and producers write them all the same.
    """
    try:
        return _sample_of(_unwrapped(value, headers), position, kafka_timestamp, now)
    except RejectedError as rejected:
        if rejected.reason in OF_NO_EVENT and value.lstrip()[:1] == b"[":
            return _several(value, position, kafka_timestamp, now) or rejected.at(position, now)
        try:
            return _mended(value, headers, position, kafka_timestamp, now) or rejected.at(position, now)
        except RejectedError as worse:  # something else is wrong with it, too, or nothing is left of it
            return (worse if worse.reason is Reason.UNKNOWN_GAUGE else rejected).at(position, now)


def _several(value: bytes, position: Position, kafka_timestamp: float, now: float) -> Several | None:
    """None where it is no list of objects."""
    try:
        elements = _elements(value)
    except (ValueError, RecursionError):
        return None
    if not elements or any(bytes(one)[:1] != b"{" for one in elements):
        return None
    decoded = (decode_metric(bytes(one), (), position, kafka_timestamp, now) for one in elements)
    return Several(tuple(one for one in decoded if not isinstance(one, Several)))


def _mended(value: bytes, headers: Headers, position: Position, kafka_timestamp: float, now: float) -> Mended | None:
    """None when no gauge is to blame, or nothing would be left of the sample. Raises RejectedError."""
    rest, cannot_be, unknown = without_faulty(value) if len(value) <= MAX_VALUE_BYTES else (value, {}, ())
    if not cannot_be and not unknown:
        return None
    named = [f"`{name}` {figure:g}" for name, figure in cannot_be.items()]
    named += [f"`{name}`, which nobody knows here" for name in unknown]
    reason = Reason.IMPOSSIBLE_GAUGE if cannot_be else Reason.UNKNOWN_GAUGE
    sample = _sample_of(_unwrapped(rest, headers), position, kafka_timestamp, now)
    if not cannot_be and sample.counters is None and sample.gauges == NO_GAUGES:
        raise RejectedError(reason, f"says nothing that can be used: {', '.join(named)}")
    warning = rejection(position, now, reason, f"left out: {', '.join(named)}; the rest of the sample counts")
    return Mended(sample, warning, tuple(cannot_be), unknown)


def _unwrapped(value: bytes, headers: Headers) -> Envelope:
    """The event in a record. Raises RejectedError where it is none of ours."""
    envelope = unwrap(value, headers)
    if envelope is None or envelope.type != METRIC_SAMPLE_TYPE:
        raise _not_a(METRIC_SAMPLE_TYPE, envelope, value)
    return envelope


def _sample_of(envelope: Envelope, position: Position, kafka_timestamp: float, now: float) -> MetricSample:
    """Raises RejectedError."""
    at = event_time(envelope, kafka_timestamp, now)
    data = _decode_data(envelope)
    counters = None if data.counters is None else _counters(data.counters)
    model = data.model
    if model is None or data.namespace is not None:
        model = _told_by_pod(data)
    return MetricSample(
        envelope.source,
        envelope.id,
        at,
        model,
        data.interval_seconds,
        data.gauges,
        data.pod,
        counters,
        position,
        data.namespace,
    )


def _told_by_pod(data: SampleData) -> str:
    """The model's name where the pod's says whose the sample is: none. Raises RejectedError where neither does."""
    if data.namespace is None:
        raise RejectedError(Reason.INVALID_DATA, "no `model` at `$.data.model`: name it, or the pod and its namespace")
    if data.pod is None:
        raise RejectedError(Reason.INVALID_DATA, "`namespace` without `pod` at `$.data.pod`: name the pod, too")
    return ""


def decode_override(
    value: bytes,  # noqa: ARG001  one signature for the decoders of all topics
    headers: Headers,  # noqa: ARG001  one signature for the decoders of all topics
    position: Position,
    kafka_timestamp: float,  # noqa: ARG001  one signature for the decoders of all topics
    now: float,
) -> Rejection:
    """Nobody can tell who wrote an unsigned record, so none of them overrides anything."""
    detail = "records are not signed, so nobody knows who asked: create an Override with kubectl or the rebalancer CLI"
    return rejection(position, now, Reason.OVERRIDE_UNSIGNED, detail)


def _decode_data(envelope: Envelope) -> SampleData:
    try:
        return _sample(envelope.data)
    except (ValueError, RecursionError) as error:
        explain(error, envelope.data, Reason.INVALID_DATA, root="$.data")


def _counters(wire: CountersData) -> Counters:
    try:
        start_time = epoch(wire.start_time)
    except ValueError as error:
        explain(error, b"", Reason.INVALID_DATA, root="$.data.counters.startTime")
    return Counters(start_time, wire.requests_finished, wire.requests_left, wire.prompt_tokens, wire.generated_tokens)


def _not_a(wanted: str, envelope: Envelope | None, value: bytes) -> RejectedError:
    way = way_out(value, "" if envelope is None else envelope.type) if len(value) <= MAX_VALUE_BYTES else ""
    if envelope is None:
        detail = way or f"no CloudEvents headers: send {wanted} in structured or binary mode"
        return RejectedError(Reason.NOT_CLOUDEVENT, detail)
    return RejectedError(Reason.UNKNOWN_TYPE, f"type {envelope.type!r} is not read here: {way or f'send {wanted}'}")
