"""One model's requests and replicas over time, in Python's hands: the compiled kernel does the work."""

import numpy as np

from rebalancer.sim.batching.arrivals import BLOCK_SECONDS, BatchArrivals
from rebalancer.sim.batching.engines import Served
from rebalancer.sim.batching.kernel import lose_all, open_gateway, serve
from rebalancer.sim.batching.state import (
    DRAINING,
    FREE,
    GATEWAY_FIRST,
    GONE,
    I64,
    LOST_IN_FLIGHT,
    NOBODY,
    PREEMPTED,
    READY,
    BatchingState,
    fresh,
    with_replicas,
    with_requests,
)
from rebalancer.sim.demand import F64


class BatchLine:
    """Replicas have places: `start` gives one, `drain` and `stop` name it. Seconds are lived through in order."""

    def __init__(
        self, served: Served, arrivals: BatchArrivals, seconds: int, *, patience_seconds: float, slo_wait_seconds: float
    ) -> None:
        self._arrivals = arrivals
        self.state: BatchingState = fresh(
            served.engine,
            seconds,
            patience_seconds=patience_seconds,
            slo_wait_seconds=slo_wait_seconds,
            slo_token_seconds=served.slo_token_seconds,
            work_per_token=served.work_per_token,
        )
        self._warm()

    def _warm(self) -> None:
        """Kernels are compiled or read from their cache now: later may be within an event loop."""
        idle = with_replicas(self.state, 1)
        nobody = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
        serve(idle, 0, 0, *nobody, 0)
        open_gateway(idle, 0.0)
        lose_all(idle, 0, 0.0)

    def start(self, at: float) -> int:
        """A replica is Ready; returns its place. Who waits at the gateway goes to it."""
        gone = np.flatnonzero(self.state.replicas["mode"] == GONE)
        if not len(gone):
            have = len(self.state.replicas)
            self.state = with_replicas(self.state, max(4, 2 * have))
            gone = np.array([have])
        place = int(gone[0])
        self.state.replicas["mode"][place] = READY
        if self.state.counts[GATEWAY_FIRST] != NOBODY:
            open_gateway(self.state, at)
        return place

    def drain(self, place: int) -> None:
        """The replica gets no more requests and finishes those it has."""
        self.state.replicas["mode"][place] = DRAINING

    def stop(self, place: int, at: float) -> None:
        """The replica is gone, with what it still had."""
        lose_all(self.state, place, at)
        self.state.replicas["mode"][place] = GONE

    def live(self, begin: int, end: int) -> None:
        """Live through seconds [begin, end)."""
        while begin < end:
            until = min(end, (begin // BLOCK_SECONDS + 1) * BLOCK_SECONDS)
            coming = self._arrivals.within(begin, until)
            short = len(coming.arrived) - int(self.state.counts[FREE])
            if short > 0:
                self.state = with_requests(self.state, 2 * len(self.state.requests) + short)
            serve(self.state, begin, until, *coming, self._arrivals.first_number(begin))
            begin = until

    @property
    def lost_in_flight(self) -> int:
        """Requests that were lost with their replica."""
        return int(self.state.counts[LOST_IN_FLIGHT])

    @property
    def preempted(self) -> int:
        """How often a request was computed again because the cache was full."""
        return int(self.state.counts[PREEMPTED])

    def inside(self) -> I64:
        """Slots of the requests that are not over."""
        free = self.state.requests["free"][: self.state.counts[FREE]]
        return np.setdiff1d(np.arange(len(self.state.requests)), free)

    def without_token(self) -> F64:
        """Arrival instants of the requests inside that still wait for their first token."""
        some = self.state.requests[self.inside()]
        arrived: F64 = some["arrived"][np.isnan(some["first"])]
        return arrived
