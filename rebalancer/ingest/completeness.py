"""The instant up to which other replicas have read the partitions for us.

A model without a reading since may be silent, or not read yet.
"""

from collections import Counter

from rebalancer.domain.cluster import READINGS
from rebalancer.domain.events import SourceState
from rebalancer.ingest.aggregated import PartitionStretch

# Readings come every second; the rest is for their way here and for clocks that differ. So much younger than what one
# consumer holds the samples may be; by what is older nothing is taken from a model.
BEHIND_SECONDS = 5.0
TOLD_EVERY_SECONDS = 1.0
SHOWN = 12  # partitions that are named in a sentence


class Completeness:
    """The newest word of each partition. `counts`: gaps (stretches that begin after the end of the one before).

    Of a partition that moves nobody knows anything for a while: its samples are missing, and its pods look as they
    looked before. The state hears of it as of a source that is silent.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._ends: dict[tuple[str, int], int] = {}
        self._until: dict[tuple[str, int], float] = {}
        self._partitions: dict[str, int] = {}
        self._behind: bool | None = None
        self._told_at = 0.0

    def note(self, stretch: PartitionStretch) -> None:
        """Take a stretch in. One that comes twice, or late from who read the partition before, changes nothing."""
        of = stretch.topic, stretch.partition
        end = self._ends.get(of)
        if end is not None and end < stretch.begin:
            self.counts["gaps"] += 1
        until = self._until.get(of, 0.0)
        if end is None or stretch.end > end or stretch.complete_until > until:  # the latter: the topic was made anew
            self._ends[of] = stretch.end
            self._partitions[stretch.topic] = stretch.partitions
        self._until[of] = max(until, stretch.complete_until)

    def trouble(self, now: float) -> str | None:
        """Why readings may be missing, as a sentence; None while every partition was read to its end just now."""
        if not self._partitions:
            return "nobody has told of any partition yet: does `rebalancer aggregate` run?"
        for topic, partitions in self._partitions.items():
            ages = {number: now - self._until.get((topic, number), 0.0) for number in range(partitions)}
            behind = {number: age for number, age in ages.items() if age > BEHIND_SECONDS}
            if behind:
                numbers = ", ".join(map(str, list(behind)[:SHOWN])) + (", ..." if len(behind) > SHOWN else "")
                worst = max(behind.values())
                since = f"for {worst:.0f} s" if worst < now / 2 else "since we look"
                return f"partition {numbers} of {partitions} of {topic} was not read to its end {since}"
        return None

    def source_states(self, now: float) -> list[SourceState]:
        """What the state is to hear: at once when it changes, else each second."""
        trouble = self.trouble(now)
        behind = trouble is not None
        if behind == self._behind and 0 <= now - self._told_at < TOLD_EVERY_SECONDS:
            return []
        self._behind, self._told_at = behind, now
        return [SourceState(READINGS, now, trouble)]
