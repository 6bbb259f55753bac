"""Signed overrides wait for their object: none is lost while the API server is away, and bad ones say why."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from aiokafka import AIOKafkaProducer

from rebalancer.ingest.intake import KafkaIntake
from rebalancer.ingest.override_queue import WAITING_AT_MOST, TryAgain
from rebalancer.ingest.signed import Signatures, SignedOverride, signed_record
from rebalancer.kafka.broker import Broker
from rebalancer.kube.moment import written_as
from tests.ingest.rig import Refusing
from tests.kafka.waiting import SkippingClock, time_passes, until

SECRET = b"0123456789abcdef0123456789abcdef"
TOPIC = "rebalancer.overrides"


class Hall:
    """A door that does as it is told."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.asked = 0
        self.answer: str | None = None
        self.away = False

    async def write(self, signed: SignedOverride) -> str | None:
        self.asked += 1
        if self.away:
            raise TryAgain("the API server is away")
        self.taken.append(signed.id)
        return self.answer


@pytest.fixture
def writer() -> Hall:
    return Hall()


@pytest.fixture
def keeper() -> Refusing:
    return Refusing()


@pytest.fixture
def ahead() -> SkippingClock:
    return SkippingClock()


@pytest.fixture
async def intake(broker: Broker, writer: Hall, keeper: Refusing, ahead: SkippingClock) -> AsyncIterator[KafkaIntake]:
    signed = (Signatures("prod-eu", {"runbook": SECRET}), writer)
    intake = KafkaIntake(broker, ahead, random.Random(1), lambda _: None, keeper, signed=signed)
    running = asyncio.create_task(intake.run())
    yield intake
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def queued(producer: AIOKafkaProducer, ahead: SkippingClock, event_id: str) -> int:
    """Send one signed now; its offset."""
    data = {"kind": "pin", "target": {"model": "code"}, "value": 4, "reason": "launch day"}
    headers, value = signed_record("runbook", SECRET, "prod-eu", event_id, written_as(ahead.now()), data)
    return int((await producer.send_and_wait(TOPIC, value, headers=headers)).offset)


async def test_each_is_taken_in_order(
    intake: KafkaIntake, writer: Hall, producer: AIOKafkaProducer, ahead: SkippingClock
) -> None:
    for n in range(3):
        await queued(producer, ahead, f"evt-{n}")
    await until(lambda: len(writer.taken) == 3)
    assert writer.taken == ["evt-0", "evt-1", "evt-2"]
    assert intake.counts["orders-taken"] == 3


async def test_while_the_api_server_is_away_it_waits_and_its_offset_stays_open(
    intake: KafkaIntake, writer: Hall, producer: AIOKafkaProducer, ahead: SkippingClock
) -> None:
    writer.away = True
    offset = await queued(producer, ahead, "evt-1")
    await until(lambda: writer.asked >= 2)
    assert intake.consumer.safe_offsets()[TOPIC, 0] == offset
    writer.away = False
    await until(lambda: writer.taken == ["evt-1"])
    await until(lambda: intake.consumer.safe_offsets()[TOPIC, 0] == offset + 1)


async def test_one_that_can_never_be_becomes_a_dead_letter_with_its_reason(
    intake: KafkaIntake, writer: Hall, producer: AIOKafkaProducer, ahead: SkippingClock, keeper: Refusing
) -> None:
    writer.answer = "target.model: no model 'code' in the policy"
    await queued(producer, ahead, "evt-1")
    await until(lambda: keeper.asked)
    assert (keeper.asked[0].reason, keeper.asked[0].detail) == ("override-refused", writer.answer)
    assert intake.counts["rejected.override-refused"] == 1


async def test_one_that_waited_too_long_is_not_carried_out_late(
    intake: KafkaIntake, writer: Hall, producer: AIOKafkaProducer, ahead: SkippingClock, keeper: Refusing
) -> None:
    assert intake.consumer.trouble
    writer.away = True
    await queued(producer, ahead, "evt-1")
    await until(lambda: writer.asked >= 1)
    ahead.skipped += 400.0
    writer.away = False
    await until(lambda: keeper.asked)
    assert (keeper.asked[0].reason, writer.taken) == ("override-late", [])


async def test_more_of_them_than_wait_are_taken_without_a_restart_once_the_api_server_is_back(
    intake: KafkaIntake, writer: Hall, producer: AIOKafkaProducer, ahead: SkippingClock
) -> None:
    writer.away = True
    event_ids = [f"evt-{n}" for n in range(WAITING_AT_MOST + 20)]
    await asyncio.gather(*(queued(producer, ahead, each) for each in event_ids))
    await until(lambda: intake.counts["orders-put-off"] == 20)
    writer.away = False
    await until(lambda: time_passes(ahead) and intake.consumer.safe_offsets()[TOPIC, 0] == len(event_ids))
    assert (len(writer.taken), set(writer.taken)) == (len(event_ids), {*event_ids})
