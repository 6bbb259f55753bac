"""What one aggregator has read and not handed on yet. It remembers nothing else, so a partition that moves takes none.

Records are decoded here as the service decodes them, by the same reader; what it cannot use goes to the dead letters.
Until those have it another process would begin with it again, but not for ever: where nobody keeps letters, all that
came since would be read once more by each process that takes over.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import structlog

from rebalancer.domain.events import Event, MetricSample
from rebalancer.ingest.aggregated import PartitionStretch, readings_records
from rebalancer.ingest.envelope import Headers
from rebalancer.ingest.reader import DECODERS, Batch, Reader
from rebalancer.kafka.dead_letters import DeadLetters
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.records import TopicPartition
from rebalancer.obs.clock import Clock

MAX_WAITING = 20_000  # samples that are not handed on: some 15 MiB
HELD_SECONDS = 3600.0  # at most so long letters that wait keep the group where it is
EVENT_HEADERS = (("content-type", b"application/cloudevents+json"),)

log = structlog.get_logger()


class _HeldBack(NamedTuple):
    """Letters that keep the group from going on.

    since_monotonic: since when nothing of them was kept.
    at: offset of the first of them.
    end: next offset then: what came later has waited for less long.
    let_go: the offset from which the group goes on all the same.
    """

    since_monotonic: float
    at: int
    end: int
    let_go: int


class ReadingsSender(Protocol):
    """Where readings go: `kafka.outbox.Outbox`."""

    async def send(self, topic: str, key: bytes | None, value: bytes, headers: Headers = ()) -> bool:
        """Whether the record is there for good; False may turn out true later."""
        ...


class Aggregation:
    """`source`: our name in what we write. `frontiers`: of the partitions that are ours, and no others.

    `second_reader`: reads again what found no room among the dead letters; what it finds good is handed on already.
    """

    def __init__(
        self, topic: str, source: str, sender: ReadingsSender, dead_letters: DeadLetters, clock: Clock
    ) -> None:
        self.second_reader = Reader({topic: DECODERS["metrics"]}, lambda _: None, dead_letters)
        self._reader = Reader({topic: DECODERS["metrics"]}, self._take, dead_letters)
        self._topic = topic
        self._source = source
        self._sender = sender
        self._clock = clock
        self._samples: dict[int, list[MetricSample]] = {}
        self._begins: dict[int, int] = {}
        self._held: dict[TopicPartition, _HeldBack] = {}

    @property
    def frontiers(self) -> dict[TopicPartition, Frontier]:
        """How far each partition was read."""
        return self._reader.frontiers

    @property
    def full(self) -> bool:
        """Whether more waits to be handed on than is good: what is not read meanwhile, Kafka keeps."""
        return sum(map(len, self._samples.values())) >= MAX_WAITING

    @property
    def held_back_records(self) -> int:
        """Records that were read and would be read again by another process, since some of them have no letter yet."""
        return sum(one.next_offset - one.safe for one in self.frontiers.values())

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
        self._held = {}

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
            safe = min(part.end, self._safe(partition))
        return safe

    def _safe(self, partition: TopicPartition) -> int:
        """Where another process would go on: before what has no dead letter yet, for as long as `HELD_SECONDS`."""
        frontier, now = self.frontiers[partition], self._clock.monotonic()
        held = self._held.get(partition)
        if frontier.safe == frontier.next_offset:
            self._held.pop(partition, None)
            return frontier.safe
        if held is None or held.at != frontier.safe:
            held = _HeldBack(now, frontier.safe, frontier.next_offset, frontier.safe)
        elif now - held.since_monotonic >= HELD_SECONDS:
            log.error(
                "letters that nobody keeps hold the group back no longer: who takes over does not read them again",
                partition=str(partition),
                first=held.at,
                below=held.end,
                why="no dead letter was taken: see what the topic dead-letter refuses",
            )
            held = held._replace(since_monotonic=now, let_go=held.end, end=frontier.next_offset)
        self._held[partition] = held
        return max(frontier.safe, held.let_go)


def _offset(sample: MetricSample) -> int:
    return sample.position.offset if sample.position is not None else 0
