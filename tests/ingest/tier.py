"""An aggregate tier in virtual time, the service behind it, and beside that one consumer that reads everything itself.

Nothing here waits: a second passes when `second()` is called. Kafka is lists; the group hands out partitions as it is
told, takes commits of nobody but the owner, and lets who lost a partition go on as long as it does not know.
"""

import asyncio
import json
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from aiokafka import ConsumerRecord, TopicPartition

from rebalancer.domain.cluster import SOURCES
from rebalancer.domain.events import METRIC_SAMPLE_TYPE, Event, SourceState
from rebalancer.domain.policy import Policy
from rebalancer.ingest.aggregation import Aggregation
from rebalancer.ingest.completeness import Completeness
from rebalancer.ingest.envelope import Headers
from rebalancer.ingest.reader import DECODERS, Reader
from rebalancer.kafka.dead_letters import DeadLetters
from rebalancer.kafka.frontier import Frontier
from rebalancer.state import ClusterState
from tests.builders import NOW, a_model, a_policy, a_pool
from tests.ingest.rig import Refusing
from tests.state.objects import a_cluster_node, a_ready_pod, a_state, a_workload

METRICS, READINGS = "rebalancer.metrics", "rebalancer.readings"
PARTITIONS = 3
PODS = 4
IN_FLIGHT = 4.0  # requests that one replica carries, as the builders say
SAMPLE_SECONDS = 5
SIGNALS = {"concurrency": {"per_replica": IN_FLIGHT}, "queue": {"high": IN_FLIGHT}}
POLICY = a_policy(*(a_model(name, entitlement=PODS, signals=SIGNALS) for name in "ab"), pools=(a_pool(gpus=2 * PODS),))


@dataclass
class Now:
    """The clock of all: it stands until somebody moves it."""

    at: float

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nobody sleeps {seconds} s here")


def letters(clock: Now) -> DeadLetters:
    return DeadLetters(Refusing(), clock, random.Random(1))


class Listening:
    """A service: what it reads of one topic, and the state that this makes."""

    def __init__(self, policy: Policy, topic: str, clock: Now) -> None:
        models = [model.id for model in policy.models]
        pods = [a_ready_pod(f"{model}-{n}", model) for model in models for n in range(PODS)]
        workloads = [a_workload(model, PODS) for model in models]
        node = a_cluster_node(gpus=PODS * len(models))
        self.state: ClusterState = a_state(policy, node, *workloads, *pods, started_at=clock.at)
        self._clock = clock
        self._topic = topic
        self.completeness = Completeness() if topic == READINGS else None
        decoder = DECODERS[topic.partition(".")[2]]
        self._reader = Reader({topic: decoder}, self._take, letters(clock), completeness=self.completeness)
        self.counts = self._reader.counts

    def _take(self, events: list[Event]) -> None:
        self.state.apply_all(events, self._clock.at)

    def reads(self, records: Sequence[ConsumerRecord]) -> None:
        """One turn of its consumer; the cluster is watched all the while."""
        self.state.apply_all([SourceState(source, self._clock.at) for source in SOURCES], self._clock.at)
        batch: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in records:
            one = TopicPartition(record.topic, record.partition)
            self._reader.frontiers.setdefault(one, Frontier(0))
            batch.setdefault(one, []).append(record)
        self._reader.read(batch, self._clock.at)


@dataclass
class Member:
    """One process of the tier, which `believes` that it owns these partitions."""

    aggregation: Aggregation
    believes: set[int] = field(default_factory=set)


class Tier:
    """`every_seconds`: the producers' interval. `deaf`: what is sent gets no answer; `lost`: nor does it arrive."""

    def __init__(self, policy: Policy, members: int, every_seconds: int = SAMPLE_SECONDS) -> None:
        self.every_seconds = every_seconds
        self.clock = Now(NOW)
        self.metrics: list[list[ConsumerRecord]] = [[] for _ in range(PARTITIONS)]
        self.readings: list[ConsumerRecord] = []
        self.alone = Listening(policy, METRICS, self.clock)
        self.behind = Listening(policy, READINGS, self.clock)
        self.deaf = self.lost = False
        self.committed = [0] * PARTITIONS
        self.owner: list[int | None] = [None] * PARTITIONS
        self.members = [self._member(f"aggregate-{n}") for n in range(members)]
        self._heard_alone = [0] * PARTITIONS
        self._heard_behind = 0

    def _member(self, name: str) -> Member:
        return Member(Aggregation(METRICS, name, self, letters(self.clock), self.clock))

    async def send(self, topic: str, key: bytes | None, value: bytes, headers: Headers = ()) -> bool:
        """As the outbox does."""
        assert (topic, headers) == ("readings", (("content-type", b"application/cloudevents+json"),))
        if not self.lost:
            self.readings.append(a_record(READINGS, 0, len(self.readings), value, self.clock.at, key))
        return not (self.deaf or self.lost)

    # --- what happens to partitions

    def gives(self, partition: int, member: int | None) -> None:
        """The group gives a partition to somebody, who takes over where it stands; None: to nobody yet.

        Who had it before does not hear of it: `forgets` says so.
        """
        self.owner[partition] = member
        if member is not None:
            self.members[member].believes.add(partition)
            self._begins_anew(member)

    def _begins_anew(self, member: int) -> None:
        """As after every rebalance: what was not handed on, or not committed, is read again."""
        one = self.members[member]
        one.aggregation.own({TopicPartition(METRICS, number): self.committed[number] for number in one.believes})

    def forgets(self, member: int, partition: int) -> None:
        """A process hears at last that a partition is not its own, or it is dead."""
        self.members[member].believes.discard(partition)
        self._begins_anew(member)

    # --- a second

    def second(self, told: Collection[tuple[str, int, float, int]], stalled: Collection[int] = ()) -> None:
        """Samples come (model, pod, requests, partition); everybody who is not `stalled` reads and hands on."""
        self.clock.at += 1.0
        for model, pod, running, partition in told:
            self._says(model, pod, running, partition)
        asyncio.run(self._turns(stalled))
        fresh = [record for log, heard in zip(self.metrics, self._heard_alone, strict=True) for record in log[heard:]]
        self._heard_alone = [len(log) for log in self.metrics]
        self.alone.reads(fresh)
        self.behind.reads(self.readings[self._heard_behind :])
        self._heard_behind = len(self.readings)

    async def _turns(self, stalled: Collection[int]) -> None:
        for number, member in enumerate(self.members):
            if number not in stalled:
                await self._turn(number, member)

    async def _turn(self, number: int, member: Member) -> None:
        aggregation, complete = member.aggregation, {}
        for partition in sorted(member.believes):
            one = TopicPartition(METRICS, partition)
            aggregation.read({one: self.metrics[partition][aggregation.frontiers[one].next_offset :]}, self.clock.at)
            complete[one] = self.clock.at
        for one, offset in (await aggregation.hand_on(complete, PARTITIONS)).items():
            if self.owner[one.partition] == number:
                self.committed[one.partition] = offset

    def _says(self, model: str, pod: int, running: float, partition: int) -> None:
        self.puts(partition, a_sample_event(model, pod, running, self.clock.at, self.every_seconds))

    def puts(self, partition: int, value: bytes) -> None:
        """Any record, into the topic of metrics."""
        log = self.metrics[partition]
        log.append(a_record(METRICS, partition, len(log), value, self.clock.at))


def a_sample_event(model: str, pod: int, running: float, at: float, interval_seconds: int = SAMPLE_SECONDS) -> bytes:
    """A pod's look at its last seconds."""
    event = {
        "specversion": "1.0",
        "type": METRIC_SAMPLE_TYPE,
        "source": f"vllm/{model}-{pod}",
        "id": f"{model}-{pod}-{at:.0f}",
        "time": datetime.fromtimestamp(at, UTC).isoformat(),
        "data": {
            "model": model,
            "pod": f"uid-{model}-{pod}",
            "intervalSeconds": interval_seconds,
            "gauges": {"running": min(IN_FLIGHT, running), "waiting": max(0.0, running - IN_FLIGHT)},
        },
    }
    return json.dumps(event).encode()


def a_record(
    topic: str, partition: int, offset: int, value: bytes, at: float, key: bytes | None = None
) -> ConsumerRecord:
    """As the client hands it out."""
    headers = (("content-type", b"application/cloudevents+json"),)
    return ConsumerRecord(
        topic, partition, offset, int(at * 1000), 0, key, value, None, len(key or b""), len(value), headers
    )
