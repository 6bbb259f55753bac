"""Capacity notices from the command line: what is written is what the service reads."""

import json
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from rebalancer.cli.commands.notice import NoticeKind
from rebalancer.domain.events import CapacityNotice, Position
from rebalancer.domain.notice_kinds import KINDS
from rebalancer.domain.pool_view import PoolView
from rebalancer.domain.snapshot import Snapshot
from rebalancer.ingest.notices import decode_notice
from rebalancer.sandbox.broker import EmbeddedBroker
from tests.builders import a_node
from tests.cli.night import Night
from tests.cli.running import rebalancer
from tests.cli.scene import NOW

Captured = pytest.CaptureFixture[str]


@pytest.fixture
async def broker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EmbeddedBroker]:
    async with EmbeddedBroker({"t-notices": 1}) as running:
        monkeypatch.setenv("REBALANCER_KAFKA_BOOTSTRAP", running.bootstrap)
        monkeypatch.setenv("REBALANCER_KAFKA_SECURITY_PROTOCOL", "PLAINTEXT")
        monkeypatch.setenv("REBALANCER_TOPIC_PREFIX", "t-")
        yield running


async def _read(broker: EmbeddedBroker, records: int = 1) -> list[CapacityNotice]:
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    async with consumer:
        consumer.assign([TopicPartition("t-notices", 0)])
        return [_notice(await consumer.getone()) for _ in range(records)]


def _notice(record: ConsumerRecord[bytes, bytes]) -> CapacityNotice:
    at = record.timestamp / 1000
    assert record.value is not None
    decoded = decode_notice(record.value, record.headers, Position("t-notices", 0, record.offset), at, at + 60)
    assert isinstance(decoded, tuple), decoded
    return decoded[0]


async def test_the_service_reads_what_was_written(broker: EmbeddedBroker, capsys: Captured) -> None:
    assert await rebalancer("notice", "add", "spot-2", "--in", "2m", "--kind", "scheduled-change", "--yes") == 0
    assert "written to t-notices" in capsys.readouterr().out
    (notice,) = await _read(broker)
    assert (notice.node, notice.kind, notice.cancelled, notice.voluntary) == (
        "spot-2",
        "scheduled-change",
        False,
        False,
    )
    assert notice.deadline - notice.at == pytest.approx(120, abs=0.01)


async def test_a_notice_can_be_taken_back_by_its_kind(broker: EmbeddedBroker) -> None:
    assert await rebalancer("notice", "add", "spot-2", "--cancel", "--kind", "fault", "--yes") == 0
    assert await rebalancer("notice", "add", "spot-2", "--yes") == 0
    taken, told = await _read(broker, 2)
    assert (taken.cancelled, taken.kind, told.cancelled) == (True, "fault", False)


async def test_without_a_kind_notices_of_every_kind_are_taken_back(broker: EmbeddedBroker) -> None:
    assert await rebalancer("notice", "add", "spot-2", "--cancel", "--yes") == 0
    assert await rebalancer("notice", "add", "spot-2", "--yes") == 0
    *taken, told = await _read(broker, len(KINDS) + 1)
    assert {notice.kind for notice in taken if notice.cancelled} == KINDS.keys()
    assert (told.kind, told.cancelled) == ("spot-interruption", False)


async def test_nobody_there_to_ask_writes_nothing(broker: EmbeddedBroker, capsys: Captured) -> None:
    assert await rebalancer("notice", "add", "spot-2") == 2
    assert "add --yes" in capsys.readouterr().err


async def test_a_broker_that_is_away_is_exit_code_4(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("REBALANCER_KAFKA_SECURITY_PROTOCOL", "PLAINTEXT")
    assert await rebalancer("notice", "add", "spot-2", "--yes", "--kafka-bootstrap", "127.0.0.1:1") == 4
    assert capsys.readouterr().err.startswith("error: nothing was written to rebalancer.notices. Kafka at 127.0.0.1:1")


async def test_without_kafka_settings_it_says_which_one_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.delenv("REBALANCER_KAFKA_BOOTSTRAP", raising=False)
    assert await rebalancer("notice", "add", "spot-2", "--yes") == 2
    assert "REBALANCER_KAFKA_BOOTSTRAP is not set" in capsys.readouterr().err


async def test_a_dry_run_shows_the_event_and_needs_no_kafka(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.delenv("REBALANCER_KAFKA_BOOTSTRAP", raising=False)
    assert await rebalancer("notice", "add", "spot-2", "--in", "2m", "--dry-run") == 0
    event = json.loads(capsys.readouterr().out)
    assert (event["data"]["node"], event["data"]["kind"]) == ("spot-2", "spot-interruption")


async def test_an_end_beyond_any_calendar_is_refused_in_words(capsys: Captured) -> None:
    assert await rebalancer("notice", "add", "n1", "--in", "4000000d", "--dry-run") == 2
    assert "--in 4000000d is too long: allowed up to 3650d" in capsys.readouterr().err


def test_every_kind_can_be_told() -> None:
    assert {kind.value for kind in NoticeKind} == KINDS.keys()


async def test_a_notice_may_name_an_instance_and_how_sure_it_is_comes_from_its_kind(broker: EmbeddedBroker) -> None:
    assert await rebalancer("notice", "add", "--instance", "aws:///eu-west-1a/i-1", "--kind", "fault", "--yes") == 0
    (notice,) = await _read(broker)
    assert (notice.node, notice.instance_id, notice.kind) == (None, "aws:///eu-west-1a/i-1", "fault")
    assert notice.confidence == "likely"


@pytest.mark.parametrize("names", [(), ("spot-2", "--instance", "i-1")], ids=["neither", "both"])
async def test_it_is_a_node_or_an_instance(
    broker: EmbeddedBroker,
    capsys: pytest.CaptureFixture[str],
    names: tuple[str, ...],
) -> None:
    assert await rebalancer("notice", "add", *names, "--yes") == 2
    assert "give either a NODE or --instance" in capsys.readouterr().err


async def test_a_node_is_named_as_kubectl_prints_it_too_and_as_nothing_else(capsys: Captured) -> None:
    assert await rebalancer("notice", "add", "node/spot-2", "--dry-run") == 0
    assert json.loads(capsys.readouterr().out)["data"]["node"] == "spot-2"
    for wrong in ("pool/spot", "node/spot/2", "node/"):
        assert await rebalancer("notice", "add", wrong, "--dry-run") == 2
        assert f"{wrong} is no node: say NAME or node/NAME" in capsys.readouterr().err


async def test_a_node_that_the_service_does_not_see_is_warned_of_and_told_all_the_same(
    broker: EmbeddedBroker, server: str, night: Night, capsys: Captured
) -> None:
    night.snapshot = Snapshot(cycle=1, at=NOW, pools=(PoolView("spot", nodes=(a_node("spot-2"),)),))
    assert await rebalancer("notice", "add", "spot-2", "--yes", "--server", server) == 0
    assert capsys.readouterr().err == ""
    assert await rebalancer("notice", "add", "spto-2", "--yes", "--server", server) == 0
    warning = "warning: no such node is seen in the policy's pools: spto-2; did you mean spot-2?\n"
    assert capsys.readouterr().err == warning
    assert await rebalancer("notice", "add", "spto-2", "--yes", "--server", "http://127.0.0.1:1") == 0
    assert capsys.readouterr().err == ""


async def test_a_notice_is_written_before_the_service_is_asked_about_its_node(
    broker: EmbeddedBroker, server: str, night: Night
) -> None:
    here = ("notice", "add", "spot-2", "--yes", "--server", server)
    assert await rebalancer(*here, "--kafka-bootstrap", "127.0.0.1:1") == 4
    assert night.paths == []
    assert await rebalancer(*here) == 0
    assert night.paths == ["/v1/snapshot"]


@pytest.mark.parametrize("way", ["--yes", "--dry-run"])
async def test_a_quiet_notice_asks_nobody_about_its_node(
    broker: EmbeddedBroker, server: str, night: Night, way: str
) -> None:
    assert await rebalancer("notice", "add", "spot-2", way, "--quiet", "--server", server) == 0
    assert night.paths == []
