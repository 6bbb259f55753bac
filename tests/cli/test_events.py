"""`rebalancer events check`: what the service would understand of a file or a topic, and an exit code for CI."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from rebalancer.cli.commands.events import ReadAs
from rebalancer.ingest.producers.formats import DECODERS
from rebalancer.sandbox.broker import EmbeddedBroker
from tests.cli.running import rebalancer
from tests.house.repository import ROOT
from tests.ingest.producers.records import RUNNING
from tests.ingest.test_unreadable import send
from tests.ingest.wire import STRUCTURED, event, notice

Captured = pytest.CaptureFixture[str]


@pytest.fixture
async def broker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EmbeddedBroker]:
    async with EmbeddedBroker({"t-metrics": 1, "t-notices": 1, "telegraf-metrics": 1, "other": 1}) as running:
        monkeypatch.setenv("REBALANCER_KAFKA_BOOTSTRAP", running.bootstrap)
        monkeypatch.setenv("REBALANCER_KAFKA_SECURITY_PROTOCOL", "PLAINTEXT")
        monkeypatch.setenv("REBALANCER_TOPIC_PREFIX", "t-")
        yield running


async def check(source: str, *options: str) -> int:
    return await rebalancer("events", "check", source, *options, "--at", "2027-01-15T08:00:00Z")


async def write(broker: EmbeddedBroker, topic: str, *values: bytes, structured: bool = False) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for value in values:
            await producer.send_and_wait(topic, value, headers=list(STRUCTURED) if structured else [])


async def test_each_line_of_a_file_is_told_with_its_place(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "records.jsonl"
    file.write_bytes(RUNNING["telegraf"] + b"\n\nnot json\n" + event() + b"\n")
    assert await check(str(file), "--as", "telegraf") == 1
    said = capsys.readouterr().out
    assert f"{file}:1:\n  + serving/llama-70b-0: running 12\n" in said
    assert f"{file}:3:\n  ! not-json: " in said
    assert f"{file}:4:\n  ! invalid-data: " in said
    assert "3 records: 1 understood (1 reading of 1 subject), 2 dropped." in said


@pytest.mark.parametrize(("late", "expected"), [(224, []), (226, ["! At least 3m46s old, and counts for nothing"])])
async def test_a_pod_whose_newest_reading_is_too_old_to_count_is_named(
    late: int, expected: list[str], tmp_path: Path, capsys: Captured
) -> None:
    def record(pod: str, seconds: int) -> bytes:
        tags = {"namespace": "serving", "pod": pod}
        fields = {"vllm:num_requests_running": 12}
        whole = {"name": "prometheus", "tags": tags, "fields": fields, "timestamp": 1_800_000_000 - seconds}
        return json.dumps(whole).encode()

    file = tmp_path / "records.jsonl"
    file.write_bytes(
        b"\n".join((record("fresh", 3600), record("fresh", 2), record("late", 7200), record("late", late)))
    )
    assert await check(str(file), "--as", "telegraf") == 0
    lines = [line.partition(": ") for line in capsys.readouterr().out.splitlines() if line.startswith("!")]
    assert [what for what, _, _ in lines] == expected
    assert all(rest.startswith("serving/late. Look at the producer's clock") for _, _, rest in lines)


async def test_a_good_file_is_exit_code_0_and_json_has_the_same(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "sample.json"
    file.write_text(json.dumps(json.loads(event()), indent=2))
    assert await check(str(file), "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["summary"] == {
        "records": 1,
        "understood": 1,
        "readings": 13,  # gauges and counters
        "notices": 0,
        "subjects": 1,
        "dropped": 0,
        "unmapped": 0,
    }
    assert {"of": "5f0c6a3e-7a5f-4b0e-9d61-7f6b0f5b8a10", "gauge": "running", "value": 12.0} in told["records"][0][
        "readings"
    ]


async def test_records_of_which_nothing_is_asked_for_fail(tmp_path: Path) -> None:
    file = tmp_path / "empty.json"
    file.write_text('{"resourceMetrics": []}')
    assert await check(str(file), "--as", "otlp-json") == 1


async def test_kcat_s_json_has_headers_and_places(tmp_path: Path, capsys: Captured) -> None:
    line = {
        "topic": "m",
        "partition": 2,
        "offset": 7,
        "ts": 1_800_000_000_000,
        "headers": ["content-type", "application/cloudevents+json"],
        "payload": event().decode(),
    }
    file = tmp_path / "dump.jsonl"
    file.write_text(json.dumps(line))
    assert await check(str(file)) == 0
    assert "m/2@7:\n  + 5f0c6a3e-7a5f-4b0e-9d61-7f6b0f5b8a10: running 12" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("form", "good"),
    [((), event()), (("--as", "telegraf"), RUNNING["telegraf"]), (("--as", "notices"), notice())],
    ids=["ours", "telegraf", "notices"],
)
async def test_a_tombstone_is_told_and_is_no_fault(
    form: tuple[str, ...], good: bytes, tmp_path: Path, capsys: Captured
) -> None:
    """The service counts it and goes on; `kcat -J` prints its value as null."""
    line = {"topic": "m", "partition": 2, "offset": 7, "ts": 1_800_000_000_000, "key": "k", "payload": None}
    file = tmp_path / "dump.jsonl"
    file.write_bytes(json.dumps(line).encode() + b"\n" + good + b"\n")
    assert await check(str(file), *form) == 0
    said = capsys.readouterr().out
    assert "m/2@7: a tombstone, which has no value and counts for nothing\n" in said
    assert "2 records: 1 understood" in said


async def test_a_tombstone_in_a_topic_is_told_too(broker: EmbeddedBroker, capsys: Captured) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        await producer.send_and_wait("t-metrics", None, key=b"k")
    await write(broker, "t-metrics", event())
    assert await check("t-metrics") == 0
    assert "t-metrics/0@0: a tombstone" in capsys.readouterr().out


async def test_a_topic_of_the_policy_is_read_by_its_rows(broker: EmbeddedBroker, capsys: Captured) -> None:
    own = {
        "name": "my_engine_active_requests",
        "fields": {"gauge": 4},
        "tags": {"namespace": "serving", "pod_name": "p"},
    }
    await write(broker, "telegraf-metrics", RUNNING["telegraf"], json.dumps(own).encode(), b"[]")
    policy = str(ROOT / "config/policy.yaml")
    assert await check("telegraf-metrics", "--policy", policy) == 0
    said = capsys.readouterr().out
    assert "telegraf-metrics/0@0:\n  + serving/llama-70b-0: running 12" in said
    assert "telegraf-metrics/0@1:\n  + serving/p: running 4" in said


async def test_our_own_topics_need_no_policy(broker: EmbeddedBroker, capsys: Captured) -> None:
    await write(broker, "t-metrics", event(), b"{}", structured=True)
    await write(broker, "t-notices", notice(), structured=True)
    assert await check("t-metrics") == 1
    assert "t-metrics/0@1:\n  ! bad-envelope: " in capsys.readouterr().out
    await check("t-notices")
    assert "n1 goes: spot-interruption (certain)" in capsys.readouterr().out


async def test_our_own_topics_are_read_as_ours_although_the_policy_gives_them_to_a_producer(
    broker: EmbeddedBroker, tmp_path: Path, capsys: Captured
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text((ROOT / "config/policy.yaml").read_text().replace("telegraf-metrics", "t-notices"))
    await write(broker, "t-notices", notice(), structured=True)
    await check("t-notices", "--policy", str(policy))
    assert "n1 goes: spot-interruption (certain)" in capsys.readouterr().out


@pytest.mark.parametrize("topic", ["t-readings", "t-overrides", "t-decisions", "t-state", "t-dead-letter"])
async def test_our_own_topics_without_metrics_or_notices_are_nobody_s_although_the_policy_gives_them_to_a_producer(
    broker: EmbeddedBroker, tmp_path: Path, capsys: Captured, topic: str
) -> None:
    await write(broker, topic, RUNNING["telegraf"])
    policy = tmp_path / "policy.yaml"
    policy.write_text((ROOT / "config/policy.yaml").read_text().replace("telegraf-metrics", topic))
    assert await check(topic, "--policy", str(policy)) == 2
    assert f"{topic} is our own" in capsys.readouterr().err


async def test_only_the_newest_records_of_a_topic_are_asked_for(broker: EmbeddedBroker, capsys: Captured) -> None:
    await write(broker, "t-metrics", *(event(id=str(number)) for number in range(5)), structured=True)
    assert await check("t-metrics", "--limit", "2", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["where"] for one in told["records"]] == ["t-metrics/0@3", "t-metrics/0@4"]


async def test_records_that_the_client_cannot_decode_are_counted_as_dropped_and_the_others_are_told(
    broker: EmbeddedBroker, capsys: Captured
) -> None:
    """The name of a header of theirs is no UTF-8."""
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        await send(producer, "t-metrics", (event(id="1"), True), (event(id="2"), False))
        await send(producer, "t-metrics", (event(id="3"), True))
    assert await check("t-metrics", "-o", "json") == 1
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert [one["where"] for one in told["records"]] == ["t-metrics/0@0", "t-metrics/0@2", "t-metrics"]
    assert (told["summary"]["understood"], told["summary"]["dropped"]) == (2, 1)
    assert "1 record that Kafka's client cannot decode" in told["records"][-1]["dropped"][0]
    assert "Traceback" not in err


async def test_a_topic_that_nobody_explains_is_exit_code_2(broker: EmbeddedBroker, capsys: Captured) -> None:
    await write(broker, "other", b"{}")
    assert await check("other") == 2
    assert "give --policy" in capsys.readouterr().err


async def test_what_is_neither_file_nor_topic_is_exit_code_2(broker: EmbeddedBroker, capsys: Captured) -> None:
    assert await check("nowhere") == 2
    assert f"nowhere is no file here and no topic of {broker.bootstrap}" in capsys.readouterr().err


async def test_where_no_kafka_is_named_what_is_no_file_is_told_to_be_none(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.delenv("REBALANCER_KAFKA_BOOTSTRAP", raising=False)
    assert await check("nowhere.json") == 2
    said = capsys.readouterr().err
    assert "nowhere.json is no file here, and no topic can be read: REBALANCER_KAFKA_BOOTSTRAP is not set" in said


@pytest.mark.parametrize("given", [(), ("--kafka-bootstrap", "127.0.0.1:1")])
async def test_a_setting_that_is_not_good_is_named_as_the_service_names_it(
    given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("REBALANCER_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("REBALANCER_KAFKA_SECURITY_PROTOCOL", "TLS")
    assert await check("t-metrics", *given) == 2
    said = capsys.readouterr().err
    assert "REBALANCER_KAFKA_SECURITY_PROTOCOL=TLS: allowed" in said
    assert "validation error" not in said
    assert "pydantic" not in said


async def test_a_broker_that_is_away_is_exit_code_4(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("REBALANCER_KAFKA_SECURITY_PROTOCOL", "PLAINTEXT")
    assert await check("t-metrics", "--kafka-bootstrap", "127.0.0.1:1") == 4
    assert "t-metrics cannot be read. Kafka at 127.0.0.1:1: no connection by PLAINTEXT" in capsys.readouterr().err


def test_every_decoder_can_be_chosen() -> None:
    assert {one.value for one in ReadAs} == {*DECODERS, "rebalancer", "notices"}
