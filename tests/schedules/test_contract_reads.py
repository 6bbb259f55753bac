"""What a replica in memory reads of Kafka is read as the service's consumer and its reader of the past have it."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence

import pytest
from aiokafka import AIOKafkaProducer

from rebalancer.domain.codec import to_bytes
from rebalancer.domain.events import Event, Gauges, MetricSample
from rebalancer.ingest.reader import Reader
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.consumer import Consumer
from rebalancer.kafka.dead_letters import DeadLetters
from rebalancer.kafka.topic_past import PastUnreadable, read_past
from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.broker import EmbeddedBroker
from tests.ingest.rig import Refusing
from tests.kafka.conftest import PARTITIONS
from tests.kafka.waiting import until
from tests.schedules.kafka import DECISIONS, DECODERS, METRICS, KafkaWay, Logs, frontiers
from tests.schedules.links import KafkaLink
from tests.schedules.virtual import START, Host, VirtualLoop

SAMPLES = [to_bytes(MetricSample("s", f"{number}", START, "chat", 5.0, Gauges(running=1.0))) for number in range(4)]
RECORDS = [*SAMPLES[:2], b"no sample", SAMPLES[2], b"no sample either", SAMPLES[3]]


def a_reader(events: list[Event]) -> Reader:
    """One whose letters nobody takes."""
    return Reader(DECODERS, events.extend, DeadLetters(Refusing(), RealClock(), random.Random(1)))


def read(reader: Reader, events: Sequence[Event], safe: int) -> str:
    """What came in, by place, what became of the rest, and where another process would read on."""
    places = [str(one.position) for one in events if isinstance(one, MetricSample)]
    return f"{places} {sorted(reader.counts.items())} {safe}"


async def read_in_memory() -> str:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    logs, link, events = Logs(loop), KafkaLink(), list[Event]()
    way, reader = KafkaWay(logs, link, Host("a"), loop), a_reader(events)
    reader.frontiers = frontiers({})
    for value in RECORDS:
        logs.append(METRICS, 0, None, value)
    link.away = True
    assert not way.turn(reader, START)
    link.heal()
    assert way.turn(reader, START)
    assert not way.turn(reader, START)
    return read(reader, events, next(one.safe for at, one in reader.frontiers.items() if at == (METRICS, 0)))


async def read_from_a_broker() -> str:
    topics = {f"rebalancer.{name}": partitions for name, partitions in PARTITIONS.items()}
    events = list[Event]()
    async with EmbeddedBroker(topics) as embedded:
        async with AIOKafkaProducer(bootstrap_servers=embedded.bootstrap) as producer:
            for value in RECORDS:
                await producer.send_and_wait(METRICS, value, partition=0)
        reader, since = a_reader(events), {"metrics": 3600.0, "notices": 3600.0}
        consumer = Consumer(Broker(embedded.bootstrap), RealClock(), random.Random(1), reader, since, "metrics", {})
        running = asyncio.create_task(consumer.run())
        await until(lambda: len(events) == len(SAMPLES))
        running.cancel()
        await asyncio.wait({running})
        return read(reader, events, consumer.safe_offsets()[METRICS, 0])


async def away_in_memory() -> str:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    link = KafkaLink(away=True)
    try:
        KafkaWay(Logs(loop), link, Host("a"), loop).past(DECISIONS)
    except PastUnreadable as error:
        return type(error).__name__
    return "read"


async def away_broker() -> str:
    async with EmbeddedBroker({DECISIONS: 1}) as embedded:
        embedded.cut()
        try:
            await read_past(embedded.bootstrap, DECISIONS, {})
        except PastUnreadable as error:
            return type(error).__name__
        return "read"


Play = Callable[[], Coroutine[None, None, str]]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param(read_in_memory, read_from_a_broker, id="records that nobody can read among others"),
        pytest.param(away_in_memory, away_broker, id="the past while the brokers are away"),
    ],
)
def test_what_is_read_in_memory_is_what_a_broker_gives(ours: Play, theirs: Play) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as memory:
        expected = memory.run(ours())
    with asyncio.Runner() as runner:
        assert runner.run(theirs()) == expected
