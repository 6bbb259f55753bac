"""What samples add to the rings, gathered in flat arrays until there is enough for one numpy call."""

from array import array

import numpy as np

from rebalancer.state.ring_level import COVERAGE, REQUESTS, WORK, Ints
from rebalancer.state.rings import MAX_INTERVAL_SECONDS, Floats, Rings

FULL = 5 * 4_096  # numbers


class RingBatch:
    """Work and arrivals on their way to the rings."""

    def __init__(self) -> None:
        self._work = array("d")  # column, at, interval, work, share of each sample
        self._requests = array("d")  # column, since, until, requests of each segment

    @property
    def full(self) -> bool:
        """Whether it is time to pour."""
        return len(self._work) >= FULL or len(self._requests) >= FULL

    def worked(self, column: int, at: float, interval_seconds: float, work: float, share: float) -> None:
        """`work` replicas were busy in the interval that ends at `at`, seen on `share` of the model."""
        self._work.extend((column, at, interval_seconds, work, share))

    def arrived(self, column: int, since: float, until: float, requests: float) -> None:
        """`requests` came in between two instants."""
        self._requests.extend((column, since, until, requests))

    def pour(self, rings: Rings) -> int:
        """Empty the batch into the rings; returns how much of it was too old for them."""
        late = 0
        if self._work:
            column, at, interval, work, share = _rows(self._work, 5)
            ends, lengths = _seconds(at - interval, at)
            late += rings.add(column.astype(np.int64), ends, lengths, {WORK: work, COVERAGE: share})
            self._work = array("d")  # numpy may still hold the old one
        if self._requests:
            column, since, until, requests = _rows(self._requests, 4)
            ends, lengths = _seconds(since, until)
            late += rings.add(column.astype(np.int64), ends, lengths, {REQUESTS: requests / lengths})
            self._requests = array("d")
        return late


def _rows(numbers: "array[float]", width: int) -> Floats:
    rows: Floats = np.frombuffer(numbers).reshape(-1, width).T
    return rows


def _seconds(since: Floats, until: Floats) -> tuple[Ints, Ints]:
    """Last second and number of the seconds in (since, until]: whole ones, so that intervals tile; at least one."""
    ends = until.astype(np.int64)  # an instant after 1970: cut off is rounded down
    lengths = ends - since.astype(np.int64)
    return ends, np.minimum(np.maximum(lengths, 1), MAX_INTERVAL_SECONDS)
