"""What the producer writes is what the service reads."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import ConsumerRecord
from msgspec.structs import replace

from rebalancer.domain.events import CapacityNotice, MetricSample, Position
from rebalancer.ingest.decode import decode_metric
from rebalancer.ingest.notices import decode_notice
from rebalancer.kafka.broker import Broker
from rebalancer.sandbox.broker import EmbeddedBroker
from rebalancer.sandbox.producer import NOTICE_SECONDS, Producer
from tests.world.worlds import START, a_deployment, a_served_model, a_world

METRICS, NOTICES = "rebalancer.metrics", "rebalancer.notices"


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with EmbeddedBroker({METRICS: 1, NOTICES: 1}) as running, asyncio.timeout(20):
        yield Broker(running.bootstrap)


async def records(broker: Broker, topic: str, count: int) -> list[ConsumerRecord[bytes, bytes]]:
    found: list[ConsumerRecord[bytes, bytes]] = []
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    async with consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(found) < count:
            found += [record for batch in (await consumer.getmany(timeout_ms=500)).values() for record in batch]
    return found


@pytest.mark.parametrize("per", ["model", "pod"])
async def test_samples_are_read_as_they_were_taken(broker: Broker, per: str) -> None:
    world = a_world(per=per)
    a_served_model(world, "a", rate_per_second=3.0, seed="noise")
    a_deployment(world, "a", replicas=2)
    world.advance(START + 40)
    taken = world.take_samples()
    async with Producer(broker) as producer:
        await producer.samples(taken)
        await producer.flush()
    read = []
    for record in await records(broker, METRICS, len(taken)):
        position = Position(record.topic, record.partition, record.offset)
        sample = decode_metric(record.value or b"", record.headers, position, record.timestamp / 1000, now=START + 40)
        assert isinstance(sample, MetricSample)
        assert record.key == b"a"
        assert record.timestamp == int(sample.at * 1000)
        read.append(sample)
    assert list(map(as_read, read)) == list(map(as_read, taken))


def as_read(sample: MetricSample) -> MetricSample:
    """Instants are written to the microsecond; what is taken has no place in Kafka."""
    assert sample.counters is not None
    return replace(
        sample, position=None, counters=replace(sample.counters, start_time=round(sample.counters.start_time, 5))
    )


async def test_a_spot_notice_names_the_machine_and_its_end(broker: Broker) -> None:
    async with Producer(broker) as producer:
        await producer.spot_notice("aws:///eu-central-1a/i-0123456789abcdef0", START)
    (record,) = await records(broker, NOTICES, 1)
    position = Position(record.topic, record.partition, record.offset)
    read = decode_notice(record.value or b"", record.headers, position, record.timestamp / 1000, now=START)
    assert isinstance(read, tuple)
    (notice,) = read
    assert isinstance(notice, CapacityNotice)
    assert (notice.kind, notice.instance_id) == ("spot-interruption", "i-0123456789abcdef0")
    assert (notice.at, notice.deadline) == (START, START + NOTICE_SECONDS)
