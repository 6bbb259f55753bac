"""Where requests go, compiled: each to the least loaded Ready replica, or to the gateway while there is none."""

import numba
import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.batching.iterations import begin, live, lose
from rebalancer.sim.batching.state import FREE, GONE, I64, NOBODY, READY, Replicas, Requests, Seconds, Speed
from rebalancer.sim.demand import F64


@numba.njit(cache=True)
def serve(  # noqa: PLR0913  # a compiled kernel takes flat arguments
    arrived: F64,
    prompt: I64,
    tokens: I64,
    first_number: int,
    until: float,
    speed: Speed,
    replicas: Replicas,
    requests: Requests,
    gateway: I64,
    seconds: Seconds,
    log: F64,
) -> None:
    """Take the requests in the order of their instants, then live on until `until`.

    `arrived`, `prompt`, `tokens`: (requests,), all before `until`; there must be as many free slots. `gateway`: head,
    tail and length of the list of those that no replica has taken.
    """
    for index in range(len(arrived)):
        at = arrived[index]
        requests.counts[FREE] -= 1
        slot = requests.free[requests.counts[FREE]]
        requests.number[slot] = first_number + index
        requests.arrived[slot] = at
        requests.prompt[slot] = max(1, prompt[index])
        requests.tokens[slot] = requests.asked[slot] = max(1, tokens[index])
        requests.first[slot] = np.nan
        requests.after[slot] = NOBODY
        seconds.came[int(at)] += 1
        for r in range(len(replicas.mode)):
            if replicas.ends[r] <= at:
                live(r, at, speed, replicas, requests, seconds, log)
        _route(slot, at, speed, replicas, requests, gateway, seconds, log)
    for r in range(len(replicas.mode)):
        if replicas.ends[r] <= until:
            live(r, until, speed, replicas, requests, seconds, log)
    _leave_gateway(until, speed, requests, gateway, seconds, log)


@numba.njit(cache=True)
def _route(  # noqa: PLR0913  # a compiled kernel takes flat arguments
    slot: int,
    at: float,
    speed: Speed,
    replicas: Replicas,
    requests: Requests,
    gateway: I64,
    seconds: Seconds,
    log: F64,
) -> None:
    best, least = NOBODY, np.int64(1) << 62
    for r in range(len(replicas.mode)):
        if replicas.mode[r] == READY:
            load = replicas.decoding[r] + replicas.prefilling[r] + replicas.waiting[r]
            if load < least:
                best, least = r, load
    if best == NOBODY:
        if gateway[0] == NOBODY:
            gateway[0] = slot
        else:
            requests.after[gateway[1]] = slot
        gateway[1] = slot
        gateway[2] += 1
        return
    if replicas.first_waiting[best] == NOBODY:
        replicas.first_waiting[best] = slot
    else:
        requests.after[replicas.last_waiting[best]] = slot
    replicas.last_waiting[best] = slot
    replicas.waiting[best] += 1
    if np.isinf(replicas.ends[best]):
        begin(best, at, speed, replicas, requests, seconds, log)


@numba.njit(cache=True)
def _leave_gateway(at: float, speed: Speed, requests: Requests, gateway: I64, seconds: Seconds, log: F64) -> None:
    while gateway[0] != NOBODY and at - requests.arrived[gateway[0]] > speed.patience_seconds:
        slot = gateway[0]
        gateway[0] = requests.after[slot]
        gateway[2] -= 1
        lose(slot, requests.arrived[slot] + speed.patience_seconds, requests, seconds, log)


@numba.njit(cache=True)
def open_gateway(  # noqa: PLR0913  # a compiled kernel takes flat arguments
    at: float, speed: Speed, replicas: Replicas, requests: Requests, gateway: I64, seconds: Seconds, log: F64
) -> None:
    """Replicas are Ready again: those who still wait are spread over them, oldest first."""
    _leave_gateway(at, speed, requests, gateway, seconds, log)
    slot = gateway[0]
    gateway[0] = gateway[1] = NOBODY
    gateway[2] = 0
    while slot != NOBODY:
        after = requests.after[slot]
        requests.after[slot] = NOBODY
        _route(slot, at, speed, replicas, requests, gateway, seconds, log)
        slot = after


@numba.njit(cache=True)
def totals(replicas: Replicas) -> NDArray[np.int64]:
    """Over all replicas that are there: running, waiting, tokens in the cache."""
    found = np.zeros(3, np.int64)
    for r in range(len(replicas.mode)):
        if replicas.mode[r] != GONE:
            found[0] += replicas.decoding[r] + replicas.prefilling[r]
            found[1] += replicas.waiting[r]
            found[2] += replicas.kv[r]
    return found
