"""A subject of metrics, with one series of samples per producer: a pod, or a model as a whole."""

from math import isnan, nan

from rebalancer.domain.events import MetricSample, Position
from rebalancer.state.habit import Habit
from rebalancer.state.highest import Highest
from rebalancer.state.latest import Latest
from rebalancer.state.series import MAX_GAP_SECONDS, Arrivals, Series

SOURCES_PER_SUBJECT = 8  # producers of one pod or model; more is a mistake or an attack, and would cost memory


class SampledSubject:
    """One pod, or the model as a whole: a series per producer. `ready_at` None: not Ready (or not a pod).

    `worked`, `arrived`: its seconds, once several producers told of them.
    """

    __slots__ = ("_position", "_reached", "_read_before", "arrived", "ready_at", "series", "worked")

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}
        self.ready_at: float | None = None
        self.worked: Highest | None = None
        self.arrived: Highest | None = None
        self._position: Position | None = None  # of the record that a sample came with last
        self._read_before = False  # whether that one had been read before
        self._reached: dict[tuple[str, int], int] = {}  # by partition, the last record that had not been

    def reads_again(self, position: Position, *, late: bool, restored: bool) -> bool:
        """Whether the record there was read before; `restored`: by a process before this one.

        Kafka hands records out in order: one that stands no further than one before it is handed out again, however
        many of them are. But for what its producer had not measured by then, as `late` says: there the topic was made
        anew. A record may hold several samples.
        """
        if position != self._position:
            place = position.topic, position.partition
            again = late and position.offset <= self._reached.get(place, -1)
            if not again:
                self._reached[place] = position.offset
            self._position, self._read_before = position, restored or again
        return self._read_before

    def begin(self, sample: MetricSample, latest: Latest, habit: Habit) -> list[Arrivals] | None:
        """The first sample of a producer tells of no arrivals; None when there are too many producers.

        One that has been silent for so long that it would begin anew makes room: a gateway may have another name after
        each rollout.
        """
        if len(self.series) >= SOURCES_PER_SUBJECT:
            silent = min(self.series, key=lambda source: self.series[source].at)
            if sample.at - self.series[silent].at <= MAX_GAP_SECONDS:
                return None
            latest.close(self.series.pop(silent).place)
        self.series[sample.source] = Series(sample, latest, habit)
        return []

    def in_flight(self, latest: Latest, since: float, *, counted: bool = False) -> float:
        """The most requests that a producer told since then, of those who count them or of all; NaN: none did."""
        figures = (
            latest.in_flight(one.place) for one in self.series.values() if one.at >= since and counted <= one.counts
        )
        return max((figure for figure in figures if not isnan(figure)), default=nan)

    def end(self, latest: Latest) -> None:
        """Nobody will ask for its samples any more."""
        for series in self.series.values():
            latest.close(series.place)
