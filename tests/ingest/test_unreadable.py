"""Records that a broker takes and the client cannot decode: the name of a header of theirs is no UTF-8."""

import asyncio
import json
import random

from aiokafka import AIOKafkaProducer
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy

from rebalancer.ingest.aggregation import Aggregation
from rebalancer.ingest.reader import Batch
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.dead_letters import DeadLetters
from rebalancer.kafka.group import GroupConsumer, Membership
from rebalancer.kafka.outbox import Outbox
from rebalancer.loop.clock import RealClock
from tests.ingest.rig import Intake
from tests.ingest.test_intake import METRICS, NOTICES, a_notice, sample
from tests.ingest.wire import STRUCTURED
from tests.kafka.waiting import until


class Latin(str):
    """A name that goes over the wire as a producer in Latin-1 writes it."""

    __slots__ = ()

    def encode(self, *_: str) -> bytes:
        return super().encode("latin-1")


UNREADABLE = ((Latin("café"), b"v"),)


async def send_some(producer: AIOKafkaProducer, first: int, partition: int = 0) -> None:
    """Ten samples in two batches; of the five in the first the client cannot decode the fourth."""
    samples = [(sample(number), number != first + 3) for number in range(first, first + 10)]
    await send(producer, METRICS, *samples[:5], partition=partition)
    await send(producer, METRICS, *samples[5:], partition=partition)


async def send(producer: AIOKafkaProducer, topic: str, *values: tuple[bytes, bool], partition: int = 0) -> None:
    """One batch: values, and whether the client can decode the record."""
    batch = producer.create_batch()
    # The compiled one asks no `encode`.
    batch._builder = _DefaultRecordBatchBuilderPy(2, 0, 0, -1, -1, 0, 1_000_000)  # noqa: SLF001  no public call does it
    for value, readable in values:
        batch.append(timestamp=None, key=None, value=value, headers=STRUCTURED if readable else UNREADABLE)
    await (await producer.send_batch(batch, topic, partition=partition))


async def test_a_record_that_cannot_be_decoded_costs_what_follows_in_its_batch_and_nothing_else(
    producer: AIOKafkaProducer, broker: Broker, outbox: Outbox
) -> None:
    for partition in range(3):
        await send_some(producer, 10 * partition, partition)
    await send(producer, NOTICES, (b"{}", False))
    await send(producer, NOTICES, (a_notice("a"), True), (b"{}", False))
    await send(producer, NOTICES, (a_notice("b"), True))
    async with Intake(broker, outbox) as intake:
        await until(lambda: len(intake.samples) == 24 and len(intake.notices) == 2)
        await send_some(producer, 30)
        await until(lambda: len(intake.samples) == 32)
        assert sorted(int(one.id) for one in intake.samples) == [one for one in range(40) if one % 10 not in {3, 4}]
        assert [one.id for one in intake.notices] == ["a", "b"]
        assert intake.intake.counts["unreadable"] == 10
        assert intake.intake.consumer.safe_offsets()[METRICS, 0] == 20
        assert intake.intake.counts["reconnects"] == 0
        assert intake.intake.consumer.trouble is None


async def test_a_member_of_a_group_reads_on_past_such_a_record(
    producer: AIOKafkaProducer, broker: Broker, outbox: Outbox, clock: RealClock
) -> None:
    samples: list[str] = []

    class Worker(Aggregation):
        def read(self, batch: Batch, now: float) -> None:
            samples.extend(json.loads(record.value or b"")["id"] for records in batch.values() for record in records)
            super().read(batch, now)

    await send_some(producer, 0)
    letters = DeadLetters(outbox, clock, random.Random(1))
    worker = Worker(METRICS, "a", outbox, letters, clock)
    group = GroupConsumer(broker, clock, random.Random(1), Membership("g", "a"), "metrics", 3600.0, worker)
    running = asyncio.create_task(group.run())
    await until(lambda: len(samples) == 8)
    running.cancel()
    await asyncio.wait({running})
    assert (group.counts["unreadable"], group.counts["reconnects"]) == (2, 0)
