"""Signed overrides wait for their object: none is lost while the API server is away, and bad ones say why."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from aiokafka import AIOKafkaProducer

from rebalancer.act.moment import written_as
from rebalancer.ingest.kafka import KafkaIntake
from rebalancer.ingest.orders import TryAgain
from rebalancer.ingest.signed import Signatures, SignedOverride, signed_record
from rebalancer.obs.broker import Broker
from tests.ingest.rig import Refusing, SkippingClock
from tests.ingest.waiting import until

SECRET = b"0123456789abcdef0123456789abcdef"
TOPIC = "rebalancer.overrides"


class Hall:
    """A door that does as it is told."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.asked = 0
        self.answer: str | None = None
        self.away = False

    async def take(self, signed: SignedOverride) -> str | None:
        self.asked += 1
        if self.away:
            raise TryAgain("the API server is away")
        self.taken.append(signed.id)
        return self.answer


@pytest.fixture
def door() -> Hall:
    return Hall()


@pytest.fixture
def keeper() -> Refusing:
    return Refusing()


@pytest.fixture
def ahead() -> SkippingClock:
    return SkippingClock()


@pytest.fixture
async def intake(broker: Broker, door: Hall, keeper: Refusing, ahead: SkippingClock) -> AsyncIterator[KafkaIntake]:
    signed = (Signatures("prod-eu", {"runbook": SECRET}), door)
    intake = KafkaIntake(broker, ahead, random.Random(1), lambda _: None, keeper, signed=signed)
    running = asyncio.create_task(intake.run())
    yield intake
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def order(producer: AIOKafkaProducer, ahead: SkippingClock, event_id: str) -> int:
    """Send one signed now; its offset."""
    data = {"kind": "pin", "target": {"model": "code"}, "value": 4, "reason": "launch day"}
    headers, value = signed_record("runbook", SECRET, "prod-eu", event_id, written_as(ahead.now()), data)
    return int((await producer.send_and_wait(TOPIC, value, headers=headers)).offset)


async def test_each_is_taken_in_order(
    intake: KafkaIntake, door: Hall, producer: AIOKafkaProducer, ahead: SkippingClock
) -> None:
    for n in range(3):
        await order(producer, ahead, f"evt-{n}")
    await until(lambda: len(door.taken) == 3)
    assert door.taken == ["evt-0", "evt-1", "evt-2"]
    assert intake.counts["orders-taken"] == 3


async def test_while_the_api_server_is_away_it_waits_and_its_offset_stays_open(
    intake: KafkaIntake, door: Hall, producer: AIOKafkaProducer, ahead: SkippingClock
) -> None:
    door.away = True
    offset = await order(producer, ahead, "evt-1")
    await until(lambda: door.asked >= 2)
    assert intake.safe_offsets()[TOPIC, 0] == offset
    door.away = False
    await until(lambda: door.taken == ["evt-1"])
    await until(lambda: intake.safe_offsets()[TOPIC, 0] == offset + 1)


async def test_one_that_can_never_be_becomes_a_dead_letter_with_its_reason(
    intake: KafkaIntake, door: Hall, producer: AIOKafkaProducer, ahead: SkippingClock, keeper: Refusing
) -> None:
    door.answer = "target.model: no model 'code' in the policy"
    await order(producer, ahead, "evt-1")
    await until(lambda: keeper.asked)
    assert (keeper.asked[0].reason, keeper.asked[0].detail) == ("override-refused", door.answer)
    assert intake.counts["rejected.override-refused"] == 1


async def test_one_that_waited_too_long_is_not_carried_out_late(
    intake: KafkaIntake, door: Hall, producer: AIOKafkaProducer, ahead: SkippingClock, keeper: Refusing
) -> None:
    assert intake.trouble
    door.away = True
    await order(producer, ahead, "evt-1")
    await until(lambda: door.asked >= 1)
    ahead.skipped += 400.0
    door.away = False
    await until(lambda: keeper.asked)
    assert (keeper.asked[0].reason, door.taken) == ("override-late", [])
