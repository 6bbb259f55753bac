"""The chart's ways to prove who we are to Kafka, on a broker that checks it: what is mounted is enough, and rotates."""

import asyncio
from pathlib import Path

import pytest

from rebalancer.app.topics import broker_of
from rebalancer.settings.service import PREFIX, ServiceSettings
from tests.chart.helm import Json, render
from tests.chart.pod import Pod
from tests.ingest.rig import Intake
from tests.real.test_kafka_security import broker, outbox_of, ready, said_by, unsecured_token, until
from tests.testbed.secured_kafka import SecuredKafka

__all__ = ["broker"]

Sources = dict[str, dict[str, str]]


def pod_with(given: Json, folder: Path, sources: Sources) -> Pod:
    rendered = render({"kafka.caConfigMap": {"name": "ca", "key": "ca.crt"}, "policyConfigMap": "policy"} | given)
    return Pod(rendered.one("Deployment")["spec"]["template"], folder, sources | POLICY)


POLICY: Sources = {"policy": {"policy.yaml": ""}, "kube-root-ca.crt": {"ca.crt": ""}}


def settings_of(pod: Pod) -> ServiceSettings:
    ours = {name: value for name, value in pod.environment().items() if name.startswith(PREFIX)}
    return ServiceSettings(**{name.removeprefix(PREFIX).lower(): value for name, value in ours.items()})  # type: ignore[arg-type]  # as from the environment


@pytest.fixture
def sources(broker: SecuredKafka) -> Sources:
    return {"ca": {"ca.crt": broker.certificates.ca.read_text()}, "tokens": {"": "of the API server"}}


def strimzi_s(certificate: Path, key: Path) -> dict[str, str]:
    """What a Secret of Strimzi's holds for a KafkaUser."""
    return {"user.crt": certificate.read_text(), "user.key": key.read_text()}


async def rotates(pod: Pod, kafka: SecuredKafka, change: "tuple[str, dict[str, str]]") -> None:
    """With the first files nobody lets us in; when the kubelet has laid others, the same process reads and writes."""
    await asyncio.to_thread(pod.mount)
    ours = broker_of(settings_of(pod))
    async with outbox_of(ours) as outbox, Intake(ours, outbox) as intake:
        await until(lambda: intake.intake.consumer.trouble is not None)
        assert len(intake.samples) == 0
        name, held = change
        await asyncio.to_thread(Pod(pod.template, pod.folder, dict(pod.sources) | {name: held}).mount)
        await until(lambda: intake.intake.consumer.trouble is None)
        assert await outbox.send("state", b"k", b"v", deadline_seconds=20.0), outbox.trouble
        await said_by(kafka, "after")
        await until(lambda: len(intake.samples) > 0)


@pytest.mark.timeout(180)
async def test_a_certificate_from_a_secret_is_ours_and_rotates_without_a_restart(
    broker: SecuredKafka, sources: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await ready(broker, capsys)
    files = broker.certificates
    first = await asyncio.to_thread(lambda: strimzi_s(*files.client("stranger")))
    second = await asyncio.to_thread(strimzi_s, files.certificate, files.key)
    given: Json = {
        "kafka.bootstrap": broker.mtls,
        "kafka.certificateSecret": {"name": "strimzi", "certificate": "user.crt", "privateKey": "user.key"},
    }
    pod = await asyncio.to_thread(pod_with, given, tmp_path, sources | {"strimzi": first})
    await rotates(pod, broker, ("strimzi", second))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("way", ["audience", "secret"])
async def test_a_token_from_the_kubelet_or_a_secret_is_ours_and_rotates_without_a_restart(
    broker: SecuredKafka, sources: Sources, tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str
) -> None:
    await ready(broker, capsys)
    first, second = unsecured_token("rebalancer", -3600), unsecured_token("rebalancer", 3600)
    given: Json = {
        "kafka.bootstrap": broker.sasl,
        "kafka.securityProtocol": "SASL_SSL",
        "kafka.saslMechanism": "OAUTHBEARER",
    }
    if way == "audience":
        given |= {"kafka.tokenAudience": "kafka"}
        held = sources | {"tokens": sources["tokens"] | {"kafka": first}}
        change = "tokens", sources["tokens"] | {"kafka": second}
    else:
        given |= {"kafka.tokenSecret": {"name": "bearer", "key": "jwt"}}
        held = sources | {"bearer": {"jwt": first}}
        change = "bearer", {"jwt": second}
    await rotates(await asyncio.to_thread(pod_with, given, tmp_path, held), broker, change)
