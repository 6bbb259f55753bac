"""Counters and histograms of stock producers: what a scrape would say of them, over restarts too."""

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalancer.domain.events import Counters, MetricSample, Rejection
from rebalancer.ingest.producers.counted import counts, quantile, rows_of
from rebalancer.ingest.producers.formats import DECODERS
from rebalancer.ingest.producers.gathering import SETTLE_SECONDS, PodGathering
from rebalancer.ingest.producers.otlp import decode_otlp_proto
from rebalancer.ingest.producers.series import MetricSeries
from tests.ingest.producers.records import AT, HERE, POD, producer, read, readings, samples

Numbers = dict[str, float]  # by a metric's name, with its labels behind it as an exposition has them
STOP, ABORT = '{finished_reason="stop"}', '{finished_reason="abort"}'
FINISHED, BUCKET = "vllm:request_success_total", "vllm:time_to_first_token_seconds_bucket"


def split(name: str) -> tuple[str, dict[str, str]]:
    metric, _, rest = name.partition("{")
    pairs = (each.split("=") for each in rest.rstrip("}").split(",") if each)
    return metric, {label: value.strip('"') for label, value in pairs}


def telegraf(numbers: Numbers, at: float) -> list[bytes]:
    """metric_version 2: a record for each set of tags."""
    records: dict[str, dict[str, object]] = {}
    for name, value in numbers.items():
        metric, labels = split(name)
        empty = {"name": "prometheus", "tags": POD | labels, "fields": {}, "timestamp": int(at * 1000)}
        record = records.setdefault(json.dumps(labels), empty)
        record["fields"] = {**record["fields"], metric: value}  # type: ignore[dict-item]  # a dict in a dict
    return [json.dumps(record).encode() for record in records.values()]


def adapter(numbers: Numbers, at: float) -> list[bytes]:
    """prometheus-kafka-adapter: a record for each series, numbers as texts."""
    instant = f"2027-01-15T{int(at % 86400) // 3600:02}:{int(at % 3600) // 60:02}:{int(at % 60):02}Z"
    parts = ((*split(name), value) for name, value in numbers.items())
    return [
        json.dumps(
            {"name": name, "labels": POD | labels | {"__name__": name}, "value": f"{value:g}", "timestamp": instant}
        ).encode()
        for name, labels, value in parts
    ]


def attributes(labels: dict[str, str]) -> list[dict[str, object]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in labels.items()]


def otlp(numbers: Numbers, at: float) -> list[bytes]:
    """The collector's prometheus receiver: counters are cumulative sums, histograms count each bucket by itself."""
    metrics: list[dict[str, object]] = []
    buckets: dict[float, float] = {}
    nano = f"{int(at)}000000000"
    for name, value in numbers.items():
        metric, labels = split(name)
        if metric == BUCKET:
            buckets[float(labels["le"])] = value
        else:
            point = {"attributes": attributes(labels), "asDouble": value, "timeUnixNano": nano}
            gauge = {"gauge": {"dataPoints": [point]}}
            kind = {"sum": {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": [point]}}
            metrics.append({"name": metric.removesuffix("_total"), **(kind if "_total" in metric else gauge)})
    if buckets:
        bounds = sorted(buckets)
        counted = [buckets[bounds[0]], *(buckets[upper] - buckets[lower] for lower, upper in pairwise(bounds))]
        point = {
            "timeUnixNano": nano,
            "bucketCounts": [str(int(each)) for each in counted],
            "explicitBounds": bounds[:-1],
        }
        histogram = {"aggregationTemporality": 2, "dataPoints": [point]}
        metrics.append({"name": BUCKET.removesuffix("_bucket"), "histogram": histogram})
    resource = {"attributes": attributes({"k8s.namespace.name": POD["namespace"], "k8s.pod.name": POD["pod"]})}
    return [json.dumps({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": metrics}]}]}).encode()]


def vector(numbers: Numbers, at: float) -> list[bytes]:
    """Counters that say where they stand; its histograms are not read."""
    parts = ((*split(name), value) for name, value in numbers.items() if not name.startswith(BUCKET))
    instant = json.loads(adapter({"a": 1}, at)[0])["timestamp"]
    return [
        json.dumps(
            {"name": name, "kind": "absolute", "tags": POD | labels, "timestamp": instant}
            | ({"counter": {"value": value}} if name.endswith("_total") else {"gauge": {"value": value}})
        ).encode()
        for name, labels, value in parts
    ]


def fluent_bit(numbers: Numbers, at: float) -> list[bytes]:
    """One object for each set of labels, keys as metrics are called."""
    records = (json.loads(record) for record in telegraf(numbers, at))
    where = {"namespace_name": POD["namespace"], "pod_name": POD["pod"]}
    return [
        json.dumps(
            {"@timestamp": at, "kubernetes": where, **record["fields"]}
            | {key: text for key, text in record["tags"].items() if key not in POD}
        ).encode()
        for record in records
    ]


Writer = Callable[[Numbers, float], list[bytes]]
WRITERS: dict[str, tuple[str, Writer]] = {
    "telegraf": ("telegraf", telegraf),
    "adapter": ("prometheus", adapter),
    "otlp": ("otlp-json", otlp),
    "vector": ("vector", vector),
    "fluent-bit": ("flat", fluent_bit),
}


def scrape(stop: float, abort: float = 0.0, running: float = 4.0, tokens: float = 0.0) -> Numbers:
    return {
        "vllm:num_requests_running": running,
        "vllm:num_requests_waiting": 0.0,
        FINISHED + STOP: stop,
        FINISHED + ABORT: abort,
        "vllm:prompt_tokens_total": tokens,
        "vllm:generation_tokens_total": 2 * tokens,
    }


def told(writer: str, scrapes: Iterable[Numbers], every: float = 15.0) -> list[MetricSample]:
    decoder, write = WRITERS[writer]
    records = [record for count, numbers in enumerate(scrapes) for record in write(numbers, AT - 600 + every * count)]
    return samples(producer(decoder), records)


@pytest.mark.parametrize("writer", WRITERS)
def test_counters_of_every_producer_come_with_the_gauges_of_their_scrape(writer: str) -> None:
    first, second = told(writer, [scrape(100, 7, 4, 50), scrape(130, 8, 6, 80)])
    assert first.counters is not None
    began = first.counters.start_time
    assert second.counters == Counters(began, 130.0, 8.0, 80.0, 160.0)
    assert (second.gauges.running, second.at - first.at) == (6.0, 15.0)


@pytest.mark.parametrize("writer", WRITERS)
def test_an_engine_that_began_anew_counts_from_there_and_what_the_old_one_counted_is_forgotten(writer: str) -> None:
    anew = scrape(3, 0, 1, 10)
    del anew[FINISHED + ABORT]  # nobody gave up yet: the series is not there
    *_, before, after, later = told(writer, [scrape(100, 7), scrape(130, 8, tokens=90), anew, scrape(9, 1, 1, 30)])
    assert before.counters is not None
    assert after.counters is not None
    assert later.counters is not None
    assert before.counters.start_time < after.counters.start_time == after.at
    assert (after.counters.requests_finished, after.counters.requests_left) == (3.0, None)
    assert (later.counters.start_time, later.counters.requests_left) == (after.at, 1.0)


def test_counters_that_did_not_come_with_a_scrape_are_unknown_and_not_repeated() -> None:
    many = told("telegraf", [scrape(100), {"vllm:num_requests_running": 5.0}])
    assert many[0].counters is not None
    assert many[1].counters is None


def test_two_replicas_of_prometheus_count_once_and_engines_are_summed() -> None:
    labels = ['{engine="0",replica="a"}', '{engine="0",replica="b"}', '{engine="1",replica="a"}']
    (sample,) = told("telegraf", [{f"vllm:prompt_tokens_total{each}": 10.0 for each in labels}])
    assert sample.counters is not None
    assert sample.counters.prompt_tokens == 20.0


def test_a_lower_count_of_the_same_instant_is_of_another_look_and_no_engine_began_anew() -> None:
    """Two replicas of Prometheus scrape within one second, the later one is heard first, and instants are cut to it."""
    records = [
        record
        for count in range(4)
        for done in (30.0 * count + 2, 30.0 * count)
        for record in adapter(scrape(done, tokens=10 * done), AT - 600 + 15 * count)
    ]
    counters = [sample.counters for sample in samples(producer("prometheus"), records)]
    assert [one and one.start_time for one in counters] == [AT - 600] * 4
    assert [one and one.requests_finished for one in counters] == [2.0, 32.0, 62.0, 92.0]


@pytest.mark.parametrize(
    ("metric", "label", "counted"),
    [("tgi_request_failure", "err", [15.0, 18.0]), ("nv_inference_request_failure", "reason", [12.0, 15.0])],
)
def test_failures_of_several_kinds_are_summed_but_where_the_map_takes_the_highest(
    metric: str, label: str, counted: list[float]
) -> None:
    looks = [
        {f'{metric}{{{label}="overloaded"}}': overloaded, f'{metric}{{{label}="validation"}}': 3.0}
        for overloaded in (12.0, 15.0)
    ]
    counters = [sample.counters for sample in told("telegraf", looks)]
    assert len({one and one.start_time for one in counters}) == 1
    assert [one and one.requests_left for one in counters] == counted


def buckets(counted: dict[str, float]) -> Numbers:
    return {f'{BUCKET}{{le="{upper}"}}': value for upper, value in counted.items()}


@pytest.mark.parametrize("writer", [name for name in WRITERS if name != "vector"])
def test_a_percentile_is_of_what_came_within_four_scrapes_and_not_since_the_process_began(writer: str) -> None:
    old = {"0.5": 1000.0, "1.0": 1000.0, "5.0": 1000.0, "+Inf": 1000.0}
    new = {"0.5": 1000.0, "1.0": 1050.0, "5.0": 1100.0, "+Inf": 1100.0}
    first, second = told(writer, [buckets(old) | scrape(1), buckets(new) | scrape(2)])
    assert first.gauges.ttft_p95_seconds is None, "of one look nobody knows what is new in it"
    assert second.gauges.ttft_p95_seconds == pytest.approx(1.0 + 4.0 * 45 / 50)


def test_above_the_last_bound_it_is_told_as_more_than_that_and_of_nothing_as_nothing() -> None:
    old = {"1.0": 10.0, "+Inf": 10.0}
    slow, idle = {"1.0": 11.0, "+Inf": 30.0}, {"1.0": 11.0, "+Inf": 30.0}
    _, above, *_ = told("telegraf", [buckets(old) | scrape(1), buckets(slow) | scrape(2)])
    assert above.gauges.ttft_p95_seconds is None
    assert above.gauges.ttft == (1.0, True)
    *_, nothing = told("telegraf", [buckets(slow) | scrape(1), buckets(idle) | scrape(2)])
    assert nothing.gauges.ttft == (None, False)


@pytest.mark.parametrize("late", [{"+Inf"}, {"0.5", "1.0"}])
def test_a_bucket_that_comes_late_is_waited_for_and_moves_no_percentile(late: set[str]) -> None:
    """Else a scrape's mark has the count of the one before: at once, or a minute on, more came than in any bucket."""
    entry, seen = producer("prometheus"), list[tuple[float | None, bool]]()
    gathering = PodGathering(entry)
    for count in range(1, 13):
        at = AT - 600 + 15 * count
        every = {"0.5": 100.0 * count, "1.0": 150.0 * count, "+Inf": 150.0 * count}
        behind = late if count == 6 else set[str]()
        for after, uppers in ((0.0, every.keys() - behind), (0.6, behind)):
            for record in adapter(buckets({upper: every[upper] for upper in uppers}) | scrape(count), at):
                gathering.put(readings(entry, record).readings, HERE, at + after)
            seen += [sample.gauges.ttft for sample in gathering.settled(at + after + SETTLE_SECONDS)]
    assert {(seconds and round(seconds, 6), above) for seconds, above in seen} == {(None, False), (0.925, False)}


def test_buckets_of_two_replicas_scrapes_are_no_histogram_together() -> None:
    """Of the second scrape, 3 s after the first, half of the buckets come in a second batch, after the sample."""
    entry, seen = producer("prometheus"), list[tuple[float | None, bool]]()
    gathering = PodGathering(entry)
    for count in range(1, 13):
        for later in (0.0, 3.0):
            at = AT - 600 + 15 * count + later
            every = 10.0 * (15 * count + later)
            whole = buckets({"0.5": 0.6 * every, "1.0": 0.9 * every, "5.0": 0.97 * every, "+Inf": every})
            halves = [whole] if later == 0.0 else [dict(list(whole.items())[:2]), dict(list(whole.items())[2:])]
            for batch, half in enumerate(halves):
                for record in adapter(half | scrape(count), at):
                    gathering.put(readings(entry, record).readings, HERE, at + batch)
                seen += [sample.gauges.ttft for sample in gathering.settled(at + batch + SETTLE_SECONDS)]
    assert {seconds and round(seconds, 6) for seconds, _ in seen} == {None, 3.857143}


def test_buckets_of_an_engine_that_is_seen_later_are_not_what_came_since_the_scrape_before() -> None:
    def engine(which: int, count: int) -> Numbers:
        slow, every = 1e6 * which + 10.0 * count, 1e6 + 100.0 * count
        counted = {f'{BUCKET}{{engine="{which}",le="{le}"}}': each for le, each in (("1.0", slow), ("+Inf", every))}
        return counted | scrape(count)

    seen = told("telegraf", [engine(1, 0), engine(1, 1), *(engine(0, n) | engine(1, n) for n in (2, 3))])
    assert [sample.gauges.ttft for sample in seen] == [(None, False), (1.0, True), (None, False), (1.0, True)]


@given(st.lists(st.floats(0.0, 9.9), min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_a_percentile_lies_in_the_bucket_of_the_true_one(seconds: list[float]) -> None:
    bounds = [0.1, 0.5, 1.0, 2.0, 5.0, inf]
    found = quantile({upper: float(sum(each <= upper for each in seconds)) for upper in bounds})
    true = sorted(seconds)[max(0, -(-95 * len(seconds) // 100) - 1)]
    upper = next(bound for bound in bounds if true <= bound)
    assert found is not None
    assert found.above == (upper == inf)
    assert found.value <= upper
    assert found.value >= max((bound for bound in bounds if bound < upper), default=0.0)


def test_increments_are_no_counters() -> None:
    record = json.loads(otlp(scrape(100), AT)[0])
    for metric in record["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]:
        for kind in ("sum", "histogram"):
            metric.get(kind, {})["aggregationTemporality"] = 1
    (sample,) = samples(producer("otlp-json"), [json.dumps(record).encode()])
    assert (sample.counters, sample.gauges.running) == (None, 4.0)


def as_protobuf(record: bytes) -> bytes:
    from google.protobuf.json_format import Parse  # type: ignore[import-untyped]  # noqa: PLC0415  an extra, without types
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData  # noqa: PLC0415  an extra

    binary: bytes = Parse(record, MetricsData()).SerializeToString()
    return binary


def test_protobuf_says_the_same_as_json() -> None:
    (text,) = otlp(scrape(100, 7) | buckets({"1.0": 3.0, "+Inf": 5.0}), AT)
    (whole,) = [readings(producer("otlp-json"), text).readings]
    binary = as_protobuf(text)
    assert all(isinstance(each, MetricSeries) for each in decode_otlp_proto(binary))
    assert readings(producer("otlp-proto"), binary).readings == whole


@pytest.mark.parametrize("decoder", ["otlp-json", "otlp-proto"])
def test_tokens_that_an_engine_tells_by_a_histogram_are_that_histograms_sum(decoder: str) -> None:
    record = json.loads(otlp({"tgi_batch_current_size": 4.0}, AT)[0])
    point = {"timeUnixNano": f"{int(AT)}000000000", "count": "5", "bucketCounts": ["1", "4"], "explicitBounds": [10]}
    histograms = {
        "tgi_request_input_length": point | {"sum": 900},
        "tgi_request_generated_tokens": point | {"sum": 70.5},
        "tgi_request_duration": point,
    }
    record["resourceMetrics"][0]["scopeMetrics"][0]["metrics"] += [
        {"name": name, "histogram": {"aggregationTemporality": 2, "dataPoints": [each]}}
        for name, each in histograms.items()
    ]
    value = json.dumps(record).encode() if decoder == "otlp-json" else as_protobuf(json.dumps(record).encode())
    (sample,) = samples(producer(decoder), [value])
    assert sample.counters is not None
    assert (sample.counters.prompt_tokens, sample.counters.generated_tokens) == (900.0, 70.5)
    named = [series.name for series in DECODERS[producer(decoder).decoder](value) if isinstance(series, MetricSeries)]
    assert "tgi_request_duration_sum" not in named, "who tells no sum has none, which is not zero"


def test_a_bucket_without_its_bound_is_told_and_costs_itself_alone() -> None:
    found = readings(producer(), telegraf({BUCKET: 3.0, "vllm:num_requests_running": 1.0}, AT)[0])
    assert [one.reason for one in found.dropped] == ["invalid-data"]
    assert "keep that label" in found.dropped[0].detail
    assert len(found.readings) == 1
    assert not isinstance(read(producer(), telegraf({BUCKET: 3.0}, AT)[0]), tuple)


def test_a_bucket_whose_bound_is_no_number_is_refused() -> None:
    (record,) = telegraf({BUCKET + '{le="NaN"}': 3.0}, AT)
    refused = read(producer(), record)
    assert isinstance(refused, Rejection)
    assert refused.reason == "invalid-data"


def test_reasons_are_told_apart_as_the_maps_say() -> None:
    assert [row.reading for _, row in rows_of("vllm:request_success", {"finished_reason": "abort"})] == ["requestsLeft"]
    assert [row.reading for _, row in rows_of("trtllm_request_success_total", {"finished_reason": "cancelled"})] == [
        "requestsLeft"
    ]
    assert counts("vllm_generation_tokens_total")
    assert not counts("vllm:num_requests_running")
