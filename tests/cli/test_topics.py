"""`rebalancer topics --print`: what the service needs in the words of Kafka's tools and of Strimzi, without a broker.

What it says of a real broker and makes there: tests/real/test_kafka_security.py.
"""

import shlex

import pytest
import yaml

from rebalancer.ingest.intake import SINCE_SECONDS
from rebalancer.kafka.broker import TOPICS, Topic
from rebalancer.kafka.topic_plan import READ, WRITTEN, ThereTopic, differences, wanted
from tests.cli.running import rebalancer
from tests.house.repository import ROOT

POLICY = ("--policy", str(ROOT / "config/policy.yaml"))
Captured = pytest.CaptureFixture[str]


async def test_commands_make_every_topic_and_give_the_rights_that_are_needed(capsys: Captured) -> None:
    printed = ("topics", "--print", "commands", "--user", "it", "--replication", "2", "--kafka-bootstrap", "k:9093")
    assert await rebalancer(*printed, *POLICY) == 0
    lines = [shlex.split(line) for line in capsys.readouterr().out.splitlines()]
    assert all(line[1:3] == ["--bootstrap-server", "k:9093"] for line in lines)
    made = [line[line.index("--topic") + 1] for line in lines if line[0] == "kafka-topics"]
    assert made == [f"rebalancer.{name}" for name in TOPICS]
    read, written = ([each for each in line if "." in each] for line in lines if line[0] == "kafka-acls")
    assert read == [f"rebalancer.{name}" for name in READ]
    assert "telegraf-metrics" in shlex.join(next(line for line in lines if "Read" in line))
    assert written == [f"rebalancer.{name}" for name in WRITTEN]


async def test_who_reads_a_queue_of_notices_may_write_them_and_nobody_else(capsys: Captured) -> None:
    for options, may in (((), False), (("--notice-queue",), True)):
        assert await rebalancer("topics", "--print", "commands", *options) == 0
        lines = [shlex.split(line) for line in capsys.readouterr().out.splitlines()]
        (written,) = [line for line in lines if line[0] == "kafka-acls" and "Write" in line]
        assert ("rebalancer.notices" in written) is may


async def test_strimzi_s_yaml_says_the_same(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REBALANCER_TOPIC_PREFIX", "My_")
    assert await rebalancer("topics", "--print", "strimzi", *POLICY) == 0
    *topics, user = yaml.safe_load_all(capsys.readouterr().out)
    assert [topic["spec"]["topicName"] for topic in topics] == [f"My_{name}" for name in TOPICS]
    assert {each["apiVersion"] for each in (*topics, user)} == {"kafka.strimzi.io/v1"}  # Strimzi 1.0 has no other
    assert topics[0]["metadata"]["name"] == "my-metrics"
    assert topics[0]["spec"]["config"] == {"cleanup.policy": "delete", "retention.ms": "86400000"}
    acls = user["spec"]["authorization"]["acls"]
    assert {acl["resource"]["name"] for acl in acls if "Write" in acl["operations"]} == {
        f"My_{name}" for name in WRITTEN
    }


async def test_without_a_broker_to_ask_it_says_which_setting_is_missing(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REBALANCER_KAFKA_BOOTSTRAP", raising=False)
    assert await rebalancer("topics") == 2
    assert "REBALANCER_KAFKA_BOOTSTRAP is not set" in capsys.readouterr().err


async def test_a_broker_that_is_away_is_exit_code_4(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REBALANCER_KAFKA_SECURITY_PROTOCOL", "PLAINTEXT")
    assert await rebalancer("topics", "--create", "--kafka-bootstrap", "127.0.0.1:1") == 4
    assert capsys.readouterr().err.splitlines() == [
        (
            "error: Kafka at 127.0.0.1:1: no connection by PLAINTEXT. Is that the address, and is PLAINTEXT what its "
            "listener speaks? REBALANCER_KAFKA_SECURITY_PROTOCOL says what is spoken"
        )
    ]


def as_wanted(topic: Topic) -> ThereTopic:
    return ThereTopic(topic.partitions, {**topic.settings, "max.message.bytes": "1"})


def test_more_partitions_and_other_settings_than_ours_are_no_difference() -> None:
    there = {name: as_wanted(topic) for name, topic in wanted("p.").items()}
    there["p.metrics"] = there["p.metrics"]._replace(partitions=48)
    assert list(differences("p.", there, 3)) == []


def test_fewer_partitions_are_a_difference_with_the_command_that_adds_them() -> None:
    there = {name: as_wanted(topic) for name, topic in wanted("p.").items()}
    there["p.metrics"] = there["p.metrics"]._replace(partitions=4)
    (one,) = differences("p.", there, 3)
    assert (one.what, one.command[-1]) == ("has 4 of 12 partitions", "12")


def test_topics_keep_their_records_as_long_as_a_start_reads_back() -> None:
    for name, seconds in SINCE_SECONDS.items():
        made = TOPICS[name].settings
        whole = made["min.compaction.lag.ms"] if made["cleanup.policy"] == "compact" else made["retention.ms"]
        assert int(whole) > 2000 * seconds
