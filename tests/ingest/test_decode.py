"""Metric samples: what is accepted, what is rejected with which words, and that nothing raises."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalancer.domain.events import METRIC_SAMPLE_TYPE, Counters, Gauges, MetricSample, Position, Rejection
from rebalancer.ingest.decode import Mended, Several, decode_metric, decode_override
from rebalancer.ingest.envelope import Headers
from rebalancer.ingest.instants import epoch
from rebalancer.ingest.notices import decode_notice
from rebalancer.ingest.rejected import MAX_DETAIL_CHARACTERS, MAX_VALUE_BYTES, Reason
from tests.ingest.wire import AT_EPOCH, HERE, NOW, SAMPLE, STRUCTURED, TOO_DEEP, binary_headers, event

WHOLE = MetricSample(
    source="vllm/llama-70b-0",
    id="id-1",
    at=AT_EPOCH,
    model="llama-70b",
    interval_seconds=5.0,
    gauges=Gauges(12.0, 3.0, 0.61, 0.8, 70_000.0, 10_000.0, 0.4, 3.2, 5.5),
    pod="5f0c6a3e-7a5f-4b0e-9d61-7f6b0f5b8a10",
    counters=Counters(NOW - 3600, 123.0, 4.0, 4567.0, 8901.0),
    position=HERE,
)


def decode(
    value: bytes, headers: Headers = STRUCTURED, timestamp: float = NOW - 60
) -> MetricSample | Mended | Several | Rejection:
    return decode_metric(value, headers, HERE, timestamp, NOW)


def rejected(value: bytes, headers: Headers = STRUCTURED, timestamp: float = NOW - 60) -> Rejection:
    decoded = decode(value, headers, timestamp)
    assert isinstance(decoded, Rejection)
    assert (decoded.position, decoded.at) == (HERE, NOW)
    return decoded


def with_gauge(text: str) -> bytes:
    """A sample whose `running` is spelled `text`."""
    return event().replace(b'"running": 12', f'"running": {text}'.encode())


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/cloudevents+json",
        b"application/cloudevents",
        b"application/cloudevents+json; charset=UTF-8",
        b"Application/CloudEvents+JSON;charset=utf-8",
    ],
)
@pytest.mark.parametrize("header", ["content-type", "Content-Type"])
def test_a_structured_event_is_a_sample_however_its_content_type_is_written(header: str, content_type: bytes) -> None:
    assert decode(event(), [(header, content_type)]) == WHOLE


def test_a_binary_event_is_the_same_sample() -> None:
    assert decode(json.dumps(SAMPLE).encode(), binary_headers()) == WHOLE


def test_header_names_of_binary_mode_may_have_any_case() -> None:
    headers = [(name.upper(), text) for name, text in binary_headers()]
    assert decode(json.dumps(SAMPLE).encode(), headers) == WHOLE


def test_what_a_sample_does_not_carry_is_absent_and_not_zero() -> None:
    decoded = decode(event({"model": "b", "intervalSeconds": 10, "gauges": {"running": 0, "waiting": None}}))
    assert isinstance(decoded, MetricSample)
    assert (decoded.gauges, decoded.pod, decoded.counters) == (Gauges(running=0.0), None, None)


def test_without_an_event_time_the_record_s_counts() -> None:
    decoded = decode(event(time=None), timestamp=NOW - 7)
    assert isinstance(decoded, MetricSample)
    assert decoded.at == NOW - 7


def test_a_record_without_any_time_is_rejected() -> None:
    assert rejected(event(time=None), timestamp=-0.001).reason == "no-time"


@pytest.mark.parametrize(("ahead_seconds", "accepted"), [(5.0, True), (5.001, False), (10 * 365 * 86_400, False)])
def test_an_event_more_than_five_seconds_ahead_is_rejected(ahead_seconds: float, accepted: bool) -> None:  # noqa: FBT001  the expected answer
    text = datetime.fromtimestamp(NOW + ahead_seconds, UTC).isoformat().replace("+00:00", "Z")
    for decoded in (decode(event(time=text)), decode(event(time=None), timestamp=NOW + ahead_seconds)):
        assert isinstance(decoded, MetricSample) if accepted else decoded.reason == "time-ahead"  # type: ignore[union-attr]  # the branch says which


@pytest.mark.parametrize("time", ["", "1800000000", "1800000000000", "2027-01-15", "2027-01-15T08:00:00", "yesterday"])
def test_a_time_that_is_no_instant_is_rejected(time: str) -> None:
    said = rejected(event(time=time))
    assert (said.reason, "`$.time`" in said.detail) == ("bad-envelope", True)


@pytest.mark.parametrize("text", ["true", '"12"', "[12]", "{}"])
def test_a_gauge_that_is_no_number_is_rejected_with_its_path(text: str) -> None:
    said = rejected(with_gauge(text))
    assert (said.reason, "`$.data.gauges.running`" in said.detail) == ("invalid-data", True), said


IMPOSSIBLE = ["NaN", "Infinity", "-Infinity", "-1", "-1e-9", "1e308", "1e309", "9" * 5000, "9223372036854775794"]


@pytest.mark.parametrize("text", IMPOSSIBLE)
def test_a_gauge_that_cannot_be_is_left_out_and_the_rest_of_the_sample_counts(text: str) -> None:
    binary = json.dumps(SAMPLE).replace('"running": 12', f'"running": {text}').encode()
    for decoded in (decode(with_gauge(text)), decode(binary, binary_headers())):
        assert isinstance(decoded, Mended)
        assert decoded.sample == replace(WHOLE, gauges=replace(WHOLE.gauges, running=None))
        assert decoded.left_out == ("running",)
        assert (decoded.rejection.position, decoded.rejection.reason) == (HERE, "impossible-gauge")
        assert "`running`" in decoded.rejection.detail


@pytest.mark.parametrize(
    ("gauge", "value"),
    [
        ("gpuUtilisation", 1.02),
        ("kvCacheUse", -0.1),
        ("fbUsedMib", 9223372036854775794),  # DCGM's blanks of 64 bits, as a double and of 32 bits, and "not supported"
        ("fbFreeMib", 140737488355328.0),
        ("fbUsedMib", 2147483632),
        ("fbUsedMib", 2147483634),
    ],
)
def test_a_blank_of_an_exporter_costs_its_own_gauge_alone(gauge: str, value: float) -> None:
    decoded = decode(event(SAMPLE | {"gauges": {"running": 3, gauge: value}}))
    assert isinstance(decoded, Mended)
    assert (decoded.sample.gauges, decoded.left_out) == (Gauges(running=3.0), (gauge,))


def test_several_impossible_gauges_are_named_with_their_values() -> None:
    decoded = decode(event(SAMPLE | {"gauges": {"running": -3, "waiting": 1, "kvCacheUse": 61}}))
    assert isinstance(decoded, Mended)
    assert decoded.sample.gauges == Gauges(waiting=1.0)
    assert decoded.rejection.detail == "left out: `running` -3, `kvCacheUse` 61; the rest of the sample counts"


def test_an_impossible_gauge_saves_no_sample_that_has_another_fault() -> None:
    for change in ({"model": ""}, {"counters": {"startTime": "soon"}}, {"gauges": {"running": -1, "waiting": "3"}}):
        said = rejected(event(SAMPLE | {"gauges": {"running": -1}} | change))
        assert said.reason == "invalid-data"
    assert rejected(event(SAMPLE | {"gauges": {"running": -1}}, time="yesterday")).reason == "bad-envelope"


@pytest.mark.parametrize("text", ["-0", "-0.0", "0", "1e-400", "1e12"])
def test_a_gauge_at_the_edge_is_accepted(text: str) -> None:
    decoded = decode(with_gauge(text))
    assert isinstance(decoded, MetricSample)
    assert decoded.gauges.running == float(text)


@pytest.mark.parametrize(("value", "accepted"), [(1, True), (1.0000000000000002, True), (1.01, False), (61, False)])
def test_a_ratio_is_not_a_percentage(value: float, accepted: bool) -> None:  # noqa: FBT001  the expected answer
    decoded = decode(event(SAMPLE | {"gauges": {"kvCacheUse": value}}))
    assert isinstance(decoded, MetricSample) is accepted
    assert isinstance(decoded, Mended) is not accepted


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"model": None}, "$.data.model"),
        ({"model": ""}, "$.data.model"),
        ({"model": "x" * 254}, "$.data.model"),
        ({"pod": 7}, "$.data.pod"),
        ({"intervalSeconds": 0}, "$.data.intervalSeconds"),
        ({"intervalSeconds": 86_400}, "$.data.intervalSeconds"),
        ({"intervalSeconds": "5"}, "$.data.intervalSeconds"),
        ({"model": None, "pod": None, "namespace": "serving"}, "$.data.pod"),
        ({"counters": {"requestsFinished": 3}}, "$.data.counters"),
        ({"counters": {"startTime": "soon"}}, "$.data.counters.startTime"),
        ({"counters": {"startTime": "2027-01-15T08:00:00Z", "promptTokens": -1}}, "$.data.counters.promptTokens"),
        ({"tenant": "x"}, "$.data"),
    ],
)
def test_data_of_another_shape_is_rejected_with_its_path(change: dict[str, Any], path: str) -> None:
    said = rejected(event(SAMPLE | change))
    assert (said.reason, f"`{path}`" in said.detail) == ("invalid-data", True), said


@pytest.mark.parametrize("missing", ["model", "intervalSeconds"])
def test_a_missing_field_is_named(missing: str) -> None:
    said = rejected(event({name: value for name, value in SAMPLE.items() if name != missing}))
    assert (said.reason, missing in said.detail) == ("invalid-data", True)


@pytest.mark.parametrize(
    "attributes",
    [
        {"specversion": "0.3"},
        {"specversion": None},
        {"source": ""},
        {"source": None},
        {"id": None},
        {"id": "x" * 1025},
        {"id": 7},
        {"type": None},
    ],
)
def test_an_envelope_that_is_no_cloudevent_1_0_is_rejected(attributes: dict[str, Any]) -> None:
    assert rejected(event(**attributes)).reason == "bad-envelope"
    headers = binary_headers(
        **{name: None if text is None else str(text).encode() for name, text in attributes.items() if name != "type"}
    )
    if attributes not in ({"id": 7}, {"type": None}):
        assert rejected(json.dumps(SAMPLE).encode(), headers).reason == "bad-envelope"


def test_extensions_of_an_envelope_may_stay() -> None:
    assert decode(event(partitionkey="llama-70b", traceparent="00-1-2-01", subject="x")) == WHOLE


def test_data_in_base64_is_rejected_and_says_what_to_send() -> None:
    said = rejected(event(None, data_base64="e30="))
    assert (said.reason, "data_base64" in said.detail) == ("bad-envelope", True)


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (event(), [("content-type", b"application/cloudevents+avro")]),
        (event(), [("content-type", b"application/cloudevents-batch+json")]),
        (event(datacontenttype="text/plain"), STRUCTURED),
        (json.dumps(SAMPLE).encode(), [*binary_headers()[:-1], ("content-type", b"application/protobuf")]),
    ],
)
def test_a_format_that_is_not_json_is_rejected(value: bytes, headers: Headers) -> None:
    assert rejected(value, headers).reason == "unsupported-content-type"


@pytest.mark.parametrize("headers", [(), [("content-type", b"application/json")], [("trace", None)]])
def test_a_record_without_marks_of_cloudevents_is_rejected(headers: Headers) -> None:
    said = rejected(json.dumps(SAMPLE).encode(), headers)
    assert (said.reason, METRIC_SAMPLE_TYPE in said.detail) == ("not-cloudevent", True)


def test_an_event_of_another_type_is_rejected_by_its_type_whatever_its_data() -> None:
    said = rejected(event({"a": 1}, type="io.rebalancer.metric.sample.v9"))
    assert (said.reason, "sample.v9" in said.detail) == ("unknown-type", True)


def test_a_value_above_64_kib_is_rejected_unread() -> None:
    assert rejected(b"{" * (MAX_VALUE_BYTES + 1)).reason == "too-large"
    padded = event() + b" " * (MAX_VALUE_BYTES - len(event()))
    assert decode(padded) == WHOLE


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "not-json"),
        (b"running=3", "not-json"),
        (event() + b"{}", "not-json"),
        (event()[:-1], "not-json"),
        (event().replace(b"vllm", b"vl\xffm"), "not-utf8"),
        (event().replace(b"llama-70b", b"\xc3("), "not-utf8"),
        (b"\xff\xfe" + event().decode().encode("utf-16-le"), "not-utf8"),
        (b"[]", "bad-envelope"),
        (b"null", "bad-envelope"),
        (b'"text"', "bad-envelope"),
        (event(extension=0).replace(b'"extension": 0', b'"extension": ' + b"[" * 50_000), TOO_DEEP),
        (event([]).replace(b"[]", b"[" * 50_000), TOO_DEEP),
    ],
)
def test_bytes_that_are_no_event_are_rejected_for_what_they_are(value: bytes, reason: str) -> None:
    assert rejected(value).reason == reason


def test_a_binary_header_that_is_no_text_is_rejected() -> None:
    assert rejected(b"{}", binary_headers(id=b"\xff")).reason == "not-utf8"
    assert rejected(b"{}", binary_headers(source=b"\xff")).reason == "not-utf8"


def test_a_detail_is_short_and_printable_whatever_was_sent() -> None:
    said = rejected(event(SAMPLE | {"x\n\x1b[31m" + "y" * 5000: 1}))
    assert len(said.detail) <= MAX_DETAIL_CHARACTERS
    assert said.detail.isprintable()


def test_every_override_record_is_rejected_and_says_what_to_do_instead() -> None:
    said = decode_override(event(), STRUCTURED, HERE, NOW, NOW)
    assert (said.reason, said.position, "kubectl" in said.detail) == ("override-unsigned", HERE, True)


# --- whatever comes in

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
header_lists = st.lists(
    st.tuples(
        st.sampled_from(["content-type", "ce_type", "ce_specversion", "ce_time", "ce_id", "ce_source", "Ce_Id"])
        | st.text(),
        st.none()
        | st.binary(max_size=40)
        | st.sampled_from([b"1.0", METRIC_SAMPLE_TYPE.encode(), b"application/cloudevents+json", b"application/json"]),
    ),
    max_size=8,
)
REASONS = {reason.value for reason in Reason}


def assert_typed(value: bytes, headers: Headers, timestamp: float) -> None:
    for decoded in (
        decode_metric(value, headers, HERE, timestamp, NOW),
        decode_notice(value, headers, HERE, timestamp, NOW),
        decode_override(value, headers, HERE, timestamp, NOW),
    ):
        if isinstance(decoded, Rejection):
            assert decoded.reason in REASONS
            assert decoded.detail
        else:
            assert isinstance(decoded, MetricSample | Mended | tuple)


@given(value=st.binary(max_size=300), headers=header_lists, timestamp=st.floats(-1, 4e9))
def test_no_bytes_and_no_headers_ever_raise(value: bytes, headers: Headers, timestamp: float) -> None:
    assert_typed(value, headers, timestamp)


@given(
    attributes=st.dictionaries(
        st.sampled_from(["specversion", "type", "source", "id", "time", "datacontenttype", "detail", "detail-type"]),
        json_values,
    ),
    data=json_values,
    field=st.sampled_from([*SAMPLE, "kind", "node", "deadline"]),
    inner=json_values,
)
def test_no_json_ever_raises(attributes: dict[str, object], data: object, field: str, inner: object) -> None:
    for value in (
        event(data, **attributes),
        event(SAMPLE | {field: inner}, **attributes),
        event(SAMPLE | {field: inner}),
    ):
        assert_typed(value, STRUCTURED, NOW)
        assert_typed(value, (), NOW)
    assert_typed(json.dumps(data).encode(), binary_headers(), NOW)


@given(
    at=st.integers(0, int(NOW * 1000)).map(lambda ms: ms / 1000),
    offset_hours=st.integers(-12, 14),
    gauges=st.dictionaries(
        st.sampled_from(["running", "waiting", "fbUsedMib", "latencyP95Seconds"]), st.floats(0, 1e9), max_size=4
    ),
    pod=st.none() | st.uuids().map(str),
)
def test_a_valid_sample_comes_through_in_both_modes_as_it_was_sent(
    at: float, offset_hours: int, gauges: dict[str, float], pod: str | None
) -> None:
    time = datetime.fromtimestamp(at, timezone(timedelta(hours=offset_hours))).isoformat()
    data = {"model": "m", "intervalSeconds": 1, "gauges": gauges} | ({} if pod is None else {"pod": pod})
    structured = decode(event(data, time=time))
    assert isinstance(structured, MetricSample)
    assert structured.at == pytest.approx(at, abs=1e-6)
    spelled = {"fbUsedMib": "fb_used_mib", "latencyP95Seconds": "latency_p95_seconds"}
    assert structured.gauges == Gauges(**{spelled.get(name, name): value for name, value in gauges.items()})
    assert structured.pod == pod
    assert decode(json.dumps(data).encode(), binary_headers(time=time.encode())) == structured


@given(instant=st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)))  # noqa: DTZ001  bounds are given naive
def test_instants_are_read_as_datetime_reads_them(instant: datetime) -> None:
    text = instant.isoformat().replace("+00:00", "Z")
    assert epoch(text) == pytest.approx(instant.timestamp(), abs=1e-5)


@given(st.text(max_size=40))
def test_a_text_is_an_instant_or_a_value_error(text: str) -> None:
    try:
        assert isinstance(epoch(text), float)
    except ValueError:
        return


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_poisoned_neighbours_do_not_matter(poisoned: list[bool]) -> None:
    decoded = [
        decode_metric(b"\xff{" if bad else event(id=str(offset)), STRUCTURED, Position("t", 0, offset), NOW, NOW)
        for offset, bad in enumerate(poisoned)
    ]
    assert [isinstance(one, Rejection) for one in decoded] == poisoned
    assert [one.position.offset for one in decoded if not isinstance(one, Mended | Several) and one.position] == list(
        range(len(poisoned))
    )
