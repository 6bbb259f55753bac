"""One replica alone and a list of requests: how an engine compares with what a profile measured."""

import numpy as np

from rebalancer.sim.batching.engine import Engine
from rebalancer.sim.batching.routing import serve
from rebalancer.sim.batching.state import I64, NOBODY, READY, no_replicas, no_requests, no_seconds, speed
from rebalancer.sim.demand import F64


def alone(engine: Engine, arrived: F64, prompt: I64, tokens: I64, patience_seconds: float = np.inf) -> F64:
    """Seconds to the first token and to the last of each request; shape (requests, 2), NaN where none came.

    `arrived`: rising instants in seconds from 0.
    """
    count = len(arrived)
    replicas = no_replicas(1, engine.most_running)
    replicas.mode[0] = READY
    log = np.full((count, 2), np.nan)
    numbers = speed(engine, patience_seconds=patience_seconds, slo_wait_seconds=np.inf, slo_token_seconds=np.inf)
    serve(
        arrived,
        prompt,
        tokens,
        0,
        np.finfo(np.float64).max,
        numbers,
        replicas,
        no_requests(max(1, count)),
        np.array([NOBODY, NOBODY, 0]),
        no_seconds(int(arrived[-1]) + 1 if count else 1),
        log,
    )
    return log
