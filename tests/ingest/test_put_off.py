"""What found no room to wait in becomes a dead letter or an override in the process that put it off."""

import asyncio
import random

import pytest
from aiokafka import AIOKafkaProducer, ConsumerRecord, TopicPartition

from rebalancer.app.aggregate import Aggregate
from rebalancer.app.tasks import end
from rebalancer.domain.events import Event
from rebalancer.ingest.reader import DECODERS, Reader
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.consumer import STUCK_SECONDS
from rebalancer.kafka.dead_letters import DeadLetters
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.put_off import LOOK_SECONDS, PutOff
from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.broker import EmbeddedBroker
from tests.ingest.rig import Intake, Refusing
from tests.ingest.wire import NOW, STRUCTURED, event
from tests.kafka.behind import behind, naming
from tests.kafka.waiting import SkippingClock, skips, time_passes, until
from tests.testbed.process import free_port

METRICS = "rebalancer.metrics"
PARTITION = TopicPartition(METRICS, 0)
POISON, POISONED = b"no event" * 7_500, 400  # 16 MiB of letters are some 280 of them


async def send_poison(embedded: EmbeddedBroker) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=embedded.bootstrap, compression_type="gzip", max_batch_size=900_000
    ) as producer:
        for _ in range(POISONED):
            await producer.send(METRICS, POISON, headers=list(STRUCTURED), partition=0)
        await producer.flush()


async def test_letters_that_were_put_off_are_buried_without_a_restart(embedded: EmbeddedBroker, broker: Broker) -> None:
    """The dead-letter topic takes nothing for a while: later than 5 h on no start would read these again."""
    keeper, clock = Refusing(), SkippingClock()
    await send_poison(embedded)
    async with Intake(broker, keeper, clock=clock) as intake:
        consumer = intake.intake.consumer
        await until(lambda: intake.intake.counts["rejected.not-json"] == POISONED)
        assert intake.intake.counts["put-off"] > 0
        assert consumer.safe_offsets()[METRICS, 0] == 0
        keeper.takes = True
        keeper.asked.clear()
        await until(lambda: time_passes(clock) and consumer.safe_offsets()[METRICS, 0] == POISONED)
        assert {rejection.position.offset for rejection in keeper.asked} == set(range(POISONED))
        assert intake.intake.counts["rejected.not-json"] == POISONED, "each is counted once"


async def test_a_process_of_the_tier_buries_what_it_put_off_itself_and_holds_the_group_back_no_longer(
    embedded: EmbeddedBroker, broker: Broker
) -> None:
    """It knew only that whoever has the partition next would read it again, and nobody may for weeks."""
    clock = SkippingClock()
    aggregate = Aggregate(broker, "aggregate-0", clock, random.Random(1))
    await send_poison(embedded)
    aggregate.aggregation.own({PARTITION: 0})
    records = [
        ConsumerRecord(METRICS, 0, offset, 0, 0, None, POISON, None, 0, len(POISON), STRUCTURED)
        for offset in range(POISONED)
    ]
    aggregate.aggregation.read({PARTITION: records}, clock.now())
    assert aggregate.dead_letters.counts["put-off"] > 0
    runs = aggregate.outbox.run(), aggregate.dead_letters.run(), aggregate.put_off.run()
    tasks = [asyncio.create_task(run) for run in runs]
    await until(lambda: time_passes(clock) and aggregate.aggregation.frontiers[PARTITION].safe == POISONED)
    assert aggregate.dead_letters.counts["buried"] == POISONED
    await end(*tasks)
    await aggregate.outbox.close()


async def test_a_second_reading_that_was_told_a_wrong_port_of_the_broker_begins_anew_after_a_minute(
    embedded: EmbeddedBroker, broker: Broker
) -> None:
    clock, frontier = SkippingClock(), Frontier(1)
    letters = DeadLetters(Refusing(), clock, random.Random(1))
    reader = Reader({METRICS: DECODERS["metrics"]}, lambda _: None, letters)
    async with AIOKafkaProducer(bootstrap_servers=embedded.bootstrap) as producer:
        await producer.send_and_wait(METRICS, b"{}", headers=list(STRUCTURED), partition=0)
    frontier.put_off(0)
    async with behind(embedded) as link:
        right, link.meddle = link.meddle, naming(link.target, free_port())
        put_off = PutOff(Broker(f"127.0.0.1:{link.port}"), clock, {PARTITION: frontier}, reader, lambda: True)
        running = asyncio.create_task(put_off.run())
        await until(lambda: skips(clock, LOOK_SECONDS) and reader.frontiers)  # it has begun to read
        link.meddle = right
        await until(lambda: skips(clock, STUCK_SECONDS) and letters.waiting_bytes)
        await end(running)


def choking(events: list[Event]) -> None:
    raise ZeroDivisionError("a defect")


@pytest.mark.parametrize(("time", "reason"), [(None, "not-applied"), ("2027-01-15T08:09:00Z", "time-ahead")])
async def test_what_a_second_reading_finds_good_gets_the_letter_of_the_first(time: str | None, reason: str) -> None:
    """The state refuses it, or it is dated ahead: ten minutes later it can be read like any other, and goes nowhere."""
    value = event() if time is None else event(time=time)
    record = ConsumerRecord(METRICS, 0, 0, int(NOW * 1000), 0, None, value, None, 0, len(value), STRUCTURED)
    full = DeadLetters(Refusing(), RealClock(), random.Random(1), max_waiting_bytes=0)
    first = Reader({METRICS: DECODERS["metrics"]}, choking, full)
    first.frontiers[PARTITION] = Frontier(0)
    first.read({PARTITION: [record]}, NOW)
    assert first.frontiers[PARTITION].put_off_between == (0, 0)

    keeper = Refusing()
    keeper.takes = True
    letters = DeadLetters(keeper, RealClock(), random.Random(1))
    second = Reader({METRICS: DECODERS["metrics"]}, lambda _: None, letters)
    second.frontiers[PARTITION] = Frontier(0, first.frontiers[PARTITION].refused)
    second.read({PARTITION: [record]}, NOW + 600.0)
    burying = asyncio.create_task(letters.run())
    await until(lambda: second.frontiers[PARTITION].safe == 1)
    burying.cancel()
    await asyncio.wait({burying})
    assert [(one.reason, one.position.offset) for one in keeper.asked] == [(reason, 0)]
    first.frontiers[PARTITION].read_again(1)
    assert (first.frontiers[PARTITION].safe, first.frontiers[PARTITION].refused) == (1, {})
