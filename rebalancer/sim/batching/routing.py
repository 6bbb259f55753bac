"""Where requests go, compiled: each to the least loaded Ready replica, or to the gateway while there is none."""

import numba
import numpy as np

from rebalancer.sim.batching.iterations import live, lose, whole
from rebalancer.sim.batching.state import (
    FREE,
    GATEWAY_FIRST,
    GATEWAY_LAST,
    GATEWAY_LENGTH,
    I64,
    NOBODY,
    READY,
    State,
)
from rebalancer.sim.demand import F64


@numba.njit(cache=True)
def serve(  # noqa: PLR0913  # a compiled kernel takes flat arguments
    state: State, first_second: int, end_second: int, arrived: F64, prompt: I64, tokens: I64, first_number: int
) -> None:
    """Live through seconds [first, end) with the requests that arrive in them, in the order of their instants.

    `arrived`, `prompt`, `tokens`: (requests,); there must be as many free slots. `first_number`: the first one's.
    """
    index = 0
    for second in range(first_second, end_second):
        until = second + 1.0
        now = state.seconds[second]
        while index < len(arrived) and arrived[index] < until:
            at = arrived[index]
            slot = _enter(state, first_number + index, at, prompt[index], tokens[index])
            now.came += 1
            now.brought += whole(state, slot)
            _live_all(state, np.nextafter(at, -1.0))  # who comes as an iteration ends is in the next one
            _route(state, slot, at)
            index += 1
        _live_all(state, until)
        _leave_gateway(state, until)
        now.waiting = state.counts[GATEWAY_LENGTH]
        for r in range(len(state.replicas)):
            replica = state.replicas[r]
            now.running += replica.decoding + replica.prefilling
            now.waiting += replica.waiting
            now.held += replica.kv
            now.queued += replica.queued + replica.unread * state.speed[0].work_per_prompt_token
        slot = state.counts[GATEWAY_FIRST]
        while slot != NOBODY:
            now.queued += whole(state, slot)
            slot = state.requests[slot].after


@numba.njit(cache=True)
def _enter(state: State, number: int, at: float, prompt: int, tokens: int) -> int:
    state.counts[FREE] -= 1
    slot = state.requests[state.counts[FREE]].free
    request = state.requests[slot]
    request.number = number
    request.arrived = at
    request.prompt = max(1, prompt)
    request.tokens = max(1, tokens)
    request.asked = request.tokens
    request.first = np.nan
    request.after = NOBODY
    return int(slot)


@numba.njit(cache=True)
def _live_all(state: State, until: float) -> None:
    for r in range(len(state.replicas)):
        if state.replicas[r].ends <= until:
            live(state, r, until)


@numba.njit(cache=True)
def _route(state: State, slot: int, at: float) -> None:
    best, least = NOBODY, np.int64(1) << 62
    for r in range(len(state.replicas)):
        replica = state.replicas[r]
        if replica.mode == READY:
            load = replica.decoding + replica.prefilling + replica.waiting
            if load < least:
                best, least = r, load
    if best == NOBODY:
        if state.counts[GATEWAY_FIRST] == NOBODY:
            state.counts[GATEWAY_FIRST] = slot
        else:
            state.requests[state.counts[GATEWAY_LAST]].after = slot
        state.counts[GATEWAY_LAST] = slot
        state.counts[GATEWAY_LENGTH] += 1
        return
    replica = state.replicas[best]
    if replica.first_waiting == NOBODY:
        replica.first_waiting = slot
    else:
        state.requests[replica.last_waiting].after = slot
    replica.last_waiting = slot
    replica.waiting += 1
    replica.queued += whole(state, slot)
    if np.isinf(replica.ends):
        replica.ends = at  # it begins once all who come at this instant are there


@numba.njit(cache=True)
def _leave_gateway(state: State, at: float) -> None:
    patience = state.speed[0].patience_seconds
    slot = state.counts[GATEWAY_FIRST]
    while slot != NOBODY and at - state.requests[slot].arrived > patience:
        state.counts[GATEWAY_FIRST] = state.requests[slot].after
        state.counts[GATEWAY_LENGTH] -= 1
        lose(state, slot, state.requests[slot].arrived + patience, whole(state, slot))
        slot = state.counts[GATEWAY_FIRST]


@numba.njit(cache=True)
def open_gateway(state: State, at: float) -> None:
    """Replicas are Ready again: those who still wait are spread over them, oldest first."""
    _leave_gateway(state, at)
    slot = state.counts[GATEWAY_FIRST]
    state.counts[GATEWAY_FIRST] = state.counts[GATEWAY_LAST] = NOBODY
    state.counts[GATEWAY_LENGTH] = 0
    while slot != NOBODY:
        after = state.requests[slot].after
        state.requests[slot].after = NOBODY
        _route(state, slot, at)
        slot = after
