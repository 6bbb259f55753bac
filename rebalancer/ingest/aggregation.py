"""What one aggregator has read and not handed on yet. It remembers nothing else, so a partition that moves takes none.

Records are decoded here as the service decodes them, by the same reader; what it cannot use goes to the dead letters.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from rebalancer.domain.events import Event, MetricSample
from rebalancer.ingest.aggregated import PartitionStretch, readings_records
from rebalancer.ingest.envelope import Headers
from rebalancer.ingest.reader import DECODERS, Batch, Reader
from rebalancer.kafka.dead_letters import DeadLetters
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.records import TopicPartition
from rebalancer.obs.clock import Clock

MAX_WAITING = 20_000  # samples that are not handed on: some 15 MiB
EVENT_HEADERS = (("content-type", b"application/cloudevents+json"),)


class ReadingsSender(Protocol):
    """Where readings go: `kafka.outbox.Outbox`."""

    async def send(self, topic: str, key: bytes | None, value: bytes, headers: Headers = ()) -> bool:
        """Whether the record is there for good; False may turn out true later."""
        ...


class Aggregation:
    """`source`: our name in what we write. `frontiers`: of the partitions that are ours, and no others."""

    def __init__(
        self, topic: str, source: str, sender: ReadingsSender, dead_letters: DeadLetters, clock: Clock
    ) -> None:
        self._reader = Reader({topic: DECODERS["metrics"]}, self._take, dead_letters)
        self._topic = topic
        self._source = source
        self._sender = sender
        self._clock = clock
        self._samples: dict[int, list[MetricSample]] = {}
        self._begins: dict[int, int] = {}

    @property
    def frontiers(self) -> dict[TopicPartition, Frontier]:
        """How far each partition was read."""
        return self._reader.frontiers

    @property
    def full(self) -> bool:
        """Whether more waits to be handed on than is good: what is not read meanwhile, Kafka keeps."""
        return sum(map(len, self._samples.values())) >= MAX_WAITING

    @property
    def counts(self) -> Counter[str]:
        """What came in, by what became of it, as of `Reader`."""
        return self._reader.counts

    def own(self, begins: Mapping[TopicPartition, int]) -> None:
        """From now on these partitions are ours and no others, each from this offset on."""
        self.frontiers.clear()
        self.frontiers.update({one: Frontier(offset) for one, offset in begins.items()})
        self._begins = {one.partition: offset for one, offset in begins.items()}
        self._samples = {one.partition: [] for one in begins}

    def read(self, batch: Batch, now: float) -> None:
        """Take a batch in, but for what is not ours any more. Raises nothing, whatever is in it."""
        self._reader.read({one: records for one, records in batch.items() if one in self.frontiers}, now)

    def _take(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, MetricSample) and event.position is not None:
                self._samples[event.position.partition].append(event)

    async def hand_on(
        self, complete_until: Mapping[TopicPartition, float], partitions: int
    ) -> dict[TopicPartition, int]:
        """Write what was read of these partitions; the offsets from which another one would go on.

        `complete_until`: instant (UTC epoch seconds) by which each held nothing that is not read; 0: unknown.
        `partitions`: how many the topic has.
        """
        ends = await asyncio.gather(*(self._hand_on(one, partitions, at) for one, at in complete_until.items()))
        return {one: end for one, end in zip(complete_until, ends, strict=True) if end is not None}

    async def _hand_on(self, partition: TopicPartition, partitions: int, complete_until: float) -> int | None:
        """One record after the other: the last one says that all before it are there."""
        number, safe = partition.partition, None
        end = self.frontiers[partition].next_offset
        stretch = PartitionStretch(self._topic, number, partitions, self._begins[number], end, complete_until)
        for part, value in readings_records(stretch, self._samples[number], self._source, self._clock.now()):
            if not await self._sender.send("readings", part.key, value, EVENT_HEADERS):
                break
            if partition not in self.frontiers:
                return None  # it went meanwhile
            self._begins[number] = part.end
            self._samples[number] = [one for one in self._samples[number] if _offset(one) >= part.end]
            safe = min(part.end, self.frontiers[partition].safe)
        return safe


def _offset(sample: MetricSample) -> int:
    return sample.position.offset if sample.position is not None else 0
