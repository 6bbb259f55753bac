"""Records of the topic `readings`: samples that somebody else has read from a partition, and how far they read. Pure.

Nothing is summed up or thinned out: samples of one partition, put one after another, are that partition. So whoever
applies them holds what one consumer of the partition would hold, however often the partition changed hands.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from rebalancer.domain.events import METRIC_READINGS_TYPE, Counters, Gauges, MetricSample, Position, Rejection
from rebalancer.ingest.decode import Interval, Name
from rebalancer.ingest.envelope import Attribute, Headers, unwrap
from rebalancer.ingest.rejected import Reason, RejectedError, explain

MAX_READINGS_BYTES = 1024 * 1024  # what brokers take by default; of samples as vLLM's it is some 3,000
FULL_BYTES = 512 * 1024  # of samples in a record of ours: the largest sample and the rest fit, too

At = Annotated[float, Meta(ge=0, le=1e12)]
Offset = Annotated[int, Meta(ge=0)]


class ReadSample(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel", forbid_unknown_fields=True):
    """One sample that was read: the data of a metric sample, version 1, and what its record said beside them.

    offset: where it stands in its partition.
    source: name of its producer (CloudEvents source).
    at: when it was measured, UTC epoch seconds.
    interval_seconds: seconds between two samples of the producer.
    gauges: values at that instant.
    id: the producer's id of the record (CloudEvents id).
    pod: UID of the pod, or its name beside `namespace`; absent where the sample is of the whole model.
    namespace: namespace of the pod, where that is told by its name.
    counters: counts up to that instant; their start time in UTC epoch seconds.
    """

    offset: Offset
    source: Attribute
    at: At
    interval_seconds: Interval
    gauges: Gauges = Gauges()
    id: str = ""
    pod: Name | None = None
    namespace: Name | None = None
    counters: Counters | None = None


class PartitionStretch(Struct, frozen=True, gc=False, omit_defaults=True, rename="camel", forbid_unknown_fields=True):
    """Which records of a partition were read.

    topic: full name of the topic that was read.
    partition: which of its partitions.
    partitions: how many of them there are.
    begin: offset of the first record that was read.
    end: offset of the first record after those that were read.
    complete_until: instant by which the partition held no other records than those before `end`, UTC epoch seconds;
        0 where nobody knows of one.
    """

    topic: Annotated[str, Meta(min_length=1, max_length=249)]
    partition: Offset
    partitions: Annotated[int, Meta(ge=1, le=10_000)]
    begin: Offset
    end: Offset
    complete_until: At = 0.0

    @property
    def key(self) -> bytes:
        """The record's key: records of one partition stay in order, and compaction keeps the last."""
        return f"{self.topic}/{self.partition}".encode()


class ReadingsData(Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True):
    """Data of readings, version 1: all samples that a stretch of a partition holds.

    stretch: what was read; it stands there although it held no sample.
    models: samples by the model's name, as it was sent: id or alias, "" where pods alone say whose they are; each
        model's in the order of their offsets.
    """

    stretch: PartitionStretch
    models: dict[str, list[ReadSample]]


class _LooseData(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The same with its samples undecoded: one of them may be wrong."""

    stretch: PartitionStretch
    models: dict[str, list[msgspec.Raw]]


class Aggregated(Struct, frozen=True):
    """What one record holds.

    stretch: what was read for us.
    samples: its samples, in the order of the partition.
    rejected: why others are none.
    """

    stretch: PartitionStretch
    samples: list[MetricSample]
    rejected: tuple[Rejection, ...] = ()


_readings = msgspec.json.Decoder(ReadingsData).decode
_loose = msgspec.json.Decoder(_LooseData).decode
_sample = msgspec.json.Decoder(ReadSample).decode
_encode = msgspec.json.encode
_offset = attrgetter("position.offset")


def decode_readings(
    value: bytes,
    headers: Headers,
    position: Position,
    kafka_timestamp: float,  # noqa: ARG001  one signature for the decoders of all topics
    now: float,
) -> Aggregated | Rejection:
    """The samples of one record, each with the position that it has in its own topic."""
    try:
        data = _data(value, headers)
        try:
            return _aggregated(_readings(data), ())
        except (ValueError, RecursionError):
            return _mended(data, position, now)
    except RejectedError as rejected:
        return rejected.at(position, now)


def _data(value: bytes, headers: Headers) -> msgspec.Raw:
    """The data of an event of ours. Raises RejectedError where it is none."""
    envelope = unwrap(value, headers, MAX_READINGS_BYTES)
    if envelope is None:
        raise RejectedError(Reason.NOT_CLOUDEVENT, f"no CloudEvent: send {METRIC_READINGS_TYPE} in structured mode")
    if envelope.type != METRIC_READINGS_TYPE:
        raise RejectedError(
            Reason.UNKNOWN_TYPE, f"type {envelope.type!r} is not read here: send {METRIC_READINGS_TYPE}"
        )
    return envelope.data


def _mended(data: msgspec.Raw, position: Position, now: float) -> Aggregated:
    """The good samples, where it is some samples that are wrong. Raises RejectedError."""
    try:
        loose = _loose(data)
    except (ValueError, RecursionError) as error:
        explain(error, data, Reason.INVALID_DATA, root="$.data")
    models: dict[str, list[ReadSample]] = {}
    rejected: list[Rejection] = []
    for model, raws in loose.models.items():
        good = models.setdefault(model, [])
        for place, raw in enumerate(raws):
            try:
                good.append(_sample(raw))
            except (ValueError, RecursionError) as wrong:
                try:
                    explain(wrong, raw, Reason.INVALID_DATA, root=f"$.data.models[{model!r}][{place}]")
                except RejectedError as why:
                    rejected.append(why.at(position, now))
    return _aggregated(ReadingsData(loose.stretch, models), tuple(rejected))


def _aggregated(data: ReadingsData, rejected: tuple[Rejection, ...]) -> Aggregated:
    topic, partition = data.stretch.topic, data.stretch.partition
    samples = [
        MetricSample(
            one.source,
            one.id,
            one.at,
            model,
            one.interval_seconds,
            one.gauges,
            one.pod,
            one.counters,
            Position(topic, partition, one.offset),
            one.namespace,
        )
        for model, ones in data.models.items()
        for one in ones
    ]
    samples.sort(key=_offset)
    return Aggregated(data.stretch, samples, rejected)


def readings_records(
    stretch: PartitionStretch, samples: Sequence[MetricSample], source: str, now: float
) -> Iterator[tuple[PartitionStretch, bytes]]:
    """The records of a stretch, at least one, none too large for a broker. Samples in the order of their offsets.

    Each is made when it is asked for: one that cannot be sent leaves the rest unmade. Only the last one says until when
    the partition is complete. `source`: who read; `now`: UTC epoch seconds.
    """
    begin, first, size = stretch.begin, 0, 0
    encoded: list[msgspec.Raw] = []
    for place, sample in enumerate(samples):
        raw = msgspec.Raw(_encode(_read(sample)))
        size += len(raw)
        if size > FULL_BYTES and place > first and _offset(sample) > _offset(samples[place - 1]):
            end = _offset(sample)
            part = replace(stretch, begin=begin, end=end, complete_until=0.0)
            yield part, _record(part, samples[first:place], encoded, source, now)
            begin, first, size, encoded = end, place, len(raw), []
        encoded.append(raw)
    last = replace(stretch, begin=begin)
    yield last, _record(last, samples[first:], encoded, source, now)


def _read(sample: MetricSample) -> ReadSample:
    return ReadSample(
        _offset(sample),
        sample.source,
        sample.at,
        sample.interval_seconds,
        sample.gauges,
        sample.id,
        sample.pod,
        sample.namespace,
        sample.counters,
    )


def _record(
    stretch: PartitionStretch, samples: Sequence[MetricSample], encoded: Sequence[msgspec.Raw], source: str, now: float
) -> bytes:
    models: dict[str, list[msgspec.Raw]] = {}
    for sample, raw in zip(samples, encoded, strict=True):
        models.setdefault(sample.model, []).append(raw)
    event = {
        "specversion": "1.0",
        "type": METRIC_READINGS_TYPE,
        "source": source,
        "id": f"{stretch.topic}/{stretch.partition}@{stretch.begin}-{stretch.end}",
        "time": datetime.fromtimestamp(now, UTC).isoformat(),
        "datacontenttype": "application/json",
        "data": _LooseData(stretch, models),
    }
    return _encode(event)
