"""The embedded broker, driven by the client the service uses."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from rebalancer.sandbox.broker import EmbeddedBroker

TOPICS = {"metrics": 12, "notices": 1}


@pytest.fixture
async def broker() -> AsyncIterator[EmbeddedBroker]:
    async with EmbeddedBroker(TOPICS) as running, asyncio.timeout(20):
        yield running


@pytest.fixture
async def producer(broker: EmbeddedBroker) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as opened:
        yield opened


@pytest.fixture
async def consumer(broker: EmbeddedBroker) -> AsyncIterator[AIOKafkaConsumer]:
    # As the service consumes: no group, no commits, only what is committed.
    opened = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    async with opened:
        yield opened


async def test_a_record_comes_back_with_key_value_headers_and_time(
    producer: AIOKafkaProducer, consumer: AIOKafkaConsumer
) -> None:
    headers = [("ce_type", b"io.rebalancer.metric.sample.v1"), ("ce_id", b"7")]
    await producer.send_and_wait(
        "notices", b'{"running":3}', key=b"llama", headers=headers, timestamp_ms=1_800_000_000_123
    )
    consumer.assign([TopicPartition("notices", 0)])
    record = await consumer.getone()
    assert (record.key, record.value, record.headers) == (b"llama", b'{"running":3}', tuple(headers))
    assert (record.offset, record.timestamp) == (0, 1_800_000_000_123)


async def test_topics_have_the_partitions_asked_for(producer: AIOKafkaProducer) -> None:
    assert {topic: len(await producer.partitions_for(topic)) for topic in TOPICS} == TOPICS


async def test_a_topic_appears_on_first_use(producer: AIOKafkaProducer, consumer: AIOKafkaConsumer) -> None:
    sent = await producer.send_and_wait("decisions", b"first")
    consumer.assign([TopicPartition("decisions", sent.partition)])
    assert (await consumer.getone()).value == b"first"


async def test_creating_a_topic_twice_is_refused_by_name(broker: EmbeddedBroker) -> None:
    with pytest.raises(ValueError, match="topic 'metrics' with 3 partitions cannot be created"):
        broker.create_topic("metrics", 3)


async def test_a_consumer_of_all_partitions_sees_every_record_and_can_seek_back(
    producer: AIOKafkaProducer, consumer: AIOKafkaConsumer
) -> None:
    for number in range(60):
        await producer.send("metrics", str(number).encode(), key=f"model-{number % 20}".encode())
    await producer.flush()
    partitions = [TopicPartition("metrics", index) for index in range(TOPICS["metrics"])]
    consumer.assign(partitions)
    assert await _values(consumer, 60) == {str(number).encode() for number in range(60)}
    ends = await consumer.end_offsets(partitions)
    assert sum(ends.values()) == 60
    busiest = max(ends, key=lambda partition: ends[partition])
    consumer.seek(busiest, ends[busiest] - 1)
    again = await consumer.getone(busiest)
    assert again.offset == ends[busiest] - 1


async def test_a_tombstone_has_no_value(producer: AIOKafkaProducer, consumer: AIOKafkaConsumer) -> None:
    await producer.send_and_wait("notices", None, key=b"gone")
    consumer.assign([TopicPartition("notices", 0)])
    assert (await consumer.getone()).value is None


async def test_records_survive_a_broker_that_was_away(
    broker: EmbeddedBroker, producer: AIOKafkaProducer, consumer: AIOKafkaConsumer
) -> None:
    await producer.send_and_wait("notices", b"before")
    broker.cut()
    with pytest.raises(ConnectionRefusedError):
        await _connect(broker.bootstrap)
    waiting = asyncio.create_task(producer.send_and_wait("notices", b"after"))
    broker.heal()
    await waiting
    consumer.assign([TopicPartition("notices", 0)])
    assert await _values(consumer, 2) == {b"before", b"after"}


async def test_nobody_answers_after_stop() -> None:
    broker = EmbeddedBroker()
    await asyncio.to_thread(broker.start)
    await _connect(broker.bootstrap)
    await asyncio.to_thread(broker.stop)
    broker.stop()
    with pytest.raises(ConnectionRefusedError):
        await _connect(broker.bootstrap)


async def _connect(bootstrap: str) -> None:
    host, _, port = bootstrap.partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.close()
    await writer.wait_closed()


async def _values(consumer: AIOKafkaConsumer, count: int) -> set[bytes | None]:
    """The values of the next `count` records."""
    return {(await consumer.getone()).value for _ in range(count)}
