"""On a broker that lets nobody do what no ACL says: who we are is proved in each way, and may rotate while we run."""

import asyncio
import base64
import json
import random
import shlex
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from rebalancer.app.topics import broker_of
from rebalancer.cli.failure import UNREACHABLE
from rebalancer.kafka.broker import BROKER_ERRORS, Broker
from rebalancer.kafka.consumer import SHARE, TOPICS_SECONDS
from rebalancer.kafka.last_records import last_records
from rebalancer.kafka.outbox import Outbox, send_once
from rebalancer.kafka.topic_plan import differences, there_now
from rebalancer.loop.clock import RealClock
from rebalancer.settings.service import ServiceSettings
from tests.certificates import Authority
from tests.cli.running import rebalancer
from tests.ingest.rig import Intake, Refusing
from tests.ingest.wire import STRUCTURED, event
from tests.testbed.build import Missing, build
from tests.testbed.kafka import Kafka
from tests.testbed.place import Place
from tests.testbed.process import Reaper
from tests.testbed.secured_kafka import SecuredKafka

FIRST, SECOND = "first-password", "second-password"
PREFIX = "rebalancer."


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A broker with our topics and, for the user `rebalancer` and the certificate's, the rights that are printed."""
    reaper = Reaper()
    try:
        kafka = SecuredKafka(Place(tmp_path_factory.mktemp("secured"), reaper), build("kafka"), "rebalancer", FIRST)
    except Missing as missing:
        pytest.skip(f"the testbed cannot be built: {missing.reason}")
    yield kafka
    kafka.process.stop()
    reaper.close()


@pytest.fixture
def settings(broker: SecuredKafka, tmp_path: Path) -> ServiceSettings:
    password = tmp_path / "password"
    password.write_text(FIRST)
    return scram(broker, password)


def scram(kafka: SecuredKafka, password: Path) -> ServiceSettings:
    return ServiceSettings(
        kafka_bootstrap=kafka.sasl,
        kafka_security_protocol="SASL_SSL",
        kafka_username="rebalancer",
        kafka_password_file=password,
        kafka_ca_file=kafka.certificates.ca,
    )


def admin(kafka: SecuredKafka) -> Broker:
    return broker_of(ServiceSettings(kafka_bootstrap=kafka.admin, kafka_security_protocol="PLAINTEXT"))


async def said_by(kafka: SecuredKafka, name: str) -> None:
    await send_once(admin(kafka), f"{PREFIX}metrics", event(id=name, time=None), list(STRUCTURED))


async def until(condition: "object", seconds: float = 30.0) -> None:
    """Wait until `condition()` holds; fails after so long."""
    assert callable(condition)
    async with asyncio.timeout(seconds):
        while not condition():
            await RealClock().sleep(0.1)


@asynccontextmanager
async def outbox_of(broker: Broker) -> AsyncIterator[Outbox]:
    outbox = Outbox(broker, RealClock(), random.Random(1))
    running = asyncio.create_task(outbox.run())
    yield outbox
    running.cancel()
    await outbox.close()


async def ready(kafka: SecuredKafka, capsys: pytest.CaptureFixture[str]) -> None:
    """Topics made by our command, rights given by Kafka's tool as our command prints them; again is the same."""
    bootstrap = ("--kafka-bootstrap", kafka.admin, "--replication", "1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REBALANCER_KAFKA_SECURITY_PROTOCOL", "PLAINTEXT")
        assert await rebalancer("topics", "--create", *bootstrap) == 0
        capsys.readouterr()
        for user in ("rebalancer", "CN=testbed"):
            assert await rebalancer("topics", "--print", "commands", "--user", user, *bootstrap) == 0
            for line in capsys.readouterr().out.splitlines():
                tool, _, _, *rest = shlex.split(line)
                if tool == "kafka-acls":
                    await asyncio.to_thread(kafka.grant, *rest)


async def reads_and_writes(settings: ServiceSettings, kafka: SecuredKafka) -> None:
    """The service's own parts do what they need to, with the rights that were printed."""
    broker = broker_of(settings)
    async with outbox_of(broker) as outbox:
        for topic in ("state", "decisions", "dead-letter"):
            assert await outbox.send(topic, b"k", b"v", deadline_seconds=20.0), (topic, outbox.trouble)
        async with Intake(broker, outbox) as intake:
            await until(lambda: intake.intake.consumer.trouble is None)
            await said_by(kafka, "x")
            await until(lambda: len(intake.samples) > 0)


@pytest.mark.timeout(180)
async def test_scram_over_tls_with_the_rights_that_are_printed_is_all_that_the_service_needs(
    broker: SecuredKafka, settings: ServiceSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    await ready(broker, capsys)
    await reads_and_writes(settings, broker)
    with pytest.raises(KafkaError, match="TopicAuthorizationFailed"):
        await send_once(broker_of(settings), f"{PREFIX}metrics", event(), list(STRUCTURED))


@pytest.mark.timeout(180)
async def test_rights_that_are_given_are_those_that_are_printed(
    broker: SecuredKafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REBALANCER_KAFKA_SECURITY_PROTOCOL", "PLAINTEXT")
    bootstrap = ("--kafka-bootstrap", broker.admin, "--replication", "1", "--aggregate")
    assert await rebalancer("topics", "--create", "--user", "CN=given", *bootstrap) == 0
    said = capsys.readouterr().out.splitlines()
    assert "User:CN=given may Read and Describe: group rebalancer.aggregate" in said
    assert await rebalancer("topics", "--create", "--user", "CN=given", *bootstrap) == 0, "what is there already stays"
    assert "made" not in capsys.readouterr().out
    assert await rebalancer("topics", "--print", "commands", "--user", "CN=given", *bootstrap) == 0
    printed = set()
    for line in capsys.readouterr().out.splitlines():
        tool, *rest = shlex.split(line)
        named = [(name, value) for name, value in pairwise(rest) if name.startswith("--")]
        operations = [value for name, value in named if name == "--operation"]
        things = [(name[2:].upper(), value) for name, value in named if name in {"--topic", "--group"}]
        if tool == "kafka-acls":
            printed |= {(kind, name, operation.upper()) for kind, name in things for operation in operations}
    assert await asyncio.to_thread(broker.rights, "User:CN=given") == printed
    assert ("TOPIC", "rebalancer.metrics", "WRITE") not in printed


@pytest.mark.timeout(180)
async def test_who_may_not_give_rights_gets_the_commands_for_somebody_who_may(
    broker: SecuredKafka,
    settings: ServiceSettings,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await ready(broker, capsys)
    for name in ("security_protocol", "username", "password_file", "ca_file"):
        monkeypatch.setenv(f"REBALANCER_KAFKA_{name.upper()}", str(getattr(settings, f"kafka_{name}")))
    monkeypatch.setenv("REBALANCER_KAFKA_BOOTSTRAP", broker.sasl)
    assert await rebalancer("topics", "--create", "--user", "somebody", "--replication", "1") == 1
    said = capsys.readouterr().out
    assert "Not all rights of User:somebody are given:" in said
    assert "ClusterAuthorizationFailed" in said
    assert "  kafka-acls --add --allow-principal User:somebody --operation Read" in said
    assert await asyncio.to_thread(broker.rights, "User:somebody") == set()


@pytest.mark.timeout(180)
async def test_brokers_that_check_nobody_s_rights_are_told_of(
    kafka: Kafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, topic_prefix: str
) -> None:
    monkeypatch.setenv("REBALANCER_KAFKA_SECURITY_PROTOCOL", "PLAINTEXT")
    monkeypatch.setenv("REBALANCER_TOPIC_PREFIX", topic_prefix)
    monkeypatch.setenv("REBALANCER_KAFKA_BOOTSTRAP", kafka.bootstrap)
    assert await rebalancer("topics", "--create", "--user", "it", "--replication", "1") == 1
    said = capsys.readouterr().out
    assert f"{topic_prefix}metrics made" in said
    assert "the brokers have no authorizer: whoever reaches them may do all" in said


@pytest.mark.timeout(180)
async def test_what_differs_is_told_and_nothing_is_changed(
    broker: SecuredKafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await ready(broker, capsys)
    names = [f"{PREFIX}metrics", f"{PREFIX}notices"]
    await asyncio.to_thread(broker.configure, "--alter", "--entity-type", "topics", "--entity-name", names[1],
               "--add-config", "retention.ms=1000")  # fmt: skip
    monkeypatch.setenv("REBALANCER_KAFKA_SECURITY_PROTOCOL", "PLAINTEXT")
    bootstrap = ("--kafka-bootstrap", broker.admin, "--replication", "1")
    assert await rebalancer("topics", "--exit-code", *bootstrap) == 3
    said = capsys.readouterr().out
    assert said.splitlines() == [
        f"{names[1]} has retention.ms 1000, not 604800000",
        f"  kafka-configs --alter --entity-type topics --entity-name {names[1]} --add-config retention.ms=604800000",
    ]
    (command,) = [shlex.split(line) for line in said.splitlines() if line.startswith("  ")]
    await asyncio.to_thread(broker.configure, *command[1:])
    there = await there_now(admin(broker), [f"{PREFIX}{name}" for name in ("metrics", "notices")])
    assert [one for one in differences(PREFIX, there, 1) if one.topic in names] == []
    assert await rebalancer("topics", "--exit-code", *bootstrap) == 0


@pytest.mark.timeout(180)
async def test_a_password_rotates_while_the_service_runs(
    broker: SecuredKafka, settings: ServiceSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    await ready(broker, capsys)
    ours = broker_of(settings)
    assert settings.kafka_password_file is not None
    async with outbox_of(ours) as outbox, Intake(ours, outbox) as intake:
        await until(lambda: intake.intake.consumer.trouble is None and outbox.trouble is None)
        await asyncio.to_thread(broker.set_password, SECOND)
        with pytest.raises(BROKER_ERRORS):
            await last_records(ours, f"{PREFIX}metrics", 1)  # a new client with the old password
        await asyncio.to_thread(settings.kafka_password_file.write_text, SECOND)
        await until(lambda: intake.intake.counts["reconnects"] > 0 and intake.intake.consumer.trouble is None)
        await until(lambda: outbox.counts["connected"] > 1)
        before = len(intake.samples)
        await said_by(broker, "after")
        await until(lambda: len(intake.samples) > before)
        assert await outbox.send("state", b"k", b"v", deadline_seconds=20.0), outbox.trouble
    await asyncio.to_thread(broker.set_password, FIRST)


@pytest.mark.timeout(180)
async def test_a_certificate_proves_who_we_are_and_without_one_nobody_is_let_in(
    broker: SecuredKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    await ready(broker, capsys)
    files = broker.certificates
    anybody = ServiceSettings(kafka_bootstrap=broker.mtls, kafka_ca_file=files.ca)
    shown = ServiceSettings(
        kafka_bootstrap=broker.mtls, kafka_ca_file=files.ca, kafka_cert_file=files.certificate, kafka_key_file=files.key
    )
    await reads_and_writes(shown, broker)
    with pytest.raises(BROKER_ERRORS):
        await last_records(broker_of(anybody), f"{PREFIX}metrics", 1)


def unsecured_token(user: str, seconds: float) -> str:
    """A token without a signature, as the broker's default for tests takes it."""
    now = time.time()
    parts = {"alg": "none"}, {"sub": user, "iat": now, "exp": now + seconds}
    return ".".join(base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in parts) + "."


@pytest.mark.timeout(180)
async def test_a_token_in_a_file_proves_who_we_are(
    broker: SecuredKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await ready(broker, capsys)
    file = tmp_path / "token"
    await asyncio.to_thread(file.write_text, unsecured_token("rebalancer", 3600))
    by_token = ServiceSettings(
        kafka_bootstrap=broker.sasl,
        kafka_security_protocol="SASL_SSL",
        kafka_sasl_mechanism="OAUTHBEARER",
        kafka_token_file=file,
        kafka_ca_file=broker.certificates.ca,
    )
    await reads_and_writes(by_token, broker)
    await asyncio.to_thread(file.write_text, unsecured_token("rebalancer", -3600))
    with pytest.raises(BROKER_ERRORS):
        await last_records(broker_of(by_token), f"{PREFIX}metrics", 1)


@pytest.mark.timeout(180)
async def test_a_topic_that_may_be_seen_and_not_read_holds_up_no_other_and_is_read_once_it_may_be(
    broker: SecuredKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await ready(broker, capsys)
    await may(broker, "narrow", "Describe", "metrics", "notices", "overrides", "state", "decisions", "dead-letter")
    await may(broker, "narrow", "Read", "metrics", "notices")
    file = tmp_path / "token"
    await asyncio.to_thread(file.write_text, unsecured_token("narrow", 3600))
    narrow = broker_of(
        ServiceSettings(
            kafka_bootstrap=broker.sasl,
            kafka_security_protocol="SASL_SSL",
            kafka_sasl_mechanism="OAUTHBEARER",
            kafka_token_file=file,
            kafka_ca_file=broker.certificates.ca,
        )
    )
    async with Intake(narrow, Refusing()) as intake:
        consumer = intake.intake.consumer
        await until(lambda: consumer.trouble is not None and "no right to read" in consumer.trouble)
        assert consumer.trouble == "no right to read rebalancer.overrides: allow the operation Read"
        before = len(intake.samples)
        async with AIOKafkaProducer(bootstrap_servers=broker.admin) as producer:
            for number in range(10 * SHARE):
                await producer.send(f"{PREFIX}metrics", event(id=f"n{number}", time=None), headers=list(STRUCTURED))
        await until(lambda: len(intake.samples) == before + 10 * SHARE, 8.0)
        await until(lambda: consumer.stuck_by_topic()["overrides"] > 3 > consumer.stuck_by_topic()["metrics"])
        await may(broker, "narrow", "Read", "overrides")
        await until(lambda: consumer.trouble is None, TOPICS_SECONDS + 10)
        assert intake.intake.counts["reconnects"] == 0


async def may(kafka: SecuredKafka, user: str, operation: str, *topics: str) -> None:
    named = [word for topic in topics for word in ("--topic", f"{PREFIX}{topic}")]
    await asyncio.to_thread(kafka.grant, "--add", "--allow-principal", f"User:{user}", "--operation", operation, *named)


@pytest.mark.timeout(180)
async def test_of_a_certificate_of_ours_that_has_expired_is_told_what_the_broker_says(
    broker: SecuredKafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = await asyncio.to_thread(Authority.of, broker.certificates.folder)
    expired = await asyncio.to_thread(authority.issue, "expired", -1.0)
    ours = {"bootstrap": broker.mtls, "ca_file": authority.file, "cert_file": expired, "key_file": expired}
    for name, value in ours.items():
        monkeypatch.setenv(f"REBALANCER_KAFKA_{name.upper()}", str(value))
    assert await rebalancer("topics") == UNREACHABLE
    told = capsys.readouterr().err
    assert f"{broker.mtls} does not take our certificate; has it expired, is its CA known there? (SSL" in told
