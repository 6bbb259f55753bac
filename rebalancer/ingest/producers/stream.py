"""One producer's topic: its records in, samples out, and at times a word about what was dropped."""

from collections import Counter
from math import inf

from rebalancer.domain.events import MetricSample, Position, Rejection
from rebalancer.domain.producers import MetricProducer
from rebalancer.ingest.gauges import IMPOSSIBLE
from rebalancer.ingest.producers.gathering import PodGathering
from rebalancer.ingest.producers.mapping import ProducerMapping

LETTER_EVERY_SECONDS = 60.0


class ProducerStream:
    """Records of `producer` to samples. `counts`: unmapped (series that no row names), ignored, rejected.<reason>."""

    def __init__(self, producer: MetricProducer, counts: Counter[str]) -> None:
        self.producer = producer
        self.counts = counts
        self._mapping = ProducerMapping(producer)
        self._gathering = PodGathering(producer)
        self._told_at: dict[str, float] = {}

    def take(
        self, value: bytes, position: Position, kafka_timestamp: float, now: float
    ) -> tuple[list[MetricSample], Rejection | None]:
        """Samples that are whole with this record, and what is to be kept as a dead letter of it; mostly None.

        Everything that is dropped is counted; of one reason one letter a minute is kept.
        """
        read = self._mapping.read(value, position, kafka_timestamp, now)
        if isinstance(read, Rejection):
            return [], self._letter((read,), now)
        self.counts["unmapped"] += read.unmapped
        if not read.readings and not read.dropped:
            self.counts["ignored"] += 1
        return self._gathering.put(read.readings, position, now), self._letter(read.dropped, now)

    def settled(self, now: float) -> list[MetricSample]:
        """Samples of which nothing more is to come."""
        samples = self._gathering.settled(now)
        for gauge, times in self._gathering.impossible.items():
            self.counts[f"{IMPOSSIBLE}{gauge}"] += times
        self._gathering.impossible.clear()
        return samples

    def _letter(self, dropped: tuple[Rejection, ...], now: float) -> Rejection | None:
        letter: Rejection | None = None
        for one in dropped:
            self.counts[f"rejected.{one.reason}"] += 1
            if letter is None and not 0 <= now - self._told_at.get(one.reason, -inf) < LETTER_EVERY_SECONDS:
                self._told_at[one.reason] = now
                letter = one
        return letter
