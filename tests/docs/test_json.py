"""The record that the pages tell producers to write is one that the service reads."""

import json

import pytest

from rebalancer.domain.events import Counters, Gauges, MetricSample, Position
from rebalancer.ingest.decode import decode_metric
from tests.docs.blocks import DOCS, Block, runnable

HERE = Position("rebalancer.metrics", 0, 0)
SAMPLES = [block for block in runnable("json") if block.page != "notices.md"]  # that page has a test of its own
STRUCTURED = (("content-type", b"application/cloudevents+json"),)
NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.mark.parametrize("block", SAMPLES, ids=str)
def test_a_record_on_a_page_is_read(block: Block) -> None:
    sample = decode_metric(block.text.encode(), STRUCTURED, HERE, NOW, NOW)
    assert isinstance(sample, MetricSample), sample
    assert sample.at == NOW
    assert (sample.gauges.running, sample.gauges.waiting) == (12, 3)


def test_a_gauge_or_a_counter_that_the_page_does_not_name_does_not_exist() -> None:
    page = (DOCS / "install.md").read_text()
    fields = [*Gauges.__struct_encode_fields__, *Counters.__struct_encode_fields__]
    assert [name for name in fields if f"`{name}`" not in page and f'"{name}"' not in page] == []
    assert all(json.loads(block.text) for block in SAMPLES)
