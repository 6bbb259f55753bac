"""Ray Serve's head of one job: a router, one queue, and replicas that each hold a few requests at a time.

A message keeps the router for its own time, one after the other in the order in which they came; a request passes it
on its way in, and once more on its way out, answered or turned away. Behind it waits one queue; one request more is in
the dispatcher's hand. The dispatcher goes round the replicas and gives it to the next that holds fewer than
`ongoing_limit`; a replica serves in order. One that was let go finishes what it holds.
"""

import numpy as np

from rebalancer.sim.demand import F64
from rebalancer.sim.requests.arrivals import Arrivals
from rebalancer.sim.requests.minutes import by_minute
from rebalancer.sim.requests.passage import (
    ACTIVE,
    COME,
    PLACES,
    WAITING,
    Draws,
    PassageRows,
    PassageState,
    live,
    resize,
)


class Head:
    """One job under way; `measured` is what came of its requests, by second in `rows`, (5, seconds) of zeros."""

    def __init__(self, arrivals: Arrivals, rows: F64, most: int, ongoing_limit: int = 4, queue_limit: int = 50) -> None:
        count = len(arrivals.at)
        places = 4 * most + 8  # those that end hold theirs for a second or two
        self._draws = Draws(
            arrivals.at,
            arrivals.service_seconds,
            arrivals.route_seconds,
            float(arrivals.service_seconds.mean()) if count else 0.0,
        )
        self._state = PassageState(
            cursor=np.zeros(PLACES, np.int64),
            routed_at=np.full(1, np.inf),
            lane=np.zeros(2 * count, np.int32),
            queue=np.zeros(queue_limit + 2, np.int32),
            done_at=np.zeros((places, ongoing_limit)),
            held=np.zeros((places, ongoing_limit), np.int32),
            first=np.zeros(places, np.int64),
            ongoing=np.zeros(places, np.int64),
            next_at=np.full(places, np.inf),
        )
        self.measured = PassageRows(np.full(count, np.nan), np.full(count, np.nan), *rows)

    @property
    def replicas(self) -> int:
        """How many take requests."""
        return int(self._state.cursor[ACTIVE])

    @property
    def came(self) -> int:
        """How many requests came so far."""
        return int(self._state.cursor[COME])

    @property
    def behind(self) -> int:
        """Requests behind the router that no replica has begun to serve."""
        ongoing = self._state.ongoing[: self._state.cursor[ACTIVE]]
        return int(self._state.cursor[WAITING]) + int(np.maximum(0, ongoing - 1).sum())

    def keep_in(self, wait: F64, left: F64, busy: F64) -> None:
        """Write on in these rows, (seconds,): mean waits of the answered, work left, replica-seconds done."""
        self.measured = self.measured._replace(mean_wait=wait, left=left, busy=busy)

    def resize(self, replicas: int) -> None:
        """Let that many take requests from now on; the youngest are let go. Raises IndexError far above `most`."""
        if replicas != self.replicas:
            resize(replicas, self._state)

    def live(self, begin: float, end: float) -> None:
        """Everything that happens in [begin, end); an infinite `end` is the last answer."""
        live(begin, end, self._draws, self._state, self.measured)

    def by_second(self, seconds: int, slo_seconds: float) -> tuple[F64, F64, F64]:
        """(seconds,) by arrival: mean wait, requests over the SLO, requests turned away; once all have been answered.

        Streams that overrun the last second are left out.
        """
        inside = np.searchsorted(self._draws.at, seconds)
        second = self._draws.at[:inside].astype(np.int64)
        waited = np.nan_to_num(self.measured.wait[:inside], nan=np.inf)
        latency = self._latency[:inside]
        came = np.maximum(np.bincount(second, minlength=seconds), 1)
        return (
            np.bincount(second, waited, seconds) / came,
            np.bincount(second, latency > slo_seconds, seconds).astype(np.float64),
            np.bincount(second, np.isinf(latency), seconds).astype(np.float64),
        )

    def by_minute(self, slo_seconds: float) -> F64:
        """(3, minutes) of all requests, as `minutes.by_minute` has them; once all have been answered."""
        return by_minute(self._draws.at, self._latency, slo_seconds)

    @property
    def _latency(self) -> F64:
        return np.nan_to_num(self.measured.latency, nan=np.inf, posinf=np.inf)
