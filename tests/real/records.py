"""What became of every record, read back from Kafka: in the state's last checkpoint, or a dead letter."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np
from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.structs import RecordMetadata

from rebalancer.kafka.broker import Broker
from rebalancer.state.checkpoint import RINGS_PREFIX, ModelPast, parsed
from rebalancer.state.ring_level import COVERAGE, WORK
from rebalancer.state.rings import LEVELS, Rings

_TOLERANCE = 1e-3  # of float32 sums of some tenths
_COARSEST_SECONDS = LEVELS[-1][0]


class Place(NamedTuple):
    """Where a record stands."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def of(cls, record: ConsumerRecord | RecordMetadata) -> "Place":
        """Of a record read, or of one that was acknowledged."""
        return cls(record.topic, record.partition, record.offset)


@dataclass(frozen=True)
class Said:
    """A good sample of one second: `work` in replicas."""

    id: str
    model: str
    at: float
    work: float


@dataclass(frozen=True)
class Letter:
    """A dead letter: the record it is about, why, and that record's bytes."""

    place: Place
    reason: str
    value: bytes


async def everything_in(broker: Broker, name: str, last: int | None = None) -> list[ConsumerRecord]:
    """All records of a topic of ours, or the `last` so many of each partition, by partition and offset."""
    found = [record async for record in each_in(broker, name, last)]
    return sorted(found, key=Place.of)


async def each_in(broker: Broker, name: str, last: int | None = None) -> AsyncIterator[ConsumerRecord]:
    """The same one after the other, where a topic is too long to be held; by offset in each partition."""
    topic = broker.topic(name)
    partitions = [TopicPartition(topic, number) for number in range(await broker.partitions(topic))]
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        ends = await consumer.end_offsets(partitions)
        consumer.assign(partitions)
        begins = await consumer.beginning_offsets(partitions)
        for each in partitions:
            consumer.seek(each, begins[each] if last is None else max(begins[each], ends[each] - last))
        while any([await consumer.position(one) < ends[one] for one in partitions]):
            batches = await consumer.getmany(timeout_ms=500)
            for record in (record for records in batches.values() for record in records):
                yield record


async def ends_of(broker: Broker, name: str) -> dict[int, int]:
    """The next offset of each partition of a topic of ours."""
    topic = broker.topic(name)
    partitions = [TopicPartition(topic, number) for number in range(await broker.partitions(topic))]
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        return {each.partition: end for each, end in (await consumer.end_offsets(partitions)).items()}


async def said(broker: Broker, poison: Iterable[Place], per_replica: float) -> list[Said]:
    """All samples in the topic `metrics` but the poisoned ones; `per_replica` requests are one replica's work."""
    bad = set(poison)
    records = await everything_in(broker, "metrics")
    return [_said(record, per_replica) for record in records if Place.of(record) not in bad]


def _said(record: ConsumerRecord, per_replica: float) -> Said:
    event = json.loads(record.value)
    at = datetime.fromisoformat(event["time"]).timestamp()
    return Said(event["id"], event["data"]["model"], at, event["data"]["gauges"]["running"] / per_replica)


async def letters(broker: Broker, last: int | None = None) -> list[Letter]:
    """All dead letters, or the `last` so many."""
    return [_letter(record) for record in await everything_in(broker, "dead-letter", last)]


async def places_buried(broker: Broker) -> dict[str, set[Place]]:
    """Which records there are dead letters of, by reason, however many there are of each."""
    places: dict[str, set[Place]] = defaultdict(set)
    async for record in each_in(broker, "dead-letter"):
        letter = _letter(record)
        places[letter.reason].add(letter.place)
    return places


def _letter(record: ConsumerRecord) -> Letter:
    told = {name.removeprefix("rebalancer-"): text for name, text in record.headers if text is not None}
    place = Place(told["topic"].decode(), int(told["partition"]), int(told["offset"]))
    return Letter(place, told["reason"].decode(), record.value)


async def untold(broker: Broker) -> list[str]:
    """Intents in the topic `decisions` that have no outcome there."""
    intents, outcomes = set[str](), set[str]()
    async for record in each_in(broker, "decisions"):
        if record.key == b"intent":
            intents.add(json.loads(record.value)["intent"]["id"])
        elif record.key == b"outcome":
            outcomes.add(json.loads(record.value)["outcome"]["intent"]["id"])
    return sorted(intents - outcomes)


async def checkpointed(broker: Broker, last: int | None = None) -> dict[str, ModelPast]:
    """Each model's past as the last checkpoint has it; looked for in the `last` so many records alone."""
    found = {}
    for record in await everything_in(broker, "state", last):
        if record.key.startswith(RINGS_PREFIX):
            found[record.key.removeprefix(RINGS_PREFIX).decode()] = ModelPast.from_bytes(record.value)
    return found


async def safe_offsets(broker: Broker, name: str, last: int = 20) -> dict[int, int]:
    """Where a start would read each partition of a topic on, by the newest of the `last` checkpoints of pasts."""
    pasts = (await checkpointed(broker, last)).values()
    places = [parsed(past.offsets) for past in pasts]
    topic = broker.topic(name)
    return {number: max(one[topic, number] for one in places) for number in await ends_of(broker, name)}


def differing(samples: Iterable[Said], past: ModelPast) -> list[str]:
    """Where a model's past is not the sum of its samples: cells that lack one, or have one twice. Empty: none."""
    rings = Rings(1)
    rings.restore(0, past.rings)
    starts, work = rings.series(0, WORK)
    _, looks = rings.series(0, COVERAGE)
    wanted = np.zeros((2, len(starts)))
    found = []
    for sample in samples:
        cell = int(np.searchsorted(starts, int(sample.at), side="right")) - 1
        if cell < 0 or sample.at - starts[cell] >= _COARSEST_SECONDS:
            found.append(f"{sample.id} of {sample.model} at {sample.at:.3f} has no cell")
        else:
            wanted[:, cell] += sample.work, 1.0
    have = np.stack((work, looks))
    wrong = np.flatnonzero(np.abs(wanted - have).max(axis=0) > _TOLERANCE).tolist()
    return found + [f"second {starts[n]}: work, samples are {have[:, n]}, not {wanted[:, n]}" for n in wrong]
