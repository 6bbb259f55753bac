"""The replicas of one model and the requests inside them, as tables for the compiled kernel."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.batching.engine import BatchingEngine
from rebalancer.sim.demand import F64

I64 = NDArray[np.int64]
Table = NDArray[np.void]
NOBODY = -1
GONE, READY, DRAINING = 0, 1, 2
# Places in State.counts. GATEWAY_*: the list of requests that no replica has taken.
FREE, STARTED, PREEMPTED, LOST_IN_FLIGHT, GATEWAY_FIRST, GATEWAY_LAST, GATEWAY_LENGTH, FIRST_TOKENS, FINISHED = range(9)

SPEED = np.dtype(
    [
        ("prefill_per_second", "f8"),
        ("seconds_per_pair", "f8"),
        ("seconds_per_kv_token", "f8"),
        ("kv_tokens", "i8"),
        ("most_running", "i8"),
        ("tokens_per_iteration", "i8"),
        ("patience_seconds", "f8"),
        ("slo_wait_seconds", "f8"),
        ("slo_token_seconds", "f8"),
        ("work_per_prompt_token", "f8"),
        ("work_per_token", "f8"),
    ]
)
# `ends`: when the iteration under way ends, inf at rest. `steps`: decoding iterations so far. `kv`: tokens held in the
# cache, `attended`: those of decoding requests. `part`: prompt tokens of the iteration under way; `unread`: of prompts
# that are being computed; `queued`: work of those that wait. `finished`, `read`, `written`: requests, prompt tokens and
# tokens since it started. Lists of requests run through REQUEST's `after`.
REPLICA = np.dtype(
    [
        ("mode", "i8"),
        ("ends", "f8"),
        ("steps", "i8"),
        ("decoding", "i8"),
        ("prefilling", "i8"),
        ("waiting", "i8"),
        ("kv", "i8"),
        ("attended", "i8"),
        ("part", "i8"),
        ("unread", "i8"),
        ("queued", "f8"),
        ("first_waiting", "i8"),
        ("last_waiting", "i8"),
        ("first_prefilling", "i8"),
        ("last_prefilling", "i8"),
        ("finished", "i8"),
        ("read", "i8"),
        ("written", "i8"),
    ]
)
# `number`: which one of the run. `prompt`, `tokens`: to compute and to generate since its last start; `left`: of the
# prompt; `total_tokens`: to generate in all; `first`: when its first token came, or NaN; `order`: of its last start.
# `free`: no field of the request, but the stack of free slots.
REQUEST = np.dtype(
    [
        ("number", "i8"),
        ("arrived", "f8"),
        ("prompt", "i8"),
        ("left", "i8"),
        ("tokens", "i8"),
        ("total_tokens", "i8"),
        ("first", "f8"),
        ("order", "i8"),
        ("after", "i8"),
        ("free", "i8"),
    ]
)
# Of the arrivals' second: `came`, `late`, `lost`, `slow` (a time per token above its objective) in requests, `wait`
# the sum of their seconds beyond their own prefill. Of the event's second: `brought`, `done`, `dropped` work in
# replica-seconds, `started` first tokens and `started_wait` their waits. At its end: `running`, `waiting` requests,
# `held` tokens in the cache, `queued` work of prompts that are not computed and of all that waits.
SECOND = np.dtype(
    [
        (name, "f8")
        for name in (
            *("came", "late", "lost", "slow", "wait", "brought", "done", "dropped"),
            *("started", "started_wait", "running", "waiting", "held", "queued"),
        )
    ]
)


class BatchingState(NamedTuple):
    """Everything about one model.

    speed: one row of `SPEED`, shape (1,): the numbers of its engine, its objectives, and what a token costs as work.
    decode: seconds of an iteration by the number of decoding requests, shape (most_running + 1,).
    replicas: a row of `REPLICA` for each place of a replica, shape (replicas,); `mode` GONE where the place is free.
    heaps: for each replica a heap of its decoding requests as (the step of the last token, the request's slot), shape
        (replicas, most_running, 2).
    requests: a row of `REQUEST` for each slot of a request, shape (slots,); free slots are on the stack `free`.
    counts: one count at each of the places `FREE` to `FINISHED`, shape (9,); at `GATEWAY_FIRST` and `GATEWAY_LAST` the
        slot of a request, NOBODY where none is there.
    seconds: a row of `SECOND` for each second of the run, shape (seconds,).
    log: seconds from arrival to the first and to the last token of each finished request, at the request's number,
        shape (rows, 2); numbers beyond its rows are left out.
    recent: the same of the last requests, as two rings: seconds to the first token, seconds to the last, shape
        (2, size); NaN where nothing was written yet.
    """

    speed: Table
    decode: F64
    replicas: Table
    heaps: I64
    requests: Table
    counts: I64
    seconds: Table
    log: F64
    recent: F64


def fresh(  # noqa: PLR0913  # a service's objectives beside its engine
    engine: BatchingEngine,
    seconds: int,
    *,
    patience_seconds: float = np.inf,
    slo_wait_seconds: float = np.inf,
    slo_token_seconds: float = np.inf,
    work_per_token: float = 0.0,
    log: F64 | None = None,
) -> BatchingState:
    """No replicas, no requests, nothing has happened in any of the `seconds`.

    `work_per_token`: replica-seconds that a token costs in the fluid form; a prompt token costs what it takes.
    """
    counts = np.zeros(9, np.int64)
    counts[GATEWAY_FIRST] = counts[GATEWAY_LAST] = NOBODY
    numbers = (
        engine.prefill_per_second,
        engine.seconds_per_pair,
        engine.seconds_per_kv_token,
        engine.kv_tokens,
        engine.most_running,
        engine.tokens_per_iteration,
        patience_seconds,
        slo_wait_seconds,
        slo_token_seconds,
        1 / engine.prefill_per_second,
        work_per_token,
    )
    return BatchingState(
        speed=np.array([numbers], SPEED),
        decode=engine.decode_seconds(),
        replicas=np.zeros(0, REPLICA),
        heaps=np.zeros((0, engine.most_running, 2), np.int64),
        requests=np.zeros(0, REQUEST),
        counts=counts,
        seconds=np.zeros(seconds, SECOND),
        log=np.empty((0, 2)) if log is None else log,
        recent=np.full((2, 1024), np.nan),
    )


def with_replicas(state: BatchingState, count: int) -> BatchingState:
    """The same with room for `count` replicas."""
    have = len(state.replicas)
    replicas = np.zeros(count, REPLICA)
    replicas["ends"] = np.inf
    for name in ("first_waiting", "last_waiting", "first_prefilling", "last_prefilling"):
        replicas[name] = NOBODY
    heaps = np.zeros((count, *state.heaps.shape[1:]), np.int64)
    replicas[:have], heaps[:have] = state.replicas, state.heaps
    return state._replace(replicas=replicas, heaps=heaps)


def with_requests(state: BatchingState, count: int) -> BatchingState:
    """The same with room for `count` requests inside at a time."""
    have, free = len(state.requests), int(state.counts[FREE])
    requests = np.zeros(count, REQUEST)
    requests[:have] = state.requests
    requests["free"][free : free + count - have] = np.arange(have, count)
    state.counts[FREE] = free + count - have
    return state._replace(requests=requests)
