"""A Kafka in memory: topics of one partition, whose records wait while the link to it is cut."""

from collections.abc import Sequence

import msgspec
from aiokafka import ConsumerRecord, TopicPartition

from rebalancer.domain.events import METRIC_SAMPLE_TYPE, MetricSample, Rejection
from rebalancer.ingest.reader import Reader
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.consumer import SHARE
from rebalancer.kafka.frontier import Frontier
from rebalancer.sandbox.producer import spelled

BROKER = Broker("")
URGENT = (BROKER.topic("notices"), BROKER.topic("overrides"))
METRICS = BROKER.topic("metrics")

Headers = Sequence[tuple[str, bytes | None]]

_encode = msgspec.json.Encoder().encode


class MemoryBroker:
    """Implements `kafka.dead_letters.Keeper`. `away`: nobody of the service's reads or writes; producers still do.

    So a cut link, which is the harder outage: all that was said meanwhile comes at once when it is over.
    """

    def __init__(self) -> None:
        self.away = False
        self.letters: list[tuple[Rejection, bytes]] = []
        self._topics: dict[str, list[ConsumerRecord]] = {topic: [] for topic in (*URGENT, METRICS)}

    def put(self, topic: str, at: float, value: bytes, headers: Headers = ()) -> None:
        """One record by a producer."""
        records = self._topics[topic]
        place, stamp = len(records), int(at * 1000)
        records.append(ConsumerRecord(topic, 0, place, stamp, 0, None, value, None, -1, len(value), headers))

    def sample(self, sample: MetricSample) -> None:
        """What an exporter says of a model."""
        counters = sample.counters
        data: dict[str, object] = {
            "model": sample.model,
            "intervalSeconds": sample.interval_seconds,
            "gauges": sample.gauges,
        }
        if counters is not None:
            data["counters"] = {
                "startTime": spelled(counters.start_time),
                "requestsFinished": counters.requests_finished,
                "requestsLeft": counters.requests_left,
            }
        headers = {"specversion": "1.0", "type": METRIC_SAMPLE_TYPE, "source": sample.source, "id": sample.id}
        named = [(f"ce_{name}", text.encode()) for name, text in headers.items()]
        named += [("ce_time", spelled(sample.at).encode()), ("content-type", b"application/json")]
        self.put(METRICS, sample.at, _encode(data), named)

    def assign(self, reader: Reader, offsets: dict[tuple[str, int], int]) -> None:
        """Whoever starts reads on from these."""
        for topic in self._topics:
            reader.frontiers[TopicPartition(topic, 0)] = Frontier(offsets.get((topic, 0), 0))

    def turn(self, reader: Reader, now: float) -> bool:
        """One turn of the consumer: a share of what is urgent, then one of the metrics; whether there was any."""
        if self.away:
            return False
        shares = [self._share(reader, topics) for topics in (URGENT, (METRICS,))]
        for share in shares:
            reader.read(share, now)
        return any(shares)

    def _share(self, reader: Reader, topics: Sequence[str]) -> dict[TopicPartition, list[ConsumerRecord]]:
        there = {TopicPartition(topic, 0): self._topics[topic] for topic in topics}
        first = {one: reader.frontiers[one].next_offset for one in there}
        return {
            one: records[first[one] : first[one] + SHARE] for one, records in there.items() if records[first[one] :]
        }

    def unread(self, reader: Reader) -> int:
        """Records that wait."""
        return sum(
            len(records) - reader.frontiers[TopicPartition(topic, 0)].next_offset
            for topic, records in self._topics.items()
        )

    async def dead_letter(
        self,
        rejection: Rejection,
        key: bytes | None,
        value: bytes,
        headers: Sequence[tuple[str, bytes | None]],
        **_: object,
    ) -> bool:
        """Kept, where the link is whole."""
        if not self.away:
            self.letters.append((rejection, value))
        return not self.away
