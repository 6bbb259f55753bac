"""The AsyncAPI document says of records what the decoders say of them."""

import json
from typing import Any

import jsonschema
import pytest

from rebalancer.app.reference.asyncapi import asyncapi_text, document
from rebalancer.domain.events import MetricSample, Position
from rebalancer.ingest.decode import decode_metric
from rebalancer.ingest.notices import decode_notice
from tests.ingest.wire import NOW, SAMPLE, event, notice

HERE = Position("t", 0, 0)


def valid(topic: str, value: bytes) -> bool:
    whole = document()
    schema: dict[str, Any] = {**whole["components"]["messages"][topic]["payload"], "components": whole["components"]}
    return jsonschema.Draft202012Validator(schema).is_valid(json.loads(value))


def test_what_is_read_is_valid() -> None:
    assert valid("metrics", event())
    assert valid("metrics", event(SAMPLE | {"namespace": "serving", "pod": "p-0"}))
    assert valid("notices", notice())


@pytest.mark.parametrize(
    "change", [{"intervalSeconds": 0}, {"gauges": {"runing": 1}}, {"gauges": {"running": -1}}, {"tenant": "x"}]
)
def test_what_is_not_read_whole_is_not_valid(change: dict[str, object]) -> None:
    value = event(SAMPLE | change)
    assert not isinstance(decode_metric(value, (), HERE, NOW, NOW), MetricSample)
    assert not valid("metrics", value)


def test_a_notice_of_no_kind_is_neither_read_nor_valid() -> None:
    value = notice(kind="surprise")
    assert not isinstance(decode_notice(value, (), HERE, NOW, NOW), tuple)
    assert not valid("notices", value)


def test_every_reference_leads_somewhere() -> None:
    text, whole = asyncapi_text(), document()
    for each in {part.split('"')[0] for part in text.split('"$ref": "')[1:]}:
        place: Any = whole
        for step in each.removeprefix("#/").split("/"):
            place = place[step]
    assert whole["asyncapi"] == "3.0.0"


def test_each_key_of_a_sample_is_described_in_the_words_of_the_wire() -> None:
    sample = document()["components"]["schemas"]["SampleData"]
    assert all(part["description"] for part in sample["properties"].values())
    assert "interval_seconds" not in asyncapi_text()
    assert "None" not in asyncapi_text()
