"""The records on the page of producers are read as it says, by the entries of the policy that it shows."""

import json
import re
from typing import NamedTuple

import msgspec
import pytest
import yaml

from rebalancer.domain.events import Gauges, MetricSample, Position
from rebalancer.domain.producers import MetricProducer
from rebalancer.ingest.decode import decode_metric
from rebalancer.ingest.producers.formats import DECODERS
from tests.docs.blocks import DOCS
from tests.ingest.producers.records import NOW, samples
from tests.ingest.wire import binary_headers

PAGE = (DOCS / "producers.md").read_text()
RECORD = re.compile(r"^```\{\.json [^\n]*\}\n(.*?)^```\n\n(Read of [^\n]*)$", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r'^```\{\.yaml no-run="part of a policy[^\n]*\n(.*?)^```$', re.MULTILINE | re.DOTALL)
READ = re.compile(r"Read of `([^`]+)`: ([^.]*(?:\.\d[^.]*)*)\.")


class Shown(NamedTuple):
    """A record of one section, the entry that reads it (None: our own format), and what the page says of it."""

    section: str
    entry: MetricProducer | None
    record: bytes
    said: str

    def __str__(self) -> str:
        return self.section


def entry_of(text: str) -> MetricProducer | None:
    found = ENTRY.search(text)
    return (
        None
        if found is None
        else MetricProducer.model_validate_json(msgspec.json.encode(yaml.safe_load(found[1])["producers"][0]))
    )


def shown() -> list[Shown]:
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[2:]
    return [
        Shown(section.partition("\n")[0], entry_of(section), record.encode(), said)
        for section in sections
        for record, said in RECORD.findall(section)
    ]


def told(found: list[MetricSample]) -> dict[str, dict[str, float]]:
    return {
        f"{one.namespace}/{one.pod}" if one.namespace else str(one.pod): msgspec.to_builtins(one.gauges)
        for one in found
    }


def by_the_page(said: str) -> dict[str, dict[str, float]]:
    found = {}
    for subject, gauges in READ.findall(said):
        pairs = (each.split(" ") for each in gauges.split(", "))
        found[subject] = msgspec.to_builtins(msgspec.convert({name: float(value) for name, value in pairs}, Gauges))
    assert found, said
    return found


@pytest.mark.parametrize("one", shown(), ids=str)
def test_a_producer_s_record_is_read_as_the_page_says(one: Shown) -> None:
    if one.entry is not None:
        assert told(samples(one.entry, [one.record])) == by_the_page(one.said)
        return
    headers = () if b"specversion" in one.record else binary_headers()
    sample = decode_metric(one.record, headers, Position("rebalancer.metrics", 0, 0), NOW, NOW)
    assert isinstance(sample, MetricSample), sample
    assert told([sample]) == by_the_page(one.said)


def test_the_page_has_a_record_for_each_producer() -> None:
    names = {"Telegraf", "prometheus-kafka-adapter", "OpenTelemetry Collector", "Vector", "Fluent Bit"}
    assert {one.section for one in shown()} == names | {"Redpanda Connect", "Knative"}
    decoders = {one.entry.decoder for one in shown() if one.entry is not None}
    assert decoders == DECODERS.keys() - {"otlp-proto"}


def test_fluent_bit_s_tail_puts_the_line_where_its_kubernetes_filter_looks_for_json_to_merge() -> None:
    """`Merge_Log` looks at `log`; the parser `cri` writes `message`, and the multiline parser of that name `log`."""
    (tail,) = re.findall(r"^\[INPUT\]\n(.*?)^$", PAGE, re.MULTILINE | re.DOTALL)
    settings = dict(line.split() for line in tail.splitlines())
    assert settings.get("multiline.parser") == "cri"
    assert "Parser" not in settings
    (record,) = (json.loads(one.record) for one in shown() if one.section == "Fluent Bit")
    line = json.loads(record["log"])
    assert line == {key: record[key] for key in line}
