"""Every file in `../shared/artefacts/kafka` does what its SOURCES.md says, and the table is printed.

Each is fed to our own topic as a producer without any configuration would, and, where a decoder reads its format, to
that decoder with a row for one of its metrics and labels that it has. Read the table with `pytest -s`.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from rebalancer.domain.events import MetricSample, Position, Rejection
from rebalancer.ingest.decode import Mended, Several, decode_metric
from rebalancer.ingest.envelope import Headers
from rebalancer.ingest.producers.mapping import Readings
from tests.beside import folder
from tests.ingest.producers.records import producer, read

NOW = 1_800_000_000.0
HERE = Position("rebalancer.metrics", 0, 7)


class Outcome(NamedTuple):
    """What SOURCES.md says of a file, in words of it; what our own topic makes of it; what its decoder reads."""

    stated: str
    own: str
    mapped: str = ""
    decoder: str = ""
    rows: Mapping[str, object] = {}


TELEGRAF_CPU = {
    "labels": {"namespace": ["host"], "pod": ["cpu"]},
    "gauges": [{"metric": "cpu_usage_idle", "gauge": "gpuUtilisation", "factor": 0.01}],
}
TELEGRAF_DOCKER = {
    "labels": {"namespace": ["host"], "pod": ["host"]},
    "gauges": [{"metric": "docker_field_1", "gauge": "running"}, {"metric": "docker_field_2", "gauge": "waiting"}],
}
ADAPTER = {
    "labels": {"namespace": ["labelfoo"], "pod": ["labelfoo"]},
    "gauges": [{"metric": "foo", "gauge": "running"}],
}
OTLP = {
    "labels": {"namespace": ["service.name"], "pod": ["service.name"]},
    "gauges": [{"metric": "my.gauge", "gauge": "running"}, {"metric": "my.counter", "gauge": "waiting"}],
}
CPUS = ", ".join(f"Hugin/cpu{n} gpuUtilisation .*" for n in range(3))
EXPECTED: dict[str, Outcome] = {
    "debezium-envelope-update-with-schema.json": Outcome(
        "named refusal, not a crash", "not-cloudevent: it is a change event of Debezium .*"
    ),
    "knative-kafkasink-binary-cloudevent-kcat-dump.txt": Outcome(
        "binary content mode", "unknown-type: type 'ype=dev.knative.blog.post' is not read here.*"
    ),
    "msk-lambda-envelope-base64-records.json": Outcome(
        "dead letter with the envelope's name",
        "not-cloudevent: it is the envelope in which AWS Lambda is handed Kafka's records.*",
    ),
    "otlp-json-gauge-sum-histogram.json": Outcome(
        "named refusal, or read by an adapter",
        "not-cloudevent: it is OTLP in JSON: .*, decoder otlp-json",
        "my.service/my.service running 10; unmapped 0",  # the sum and the histogram are increments
        "otlp-json",
        OTLP,
    ),
    "otlp-json-unknown-field.json": Outcome(
        "unknown fields are to be ignored",
        "not-cloudevent: it is OTLP in JSON: .*",
        "nothing; unmapped 0",
        "otlp-json",
        OTLP,
    ),
    "prometheus-kafka-adapter-metric.avsc": Outcome(
        "named refusal",
        "not-cloudevent: it is an Avro schema, not a record of it: .*",
        "invalid-data: .*required field `value`.*",
        "prometheus",
        ADAPTER,
    ),
    "prometheus-kafka-adapter-positive-infinity.json": Outcome(
        "the sample is dropped with a reason",
        "not-cloudevent: it is prometheus-kafka-adapter's: .*",
        "not-finite: foo is inf.*",
        "prometheus",
        ADAPTER,
    ),
    "prometheus-kafka-adapter-sample.json": Outcome(
        "not a CloudEvent: named refusal",
        "not-cloudevent: it is prometheus-kafka-adapter's: .*decoder prometheus",
        "no-time: foo has no time since 1970.*",  # the test's own instant is 1970-01-01T00:00:00Z
        "prometheus",
        ADAPTER,
    ),
    "telegraf-cloudevents-batch-events.json": Outcome(
        "each element judged by itself",
        r"(unknown-type: type 'com.influxdata.telegraf.metric' .*decoder telegraf(; )?)+",
        f"{CPUS}.*; unmapped \\d+",
        "telegraf",
        TELEGRAF_CPU,
    ),
    "telegraf-cloudevents-batch-metrics.json": Outcome(
        "`data` holds many metrics",
        "unknown-type: type 'com.influxdata.telegraf.metrics' .*decoder telegraf",
        f"{CPUS}.*; unmapped \\d+",
        "telegraf",
        TELEGRAF_CPU,
    ),
    "telegraf-cloudevents-single.json": Outcome(
        "recognise by `specversion`",
        "unknown-type: type 'com.influxdata.telegraf.metric' .*decoder telegraf",
        "Hugin/cpu-total gpuUtilisation 0.996255; unmapped 9",
        "telegraf",
        TELEGRAF_CPU,
    ),
    "telegraf-json-batch.json": Outcome(
        "as standard, batch",
        "not-cloudevent: it is Telegraf's JSON in batches: .*decoder telegraf",
        ", ".join(["raynor/raynor running 30", "raynor/raynor waiting 4"] * 2) + "; unmapped 4",
        "telegraf",
        TELEGRAF_DOCKER,
    ),
    "telegraf-json-standard.json": Outcome(
        "dead letter names the producer format",
        "not-cloudevent: it is Telegraf's JSON: .*decoder telegraf",
        "raynor/raynor running 30, raynor/raynor waiting 4; unmapped 2",
        "telegraf",
        TELEGRAF_DOCKER,
    ),
}


def record_of(path: Path) -> tuple[bytes, Headers]:
    """A file's record; kcat prints headers and value of a record in lines of text."""
    text = path.read_bytes()
    if path.suffix != ".txt":
        return text, ()
    ((named,),) = [re.findall(r"^Headers: (.*)$", text.decode(), re.MULTILINE)]
    pairs = (each.partition("=") for each in named.split(","))
    (value,) = re.findall(r"^Message value: (.*)$", text.decode(), re.MULTILINE)
    return value.encode(), [(name, said.encode()) for name, _, said in pairs]


def on_our_topic(value: bytes, headers: Headers) -> str:
    found = decode_metric(value, headers, HERE, NOW - 5, NOW)
    parts = found.parts if isinstance(found, Several) else (found,)
    return "; ".join(said(one) for one in parts)


def said(one: MetricSample | Mended | Rejection | Several) -> str:
    return f"{one.reason}: {one.detail}" if isinstance(one, Rejection) else "a sample"


def by_its_decoder(outcome: Outcome, value: bytes) -> str:
    found = read(producer(outcome.decoder, **outcome.rows), value)
    if isinstance(found, Readings):
        told = [f"{'/'.join(one.pod)} {one.name} {one.value:g}" for one in found.readings]
        told += [f"{one.reason}: {one.detail}" for one in found.dropped]
        return f"{', '.join(told) or 'nothing'}; unmapped {found.unmapped}"
    return said(found)


def test_every_file_does_what_its_sources_say() -> None:
    artefacts = folder("artefacts", "REBALANCER_ARTEFACTS")
    stated = (artefacts / "SOURCES.md").read_text()
    rows, wrong = [], []
    for path in sorted((artefacts / "kafka").iterdir()):
        expected = EXPECTED[path.name]
        (line,) = [line for line in stated.splitlines() if line.startswith(f"| `{path.name}`")]
        assert expected.stated in line.split(" | ")[-1], path.name
        value, headers = record_of(path)
        found = [on_our_topic(value, headers)]
        if expected.decoder:
            found.append(by_its_decoder(expected, value))
        rows.append(f"{path.name:52} {expected.stated:42} {' | by its decoder: '.join(found)[:300]}")
        wanted = [expected.own, expected.mapped][: len(found)]
        if any(re.fullmatch(one, each) is None for one, each in zip(wanted, found, strict=True)):
            wrong.append((path.name, found))
    print("\n" + "\n".join(rows))  # noqa: T201  the table
    assert wrong == []
    assert {path.name for path in (artefacts / "kafka").iterdir()} == EXPECTED.keys()


def test_one_bad_file_spoils_no_neighbour() -> None:
    artefacts = folder("artefacts", "REBALANCER_ARTEFACTS")
    files = [path for path in sorted((artefacts / "kafka").iterdir()) if path.suffix == ".json"]
    whole = b"[" + b",".join(path.read_bytes().strip() for path in files) + b"]"
    alone = [read(producer("telegraf", **TELEGRAF_DOCKER), path.read_bytes()) for path in files]
    together = read(producer("telegraf", **TELEGRAF_DOCKER), whole)
    assert isinstance(together, Readings)
    expected = [one.value for found in alone if isinstance(found, Readings) for one in found.readings]
    assert [one.value for one in together.readings] == expected == [30.0, 4.0] * 3


@pytest.mark.parametrize("text", ["+Inf", "-Inf", "NaN"])
def test_no_infinity_of_an_adapter_ever_becomes_a_number(text: str) -> None:
    path = folder("artefacts", "REBALANCER_ARTEFACTS") / "kafka" / "prometheus-kafka-adapter-positive-infinity.json"
    value = json.dumps(json.loads(path.read_bytes()) | {"value": text}).encode()
    found = read(producer("prometheus", **ADAPTER), value)
    assert isinstance(found, Rejection)
    assert found.reason == "not-finite"
