"""What the reader makes of batches, without a broker."""

import random

import pytest

from rebalancer.domain.events import CapacityNotice, Event, Position
from rebalancer.domain.producers import DecoderName, MetricProducer
from rebalancer.ingest.envelope import Headers
from rebalancer.ingest.notices import decode_notice
from rebalancer.ingest.reader import Decoded, Decoder, Reader
from rebalancer.kafka.dead_letters import DeadLetters
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.records import ConsumerRecord, TopicPartition
from rebalancer.loop.clock import RealClock
from tests.ingest.rig import Refusing
from tests.ingest.wire import NOW, STRUCTURED, notice

NOTICES = TopicPartition("rebalancer.notices", 0)


class Reading:
    """A reader of notices, and what came out of it."""

    def __init__(self, decode: Decoder = decode_notice) -> None:
        self.events: list[Event] = []
        letters = DeadLetters(Refusing(), RealClock(), random.Random(1))
        self.reader = Reader({NOTICES.topic: decode}, self.events.extend, letters)
        self.reader.frontiers[NOTICES] = Frontier(0)

    @property
    def instances(self) -> list[str | None]:
        return [one.instance_id for one in self.events if isinstance(one, CapacityNotice)]

    def read(self, *values: bytes) -> None:
        self.reader.read({NOTICES: [record(NOTICES, offset, value) for offset, value in enumerate(values)]}, NOW)


def record(partition: TopicPartition, offset: int, value: bytes) -> ConsumerRecord:
    at = int(NOW * 1000)
    return ConsumerRecord(*partition, offset, at, 0, None, value, None, 0, len(value), STRUCTURED)


def test_notices_of_several_nodes_under_one_id_are_all_heard_and_each_of_them_once() -> None:
    """In IMDS mode aws-node-termination-handler gives all nodes that are taken in one second the same id."""
    reading = Reading()
    storm = [notice(node=None, instanceId=instance) for instance in ("i-1", "i-2", "i-3")]
    reading.read(*storm)
    reading.read(storm[1])
    assert reading.instances == ["i-1", "i-2", "i-3"]
    assert reading.reader.counts["duplicates"] == 1


def test_records_of_a_topic_that_left_the_policy_are_passed_over_and_cost_no_notice() -> None:
    reading, left = Reading(), TopicPartition("telegraf-metrics", 0)
    reading.reader.follow([MetricProducer(topic=left.topic, decoder="telegraf")])
    reading.reader.frontiers[left] = Frontier(0)
    reading.reader.follow([])
    told = record(NOTICES, 0, notice(node=None, instanceId="i-1"))
    reading.reader.read({NOTICES: [told], left: [record(left, 0, b"{}")]}, NOW)
    assert reading.instances == ["i-1"]
    assert reading.reader.frontiers[left].next_offset == 1


@pytest.mark.parametrize("decoder", ["telegraf", "rebalancer"])
def test_a_producer_takes_over_no_topic_that_is_read_as_our_own(decoder: DecoderName) -> None:
    reading = Reading()
    reading.reader.follow([MetricProducer(topic=NOTICES.topic, decoder=decoder)])
    reading.read(notice(node=None, instanceId="i-1"))
    assert reading.instances == ["i-1"]


def test_a_defect_in_a_decoder_costs_the_record_that_shows_it_and_no_neighbour() -> None:
    def choking(value: bytes, headers: Headers, position: Position, kafka_timestamp: float, now: float) -> Decoded:
        if value == b"7":
            raise ZeroDivisionError("a defect")
        return decode_notice(value, headers, position, kafka_timestamp, now)

    reading = Reading(choking)
    reading.read(notice(node=None, instanceId="i-1"), b"7", notice(node=None, instanceId="i-2", kind="rebalance"))
    assert reading.instances == ["i-1", "i-2"]
    assert reading.reader.counts["rejected.not-applied"] == 1
    assert reading.reader.frontiers[NOTICES].next_offset == 3
