"""What comes from Kafka: metrics, notices and overrides, each record to the state, to an object or to a dead letter.

Promised: each record reaches the sink or the dead-letter topic at least once. Notices and overrides are never kept
waiting by a flood of metrics.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from typing import NoReturn

from rebalancer.domain.policy import Policy
from rebalancer.ingest.override_queue import OverrideQueue, OverrideWriter
from rebalancer.ingest.reader import DECODERS, Reader, Sink
from rebalancer.ingest.signed import Signatures
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.consumer import Consumer
from rebalancer.kafka.dead_letters import DeadLetters, Keeper
from rebalancer.obs.clock import Clock

# Without a checkpoint: the rings reach 5.1 h back, a notice or an override an hour old is history.
SINCE_SECONDS = {"metrics": 5.1 * 3600, "notices": 3600.0, "overrides": 3600.0}
# What others send as they are has all their metrics in it, some 100 times as many: an hour of it is read in minutes.
OTHERS_SINCE_SECONDS = 3600.0


class KafkaIntake:
    """Run `run()` as a task. `sink` is called in the event loop and returns at once.

    `read_up_to`: next offset per (topic, partition) from a checkpoint. `signed`: who may override by a record, and
    who makes the object (None: every such record is rejected).
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
    ) -> None:
        self._dead_letters = DeadLetters(keeper, clock, rng)
        decoders = dict(DECODERS)
        self._queue: OverrideQueue | None = None
        if signed is not None:
            signatures, writer = signed
            decoders["overrides"] = signatures.decode
            self._queue = OverrideQueue(writer, self._dead_letters, clock, rng)
        named = {broker.topic(name): decode for name, decode in decoders.items()}
        self._reader = Reader(named, sink, self._dead_letters, self._queue)
        self.consumer = Consumer(broker, clock, rng, self._reader, SINCE_SECONDS, "metrics", read_up_to or {})

    @property
    def counts(self) -> Counter[str]:
        """What came in since the start, by what became of it; a closed set of keys."""
        queued = self._queue.counts if self._queue is not None else Counter[str]()
        return self.consumer.counts + self._reader.counts + self._dead_letters.counts + queued

    def follow(self, policy: Policy) -> None:
        """Read what the policy's producers write, each topic by its rows, from the next look at the topics on."""
        self._reader.follow(policy.producers)
        self.consumer.follow({producer.topic: OTHERS_SINCE_SECONDS for producer in policy.producers})

    async def run(self) -> NoReturn:
        """Consume for ever, whatever happens. Raises nothing but cancellation."""
        beside = [asyncio.create_task(self._dead_letters.run(), name="dead-letters")]
        if self._queue is not None:
            beside.append(asyncio.create_task(self._queue.run(), name="signed-overrides"))
        try:
            await self.consumer.run()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
