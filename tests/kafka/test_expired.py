"""Certificates between us and Kafka that end: which one it was is told, and a new one is read without a restart."""

import asyncio
import random
import shutil
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from structlog.testing import capture_logs

from rebalancer.app.topics import broker_of
from rebalancer.kafka.broker import BROKER_ERRORS
from rebalancer.kafka.outbox import Outbox
from rebalancer.kafka.topic_past import PastUnreadable, read_past
from rebalancer.sandbox.broker import EmbeddedBroker
from rebalancer.settings.service import ServiceSettings
from tests.certificates import Authority
from tests.faults.wire import Wire
from tests.ingest.rig import Intake
from tests.ingest.wire import STRUCTURED, event
from tests.kafka.behind import behind
from tests.kafka.waiting import SkippingClock, until

LONG_SECONDS, ENDED = 3600.0, -1.0
EXPIRED = "certificate has expired"


class Link:
    """The way to a broker that shows a certificate and asks for one of the same CA. Issuing blocks for a moment."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority.new(folder / "ca")
        self.file = folder / "ours.pem"
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.verify_mode = ssl.CERT_REQUIRED
        self.tls.load_verify_locations(self.authority.file)
        self.theirs_ends_in(LONG_SECONDS)
        self.ours_ends_in(LONG_SECONDS)

    def theirs_ends_in(self, seconds: float) -> None:
        self.tls.load_cert_chain(self.authority.issue("theirs", seconds))

    def ours_ends_in(self, seconds: float) -> None:
        shutil.copy(self.authority.issue("ours", seconds), self.file)

    def settings(self, wire: Wire) -> ServiceSettings:
        return ServiceSettings(
            kafka_bootstrap=f"127.0.0.1:{wire.port}",
            kafka_ca_file=self.authority.file,
            kafka_cert_file=self.file,
            kafka_key_file=self.file,
        )


@pytest.fixture
async def link(tmp_path: Path) -> Link:
    return await asyncio.to_thread(Link, tmp_path)


@pytest.fixture
async def wire(embedded: EmbeddedBroker, link: Link) -> AsyncIterator[Wire]:
    async with behind(embedded, link.tls) as wire:
        yield wire


def troubled(intake: Intake, outbox: Outbox, why: str) -> bool:
    """Whether both say so."""
    return all(trouble is not None and why in trouble for trouble in (intake.intake.consumer.trouble, outbox.trouble))


async def test_at_the_start_a_certificate_that_has_expired_is_told_with_the_broker_that_shows_it(
    link: Link, wire: Wire
) -> None:
    await asyncio.to_thread(link.theirs_ends_in, ENDED)
    broker = broker_of(link.settings(wire))
    with pytest.raises(BROKER_ERRORS, match=f"127.0.0.1:{wire.port} shows a certificate that is not good: {EXPIRED}"):
        await broker.make_topics()
    with pytest.raises(PastUnreadable, match=EXPIRED):
        await read_past(broker.bootstrap, broker.topic("state"), await broker.secured())


# What a broker says of ours is told, too: tests/real/test_kafka_security.py. The embedded one just hangs up.
@pytest.mark.parametrize(("end", "why"), [(Link.theirs_ends_in, EXPIRED), (Link.ours_ends_in, "cannot be")])
async def test_one_that_ends_while_it_runs_is_told_and_a_new_one_is_read_without_a_restart(
    end: Callable[[Link, float], None], why: str, link: Link, wire: Wire, producer: AIOKafkaProducer
) -> None:
    broker, clock = broker_of(link.settings(wire)), SkippingClock()
    outbox = Outbox(broker, clock, random.Random(1))
    running = asyncio.create_task(outbox.run())
    with capture_logs() as logged:
        async with Intake(broker, outbox, clock=clock) as intake:
            await until(lambda: intake.intake.consumer.trouble is None and outbox.trouble is None)
            await asyncio.to_thread(end, link, ENDED)
            wire.cut()
            await outbox.send("state", b"k", b"v", deadline_seconds=1.0)
            await until(lambda: passes(clock) and troubled(intake, outbox, why))
            assert any(why in str(each.get("trouble")) for each in logged)
            await asyncio.to_thread(end, link, LONG_SECONDS)
            await producer.send_and_wait("rebalancer.metrics", event(time=None), headers=list(STRUCTURED))
            await until(lambda: passes(clock) and intake.samples)
            await until(lambda: passes(clock) and outbox.trouble is None)
            assert await outbox.send("state", b"k", b"v", deadline_seconds=20.0)
    running.cancel()
    await asyncio.wait({running})
    await outbox.close(1.0)


def passes(clock: SkippingClock) -> bool:
    """Time, a hundred times as fast."""
    clock.skipped += 0.5
    return True
