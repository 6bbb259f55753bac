"""What a replica in memory reads of the past, by an instant and after refused connections, the real broker gives."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from aiokafka import AIOKafkaProducer

from rebalancer.kafka.broker import Broker
from rebalancer.kafka.outbox import Outbox
from rebalancer.kafka.topic_past import PastUnreadable, TopicPast, read_past
from rebalancer.loop.clock import RealClock
from tests.faults.wire import Wire
from tests.schedules.kafka import ACK_SECONDS, BROKER, KafkaWay, Logs, MemoryOutbox
from tests.schedules.links import KafkaLink
from tests.schedules.virtual import Host, MachineClock, VirtualLoop
from tests.testbed.kafka import Kafka

DECISIONS = BROKER.topic("decisions")
STAMPS = (0.0, 10.0, 10.0, 25.0, 20.0, 30.0)
"""Seconds by the clocks of those who sent, one of which is slow; in the order in which they came."""
INSTANTS = (None, -5.0, 0.0, 0.001, 10.0, 10.0004, 10.001, 20.0, 22.0, 25.5, 30.0, 30.001, 600.0)
DEADLINE_SECONDS = 0.3

Past = Callable[[float | None], Awaitable[list[TopicPast]]]


def told(past: list[TopicPast]) -> list[tuple[bytes, bytes, float]]:
    return [(one.key, one.value, one.at) for one in past]


def in_memory(play: Callable[[], Coroutine[Any, Any, object]]) -> object:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(play())


def a_way() -> tuple[Logs, KafkaLink, KafkaWay, VirtualLoop]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    logs, link = Logs(loop), KafkaLink()
    return logs, link, KafkaWay(logs, link, Host("a"), loop), loop


def test_the_past_from_an_instant_begins_with_the_first_record_of_that_age_and_leaves_out_none_behind_it(
    kafka: Kafka, topic_prefix: str
) -> None:
    began = float(int(time.time()) - 3600)
    records = [(began + stamp, b"%d" % number) for number, stamp in enumerate(STAMPS)]
    instants = [None if at is None else began + at for at in INSTANTS]

    async def ours() -> object:
        logs, _, way, _ = a_way()
        before = way.past(DECISIONS, began)
        for at, value in records:
            logs.append(DECISIONS, 0, b"k", value, sent_at=at)
        return told(before), [told(way.past(DECISIONS, at)) for at in instants]

    async def theirs() -> object:
        topic = f"{topic_prefix}decisions"
        before = await read_past(kafka.bootstrap, topic, {}, began)
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            for at, value in records:
                await producer.send_and_wait(topic, value, key=b"k", timestamp_ms=int(at * 1000))
        return told(before), [told(await read_past(kafka.bootstrap, topic, {}, at)) for at in instants]

    assert in_memory(ours) == asyncio.run(theirs())


async def refused_and_taken_again(
    outbox: Outbox,
    past: Past,
    now: Callable[[], float],
    refuse: Callable[[], Awaitable[None]],
    accept: Callable[[], Awaitable[None]],
) -> object:
    """What is said of a record before, one while connections are refused, and one after."""
    acknowledged = [await outbox.send("decisions", b"k", b"before", deadline_seconds=15.0)]
    await refuse()
    unread: object = None
    try:
        await past(None)
    except PastUnreadable as error:
        unread = type(error).__name__
    acknowledged += [await outbox.send("decisions", b"k", b"meanwhile", deadline_seconds=DEADLINE_SECONDS)]
    trouble = str(outbox.trouble).rpartition("acknowledged")[2]
    accepted_at = now()
    await accept()
    acknowledged += [await outbox.send("decisions", b"k", b"after", deadline_seconds=15.0)]
    whole, since = await past(None), await past(accepted_at)
    return acknowledged, unread, trouble, outbox.trouble, [one.value for one in whole], [one.value for one in since]


def test_what_was_sent_while_connections_were_refused_arrives_with_the_instant_at_which_it_was_sent(
    kafka: Kafka, topic_prefix: str
) -> None:
    async def ours() -> object:
        _, link, way, loop = a_way()
        clock = MachineClock(loop)

        async def refuse() -> None:
            link.away = True
            await asyncio.sleep(ACK_SECONDS)  # virtual time does not pass by itself

        async def accept() -> None:
            link.away = False
            way.back()

        async def past(since: float | None) -> list[TopicPast]:
            return way.past(DECISIONS, since)

        return await refused_and_taken_again(MemoryOutbox(way, clock), past, clock.now, refuse, accept)

    async def theirs() -> object:
        broker, clock = Broker(f"127.0.0.1:{kafka.proxy_port}", topic_prefix), RealClock()
        outbox = Outbox(broker, clock, random.Random(7))
        async with AsyncExitStack() as opened:

            async def accept() -> None:
                await opened.enter_async_context(Wire.before(kafka.proxy_port, kafka.proxied_port))

            async def past(since: float | None) -> list[TopicPast]:
                return await read_past(broker.bootstrap, broker.topic("decisions"), {}, since)

            await accept()
            running = asyncio.create_task(outbox.run())
            try:
                return await refused_and_taken_again(outbox, past, clock.now, opened.aclose, accept)
            finally:
                running.cancel()
                await asyncio.wait({running})
                await outbox.close(2.0)

    assert in_memory(ours) == asyncio.run(theirs())
