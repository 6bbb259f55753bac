"""A broker that answers, on loopback, and a clock that runs."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaProducer

from rebalancer.kafka.broker import Broker
from rebalancer.kafka.outbox import Outbox
from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.broker import EmbeddedBroker

PARTITIONS = {"metrics": 3, "notices": 1, "overrides": 1, "decisions": 1, "state": 1, "dead-letter": 1}


@pytest.fixture
async def embedded() -> AsyncIterator[EmbeddedBroker]:
    topics = {f"rebalancer.{name}": partitions for name, partitions in PARTITIONS.items()}
    async with EmbeddedBroker(topics) as running:
        yield running


@pytest.fixture
def broker(embedded: EmbeddedBroker) -> Broker:
    return Broker(embedded.bootstrap)


@pytest.fixture
def clock() -> RealClock:
    return RealClock()


@pytest.fixture
def rng() -> random.Random:
    return random.Random(7)


@pytest.fixture
async def producer(embedded: EmbeddedBroker) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(bootstrap_servers=embedded.bootstrap, acks="all") as opened:
        yield opened


@pytest.fixture
async def outbox(broker: Broker, clock: RealClock, rng: random.Random) -> AsyncIterator[Outbox]:
    opened = Outbox(broker, clock, rng)
    running = asyncio.create_task(opened.run())
    yield opened
    running.cancel()
    await asyncio.wait({running})
    await opened.close(2.0)
