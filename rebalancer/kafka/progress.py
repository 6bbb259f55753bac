"""Whether consumption goes on, seen from outside the client: it can stop without saying so (aio-libs/aiokafka#1154)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition


class _Mark(NamedTuple):
    answered: int | None
    position: int


class _End(NamedTuple):
    """Where a partition ended, and when it was seen to."""

    offset: int
    monotonic: float


class Progress:
    """A partition is alive when the broker answered for it again, and what it held for us was read.

    It is behind for as long ago as the newest of its ends that has been read was seen to be its end: a partition that
    grows all the time is seldom read to where it ends now, and is not behind for that. Instants are monotonic seconds.
    """

    def __init__(self, started_monotonic: float) -> None:
        self._started_monotonic = started_monotonic
        self._marks: dict[TopicPartition, _Mark] = {}
        self._alive_monotonic: dict[TopicPartition, float] = {}
        self._ends: dict[TopicPartition, _End] = {}  # not read to yet
        self._abreast_monotonic: dict[TopicPartition, float] = {}

    def follow(self, partitions: Iterable[TopicPartition], monotonic: float) -> None:
        """From now on exactly these matter; those that did already keep their age."""
        self._started_monotonic = monotonic
        self._marks = {}
        self._alive_monotonic = {one: self._alive_monotonic.get(one, monotonic) for one in partitions}
        self._ends = {}
        self._abreast_monotonic = {one: self._abreast_monotonic.get(one, monotonic) for one in self._alive_monotonic}

    async def look(self, consumer: AIOKafkaConsumer, monotonic: float) -> None:
        """Compare with the last look. The consumer must be assigned what is followed."""
        if not self._alive_monotonic:
            self._started_monotonic = monotonic  # nothing to be stuck on
        for one in self._alive_monotonic:
            before = self._marks.get(one)
            mark = _Mark(consumer.last_poll_timestamp(one), await consumer.position(one))
            end = consumer.last_stable_offset(one) or 0
            behind = mark.position < end
            if mark.answered is None or (before is not None and mark.answered == before.answered):
                continue
            self._marks[one] = mark
            self._compare(one, mark.position, _End(end, monotonic))
            if not behind or before is None or mark.position > before.position:
                self._alive_monotonic[one] = monotonic

    def _compare(self, one: TopicPartition, position: int, end: _End) -> None:
        """Whether an end that was seen has been read to; if so, the present one is waited for."""
        before = self._ends.setdefault(one, end)
        if position >= before.offset:
            self._abreast_monotonic[one] = before.monotonic
            self._ends[one] = end

    def stuck_seconds(self, monotonic: float) -> float:
        """Age of the partition that was alive longest ago; since the start when there was none yet."""
        return monotonic - min(self._alive_monotonic.values(), default=self._started_monotonic)

    def session_stuck_seconds(self, monotonic: float) -> float:
        """The same, but no longer than these partitions are followed: who took them over has had no answer yet."""
        return min(self.stuck_seconds(monotonic), monotonic - self._started_monotonic)

    def stuck_by_topic(self, monotonic: float) -> dict[str, float]:
        """The same for each topic that is followed, by its full name."""
        return _worst(self._alive_monotonic, monotonic)

    def behind_by_topic(self, monotonic: float) -> dict[str, float]:
        """How long the worst partition of each topic has been behind, by the topic's full name; up to 2 s is none."""
        return _worst(self._abreast_monotonic, monotonic)


def _worst(since_monotonic: Mapping[TopicPartition, float], monotonic: float) -> dict[str, float]:
    """Seconds of each topic's partition that is worst off."""
    oldest: dict[str, float] = {}
    for one, since in since_monotonic.items():
        oldest[one.topic] = min(since, oldest.get(one.topic, since))
    return {topic: monotonic - since for topic, since in oldest.items()}
