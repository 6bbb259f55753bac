"""Whether consumption goes on, seen from outside the client: it can stop without saying so (aio-libs/aiokafka#1154)."""

from collections.abc import Iterable
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition


class _Mark(NamedTuple):
    answered: int | None
    position: int


class Progress:
    """A partition is alive when the broker answered for it again, and what it held for us was read.

    Instants are monotonic seconds.
    """

    def __init__(self, started_monotonic: float) -> None:
        self._started_monotonic = started_monotonic
        self._marks: dict[TopicPartition, _Mark] = {}
        self._alive_monotonic: dict[TopicPartition, float] = {}

    def follow(self, partitions: Iterable[TopicPartition], monotonic: float) -> None:
        """From now on exactly these matter; those that did already keep their age."""
        self._started_monotonic = monotonic
        self._marks = {}
        self._alive_monotonic = {one: self._alive_monotonic.get(one, monotonic) for one in partitions}

    async def look(self, consumer: AIOKafkaConsumer, monotonic: float) -> None:
        """Compare with the last look. The consumer must be assigned what is followed."""
        if not self._alive_monotonic:
            self._started_monotonic = monotonic  # nothing to be stuck on
        for one in self._alive_monotonic:
            before = self._marks.get(one)
            mark = _Mark(consumer.last_poll_timestamp(one), await consumer.position(one))
            behind = mark.position < (consumer.last_stable_offset(one) or 0)
            if mark.answered is None or (before is not None and mark.answered == before.answered):
                continue
            self._marks[one] = mark
            if not behind or before is None or mark.position > before.position:
                self._alive_monotonic[one] = monotonic

    def stuck_seconds(self, monotonic: float) -> float:
        """Age of the partition that was alive longest ago; since the start when there was none yet."""
        return monotonic - min(self._alive_monotonic.values(), default=self._started_monotonic)

    def stuck_by_topic(self, monotonic: float) -> dict[str, float]:
        """The same for each topic that is followed, by its full name."""
        oldest: dict[str, float] = {}
        for one, alive in self._alive_monotonic.items():
            oldest[one.topic] = min(alive, oldest.get(one.topic, alive))
        return {topic: monotonic - alive for topic, alive in oldest.items()}
