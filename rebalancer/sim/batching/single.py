"""One replica alone and a list of requests: how an engine compares with what a profile measured."""

import numpy as np

from rebalancer.sim.batching.engine import BatchingEngine
from rebalancer.sim.batching.kernel import live, serve
from rebalancer.sim.batching.state import I64, READY, fresh, with_replicas, with_requests
from rebalancer.sim.demand import F64


def alone(engine: BatchingEngine, arrived: F64, prompt: I64, tokens: I64, patience_seconds: float = np.inf) -> F64:
    """Seconds to the first token and to the last of each request; shape (requests, 2), NaN where none came.

    `arrived`: rising instants in seconds from 0; `prompt`, `tokens`: int64.
    """
    count = len(arrived)
    end = int(arrived[-1]) + 1 if count else 0
    log = np.full((count, 2), np.nan)
    state = fresh(engine, end + 1, patience_seconds=patience_seconds, log=log)
    state = with_requests(with_replicas(state, 1), count)
    state.replicas["mode"] = READY
    serve(state, 0, end, arrived, prompt, tokens, 0)
    live(state, 0, float(np.finfo(np.float64).max))
    return log
