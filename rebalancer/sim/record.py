"""What happened in one run, second by second: all that a score or a plot needs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.demand import F64
from rebalancer.sim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Record:
    """What happened in one run. Arrays have the shape (models, seconds), except for `gpus`.

    scenario: what was played.
    controller: name of who decided.
    wait: seconds that each second's arrivals waited, of a deferred model until they were finished; the mean where each
        request is simulated; inf where nobody was there to serve, or where such a request was never served.
    late: requests of each second's arrivals that broke the SLO.
    lost: requests of each second's arrivals that were turned away, or that did not wait.
    left: backlog at the end of each second, in replica-seconds.
    ready: replicas that served in each second.
    gpus: GPUs held in each second, those of starting and ending replicas included; the shape is (seconds,).
    starts: replicas that got a node; those that models begin with do not count.
    stops: replicas with a node that were asked to go, or that died with their machine.
    floor_breaches: how often a model was asked to have fewer replicas than its floor.
    lost_in_flight: requests in service that were lost when their replica ended; None where nobody counts them, as
        where no machine goes.
    usd: USD that GPUs cost over the run; None without an elastic pool, where all have the scenario's one price.
    """

    scenario: Scenario
    controller: str
    wait: F64
    late: F64
    lost: F64
    left: F64
    ready: NDArray[np.int32]
    gpus: NDArray[np.int32]
    starts: int
    stops: int
    floor_breaches: int
    lost_in_flight: float | None = None
    usd: float | None = None
