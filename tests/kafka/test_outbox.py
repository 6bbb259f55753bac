"""The producer that never hangs: acknowledged means kept, an absent broker means False within the deadline."""

import asyncio
import gc
import logging
import random
from pathlib import Path

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaError

from rebalancer.domain.events import Position, Rejection
from rebalancer.kafka.broker import TOPICS, Broker
from rebalancer.kafka.outbox import Outbox
from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.broker import EmbeddedBroker
from rebalancer.settings.service import ServiceSettings
from tests.kafka.waiting import records, until


async def values(broker: Broker, topic: str) -> list[bytes]:
    return [record.value for record in await records(broker, topic)]


async def test_an_acknowledged_record_can_be_read_again(outbox: Outbox, broker: Broker) -> None:
    assert await outbox.send("decisions", b"intent", b"{}", [("a", b"1")])
    (found,) = await records(broker, "decisions")
    assert (found.key, found.value, found.headers) == (b"intent", b"{}", (("a", b"1"),))
    assert (outbox.counts["acknowledged"], outbox.pending_bytes, outbox.trouble) == (1, 0, None)


async def test_records_under_one_key_keep_their_order(outbox: Outbox, broker: Broker) -> None:
    sent = await asyncio.gather(*(outbox.send("decisions", b"k", str(number).encode()) for number in range(200)))
    assert all(sent)
    assert await values(broker, "decisions") == [str(number).encode() for number in range(200)]


async def test_with_the_broker_away_a_send_ends_at_its_deadline_and_the_record_may_still_arrive(
    outbox: Outbox, broker: Broker, embedded: EmbeddedBroker
) -> None:
    assert await outbox.send("decisions", None, b"before")
    embedded.cut()
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert not await outbox.send("decisions", None, b"meanwhile", deadline_seconds=0.3)
    assert loop.time() - began < 2.0
    assert (outbox.counts["unacknowledged"], outbox.pending_bytes > 0) == (1, True)
    assert "acknowledged nothing within 0.3 s" in str(outbox.trouble)
    embedded.heal()
    await until(lambda: outbox.pending_bytes == 0)
    assert await outbox.send("decisions", None, b"after", deadline_seconds=15.0)
    assert outbox.trouble is None
    assert await values(broker, "decisions") == [b"before", b"meanwhile", b"after"]


@pytest.mark.parametrize("topic", ["decisions", "notices"])  # one that the producer knows, and one that it never got to
async def test_when_kafka_is_back_there_is_no_trouble_though_nothing_more_is_sent(
    topic: str, outbox: Outbox, embedded: EmbeddedBroker
) -> None:
    assert await outbox.send("decisions", None, b"before")
    embedded.cut()
    assert not await outbox.send(topic, None, b"meanwhile", deadline_seconds=0.3)
    assert outbox.trouble is not None
    embedded.heal()
    await until(lambda: outbox.trouble is None)
    assert await outbox.send(topic, None, b"after")


async def test_before_there_is_a_broker_a_send_is_false_and_afterwards_true(
    embedded: EmbeddedBroker, broker: Broker, clock: RealClock, rng: random.Random
) -> None:
    embedded.cut()
    outbox = Outbox(broker, clock, rng)
    running = asyncio.create_task(outbox.run())
    assert not await outbox.send("state", b"memory", b"{}", deadline_seconds=0.2)
    await until(lambda: outbox.trouble and "cannot be written to" in outbox.trouble)
    assert (outbox.pending_bytes, running.done()) == (0, False)
    embedded.heal()
    assert await outbox.send("state", b"memory", b"{}", deadline_seconds=15.0)
    assert outbox.trouble is None
    running.cancel()
    await asyncio.wait({running})
    await outbox.close()


async def test_a_password_file_that_is_away_for_a_moment_costs_a_connection_and_not_the_service(
    embedded: EmbeddedBroker, clock: RealClock, rng: random.Random, tmp_path: Path
) -> None:
    settings = ServiceSettings(kafka_bootstrap=embedded.bootstrap, kafka_password_file=tmp_path / "password")

    def security() -> dict[str, str]:
        settings.kafka_password()
        return {}

    outbox = Outbox(Broker(embedded.bootstrap, security=security), clock, rng)
    running = asyncio.create_task(outbox.run())
    await until(lambda: running.done() or "password: cannot be read" in str(outbox.trouble))
    assert not running.done()
    await asyncio.to_thread((tmp_path / "password").write_text, "secret")
    assert await outbox.send("decisions", None, b"after", deadline_seconds=15.0)
    running.cancel()
    await asyncio.wait({running})
    await outbox.close()


async def test_closing_ends_without_a_traceback_although_the_broker_is_away(
    embedded: EmbeddedBroker,
    broker: Broker,
    clock: RealClock,
    rng: random.Random,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """aio-libs/aiokafka#1101: stop() of a producer with records under way never ends."""
    outbox = Outbox(broker, clock, rng)
    running = asyncio.create_task(outbox.run())
    assert await outbox.send("decisions", None, b"before", deadline_seconds=15.0)
    embedded.cut()
    waiting = asyncio.create_task(outbox.send("decisions", None, b"lost", deadline_seconds=60.0))
    await until(lambda: outbox.pending_bytes)
    running.cancel()
    async with asyncio.timeout(10):
        await outbox.close(deadline_seconds=0.5)
    assert await waiting is False
    assert outbox.pending_bytes == 0
    gc.collect()  # what failed and nobody looked at is told then
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []


async def test_closing_waits_no_second_time_for_a_broker_that_was_silent_for_a_whole_send(
    embedded: EmbeddedBroker, broker: Broker, clock: RealClock, rng: random.Random
) -> None:
    """K20 of the fault catalogue: an ordered end waits for its last checkpoint, and not as long again."""
    outbox = Outbox(broker, clock, rng)
    running = asyncio.create_task(outbox.run())
    assert await outbox.send("decisions", None, b"before", deadline_seconds=15.0)
    embedded.cut()
    assert not await outbox.send("state", None, b"checkpoint", deadline_seconds=0.3)
    running.cancel()
    began = asyncio.get_running_loop().time()
    await outbox.close(deadline_seconds=30.0)
    assert asyncio.get_running_loop().time() - began < 10.0


async def test_records_that_no_broker_took_however_often_they_were_tried_are_nobodys_unread_error(
    embedded: EmbeddedBroker, broker: Broker, clock: RealClock, rng: random.Random, caplog: pytest.LogCaptureFixture
) -> None:
    """A traceback a batch in the log, each time that a producer is given up while Kafka is away."""
    caplog.set_level(logging.CRITICAL, "aiokafka")  # as in the service; what is captured holds what it tells of
    outbox, unread = Outbox(broker, clock, rng), list[dict[str, object]]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unread.append(context))
    running = asyncio.create_task(outbox.run())
    topics = ("state", "decisions", "dead-letter", "notices")
    for topic in topics:
        assert await outbox.send(topic, None, b"before", deadline_seconds=15.0)
    embedded.cut()
    for seconds in (0.3, 0.6):  # what comes later waits behind what is tried again
        assert not any(await asyncio.gather(*(outbox.send(each, b"k", b"v", (), seconds) for each in topics)))
    running.cancel()
    await outbox.close(deadline_seconds=0.5)
    await asyncio.wait({running})
    await until(lambda: len(asyncio.all_tasks()) == 1)
    gc.collect()  # what failed and nobody looked at is told then
    assert unread == []


class _InHands(Outbox):
    """An outbox whose one record a producer holds until `refuse`."""

    def __init__(self, broker: Broker, clock: RealClock, rng: random.Random) -> None:
        super().__init__(broker, clock, rng)
        self._connected.set()
        self.sent: list[asyncio.Future[object]] = []

    async def _put(self, *_record: object) -> asyncio.Future[object]:
        self.sent.append(asyncio.get_running_loop().create_future())
        return self.sent[0]

    def refuse(self) -> None:
        self.sent.pop().set_exception(KafkaError("not enough replicas"))


async def test_a_refusal_in_the_moment_in_which_its_sender_ends_is_nobodys_unread_error(
    broker: Broker, clock: RealClock, rng: random.Random
) -> None:
    """Seed 1058 of the schedules: asyncio tells of an exception that nobody retrieved, which in production is a log."""
    outbox, unread = _InHands(broker, clock, rng), list[dict[str, object]]()
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unread.append(context))
    sending = asyncio.create_task(outbox.send("state", b"memory", b"{}"))
    await until(lambda: outbox.sent)
    outbox.refuse()
    sending.cancel()
    await asyncio.wait({sending})
    del sending  # whose end holds the refused record
    gc.collect()
    assert (unread, outbox.pending_bytes) == ([], 0)


async def test_memory_is_bounded_and_what_finds_no_room_is_counted(
    embedded: EmbeddedBroker, broker: Broker, clock: RealClock, rng: random.Random
) -> None:
    embedded.cut()
    outbox = Outbox(broker, clock, rng, max_pending_bytes=10_000)
    sends = [asyncio.create_task(outbox.send("decisions", None, b"x" * 1000, deadline_seconds=0.5)) for _ in range(50)]
    await until(lambda: outbox.counts["dropped"])
    assert outbox.pending_bytes <= 10_000
    assert not any(await asyncio.gather(*sends))
    assert (outbox.counts["dropped"], outbox.counts["unacknowledged"], outbox.pending_bytes) == (42, 8, 0)


async def test_a_record_that_is_too_large_is_false_and_its_neighbours_are_sent(outbox: Outbox, broker: Broker) -> None:
    sizes = [10, 2 * 1024 * 1024, 20]
    sent = await asyncio.gather(*(outbox.send("decisions", None, b"x" * size) for size in sizes))
    assert sent == [True, False, True]
    assert [len(value) for value in await values(broker, "decisions")] == [10, 20]
    assert outbox.counts["connected"] == 1


async def test_a_dead_letter_keeps_the_record_and_says_where_it_was_and_why(outbox: Outbox, broker: Broker) -> None:
    why = Rejection(Position("rebalancer.metrics", 2, 17), 1_800_000_000.25, "not-json", "no JSON at `$`: ü")
    assert await outbox.dead_letter(why, b"llama", b"\xff{", [("ce_id", b"7"), ("empty", None)])
    (found,) = await records(broker, "dead-letter")
    assert (found.key, found.value) == (b"llama", b"\xff{")
    assert dict(found.headers) == {
        "ce_id": b"7",
        "empty": None,
        "rebalancer-topic": b"rebalancer.metrics",
        "rebalancer-partition": b"2",
        "rebalancer-offset": b"17",
        "rebalancer-reason": b"not-json",
        "rebalancer-detail": "no JSON at `$`: ü".encode(),
        "rebalancer-at": b"1800000000.250",
    }


async def test_a_dead_letter_that_would_not_fit_is_cut_and_says_so(outbox: Outbox, broker: Broker) -> None:
    why = Rejection(Position("rebalancer.metrics", 2, 17), 1_800_000_000.0, "too-large", "900000 bytes")
    assert await outbox.dead_letter(why, b"k" * 900_000, b"x" * 900_000, [("h", b"y" * 900_000)])
    (found,) = await records(broker, "dead-letter")
    headers = dict(found.headers)
    assert (len(found.key), len(found.value)) == (64 * 1024, 512 * 1024)
    assert (headers["rebalancer-value-cut"], headers["rebalancer-headers-cut"]) == (b"900000 bytes", b"true")


async def test_topics_that_are_missing_are_made_or_appear_on_first_use() -> None:
    async with EmbeddedBroker({"x.metrics": 12}) as embedded:
        there = await Broker(embedded.bootstrap, prefix="x.").make_topics()
    assert set(there) == {f"x.{name}" for name in TOPICS}
    assert there["x.metrics"] == 12


async def test_asking_for_a_topic_does_not_make_it(broker: Broker) -> None:
    assert await broker.partitions("rebalancer.metrics") == 3
    assert await broker.partitions("other") == 0
    assert await broker.partitions("other") == 0


async def test_an_absent_broker_is_an_error_within_seconds() -> None:
    with pytest.raises(KafkaConnectionError, match="bootstrap"):
        await Broker("127.0.0.1:1").make_topics()
