"""Ray Serve's head of one job: a router, one queue, and replicas that each hold a few requests at a time.

A message keeps the router for its own time, one after the other in the order in which they came; a request passes it
on its way in, and once more on its way out, answered or turned away. Behind it waits one queue; one request more is in
the dispatcher's hand. The dispatcher goes round the replicas and gives it to the next that holds fewer than
`ongoing_limit`; a replica serves in order. One that was let go finishes what it holds.
"""

import numpy as np

from rebalancer.sim.demand import F64
from rebalancer.sim.requests.arrivals import Arrivals
from rebalancer.sim.requests.passage import ACTIVE, PLACES, Draws, State, Told, live, resize


class Head:
    """One job under way; `told` is what came of its requests, by second in `rows`, (5, seconds) of zeros."""

    def __init__(self, arrivals: Arrivals, rows: F64, most: int, ongoing_limit: int = 4, queue_limit: int = 50) -> None:
        count = len(arrivals.at)
        places = 4 * most + 8  # those that end hold theirs for a second or two
        self._draws = Draws(
            arrivals.at,
            arrivals.service_seconds,
            arrivals.route_seconds,
            float(arrivals.service_seconds.mean()) if count else 0.0,
        )
        self._state = State(
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
        self.told = Told(np.full(count, np.nan), np.full(count, np.nan), *rows)

    @property
    def replicas(self) -> int:
        """How many take requests."""
        return int(self._state.cursor[ACTIVE])

    def resize(self, replicas: int) -> None:
        """That many take requests from now on; the youngest are let go. Raises IndexError far above `most`."""
        if replicas != self.replicas:
            resize(replicas, self._state)

    def live(self, begin: float, end: float) -> None:
        """Everything that happens in [begin, end); an infinite `end` is the last answer."""
        live(begin, end, self._draws, self._state, self.told)
