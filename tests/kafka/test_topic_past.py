"""A topic's past, whole or from an instant, from a broker that may not know either."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer

from rebalancer.kafka.broker import Broker
from rebalancer.kafka.topic_past import PastUnreadable, read_past

START = 1_800_000_000.0


async def test_the_whole_past_comes_in_order_without_tombstones(broker: Broker, producer: AIOKafkaProducer) -> None:
    for number in range(3):
        await producer.send_and_wait(
            "rebalancer.decisions", b"%d" % number, key=b"k", timestamp_ms=int((START + number) * 1000)
        )
    await producer.send_and_wait("rebalancer.decisions", None, key=b"k")
    past = await read_past(broker.bootstrap, "rebalancer.decisions", {})
    assert [(one.key, one.value, one.at) for one in past] == [(b"k", b"%d" % n, START + n) for n in range(3)]


async def test_all_partitions_are_read(broker: Broker, producer: AIOKafkaProducer) -> None:
    for number in range(9):
        await producer.send_and_wait("rebalancer.metrics", b"%d" % number, partition=number % 3)
    past = await read_past(broker.bootstrap, "rebalancer.metrics", {})
    assert {one.value for one in past} == {b"%d" % number for number in range(9)}


async def test_a_broker_that_cannot_look_up_by_time_gives_everything_rather_than_nothing(
    broker: Broker, producer: AIOKafkaProducer
) -> None:
    await producer.send_and_wait("rebalancer.decisions", b"old", timestamp_ms=int(START * 1000))
    past = await read_past(broker.bootstrap, "rebalancer.decisions", {}, since=START + 60)
    assert [one.value for one in past] == [b"old"]


async def test_a_topic_that_does_not_exist_or_is_empty_has_no_past(broker: Broker) -> None:
    assert await read_past(broker.bootstrap, "nothing-here", {}) == []
    assert await read_past(broker.bootstrap, "rebalancer.state", {}, since=START) == []


async def test_an_absent_broker_is_told_with_its_address() -> None:
    async with asyncio.timeout(20):
        with pytest.raises(PastUnreadable, match=r"topic t on 127\.0\.0\.1:1 cannot be read"):
            await read_past("127.0.0.1:1", "t", {})
