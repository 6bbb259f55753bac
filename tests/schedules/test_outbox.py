"""What a replica in memory sends to Kafka is answered and stored as the service's outbox has it of a broker."""

import asyncio
import random
from collections.abc import Callable

from aiokafka import TopicPartition

from rebalancer.kafka.broker import Broker
from rebalancer.kafka.outbox import Outbox
from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.broker import EmbeddedBroker
from tests.kafka.conftest import PARTITIONS
from tests.kafka.waiting import records, until
from tests.schedules.kafka import DECISIONS, KafkaWay, Logs, MemoryOutbox
from tests.schedules.links import KafkaLink
from tests.schedules.virtual import Host, MachineClock, VirtualLoop

DEADLINE_SECONDS = 0.5
LATE_SECONDS = 1.0


async def sends(outbox: Outbox, cut: Callable[[], None], heal: Callable[[], None], late: Callable[[], None]) -> str:
    """Before an absence, two in it, after it, and one whose acknowledgement comes too late."""
    acknowledged = [await outbox.send("decisions", b"k", b"before", deadline_seconds=15.0)]
    cut()
    meanwhile = (outbox.send("decisions", b"k", value, deadline_seconds=DEADLINE_SECONDS) for value in (b"1", b"2"))
    acknowledged += await asyncio.gather(*meanwhile)
    held = outbox.pending_bytes > 0
    heal()
    acknowledged += [await outbox.send("decisions", b"k", b"after", deadline_seconds=15.0)]
    late()
    acknowledged += [await outbox.send("decisions", b"k", b"late", deadline_seconds=DEADLINE_SECONDS)]
    async with asyncio.timeout(20.0):
        while outbox.pending_bytes:
            await asyncio.sleep(0.005)
    return f"{acknowledged}, held meanwhile: {held}, {sorted(outbox.counts.items())}"


async def in_memory() -> tuple[str, list[bytes | None]]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    logs, link = Logs(loop), KafkaLink()
    way = KafkaWay(logs, link, Host("a"), loop)

    def heal() -> None:
        link.away = False
        way.back()

    def set_away() -> None:
        link.away = True

    def set_late() -> None:
        link.unheard = True

    seen = await sends(MemoryOutbox(way, MachineClock(loop)), set_away, heal, set_late)
    return seen, [one.value for one in logs.fetched(TopicPartition(DECISIONS, 0), 0)]


async def by_a_broker() -> tuple[str, list[bytes | None]]:
    topics = {f"rebalancer.{name}": partitions for name, partitions in PARTITIONS.items()}
    async with EmbeddedBroker(topics) as embedded:
        broker = Broker(embedded.bootstrap)
        outbox = Outbox(broker, RealClock(), random.Random(7))
        running = asyncio.create_task(outbox.run())
        await until(lambda: outbox.trouble is None)
        outbox.counts.clear()  # of its connection, which the one in memory has from the beginning
        seen = await sends(outbox, embedded.cut, embedded.heal, lambda: embedded.slow(LATE_SECONDS))
        embedded.slow(0.0)
        running.cancel()
        await asyncio.wait({running})
        await outbox.close(2.0)
        return seen, [one.value for one in await records(broker, "decisions")]


def test_records_of_an_absence_come_in_their_order_and_a_late_acknowledgement_is_none() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as memory:
        ours = memory.run(in_memory())
    with asyncio.Runner() as runner:
        assert runner.run(by_a_broker()) == ours
    assert ours[1] == [b"before", b"1", b"2", b"after", b"late"]
