"""What happened in one run, second by second: all that a score or a plot needs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.demand import F64
from rebalancer.sim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Record:
    """Arrays of shape (models, seconds), `gpus` (seconds,): GPUs held, starting and ending replicas included.

    `wait`: seconds that the second's arrivals waited; `late` requests broke the SLO, `lost` ones of them were never
    served; `ready` replicas served; `left`: the backlog at the second's end, in replica-seconds. `lost_in_flight`:
    requests that died with their replica's machine, None where none can; `usd`: what GPUs cost, where they have more
    prices than one.
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
