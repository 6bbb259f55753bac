"""The replicas of one model and the requests inside them, as flat arrays for the compiled kernel."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.batching.engine import Engine
from rebalancer.sim.demand import F64

I64 = NDArray[np.int64]
NOBODY = -1
GONE, READY, DRAINING = 0, 1, 2


class Speed(NamedTuple):
    """An engine's numbers: `decode` seconds by batch, prompts' tokens per second, and its limits."""

    decode: F64
    prefill_per_second: float
    seconds_per_kv_token: float
    kv_tokens: int
    most_running: int
    tokens_per_iteration: int
    overlapped: bool
    patience_seconds: float
    slo_wait_seconds: float
    slo_token_seconds: float
    work_per_prompt_token: float
    work_per_token: float


class Replicas(NamedTuple):
    """By replica: where it is in its iterations. Lists of requests run through `Requests.after`.

    `ends`: when the iteration under way ends, inf when idle. `steps`: decoding iterations so far; `last_step`, `who`:
    (replicas, most_running) heaps of who gets the last token at which of them. `kv`: tokens held in the cache,
    `attended`: those of decoding requests. `part`: prompt tokens of the iteration under way.
    """

    mode: I64
    ends: F64
    steps: I64
    decoding: I64
    prefilling: I64
    waiting: I64
    kv: I64
    attended: I64
    part: I64
    last_step: I64
    who: I64
    first_waiting: I64
    last_waiting: I64
    first_prefilling: I64
    last_prefilling: I64


class Requests(NamedTuple):
    """By slot: the requests inside, and the slots that are free. `number`: which one of the run it is.

    `prompt`, `tokens`: still to be computed and generated since its last start; `asked`: tokens asked for; `first`:
    when its first token came, NaN before. `free`: a stack of slots, `free_count` its height.
    """

    number: I64
    arrived: F64
    prompt: I64
    left: I64
    tokens: I64
    asked: I64
    first: F64
    order: I64
    after: I64
    free: I64
    counts: I64  # [height of the stack of free slots, requests ever started, preemptions, lost in flight]


class Seconds(NamedTuple):
    """What happened, by second; of the arrivals' second: `came`, `late`, `lost`, `slow`, `wait`; else of the event's.

    Counts of requests; `wait`: sums of seconds beyond a request's own prefill; `done`: work done in replica-seconds;
    `started`, `started_wait`: first tokens and their waits; `prompt_done`, `generated`: tokens; `ended`: requests over.
    """

    came: F64
    late: F64
    lost: F64
    slow: F64
    wait: F64
    done: F64
    started: F64
    started_wait: F64
    prompt_done: F64
    generated: F64
    ended: F64


FREE, STARTED, PREEMPTED, LOST_IN_FLIGHT = 0, 1, 2, 3


def speed(  # noqa: PLR0913  # a service's objectives beside its engine
    engine: Engine,
    *,
    patience_seconds: float,
    slo_wait_seconds: float,
    slo_token_seconds: float,
    work_per_prompt_token: float = 0.0,
    work_per_token: float = 0.0,
) -> Speed:
    """The engine's numbers for the kernel; work per token is what the fluid form says a token costs."""
    return Speed(
        engine.decode_seconds(),
        engine.prefill_per_second,
        engine.seconds_per_kv_token,
        engine.kv_tokens,
        engine.most_running,
        engine.tokens_per_iteration,
        engine.overlapped,
        patience_seconds,
        slo_wait_seconds,
        slo_token_seconds,
        work_per_prompt_token,
        work_per_token,
    )


def no_replicas(count: int, most_running: int) -> Replicas:
    """Room for that many replicas, none there yet."""
    numbers = [np.zeros(count, np.int64) for _ in range(7)]
    lists = [np.full(count, NOBODY, np.int64) for _ in range(4)]
    heaps = [np.zeros((count, most_running), np.int64) for _ in range(2)]
    mode, *rest = (np.zeros(count, np.int64), *numbers)
    return Replicas(mode, np.full(count, np.inf), *rest, *heaps, *lists)


def no_requests(slots: int) -> Requests:
    """Room for that many requests inside at a time."""
    integers = [np.zeros(slots, np.int64) for _ in range(7)]
    number, prompt, left, tokens, asked, order, after = integers
    free = np.arange(slots - 1, -1, -1, dtype=np.int64)
    counts = np.array([slots, 0, 0, 0], np.int64)
    return Requests(
        number, np.zeros(slots), prompt, left, tokens, asked, np.full(slots, np.nan), order, after, free, counts
    )


def more_room(requests: Requests, slots: int) -> Requests:
    """The same requests with room for `slots`; those that are free are lent first."""
    have = len(requests.number)
    room = no_requests(slots)
    for old, new in zip(requests[:9], room[:9], strict=True):
        new[:have] = old
    free = int(requests.counts[FREE])
    fresh = np.arange(slots - 1, have - 1, -1, dtype=np.int64)
    room.free[: len(fresh)] = fresh
    room.free[len(fresh) : len(fresh) + free] = requests.free[:free]
    room.counts[:] = requests.counts
    room.counts[FREE] = len(fresh) + free
    return room


def no_seconds(seconds: int) -> Seconds:
    """Nothing has happened yet."""
    return Seconds(*(np.zeros(seconds) for _ in Seconds._fields))
