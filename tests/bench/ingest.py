"""Records from Kafka to state on one core, beside consuming and decoding alone."""

import asyncio
import gc
import random
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, TopicPartition

from rebalancer.ingest.reader import DECODERS, Reader, Sink
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.consumer import FETCH, SHARE
from rebalancer.kafka.dead_letters import DeadLetters
from rebalancer.kafka.frontier import Frontier
from rebalancer.kafka.outbox import Outbox
from rebalancer.loop.clock import RealClock
from rebalancer.state import ClusterState
from tests.bench.children import child
from tests.bench.lists import listed
from tests.bench.scale import Scale
from tests.bench.timing import where_it_goes
from tests.bench.voices import METRICS, PARTITIONS, speak_seconds

SECONDS = 12  # of all pods' samples: 120,000 records are what the embedded broker keeps of this size
PROFILED_BATCHES = 100


@dataclass(frozen=True, slots=True)
class Pass:
    """Seconds that the processor took for `events`: all, and inside of the reader (decode, and state if there is)."""

    events: int
    cpu: float
    reading: float
    wall: float


@dataclass(frozen=True, slots=True)
class Ingest:
    """Several passes of each kind over the same records, taken in turns."""

    bare: tuple[Pass, ...]
    whole: tuple[Pass, ...]

    def ceiling(self) -> float:
        """Events per processor second, consumed and decoded."""
        return statistics.median(one.events / one.cpu for one in self.bare)

    def rate(self) -> float:
        """Events per processor second, consumed, decoded and applied."""
        return statistics.median(one.events / one.cpu for one in self.whole)

    def from_batch(self) -> float:
        """Events per processor second from a consumed batch to state."""
        return statistics.median(one.events / one.reading for one in self.whole)

    def split_us(self) -> dict[str, float]:
        """Microseconds of an event per step."""
        bare = [(one.cpu - one.reading) / one.events for one in self.bare]
        decode = statistics.median(one.reading / one.events for one in self.bare)
        both = statistics.median(one.reading / one.events for one in self.whole)
        steps = {"consume": statistics.median(bare), "decode": decode, "state": both - decode}
        return {name: seconds * 1e6 for name, seconds in steps.items()}


async def ingest(scale: Scale, rounds: int) -> tuple[Ingest, list[str]]:
    """Passes over the same records in turns, and where a profile puts the time from batch to state."""
    async with child("broker") as broker:
        bootstrap = await broker.line()
        count = await asyncio.to_thread(speak_seconds, bootstrap, scale.models, SECONDS)
        bare, whole = [], []
        for _ in range(rounds):
            bare.append(await _pass(bootstrap, count, lambda _events: None))
            whole.append(await _pass(bootstrap, count, _sink(scale)))
        return Ingest(tuple(bare), tuple(whole)), await _profile(bootstrap, scale)


def _sink(scale: Scale) -> Sink:
    """A state that has its lists and nothing else."""
    at = time.time()
    state = ClusterState(scale.policy(), at - 600.0)
    state.apply_all(listed(scale.models, at), at)
    return lambda events: state.apply_all(events, time.time())


async def _pass(bootstrap: str, count: int, sink: Sink) -> Pass:
    """Everything once, in shares as the service takes them."""
    reader = _reader(bootstrap, sink)
    reading = 0.0
    async with _consumer(bootstrap) as consumer:
        gc.collect()
        began, busy = time.perf_counter(), time.process_time()
        while reader.counts["events"] < count:
            batch = await consumer.getmany(timeout_ms=1000, max_records=SHARE)
            inside = time.process_time()
            reader.read(batch, time.time())
            reading += time.process_time() - inside
        return Pass(count, time.process_time() - busy, reading, time.perf_counter() - began)


async def _profile(bootstrap: str, scale: Scale) -> list[str]:
    reader = _reader(bootstrap, _sink(scale))
    async with _consumer(bootstrap) as consumer:
        taken = [await consumer.getmany(timeout_ms=1000, max_records=SHARE) for _ in range(PROFILED_BATCHES)]

    def run() -> None:
        for batch in taken:
            reader.read(batch, time.time())

    return where_it_goes(run)


def _reader(bootstrap: str, sink: Sink) -> Reader:
    clock, rng = RealClock(), random.Random(1)
    letters = DeadLetters(Outbox(Broker(bootstrap), clock, rng), clock, rng)
    reader = Reader({METRICS: DECODERS["metrics"]}, sink, letters)
    reader.frontiers = {one: Frontier(0) for one in _partitions()}
    return reader


def _partitions() -> list[TopicPartition]:
    return [TopicPartition(METRICS, number) for number in range(PARTITIONS)]


@asynccontextmanager
async def _consumer(bootstrap: str) -> AsyncIterator[AIOKafkaConsumer]:
    """The service's own settings, from the first record on."""
    consumer = AIOKafkaConsumer(
        **await Broker(bootstrap).connection(), **FETCH, enable_auto_commit=False, isolation_level="read_committed"
    )
    await consumer.start()
    try:
        consumer.assign(_partitions())
        await consumer.seek_to_beginning()
        yield consumer
    finally:
        await consumer.stop()
