"""Notices from a queue of SQS: into the topic as they came, deleted once Kafka has them, read there like any other."""

import asyncio
import json
import random
from collections.abc import AsyncIterator

import pytest

from rebalancer.aws.address import QueueAddress
from rebalancer.aws.queue import VISIBILITY_SECONDS, SqsQueue
from rebalancer.domain.events import CapacityNotice, Position
from rebalancer.ingest.notice_queue import NoticeQueue
from rebalancer.ingest.notices import decode_notice
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.outbox import Outbox
from rebalancer.loop.clock import RealClock
from rebalancer.obs.effects import When
from rebalancer.sandbox.broker import EmbeddedBroker
from tests.aws.server import REGION, KeySigner, SqsServer, sqs_server
from tests.ingest.rig import Intake, Refusing
from tests.ingest.wrapped import WRAPPINGS
from tests.kafka.waiting import SkippingClock, records, until
from tests.machine.killed import Life, watched

AT = 1_800_000_000.0  # 2027-01-15T08:00:00Z
TOPICS = {f"rebalancer.{name}": 1 for name in ("metrics", "notices", "overrides", "decisions", "state", "dead-letter")}


def warning(instance: str) -> bytes:
    event = {
        "version": "0",
        "id": f"event-{instance}",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "source": "aws.ec2",
        "time": "2027-01-15T07:59:30Z",
        "detail": {"instance-id": instance, "instance-action": "terminate"},
    }
    return json.dumps(event).encode()


@pytest.fixture
async def embedded() -> AsyncIterator[EmbeddedBroker]:
    async with EmbeddedBroker(TOPICS) as running:
        yield running


@pytest.fixture
def broker(embedded: EmbeddedBroker) -> Broker:
    return Broker(embedded.bootstrap)


@pytest.fixture
async def server() -> AsyncIterator[SqsServer]:
    async with sqs_server() as running:
        yield running


class Carrying:
    """A reader of the queue that runs, beside an outbox."""

    def __init__(self, server: SqsServer, broker: Broker) -> None:
        self.read_by: dict[str, str] = {}
        self.clock = SkippingClock()
        self.outbox = Outbox(broker, RealClock(), random.Random(7))
        queue = SqsQueue(QueueAddress(server.url, REGION), KeySigner())
        self.reader = NoticeQueue(queue, self.outbox, self.clock, random.Random(7), self.named_readers)
        self._tasks: list[asyncio.Task[None]] = []

    async def named_readers(self) -> dict[str, str]:
        """Who reads queues, as the cluster says."""
        return self.read_by

    def start(self) -> None:
        """Set both going."""
        self._tasks = [asyncio.ensure_future(each.run()) for each in (self.outbox, self.reader)]

    async def stop(self) -> None:
        """End both."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await self.outbox.close(2.0)


@pytest.fixture
async def carrying(server: SqsServer, broker: Broker) -> AsyncIterator[Carrying]:
    made = Carrying(server, broker)
    made.start()
    yield made
    await made.stop()


async def notices(broker: Broker) -> list[CapacityNotice]:
    found: list[CapacityNotice] = []
    for record in await records(broker, "notices"):
        position = Position(record.topic, record.partition, record.offset)
        decoded = decode_notice(record.value, record.headers, position, record.timestamp / 1000, AT)
        assert isinstance(decoded, tuple), decoded
        found += decoded
    return found


@pytest.mark.usefixtures("carrying")
@pytest.mark.parametrize("wrapping", ["plain", "SNS", "Pipes with a template"])
async def test_a_message_is_read_in_the_topic_as_if_it_had_been_written_there(
    server: SqsServer, broker: Broker, wrapping: str
) -> None:
    server.send(WRAPPINGS[wrapping](warning("i-1")).decode())
    await until(lambda: not server.there)
    (notice,) = await notices(broker)
    assert (notice.kind, notice.instance_id, notice.deadline) == ("spot-interruption", "i-1", AT - 30 + 120)
    assert (notice.source, notice.id) == ("aws.ec2", "event-i-1")


async def test_a_hundred_at_once_all_arrive_and_none_stays(
    server: SqsServer, broker: Broker, carrying: Carrying
) -> None:
    for number in range(100):
        server.send(warning(f"i-{number}").decode())
    await until(lambda: not server.there)
    assert {one.instance_id for one in await notices(broker)} == {f"i-{number}" for number in range(100)}
    assert carrying.reader.counts["forwarded"] == 100
    assert carrying.reader.trouble is None


async def test_nothing_is_taken_while_kafka_is_away_and_nothing_is_lost(
    server: SqsServer, broker: Broker, embedded: EmbeddedBroker
) -> None:
    made = Carrying(server, broker)
    embedded.cut()
    sent = server.send(warning("i-1").decode())
    made.start()
    await until(lambda: "until Kafka takes them" in (made.reader.trouble or ""))
    assert (server.there, server.receives(sent)) == ([sent], 0)
    embedded.heal()
    await until(lambda: not server.there)
    assert [one.instance_id for one in await notices(broker)] == ["i-1"]
    await made.stop()


async def test_what_kafka_did_not_take_is_not_deleted_and_comes_again(server: SqsServer, broker: Broker) -> None:
    made = Carrying(server, broker)
    refused: list[bytes] = []

    class Once:
        """A topic that does not acknowledge the first record."""

        trouble: str | None = None
        dead_letter = made.outbox.dead_letter

        async def send(self, topic: str, key: bytes | None, value: bytes) -> bool:
            if not refused:
                refused.append(value)
                return False
            return await made.outbox.send(topic, key, value)

    queue = SqsQueue(QueueAddress(server.url, REGION), KeySigner())
    reader = NoticeQueue(queue, Once(), made.clock, random.Random(7), made.named_readers)
    sent = server.send(warning("i-1").decode())
    running = [asyncio.ensure_future(each.run()) for each in (made.outbox, reader)]
    await until(lambda: reader.counts["put-off"])
    assert server.there == [sent]
    server.lapse()
    await until(lambda: not server.there)
    assert [one.instance_id for one in await notices(broker)] == ["i-1"]
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    await made.outbox.close(2.0)


@pytest.mark.usefixtures("carrying")
async def test_a_message_that_is_no_notice_does_not_stay_either(server: SqsServer, broker: Broker) -> None:
    """Its topic keeps it, and who reads that makes a dead letter of it with the reason."""
    server.send("<xml/>")
    await until(lambda: not server.there)
    (record,) = await records(broker, "notices")
    assert json.loads(record.value)["Body"] == "<xml/>"


async def test_a_message_too_large_for_a_record_goes_to_the_dead_letters_and_its_neighbour_is_read(
    server: SqsServer, broker: Broker, carrying: Carrying
) -> None:
    server.send("x" * 1_000_000)
    server.send(warning("i-1").decode())
    await until(lambda: not server.there)
    assert [one.instance_id for one in await notices(broker)] == ["i-1"]
    (letter,) = await records(broker, "dead-letter")
    headers = dict(letter.headers)
    assert headers["rebalancer-reason"] == b"too-large"
    assert headers["rebalancer-topic"] == b"sqs/capacity-notices"
    assert carrying.reader.counts["too-large"] == 1


async def test_karpenters_queue_is_never_read(server: SqsServer, broker: Broker) -> None:
    made = Carrying(server, broker)
    made.read_by["capacity-notices"] = "Deployment kube-system/karpenter"
    sent = server.send(warning("i-1").decode())
    made.start()
    await until(lambda: "is read by Deployment kube-system/karpenter" in (made.reader.trouble or ""))
    made.clock.skipped += 301.0
    await until(lambda: [action for action, _ in server.asked].count("ListQueueTags") >= 2)
    assert (server.there, server.receives(sent)) == ([sent], 0)
    made.read_by.clear()
    made.clock.skipped += 301.0
    await until(lambda: not server.there)
    await made.stop()


async def test_a_queue_whose_tags_we_may_not_read_is_judged_by_the_rest(server: SqsServer, broker: Broker) -> None:
    made = Carrying(server, broker)
    server.refuses.add("ListQueueTags")
    server.send(warning("i-1").decode())
    made.start()
    await until(lambda: not server.there)
    await made.stop()


async def test_a_queue_that_refuses_us_is_told_and_asked_again(server: SqsServer, broker: Broker) -> None:
    made = Carrying(server, broker)
    server.refuses.add("ReceiveMessage")
    server.send(warning("i-1").decode())
    made.start()
    await until(lambda: "AccessDeniedException: no right to sqs:ReceiveMessage" in (made.reader.trouble or ""))
    server.refuses.clear()
    made.clock.skipped += 60.0
    await until(lambda: not server.there)
    assert made.reader.trouble is None
    await made.stop()


@pytest.mark.parametrize(
    ("effect", "when", "left", "written", "in_the_end"),
    [
        ("sqs/receive", "before", 1, 0, 1),
        ("sqs/receive", "after", 1, 0, 1),
        ("kafka/notices", "before", 1, 0, 1),
        ("kafka/notices", "after", 1, 1, 2),
        ("sqs/delete", "before", 1, 1, 2),
        ("sqs/delete", "after", 0, 1, 1),
    ],
)
async def test_killed_on_the_way_from_the_queue_to_kafka_a_notice_is_not_lost_and_counts_once(
    server: SqsServer, broker: Broker, effect: str, when: When, left: int, written: int, in_the_end: int
) -> None:
    """`left`: messages in the queue after the death; `written`: records by then, `in_the_end` after the next life."""
    dying, after, life = Carrying(server, broker), Carrying(server, broker), Life(effect, 1, when)
    server.send(warning("i-1").decode())
    with watched(life):
        dying.start()
    await until(lambda: life.over)
    await dying.stop()
    assert (len(server.there), len(await notices(broker))) == (left, written)
    server.lapse()
    after.start()
    await until(lambda: not server.there)
    await after.stop()
    assert len(await notices(broker)) == in_the_end
    clock = SkippingClock()
    clock.skipped = AT - clock.now()
    async with Intake(broker, Refusing(), {("rebalancer.notices", 0): 0}, clock) as reading:
        await until(lambda: len(reading.notices) + reading.intake.counts["duplicates"] == in_the_end)
    assert [one.instance_id for one in reading.notices] == ["i-1"]


async def test_a_notice_whose_reader_died_with_it_is_given_to_another_after_the_30_s_that_it_is_hidden(
    server: SqsServer, broker: Broker
) -> None:
    dying, after, life = Carrying(server, broker), Carrying(server, broker), Life("sqs/receive", 1, "after")
    name = server.send(warning("i-1").decode())
    with watched(life):
        dying.start()
    await until(lambda: life.over)
    await dying.stop()
    after.start()
    asked = len(server.asked)
    server.lapse(VISIBILITY_SECONDS - 1.0)
    await until(lambda: [action for action, _ in server.asked[asked:]].count("ReceiveMessage") > 1)
    assert server.there == [name], "nobody is given it before"
    server.lapse(1.0)
    await until(lambda: not server.there)
    await after.stop()
    assert len(await notices(broker)) == 1
