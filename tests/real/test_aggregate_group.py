"""What a consumer group can go through (K04 to K06 of the fault catalogue), with a member of the aggregate tier in it.

One consumer alone reads the same topic: each sample that it has the tier hands on, too, once or more often.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from rebalancer.kafka.broker import Broker
from rebalancer.kafka.group import SESSION_SECONDS
from rebalancer.kafka.topic_plan import GROUP
from tests.faults import wire
from tests.faults.wire import Frame, Wire
from tests.real.test_aggregate import Listener, spoken, until
from tests.real.tier import Tier
from tests.testbed.kafka import Kafka

MEMBER = "aggregate-0"
OFFSET_COMMIT = 8  # its number in Kafka's protocol
READ_SECONDS = 60.0


@pytest.fixture
async def link(kafka: Kafka, tier: Tier) -> AsyncIterator[Wire]:
    """The tier's way to the broker."""
    tier.settings["REBALANCER_KAFKA_BOOTSTRAP"] = f"127.0.0.1:{kafka.proxy_port}"
    async with Wire.before(kafka.proxy_port, kafka.proxied_port) as link:
        yield link


@asynccontextmanager
async def none_is_lost(broker: Broker) -> AsyncIterator[Listener]:
    """Pods tell of each second while the context lasts, and whoever hears the tier comes to hear of all of it."""
    await broker.make_topics()
    alone, behind = (Listener(broker, time.time(), aggregated=aggregated) for aggregated in (False, True))
    intakes = [asyncio.create_task(one.intake.run()) for one in (alone, behind)]
    async with spoken(broker, set()) as speaking:
        await until(lambda: behind.positions and not behind.blind, "every partition is read", READ_SECONDS)
        yield alone
        speaking.cancel()
    try:
        await until(lambda: alone.positions <= behind.positions, "each sample was handed on", READ_SECONDS)
    finally:
        for intake in intakes:
            intake.cancel()
        await asyncio.wait(intakes)
    print(f"{len(alone.positions)} samples")


async def members(broker: Broker) -> list[tuple[object, ...]]:
    """Who is in the group now, each with its id of this membership, by the broker."""
    async with broker.admin() as admin:
        (answer,) = await admin.describe_consumer_groups([broker.topic(GROUP)])
        ((_, _, _, _, _, those, *_),) = answer.groups
    return sorted(those)


@pytest.mark.timeout(240)
async def test_while_another_member_comes_and_goes_no_sample_is_lost(
    kafka: Kafka, tier: Tier, topic_prefix: str
) -> None:
    broker = Broker(kafka.bootstrap, topic_prefix)
    await asyncio.to_thread(tier.launch, MEMBER)
    async with none_is_lost(broker):
        for _ in range(3):
            async with AIOKafkaConsumer(
                broker.topic("metrics"),
                bootstrap_servers=kafka.bootstrap,
                group_id=broker.topic(GROUP),
                partition_assignment_strategy=(StickyPartitionAssignor,),
                enable_auto_commit=False,
            ) as other:
                await until(other.assignment, "it has a share", 30.0)


@pytest.mark.timeout(240)
async def test_a_member_that_hands_on_for_longer_than_its_session_stays_a_member_and_loses_no_sample(
    kafka: Kafka, tier: Tier, link: Wire, topic_prefix: str
) -> None:
    broker = Broker(kafka.bootstrap, topic_prefix)
    await asyncio.to_thread(tier.launch, MEMBER)
    async with none_is_lost(broker) as alone:
        before, known = await members(broker), len(alone.positions)
        began = time.monotonic()
        async with link.meddling(wire.without(wire.PRODUCE, asks=False)):
            await until(
                lambda: time.monotonic() - began > SESSION_SECONDS + 5.0 and len(alone.positions) > known,
                "its session would be over",
                SESSION_SECONDS + 30.0,
            )
            assert await members(broker) == before


@pytest.mark.timeout(240)
@pytest.mark.parametrize("lost", ["the commit", "its reply"])
async def test_a_member_killed_while_it_waits_for_its_commit_loses_no_sample(
    kafka: Kafka, tier: Tier, link: Wire, topic_prefix: str, lost: str
) -> None:
    """What it commits is handed on by then: the next one hands the same on again where the commit was lost."""
    lost_ones: list[Frame] = []

    async def lose(frame: Frame) -> bytes:
        if (frame.api, frame.asks) != (OFFSET_COMMIT, lost == "the commit"):
            return frame.whole
        lost_ones.append(frame)
        return b""

    await asyncio.to_thread(tier.launch, MEMBER)
    async with none_is_lost(Broker(kafka.bootstrap, topic_prefix)):
        async with link.meddling(lose):
            await until(lambda: lost_ones, f"{lost} is lost", 30.0)
            await asyncio.to_thread(tier.processes[MEMBER].kill)
        await asyncio.to_thread(tier.launch, MEMBER)
