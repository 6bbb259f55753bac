"""Records of readings: what one is read as, and what the ones we write are."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from rebalancer.domain.events import METRIC_READINGS_TYPE, MetricSample, Position, Rejection
from rebalancer.ingest.aggregated import Aggregated, PartitionStretch, decode_readings, readings_records
from rebalancer.ingest.completeness import BEHIND_SECONDS, Completeness
from rebalancer.ingest.decode import decode_metric
from tests.house.repository import ROOT
from tests.ingest.wire import HERE, NOW, SAMPLE, STRUCTURED, event

TOPIC = "rebalancer.metrics"
PAGE = (ROOT / "docs/aggregate.md").read_text()


def decoded(value: bytes) -> Aggregated | Rejection:
    return decode_readings(value, STRUCTURED, HERE, NOW, NOW)


def a_sample(offset: int, **data: object) -> MetricSample:
    sample = decode_metric(event(SAMPLE | data), STRUCTURED, Position(TOPIC, 3, offset), NOW, NOW)
    assert isinstance(sample, MetricSample)
    return sample


def a_stretch(
    partition: int = 3, begin: int = 0, end: int = 1, until: float = NOW, partitions: int = 12
) -> PartitionStretch:
    return PartitionStretch(TOPIC, partition, partitions, begin, end, until)


def test_samples_come_out_as_they_went_in_in_the_order_of_their_partition() -> None:
    samples = [
        a_sample(7),
        a_sample(8, model="b", pod=None),
        a_sample(9, namespace="serving", pod="llama-0"),
        a_sample(11),
    ]
    stretch = a_stretch(begin=5, end=12)
    ((part, value),) = readings_records(stretch, samples, "aggregate-0", NOW)
    assert part == stretch
    assert decoded(value) == Aggregated(stretch, samples)


def test_a_long_stretch_is_cut_between_records_and_only_the_last_part_says_it_is_complete() -> None:
    samples = [a_sample(offset, pod="p" * 250) for offset in range(1000, 3000) for _ in range(2)]
    stretch = a_stretch(begin=1000, end=3001)
    written = list(readings_records(stretch, samples, "aggregate-0", NOW))
    parts = [part for part, _ in written]
    assert len(parts) > 1
    assert max(len(value) for _, value in written) < 1_000_000
    assert [part.begin for part in parts] == [1000, *(part.end for part in parts[:-1])]
    assert [part.complete_until for part in parts] == [0.0] * (len(parts) - 1) + [NOW]
    read = [decoded(value) for _, value in written]
    assert [sample for one in read if isinstance(one, Aggregated) for sample in one.samples] == samples


def test_of_a_long_stretch_a_part_is_made_when_the_one_before_was_sent() -> None:
    """Else each try while nothing can be written encodes all that waits, and holds the process up for seconds."""
    samples = [a_sample(offset, pod="p" * 250) for offset in range(3000)]
    parts = readings_records(a_stretch(end=3001), [*samples, replace(samples[0], id=object())], "aggregate-0", NOW)
    part, _ = next(parts)
    assert part.begin == 0
    with pytest.raises(TypeError, match="object"):
        list(parts)


def a_record(models: object, **stretch: object) -> bytes:
    where = {"topic": TOPIC, "partition": 3, "partitions": 12, "begin": 0, "end": 9} | stretch
    return event({"stretch": where, "models": models}, type=METRIC_READINGS_TYPE)


def wire(**fields: object) -> dict[str, Any]:
    return {"offset": 1, "source": "s", "at": NOW, "intervalSeconds": 5, "gauges": {"running": 1}} | fields


def test_of_a_record_with_one_bad_sample_its_neighbours_count() -> None:
    found = decoded(a_record({"b": [wire(), wire(offset=2, gauges={"kvCacheUse": 7}), wire(offset=3)]}))
    assert isinstance(found, Aggregated)
    assert [sample.position and sample.position.offset for sample in found.samples] == [1, 3]
    (why,) = found.rejected
    assert why.reason == "invalid-data"
    assert why.detail.endswith("at `$.data.models['b'][1].gauges.kvCacheUse`")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"no event", "not-json"),
        (event(), "unknown-type"),
        (a_record({}, begin=-1), "invalid-data"),
        (a_record({"b": 7}), "invalid-data"),
        (b"{" + b" " * 1_100_000, "too-large"),
    ],
)
def test_what_is_none_says_why(value: bytes, reason: str) -> None:
    found = decoded(value)
    assert isinstance(found, Rejection)
    assert found.reason == reason


def test_the_record_on_the_page_is_read() -> None:
    shown = PAGE.split('```{.json no-run="a test of this page reads it"}\n')[1].split("```")[0]
    found = decoded(json.dumps(json.loads(shown)).encode())
    assert isinstance(found, Aggregated)
    (sample,) = found.samples
    assert (sample.model, sample.gauges.running) == ("llama-70b", 12)
    assert found.stretch.key == b"rebalancer.metrics/3"


def test_nothing_is_complete_before_every_partition_has_been_told_of() -> None:
    completeness = Completeness()
    assert "does `rebalancer aggregate` run?" in str(completeness.trouble(NOW))
    completeness.note(a_stretch(0, partitions=2))
    assert completeness.trouble(NOW) == f"partition 1 of 2 of {TOPIC} was not read to its end since we look"
    completeness.note(a_stretch(1, partitions=2))
    assert completeness.trouble(NOW) is None
    assert completeness.trouble(NOW + BEHIND_SECONDS + 1) == (
        f"partition 0, 1 of 2 of {TOPIC} was not read to its end for {BEHIND_SECONDS + 1:.0f} s"
    )


def test_a_word_that_comes_late_takes_nothing_back_and_a_hole_is_counted() -> None:
    completeness = Completeness()
    completeness.note(a_stretch(0, end=100, partitions=1))
    completeness.note(a_stretch(0, begin=50, end=80, until=NOW - 60, partitions=1))
    assert completeness.trouble(NOW) is None
    completeness.note(a_stretch(0, begin=100, end=120, until=NOW + 1, partitions=1))
    assert completeness.counts["gaps"] == 0
    completeness.note(a_stretch(0, begin=130, end=140, until=NOW + 2, partitions=1))
    assert completeness.counts["gaps"] == 1
