"""The intake against a broker: everything arrives, in time, once poisoned or twice delivered, whatever breaks."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import structlog
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer as BlockingProducer

from rebalancer.domain.events import Event
from rebalancer.domain.producers import DecoderName, MetricProducer
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.consumer import SHARE
from rebalancer.kafka.outbox import Outbox
from rebalancer.loop.clock import RealClock
from rebalancer.sandbox.broker import EmbeddedBroker
from tests.builders import a_policy
from tests.ingest.rig import Intake, Refusing
from tests.ingest.wire import NOTICE_TYPE, STRUCTURED
from tests.kafka.waiting import SkippingClock, records, until

METRICS, NOTICES, OVERRIDES = "rebalancer.metrics", "rebalancer.notices", "rebalancer.overrides"
POISON = b"\xff not an event"


class Feed:
    """Sends records as producers do; event times are Kafka's."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self._producer = producer

    async def metric(self, identity: object, partition: int = 0) -> None:
        await self._later(METRICS, sample(identity), partition)

    async def metrics(self, identities: range) -> None:
        for identity in identities:
            await self._later(METRICS, sample(identity), identity % 3)
        await self._producer.flush()

    async def notice(self, identity: object) -> None:
        await self._producer.send_and_wait(NOTICES, a_notice(identity), headers=list(STRUCTURED))

    async def raw(self, topic: str, value: bytes | None, partition: int = 0) -> None:
        await self._producer.send_and_wait(topic, value, key=b"k", headers=list(STRUCTURED), partition=partition)

    async def plain(self, topic: str, value: bytes) -> None:
        await self._producer.send_and_wait(topic, value)

    async def _later(self, topic: str, value: bytes, partition: int) -> None:
        await self._producer.send(topic, value, headers=list(STRUCTURED), partition=partition)


def minute_passes(clock: SkippingClock) -> bool:
    """More than the intake bears without progress."""
    clock.skipped += 61
    return True


def sample(identity: object) -> bytes:
    data = {"model": "b", "intervalSeconds": 5, "gauges": {"running": 1}}
    return envelope("io.rebalancer.metric.sample.v1", identity, data)


def a_notice(identity: object) -> bytes:
    return envelope(NOTICE_TYPE, identity, {"kind": "rebalance", "node": "n", "deadline": "2027-01-15T08:00:00Z"})


def envelope(kind: str, identity: object, data: object) -> bytes:
    return json.dumps({"specversion": "1.0", "type": kind, "source": "s", "id": str(identity), "data": data}).encode()


@pytest.fixture
async def feed(producer: AIOKafkaProducer) -> Feed:
    return Feed(producer)


@pytest.fixture
async def flood(embedded: EmbeddedBroker) -> AsyncIterator[Feed]:
    """Sends batches of thousands: the embedded broker hands out one batch per partition and fetch."""
    bulk = AIOKafkaProducer(bootstrap_servers=embedded.bootstrap, max_batch_size=900_000, linger_ms=100)
    async with bulk as opened:
        yield Feed(opened)


@pytest.fixture
async def intake(broker: Broker, outbox: Outbox) -> AsyncIterator[Intake]:
    async with Intake(broker, outbox) as running:
        yield running


async def test_what_was_there_and_what_comes_reaches_the_sink_with_its_position(feed: Feed, intake: Intake) -> None:
    await feed.metrics(range(30))
    await feed.notice("n-1")
    await until(lambda: len(intake.events) == 31)
    await feed.metrics(range(30, 40))
    await until(lambda: len(intake.events) == 41)
    assert {one.id for one in intake.samples} == {str(number) for number in range(40)}
    assert sorted(str(one.position) for one in intake.samples if one.position and one.position.partition == 0)[:2] == [
        f"{METRICS}/0@0",
        f"{METRICS}/0@1",
    ]
    assert [str(one.position) for one in intake.notices] == [f"{NOTICES}/0@0"]
    assert intake.intake.consumer.trouble is None
    assert intake.intake.consumer.missing_by_topic() == {}


async def test_poisoned_records_go_to_the_dead_letters_and_their_neighbours_to_the_sink(
    feed: Feed, intake: Intake, broker: Broker
) -> None:
    for number in range(100):
        await feed.raw(METRICS, POISON if number % 10 == 3 else sample(number))
    await until(lambda: intake.intake.counts["buried"] == 10)
    await until(lambda: len(intake.samples) == 90)
    letters = await records(broker, "dead-letter")
    headers = [dict(letter.headers) for letter in letters]
    assert {letter.value for letter in letters} == {POISON}
    assert {letter.key for letter in letters} == {b"k"}
    assert {int(one["rebalancer-offset"] or b"") for one in headers} == set(range(3, 100, 10))
    assert {one["rebalancer-topic"] for one in headers} == {METRICS.encode()}
    assert {one["rebalancer-reason"] for one in headers} == {b"not-utf8"}
    assert all(one["rebalancer-detail"] and one["rebalancer-at"] for one in headers)
    assert intake.intake.counts["rejected.not-utf8"] == 10


async def test_of_samples_with_impossible_gauges_the_rest_counts_and_one_a_minute_is_kept_to_be_read(
    feed: Feed, intake: Intake, broker: Broker
) -> None:
    """An exporter writes its blank every second, for ever: the dead-letter topic is no place for all of that."""
    blank = sample(1).replace(b'"gauges": {', b'"gauges": {"fbUsedMib": 9223372036854775794, ')
    for _ in range(20):
        await feed.raw(METRICS, blank)
    await until(lambda: len(intake.samples) == 20)
    await until(lambda: intake.intake.counts["buried"] == 1)
    (letter,) = await records(broker, "dead-letter")
    assert letter.value == blank
    assert dict(letter.headers)["rebalancer-reason"] == b"impossible-gauge"
    assert intake.intake.counts["impossible.fbUsedMib"] == 20
    assert intake.intake.counts["rejected.impossible-gauge"] == 1


async def test_a_flood_of_metrics_does_not_delay_a_notice(
    flood: Feed, embedded: EmbeddedBroker, outbox: Outbox, broker: Broker
) -> None:
    """K12. 30,000 samples wait; the notice comes when the first of them were read, behind none of the others."""
    waiting = 30_000
    await flood.metrics(range(waiting))
    sender = BlockingProducer({"bootstrap.servers": embedded.bootstrap, "linger.ms": 0, "log_level": 0})

    class Watching(Intake):
        before = 0
        after = 0

        def sink(self, events: list[Event]) -> None:
            super().sink(events)
            if not self.before:
                sender.produce(NOTICES, a_notice("urgent"), headers=list(STRUCTURED))
                assert sender.flush(10) == 0
                self.before = len(self.samples)
            if self.notices and not self.after:
                self.after = len(self.samples)

    async with Watching(broker, outbox) as intake:
        await until(lambda: len(intake.samples) == waiting)
        assert intake.notices
        assert intake.after - intake.before < waiting / 2
        assert max(intake.calls) <= SHARE + 1


async def test_a_notice_is_taken_before_the_metrics_that_wait_beside_it(
    flood: Feed, broker: Broker, outbox: Outbox
) -> None:
    await flood.metrics(range(6000))
    await flood.notice("urgent")

    class Ordered(Intake):
        calls_before_notice = 0

        def sink(self, events: list[Event]) -> None:
            super().sink(events)
            self.calls_before_notice += not self.notices

    async with Ordered(broker, outbox) as intake:
        await until(lambda: len(intake.events) == 6001)
        assert intake.calls_before_notice <= 2


async def test_a_restart_goes_on_where_the_checkpoint_says(feed: Feed, broker: Broker, outbox: Outbox) -> None:
    await feed.metrics(range(30))
    await feed.notice("n-1")
    async with Intake(broker, outbox) as first:
        await until(lambda: len(first.events) == 31)
        checkpoint = first.intake.consumer.safe_offsets()
    assert checkpoint == {(METRICS, 0): 10, (METRICS, 1): 10, (METRICS, 2): 10, (NOTICES, 0): 1, (OVERRIDES, 0): 0}
    await feed.metrics(range(30, 36))
    async with Intake(broker, outbox, checkpoint) as second:
        await until(lambda: len(second.events) == 6)
        assert {one.id for one in second.samples} == {str(number) for number in range(30, 36)}
        assert second.intake.counts["resyncs"] == 0


async def test_a_checkpoint_does_not_pass_a_dead_letter_that_nobody_has(
    feed: Feed, broker: Broker, outbox: Outbox
) -> None:
    """Killed while the dead-letter topic did not answer: the next process reads the poison again, and buries it."""
    for number in range(20):
        await feed.raw(METRICS, POISON if number in {5, 11} else sample(number))
    refusing = Refusing()
    async with Intake(broker, refusing) as first:
        await until(lambda: len(first.samples) == 18)
        await until(lambda: len(refusing.asked) >= 2)
        checkpoint = first.intake.consumer.safe_offsets()
    assert checkpoint[METRICS, 0] == 5
    async with Intake(broker, outbox, checkpoint) as second:
        await until(lambda: second.intake.counts["buried"] == 2)
        await until(lambda: second.intake.consumer.safe_offsets()[METRICS, 0] == 20)
    applied = {one.id for one in first.samples + second.samples}
    buried = {dict(letter.headers)["rebalancer-offset"] for letter in await records(broker, "dead-letter")}
    assert applied | {(offset or b"").decode() for offset in buried} == {str(number) for number in range(20)}


async def test_a_checkpoint_that_the_topic_does_not_reach_is_told_and_everything_is_read(
    feed: Feed, broker: Broker, outbox: Outbox
) -> None:
    """K13, K14: the topic was made anew."""
    await feed.metrics(range(6))
    async with Intake(broker, outbox, {(METRICS, 0): 500, (METRICS, 1): 1}) as intake:
        await until(lambda: len(intake.samples) == 5)
        assert intake.intake.counts["resyncs"] == 1
        assert intake.intake.consumer.safe_offsets()[METRICS, 0] == 2


async def test_records_that_vanish_before_they_are_read_are_told_and_the_rest_is_read(
    feed: Feed, embedded: EmbeddedBroker, broker: Broker, outbox: Outbox
) -> None:
    """K13: while the first sample is applied, retention passes the second."""
    sender = BlockingProducer({"bootstrap.servers": embedded.bootstrap, "log_level": 0})
    filler = b"x" * 700_000  # the embedded broker keeps 5 MiB per partition

    class Slow(Intake):
        def sink(self, events: list[Event]) -> None:
            if not self.events:
                for value in [sample("lost"), *[filler] * 10, sample("kept")]:
                    sender.produce(METRICS, value, partition=0, headers=list(STRUCTURED))
                assert sender.flush(20) == 0
            super().sink(events)

    await feed.raw(METRICS, sample("first"))
    async with Slow(broker, outbox) as intake:
        await until(lambda: len(intake.samples) == 2)
        assert [one.id for one in intake.samples] == ["first", "kept"]
        assert intake.intake.counts["resyncs"] == 1


async def test_the_same_notice_twice_is_one(feed: Feed, intake: Intake) -> None:
    for identity in ("a", "b", "a", "a", "c"):
        await feed.notice(identity)
    await until(lambda: len(intake.notices) + intake.intake.counts["duplicates"] == 5)
    assert [one.id for one in intake.notices] == ["a", "b", "c"]


async def test_of_a_record_of_several_messages_the_good_count_once_and_the_rest_is_a_dead_letter(
    feed: Feed, intake: Intake, broker: Broker
) -> None:
    mixed = b"[" + b",".join([a_notice("b"), a_notice("a"), b'"Hello from SNS!"']) + b"]"
    await feed.notice("a")
    await feed.plain(NOTICES, mixed)
    await feed.plain(NOTICES, b"[]")
    await until(lambda: intake.intake.counts["buried"] == 1 and intake.intake.counts["ignored"] == 1)
    assert [one.id for one in intake.notices] == ["a", "b"]
    assert intake.intake.counts["duplicates"] == 1
    (letter,) = await records(broker, "dead-letter")
    assert (letter.value, dict(letter.headers)["rebalancer-reason"]) == (mixed, b"not-json")


async def test_a_tombstone_is_ignored_on_purpose_and_an_override_record_is_a_dead_letter(
    feed: Feed, intake: Intake, broker: Broker
) -> None:
    await feed.raw(NOTICES, None)
    await feed.raw(OVERRIDES, envelope("io.rebalancer.override.v1", 1, {}))
    await until(lambda: intake.intake.counts["buried"] == 1 and intake.intake.counts["tombstones"] == 1)
    (letter,) = await records(broker, "dead-letter")
    assert dict(letter.headers)["rebalancer-reason"] == b"override-unsigned"
    assert intake.intake.consumer.safe_offsets()[NOTICES, 0] == 1


async def test_an_event_that_the_state_cannot_take_costs_only_itself(
    feed: Feed, broker: Broker, outbox: Outbox
) -> None:
    class Choking(Intake):
        def sink(self, events: list[Event]) -> None:
            if any(getattr(one, "id", None) == "7" for one in events):
                raise ZeroDivisionError("a defect")
            super().sink(events)

    await feed.metrics(range(12))
    async with Choking(broker, outbox) as intake:
        await until(lambda: intake.intake.counts["buried"] == 1 and len(intake.samples) == 11)
    (letter,) = await records(broker, "dead-letter")
    assert (letter.value, dict(letter.headers)["rebalancer-reason"]) == (sample(7), b"not-applied")


async def test_a_broker_that_was_away_is_read_again_when_it_is_back(
    feed: Feed, embedded: EmbeddedBroker, broker: Broker, outbox: Outbox
) -> None:
    await feed.metrics(range(3))
    clock = SkippingClock()
    async with Intake(broker, outbox, clock=clock) as intake:
        await until(lambda: len(intake.samples) == 3)
        embedded.cut()
        await until(lambda: minute_passes(clock) and intake.intake.consumer.trouble)
        trouble = str(intake.intake.consumer.trouble)
        assert "no progress" in trouble or "cannot be read" in trouble
        assert intake.running
        embedded.heal()
        await feed.metrics(range(3, 6))
        await until(lambda: len(intake.samples) == 6)
        await until(lambda: intake.intake.consumer.stuck_seconds() < 60 and intake.intake.consumer.trouble is None)
        assert sorted(one.id for one in intake.samples) == [str(number) for number in range(6)]
        assert intake.intake.counts["reconnects"] >= 1


async def test_a_topic_that_is_not_seen_makes_no_progress_is_told_once_and_read_when_it_is(
    feed: Feed, embedded: EmbeddedBroker, broker: Broker, outbox: Outbox
) -> None:
    embedded.refuse(OVERRIDES)
    clock = SkippingClock()
    with structlog.testing.capture_logs() as log:
        async with Intake(broker, outbox, clock=clock) as intake:
            consumer = intake.intake.consumer
            await feed.metric("m-1")
            await until(lambda: intake.samples and consumer.missing_by_topic().keys() == {"overrides"})
            clock.skipped += 30.0
            await until(lambda: consumer.stuck_by_topic()["overrides"] > 30.0 > consumer.stuck_by_topic()["metrics"])
            assert consumer.trouble is None, "the others are read"
            embedded.allow(OVERRIDES)
            await until(lambda: not consumer.missing_by_topic())
            await until(lambda: consumer.stuck_by_topic().get("overrides", 30.0) < 30.0)
    logged = [(each["event"], each.get("topics")) for each in log if "topics" in each["event"]]
    unseen = "topics that are not seen: none such, or no right to Describe"
    assert logged == [(unseen, [OVERRIDES]), ("all topics are seen", None)]


async def test_without_a_broker_it_waits_and_ends_when_told(clock: RealClock) -> None:
    async with Intake(Broker("127.0.0.1:1"), Refusing()) as intake:
        await until(lambda: intake.intake.counts["reconnects"] >= 2)
        assert intake.intake.consumer.trouble
        assert "127.0.0.1:1" in intake.intake.consumer.trouble
        assert intake.running


async def test_it_ends_when_told_although_the_broker_went_away(
    feed: Feed, embedded: EmbeddedBroker, broker: Broker, outbox: Outbox
) -> None:
    await feed.metrics(range(3))
    async with Intake(broker, outbox) as intake:
        await until(lambda: len(intake.samples) == 3)
        embedded.cut()
        await asyncio.sleep(0)


@pytest.mark.parametrize("decoder", ["telegraf", "rebalancer"])
async def test_what_belongs_into_our_own_topics_is_read_although_the_policy_gives_them_to_a_producer(
    decoder: DecoderName, feed: Feed, intake: Intake
) -> None:
    producers = tuple(MetricProducer(topic=topic, decoder=decoder) for topic in (METRICS, NOTICES, "telegraf-metrics"))
    intake.intake.follow(a_policy(producers=producers))
    await feed.metric("m-1")
    await feed.notice("n-1")
    await until(lambda: len(intake.events) == 2)
    assert ([one.id for one in intake.samples], [one.id for one in intake.notices]) == (["m-1"], ["n-1"])
    assert intake.intake.passed_over == (METRICS, NOTICES)
