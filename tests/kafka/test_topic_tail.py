"""What a follower of a topic has when it is asked, and what it does where it has not followed."""

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaProducer

from rebalancer.kafka.broker import Broker
from rebalancer.kafka.topic_past import PastUnreadable, TopicPast
from rebalancer.kafka.topic_tail import TopicTail
from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.broker import EmbeddedBroker
from tests.kafka.waiting import SkippingClock, until

KEEP_SECONDS = 600.0
TOPIC = "rebalancer.decisions"


@pytest.fixture
def clock() -> SkippingClock:
    return SkippingClock()


@pytest.fixture
async def tail(broker: Broker, clock: SkippingClock) -> AsyncIterator[TopicTail]:
    """Holds what has not `rings` as its key: so one sees whether something was held, or read when it was asked for."""
    tail = TopicTail(broker, "decisions", clock, KEEP_SECONDS, lambda key: key != b"rings")
    running = asyncio.create_task(tail.run())
    yield tail
    running.cancel()
    await asyncio.wait({running})


async def _send(producer: AIOKafkaProducer, *values: bytes, key: bytes = b"k", at: float | None = None) -> None:
    for value in values:
        stamp = None if at is None else int(at * 1000)
        await producer.send_and_wait(TOPIC, value, key=key, timestamp_ms=stamp)


def _values(records: list[TopicPast]) -> list[bytes]:
    return [record.value for record in records]


async def test_it_has_what_was_there_before_and_every_record_up_to_the_moment_it_is_asked(
    tail: TopicTail, producer: AIOKafkaProducer, clock: RealClock
) -> None:
    sent = [b"before"]
    await _send(producer, *sent)
    await _send(producer, b"of no interest", key=b"rings")
    await until(lambda: tail.follows)
    for number in range(5):
        sent.append(b"%d" % number)
        await _send(producer, sent[-1])
        assert _values(await tail.since(clock.now() - 60.0)) == sent


async def test_before_it_follows_and_further_back_than_it_does_the_topic_is_read(
    tail: TopicTail, producer: AIOKafkaProducer, clock: RealClock
) -> None:
    await _send(producer, b"a")
    await _send(producer, b"b", key=b"rings")
    assert _values(await tail.since(clock.now() - 60.0)) == [b"a", b"b"]
    await until(lambda: tail.follows)
    assert _values(await tail.since(clock.now() - KEEP_SECONDS - 60.0)) == [b"a", b"b"]


async def test_what_is_older_than_it_reaches_back_is_let_go(
    tail: TopicTail, producer: AIOKafkaProducer, clock: SkippingClock
) -> None:
    await until(lambda: tail.follows)
    await _send(producer, b"old")
    assert _values(await tail.since(clock.now() - 60.0)) == [b"old"]
    clock.skipped = KEEP_SECONDS + 60.0
    await _send(producer, b"new", at=clock.now())
    assert _values(await tail.since(clock.now() - 60.0)) == [b"new"]


async def test_a_broker_that_went_away_is_told_and_followed_again_when_it_is_back(
    tail: TopicTail, producer: AIOKafkaProducer, clock: RealClock, embedded: EmbeddedBroker
) -> None:
    await _send(producer, b"a")
    await until(lambda: tail.follows)
    await asyncio.to_thread(embedded.cut)
    with pytest.raises(PastUnreadable, match=TOPIC):
        await tail.since(clock.now() - 60.0)
    await asyncio.to_thread(embedded.heal)
    await _send(producer, b"b", key=b"rings")
    await _send(producer, b"c")

    async def held() -> None:
        while _values(await tail.since(clock.now() - 60.0)) != [b"a", b"c"]:
            await asyncio.sleep(0.05)

    async with asyncio.timeout(30.0):
        await held()


async def test_whenever_it_is_ended_while_it_comes_up_no_connection_stays_open(
    broker: Broker, producer: AIOKafkaProducer, clock: SkippingClock
) -> None:
    # A replica that is elected at once stands by for a few milliseconds.
    await _send(producer, b"there")
    for turns in range(0, 90, 2):
        running = asyncio.create_task(TopicTail(broker, "decisions", clock, KEEP_SECONDS).run())
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        gc.collect()
    assert [str(one.message) for one in seen] == []
