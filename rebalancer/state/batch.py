"""What samples add to the rings, gathered in flat arrays until there is enough for one numpy call."""

from array import array

import numpy as np

from rebalancer.state.ring_level import COVERAGE, REQUESTS, WORK, Ints
from rebalancer.state.rings import MAX_INTERVAL_SECONDS, Floats, Rings
from rebalancer.state.spoken import NOBODY, Looks, Spoken, joined

FULL = 6 * 4_096  # numbers


class RingBatch:
    """Work and arrivals on their way to the rings, and what producers said last of their work.

    `place`: the producer's in `Latest`, NOBODY for what is only added to what others said.
    """

    def __init__(self) -> None:
        self._work = array("d")  # column, at, interval, work, share, place of each sample
        self._requests = array("d")  # column, since, until, requests of each segment
        self._spoken = Spoken()
        self._begun = NOBODY  # the highest place where somebody ever began

    @property
    def full(self) -> bool:
        """Whether it is time to pour."""
        return len(self._work) >= FULL or len(self._requests) >= FULL

    def worked(self, column: int, at: float, interval_seconds: float, work: float, share: float, place: int) -> None:  # noqa: PLR0913  # fmt: skip  # a value type would be made for each sample
        """Adds `work` replicas kept busy throughout the interval that ends at `at`, seen on `share` of the model."""
        self._work.extend((column, at, interval_seconds, work, share, place))

    def arrived(self, column: int, since: float, until: float, requests: float) -> None:
        """Adds `requests` that came between two instants."""
        self._requests.extend((column, since, until, requests))

    def begins(self, place: int) -> None:
        """A producer begins to speak where another one may have spoken before; new places come in order."""
        if place > self._begun:
            self._begun = place
            return
        *_, places = _rows(self._work, 6)
        places[places == place] = NOBODY  # in the batch itself
        self._spoken.forget(place)

    def looks_of(self, place: int) -> Looks:
        """The latest figures of work from the producer at `place`."""
        _, looks, places = _work_of(self._work)
        return joined(self._spoken.of(place), Looks(*(one[places == place] for one in looks)))

    def pour(self, rings: Rings) -> int:
        """Empty the batch into the rings; returns how much of it was too old for them."""
        late = 0
        if self._work:
            columns, looks, places = _work_of(self._work)
            late += rings.add(columns, looks.ends, looks.lengths, {WORK: looks.figures, COVERAGE: looks.shares})
            self._spoken.note(places, looks)
            self._work = array("d")  # numpy may still hold the old one
        if self._requests:
            column, since, until, requests = _rows(self._requests, 4)
            ends, lengths = _seconds(since, until)
            late += rings.add(column.astype(np.int64), ends, lengths, {REQUESTS: requests / lengths})
            self._requests = array("d")
        return late


def _work_of(numbers: "array[float]") -> tuple[Ints, Looks, Ints]:
    """Columns, looks and places of the work in the batch."""
    column, at, interval, work, share, place = _rows(numbers, 6)
    ends, lengths = _seconds(at - interval, at)
    return column.astype(np.int64), Looks(ends, lengths, work, share), place.astype(np.int64)


def _rows(numbers: "array[float]", width: int) -> Floats:
    rows: Floats = np.frombuffer(numbers).reshape(-1, width).T
    return rows


def _seconds(since: Floats, until: Floats) -> tuple[Ints, Ints]:
    """Last second and number of the seconds in (since, until]: whole ones, so that intervals tile; at least one."""
    ends = until.astype(np.int64)  # an instant after 1970: cut off is rounded down
    lengths = ends - since.astype(np.int64)
    return ends, np.minimum(np.maximum(lengths, 1), MAX_INTERVAL_SECONDS)
