"""One process of the aggregate tier: reads a share of the topic `metrics` and writes what it says into `readings`.

It knows no policy, no cluster and no other process of its kind: Kafka's consumer group divides the partitions.
"""

import asyncio
import logging
import random
import signal
from collections.abc import Iterator

from rebalancer.api.ports.status import Unready
from rebalancer.api.serving.probes import probe_app
from rebalancer.api.serving.server import Listener
from rebalancer.app.figures import output_figures, record_figures
from rebalancer.app.tasks import end
from rebalancer.ingest.aggregation import Aggregation
from rebalancer.ingest.intake import SINCE_SECONDS
from rebalancer.kafka.broker import Broker
from rebalancer.kafka.dead_letters import DeadLetters
from rebalancer.kafka.group import GroupConsumer, Membership
from rebalancer.kafka.outbox import Outbox
from rebalancer.kafka.put_off import PutOff
from rebalancer.kafka.topic_plan import GROUP
from rebalancer.obs.clock import Clock
from rebalancer.obs.metrics import Figure, Metrics
from rebalancer.obs.metrics.catalogue import AGGREGATE

SOURCE = "rebalancer-aggregate"
SILENT_SECONDS = 10.0
DEAD_SECONDS = 300.0  # a session that is stuck begins anew after a minute; only where that helps nobody a restart may


class Aggregate:
    """`run()` until cancelled. `member`: our name in the group, of which there is one at a time.

    Of the API's `ProbePort` it is the implementation, too.
    """

    def __init__(self, broker: Broker, member: str, clock: Clock, rng: random.Random) -> None:
        self.outbox = Outbox(broker, clock, rng)
        self.dead_letters = DeadLetters(self.outbox, clock, rng)
        topic, source = broker.topic("metrics"), f"{SOURCE}/{member}"
        self.aggregation = Aggregation(topic, source, self.outbox, self.dead_letters, clock)
        membership = Membership(broker.topic(GROUP), member)
        self.group = GroupConsumer(
            broker, clock, rng, membership, "metrics", SINCE_SECONDS["metrics"], self.aggregation
        )
        self.put_off = PutOff(
            broker,
            clock,
            self.aggregation.frontiers,
            self.aggregation.second_reader,
            lambda: self.dead_letters.has_room and not self.aggregation.full,
        )
        self._clock = clock
        self._metrics = Metrics(AGGREGATE)
        self._since: dict[str, float] = {}

    async def run(self) -> None:
        """Read and write for ever. Raises nothing but cancellation, and then hands on what was read."""
        sending = asyncio.create_task(self.outbox.run(), name="outbox")
        burying = asyncio.create_task(self.dead_letters.run(), name="dead-letters")
        again = asyncio.create_task(self.put_off.run(), name="put-off")
        try:
            await self.group.run()
        finally:
            await end(again, burying, sending)
            await self.outbox.close()

    # --- what probes and Prometheus ask

    def unready(self) -> tuple[Unready, ...]:
        """Why we are not ready; empty when we are."""
        now = self._clock.now()
        troubles: dict[str, str] = {}
        if self.group.trouble is not None:
            troubles["kafka-in"] = self.group.trouble
        elif self.aggregation.frontiers and self.group.stuck_seconds() > SILENT_SECONDS:
            troubles["kafka-in"] = f"no progress for {self.group.stuck_seconds():.0f} s"
        if self.outbox.trouble is not None:
            troubles["kafka-out"] = self.outbox.trouble
        self._since = {what: self._since.get(what, now) for what in troubles}
        return tuple(Unready(what, self._since[what], detail) for what, detail in troubles.items())

    def policy_refused(self) -> tuple[str, ...]:
        """Nothing: an aggregate reads no policy."""
        return ()

    def leader(self) -> str:
        """Nobody leads: each reads its own share."""
        return ""

    def dead(self) -> str | None:
        """Why only a restart helps; None while it does not."""
        stuck = self.group.stuck_seconds() if self.aggregation.frontiers else 0.0
        return f"no progress for {stuck:.0f} s" if stuck > DEAD_SECONDS else None

    def metrics(self) -> bytes:
        """Prometheus exposition format."""
        return self._metrics.text(self._figures())

    def _figures(self) -> Iterator[Figure]:
        counts = self.aggregation.counts + self.dead_letters.counts + self.group.counts
        yield Figure("rebalancer_aggregate_partitions", len(self.aggregation.frontiers))
        yield Figure("rebalancer_aggregate_lag_records", self.group.lag_records)
        yield Figure("rebalancer_aggregate_held_back_records", self.aggregation.held_back_records)
        yield from record_figures(counts)
        yield from output_figures(self.outbox, None)


async def serve_aggregate(aggregate: Aggregate, probe_host: str, probe_port: int) -> None:
    """Run, with probes, until SIGTERM or SIGINT. Raises OSError when the port is taken."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # ours say it in one line
    stop = asyncio.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(one, stop.set)
    probes = Listener(probe_app(aggregate))
    await probes.start(probe_host, probe_port)
    running = asyncio.create_task(aggregate.run(), name="aggregate")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        running.cancel()
        await asyncio.wait({running})
        probes.close()
        await probes.end()
