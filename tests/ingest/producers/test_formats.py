"""Each producer's format: its numbers with their labels and instants, and what is wrong with a part of it alone."""

import json
import math
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalancer.domain.events import Gauges, Rejection
from rebalancer.domain.metric_maps import GaugeName
from rebalancer.ingest.gauges import GAUGES
from rebalancer.ingest.producers.flat import decode_flat
from rebalancer.ingest.producers.formats import DECODERS
from rebalancer.ingest.producers.mapping import Readings
from rebalancer.ingest.producers.series import MetricSeries
from tests.ingest.producers.records import AT, AT_TEXT, HERE, NOW, POD, RUNNING, producer, read, readings, samples


@pytest.mark.parametrize("decoder", RUNNING)
def test_every_format_tells_the_same_reading(decoder: str) -> None:
    (sample,) = samples(producer(decoder), [RUNNING[decoder]])
    assert (sample.namespace, sample.pod, sample.model) == ("serving", "llama-70b-0", "")
    assert (sample.at, sample.interval_seconds, sample.gauges) == (AT, 15.0, Gauges(running=12.0))


@pytest.mark.parametrize(
    "wrapped", ["[%b]", '{"specversion": "1.0", "data": %b}', '[{"specversion": "1.0", "data": [%b]}]']
)
@pytest.mark.parametrize("decoder", RUNNING)
def test_a_list_and_a_cloudevent_around_it_change_nothing(decoder: str, wrapped: str) -> None:
    (sample,) = samples(producer(decoder), [wrapped.encode() % RUNNING[decoder]])
    assert sample.gauges == Gauges(running=12.0)


def test_otlp_in_protobuf_says_what_it_says_in_json() -> None:
    metrics = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2", reason="needs rebalancer[otlp]")
    json_format = pytest.importorskip("google.protobuf.json_format")
    value = json_format.Parse(RUNNING["otlp-json"], metrics.MetricsData()).SerializeToString()
    assert samples(producer("otlp-proto"), [value]) == samples(producer("otlp-json"), [RUNNING["otlp-json"]])


def test_protobuf_that_is_none_is_refused_with_the_encoding_it_should_have() -> None:
    pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2", reason="needs rebalancer[otlp]")
    said = read(producer("otlp-proto"), b"\xff\xff\xff")
    assert isinstance(said, Rejection)
    assert (said.reason, "otlp_proto" in said.detail) == ("invalid-data", True)


def test_telegraf_names_a_metric_as_its_own_prometheus_output_does() -> None:
    rows = [{"metric": name, "gauge": "running"} for name in ("a_b", "c", "d")]
    for record in (
        {"name": "a", "fields": {"b": 1}},
        {"name": "c", "fields": {"gauge": 1}},
        {"name": "prometheus", "fields": {"d": 1}},
    ):
        found = readings(producer(gauges=rows), json.dumps(record | {"tags": POD, "timestamp": int(AT)}).encode())
        assert [one.value for one in found.readings] == [1.0], record


@pytest.mark.parametrize("factor", [1, 1_000, 1_000_000, 1_000_000_000])
def test_telegraf_s_timestamps_may_have_any_of_its_units(factor: int) -> None:
    value = json.loads(RUNNING["telegraf"]) | {"timestamp": int(AT) * factor}
    (one,) = readings(producer(), json.dumps(value).encode()).readings
    assert one.at == AT


@pytest.mark.parametrize("text", [AT_TEXT, AT_TEXT.replace("Z", ".000000000Z"), AT_TEXT.replace("Z", "+00:00")])
def test_telegraf_s_timestamps_may_be_rfc_3339_as_json_timestamp_format_writes_them(text: str) -> None:
    value = json.loads(RUNNING["telegraf"]) | {"timestamp": text}
    (sample,) = samples(producer(), [json.dumps(value).encode()])
    assert sample.at == AT


def test_a_timestamp_of_telegraf_s_in_another_layout_costs_its_metric_and_is_told() -> None:
    good = json.loads(RUNNING["telegraf"])
    value = json.dumps({"metrics": [good, good | {"timestamp": "15 Jan 27 07:59 UTC"}]}).encode()
    said = readings(producer(), value)
    assert len(said.readings) == 1
    assert [(one.reason, "RFC3339" in one.detail, "metrics[1]" in one.detail) for one in said.dropped] == [
        ("invalid-data", True, True)
    ]


def test_a_bad_metric_of_a_batch_is_dropped_alone() -> None:
    good = json.loads(RUNNING["telegraf"])
    found = readings(producer(), json.dumps({"metrics": [{"name": 7}, good, {"fields": {}}]}).encode())
    assert [one.value for one in found.readings] == [12.0]
    assert [one.reason for one in found.dropped] == ["invalid-data", "invalid-data"]
    assert "$.metrics[0]" in found.dropped[0].detail


@pytest.mark.parametrize("text", ["+Inf", "-Inf", "NaN"])
def test_a_value_that_is_not_finite_is_dropped_with_a_reason(text: str) -> None:
    said = read(producer("prometheus"), RUNNING["prometheus"].replace(b'"12"', f'"{text}"'.encode()))
    assert isinstance(said, Rejection)
    assert (said.reason, "vllm:num_requests_running" in said.detail) == ("not-finite", True)


def test_an_increment_of_vector_says_not_where_the_gauge_stands() -> None:
    found = readings(producer("vector"), RUNNING["vector"].replace(b"absolute", b"incremental"))
    assert found == Readings((), (), 0)


def test_vector_s_full_tags_count_with_their_last_value() -> None:
    tags: dict[str, Any] = {"namespace": ["other", "serving"], "pod": ["llama-70b-0", None], "bare": None}
    value = json.dumps(json.loads(RUNNING["vector"]) | {"tags": tags}).encode()
    assert [one.pod for one in readings(producer("vector"), value).readings] == [("serving", "llama-70b-0")]


def test_a_point_of_otlp_without_a_recorded_value_is_no_reading() -> None:
    value = RUNNING["otlp-json"].replace(b'"asDouble"', b'"flags": 1, "asDouble"')
    assert readings(producer("otlp-json"), value) == Readings((), (), 0)


def test_integers_of_otlp_are_texts_and_its_labels_may_be_numbers() -> None:
    value = RUNNING["otlp-json"].replace(b'"asDouble": 12', b'"asInt": "12"')
    value = value.replace(b'"stringValue": "llama-70b-0"', b'"intValue": "7"')
    (one,) = readings(producer("otlp-json"), value).readings
    assert (one.value, one.pod) == (12.0, ("serving", "7"))


def test_a_number_in_quotes_is_a_label_of_a_flat_record() -> None:
    value = RUNNING["flat"].replace(b'"num_requests_running": 12', b'"num_requests_running": "12"')
    assert readings(producer("flat"), value) == Readings((), (), 0)


@pytest.mark.parametrize("time", [AT_TEXT, AT, AT * 1000])
@pytest.mark.parametrize("key", ["@timestamp", "time", "ts"])
def test_a_flat_record_s_instant_may_be_spelled_in_several_ways(key: str, time: object) -> None:
    value = json.dumps({**POD, "num_requests_running": 12, key: time}).encode()
    assert [one.at for one in readings(producer("flat"), value).readings] == [AT]


@pytest.mark.parametrize("beside", [{}, {"date": AT}])
def test_a_duration_in_a_flat_record_is_not_its_instant(beside: dict[str, float]) -> None:
    value = json.dumps({**POD, "num_requests_running": 12, "time": 0.183, **beside}).encode()
    assert [one.at for one in readings(producer("flat"), value).readings] == [beside.get("date", NOW - 1)]


def test_without_an_instant_of_its_own_the_record_s_counts() -> None:
    (one,) = readings(producer("flat"), json.dumps({**POD, "num_requests_running": 12}).encode()).readings
    assert one.at == NOW - 1


@pytest.mark.parametrize(("at", "reason"), [(NOW + 60, "time-ahead"), (-5, "no-time")])
def test_an_instant_that_cannot_be_is_refused(at: float, reason: str) -> None:
    said = read(producer("flat"), json.dumps({**POD, "num_requests_running": 12, "ts": at}).encode())
    assert isinstance(said, Rejection)
    assert said.reason == reason


def test_the_gauges_that_a_row_may_name_are_the_gauges_there_are() -> None:
    assert get_args(GaugeName) == GAUGES


@pytest.mark.parametrize("decoder", DECODERS)
@given(
    value=st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "name",
                        "fields",
                        "tags",
                        "metrics",
                        "data",
                        "specversion",
                        "resourceMetrics",
                        "value",
                        "labels",
                        "timestamp",
                        "gauge",
                        "kind",
                        "time",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    ).map(lambda tree: json.dumps(tree).encode())
)
def test_nothing_that_comes_in_raises(decoder: str, value: bytes) -> None:
    found = read(producer(decoder), value)
    assert isinstance(found, Readings | Rejection)
    if isinstance(found, Rejection):
        assert found.position == HERE


def test_a_record_above_a_mebibyte_is_refused_unread() -> None:
    for decoder in DECODERS:
        said = read(producer(decoder), b"{" * (1024 * 1024 + 1))
        assert isinstance(said, Rejection)
        assert said.reason in {"too-large", "unsupported-content-type"}


def test_avro_json_of_prometheus_kafka_adapter_is_plain_json() -> None:
    fields = json.loads(RUNNING["prometheus"])
    avro = msgspec.json.encode({name: fields[name] for name in ("timestamp", "value", "name", "labels")})
    assert (
        readings(producer("prometheus"), avro).readings
        == readings(producer("prometheus"), RUNNING["prometheus"]).readings
    )


def test_an_integer_of_hundreds_of_digits_is_beyond_all_floats_and_its_neighbours_are_read() -> None:
    series = list(decode_flat(b'{"pod": "p", "a": 1' + b"0" * 400 + b', "b": 2}'))
    values = {one.name: one.value for one in series if isinstance(one, MetricSeries)}
    assert values == {"a": math.inf, "b": 2.0}


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        ({"asInt": 10**400}, "not-finite"),
        ({"asInt": 1, "timeUnixNano": 10**400}, "time-ahead"),
        ({"bucketCounts": [10**400, 1], "explicitBounds": [1]}, "not-finite"),
    ],
)
def test_a_point_of_otlp_with_an_integer_beyond_all_floats_is_dropped_alone(point: object, reason: str) -> None:
    whole = json.loads(RUNNING["otlp-json"])
    metrics = whole["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    metrics += [
        {"name": "vllm:num_requests_waiting", "gauge": {"dataPoints": [point]}},
        {"name": "vllm:time_to_first_token_seconds", "histogram": {"dataPoints": [point]}},
    ]
    result = readings(producer("otlp-json"), json.dumps(whole).encode())
    assert [one.name for one in result.readings] == ["running"]
    assert {one.reason for one in result.dropped} == {reason}
