"""What comes from Kafka: metrics, notices and overrides, each record to the state, to an object or to a dead letter.

Promised: each record that the client can decode reaches the sink or the dead-letter topic at least once; of metrics
that a start finds, those that it would read without a checkpoint. Notices and overrides are never kept waiting by a
flood of metrics.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from typing import NoReturn

from rebalancer.domain.policy import Policy
from rebalancer.ingest.completeness import Completeness
from rebalancer.ingest.override_queue import OverrideQueue, OverrideWriter
from rebalancer.ingest.reader import DECODERS, Reader, Sink
from rebalancer.ingest.signed import Signatures
from rebalancer.kafka.broker import TOPICS, Broker
from rebalancer.kafka.consumer import SHARE, Consumer
from rebalancer.kafka.dead_letters import DeadLetters, Keeper
from rebalancer.kafka.put_off import PutOff
from rebalancer.obs.clock import Clock

# Without a checkpoint, and metrics with an old one, too: the rings reach 5.1 h back, a notice or an override an hour
# old is history.
SINCE_SECONDS = {"metrics": 5.1 * 3600, "readings": 5.1 * 3600, "notices": 3600.0, "overrides": 3600.0}
# What others send as they are has all their metrics in it, some 100 times as many: an hour of it is read in minutes.
OTHERS_SINCE_SECONDS = 3600.0
BEHIND_SECONDS = 5.0  # from then on what was put off waits for what is new
READINGS_SHARE = 2  # a record of readings holds up to some 3,000 samples: 20 ms of decoding and applying


class KafkaIntake:
    """Run `run()` as a task. `sink` is called in the event loop and returns at once.

    `read_up_to`: next offset per (topic, partition) from a checkpoint. `signed`: who may override by a record, and
    who makes the object (None: every such record is rejected). `aggregated`: others read the topic `metrics`
    for us, and their `readings` are read in its place, so that no sample counts twice.

    `passed_over`: our own topics that the policy names as producers'; what is in them is read as ours all the same.
    """

    def __init__(  # noqa: PLR0913  # the parts it connects
        self,
        broker: Broker,
        clock: Clock,
        rng: random.Random,
        sink: Sink,
        keeper: Keeper,
        read_up_to: Mapping[tuple[str, int], int] | None = None,
        signed: tuple[Signatures, OverrideWriter] | None = None,
        *,
        aggregated: bool = False,
    ) -> None:
        self.passed_over: tuple[str, ...] = ()
        self._ours = frozenset(map(broker.topic, TOPICS))
        self._dead_letters = DeadLetters(keeper, clock, rng)
        bulk, unread = ("readings", "metrics") if aggregated else ("metrics", "readings")
        decoders = {name: decode for name, decode in DECODERS.items() if name != unread}
        self._queue: OverrideQueue | None = None
        if signed is not None:
            signatures, writer = signed
            decoders["overrides"] = signatures.decode
            self._queue = OverrideQueue(writer, self._dead_letters, clock, rng)
        named = {broker.topic(name): decode for name, decode in decoders.items()}
        self._completeness = Completeness() if aggregated else None
        self._reader = Reader(named, sink, self._dead_letters, self._queue, self._completeness)
        self._second_reader = Reader(named, lambda _: None, self._dead_letters, self._queue)
        since = {name: SINCE_SECONDS[name] for name in decoders}
        share = READINGS_SHARE if aggregated else SHARE
        self.consumer = Consumer(broker, clock, rng, self._reader, since, bulk, read_up_to or {}, share)
        self._put_off = PutOff(broker, clock, self._reader.frontiers, self._second_reader, self._may_read_again)

    @property
    def counts(self) -> Counter[str]:
        """What came in since the start, by what became of it; a closed set of keys."""
        queued = self._queue.counts if self._queue is not None else Counter[str]()
        gaps = self._completeness.counts if self._completeness is not None else Counter[str]()
        return self.consumer.counts + self._reader.counts + self._dead_letters.counts + queued + gaps

    def follow(self, policy: Policy) -> None:
        """Read what the policy's producers write, each topic by its rows, from the next look at the topics on."""
        self.passed_over = tuple(one.topic for one in policy.producers if one.topic in self._ours)
        producers = [one for one in policy.producers if one.topic not in self._ours]
        self._reader.follow(producers)
        self._second_reader.follow(producers)
        self.consumer.follow({producer.topic: OTHERS_SINCE_SECONDS for producer in producers})

    def _may_read_again(self) -> bool:
        """Whether what was put off finds room, and keeps nothing new waiting."""
        has_room = self._dead_letters.has_room and (self._queue is None or self._queue.has_room)
        return has_room and max(self.consumer.behind_by_topic().values(), default=0.0) < BEHIND_SECONDS

    async def run(self) -> NoReturn:
        """Consume for ever, whatever happens. Raises nothing but cancellation."""
        beside = [
            asyncio.create_task(self._dead_letters.run(), name="dead-letters"),
            asyncio.create_task(self._put_off.run(), name="put-off"),
        ]
        if self._queue is not None:
            beside.append(asyncio.create_task(self._queue.run(), name="signed-overrides"))
        try:
            await self.consumer.run()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
