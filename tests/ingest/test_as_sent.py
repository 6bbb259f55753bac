"""Samples as producers send them without help: attributes in the value, pods by name, lists, gauges of their own."""

import json

import pytest

from rebalancer.domain.events import Gauges, MetricSample, Rejection
from rebalancer.ingest.decode import Mended, Several
from rebalancer.ingest.envelope import Headers
from tests.ingest.test_decode import WHOLE, decode
from tests.ingest.wire import SAMPLE, STRUCTURED, binary_headers, event


@pytest.mark.parametrize("headers", [(), [("content-type", b"application/json")], [("trace", None)]])
def test_an_event_whose_attributes_stand_in_the_value_needs_no_headers(headers: Headers) -> None:
    assert decode(event(), headers) == WHOLE


def test_a_gauge_that_nobody_knows_is_left_out_by_name_and_the_rest_of_the_sample_counts() -> None:
    binary = json.dumps(SAMPLE | {"gauges": {"running": 3, "runing": 4}}).encode()
    for decoded in (decode(event(json.loads(binary))), decode(binary, binary_headers())):
        assert isinstance(decoded, Mended)
        assert (decoded.sample.gauges, decoded.left_out) == (Gauges(running=3.0), ())
        assert decoded.rejection.reason == "unknown-gauge"
        assert decoded.rejection.detail == "left out: `runing`, which nobody knows here; the rest of the sample counts"


def test_a_sample_of_which_nobody_knows_any_gauge_is_refused_whole_with_its_reason() -> None:
    sample = {key: value for key, value in SAMPLE.items() if key != "counters"}
    decoded = decode(event(sample | {"gauges": {"runing": 4, "wating": 1}}))
    assert isinstance(decoded, Rejection)
    assert decoded.reason == "unknown-gauge"
    assert decoded.detail == (
        "says nothing that can be used: `runing`, which nobody knows here, `wating`, which nobody knows here"
    )


def test_a_pod_may_be_told_by_its_namespace_and_name_and_then_says_whose_the_sample_is() -> None:
    for model in ("llama-70b", None):
        decoded = decode(event(SAMPLE | {"model": model, "pod": "llama-70b-0", "namespace": "serving"}))
        assert isinstance(decoded, MetricSample)
        assert (decoded.model, decoded.pod, decoded.namespace) == ("", "llama-70b-0", "serving")


def test_each_event_of_a_list_is_judged_by_itself() -> None:
    events = [event(), event(SAMPLE | {"model": ""}), event(SAMPLE | {"gauges": {"running": -1}}), b'{"a": 1}']
    decoded = decode(b"[" + b",".join(events) + b"]", [("content-type", b"application/cloudevents-batch+json")])
    assert isinstance(decoded, Several)
    whole, bad, mended, foreign = decoded.parts
    assert (whole, isinstance(mended, Mended)) == (WHOLE, True)
    assert [one.reason for one in (bad, foreign) if isinstance(one, Rejection)] == ["invalid-data", "not-cloudevent"]


@pytest.mark.parametrize("headers", [(), STRUCTURED, binary_headers()], ids=["none", "structured", "binary"])
@pytest.mark.parametrize("rest", [event(), b"\x00\x0a\x04chat\xff"], ids=["json", "protobuf"])
def test_what_a_schema_registry_s_serializer_framed_is_refused_with_its_name(headers: Headers, rest: bytes) -> None:
    decoded = decode(b"\x00\x00\x00\x00\x07" + rest, headers)
    assert isinstance(decoded, Rejection)
    assert "Schema Registry" in decoded.detail
    assert "send plain JSON" in decoded.detail


def test_a_cloud_event_in_kafka_connect_s_envelope_is_refused_as_what_it_is() -> None:
    decoded = decode(json.dumps({"schema": {"type": "struct"}, "payload": json.loads(event())}).encode(), ())
    assert isinstance(decoded, Rejection)
    assert decoded.reason == "not-cloudevent"
    assert "another envelope of Kafka Connect: send what is in it" in decoded.detail


def test_an_event_without_its_attributes_is_refused_by_the_one_that_lacks() -> None:
    decoded = decode(b'{"specversion": "1.0", "type": "t", "source": "s", "data": {}}', ())
    assert isinstance(decoded, Rejection)
    assert (decoded.reason, "`id`" in decoded.detail) == ("bad-envelope", True)
