"""One replica's iterations, compiled: tokens for who decodes, a share of the budget for prompts, finish, admit."""

import numba
import numpy as np

from rebalancer.sim.batching.state import (
    FINISHED,
    FIRST_TOKENS,
    FREE,
    LOST_IN_FLIGHT,
    NOBODY,
    PREEMPTED,
    STARTED,
    State,
)


@numba.njit(cache=True)
def live(state: State, r: int, until: float) -> None:
    """Live through every iteration of replica `r` that ends at or before `until`."""
    replica, speed = state.replicas[r], state.speed[0]
    while replica.ends <= until:
        at = replica.ends
        work = replica.part * speed.work_per_prompt_token + replica.decoding * speed.work_per_token
        state.seconds[_second(state, at)].done += work
        replica.read += replica.part
        replica.written += replica.decoding
        quiet = replica.waiting == 0 and replica.prefilling == 0 and replica.decoding > 0
        if quiet and state.heaps[r, 0, 0] > replica.steps + 1 and replica.kv + 2 * replica.decoding <= speed.kv_tokens:
            # Nobody comes in or goes out: what `_decode` and `begin` would do, at a tenth of their price.
            replica.steps += 1
            replica.kv += replica.decoding
            replica.attended += replica.decoding
            replica.ends = at + state.decode[replica.decoding] + speed.seconds_per_kv_token * replica.attended
            continue
        _decode(state, r, at)
        _prefill(state, r, at)
        begin(state, r, at)


@numba.njit(cache=True)
def begin(state: State, r: int, at: float) -> None:
    """Begin the next iteration at `at`, or rest."""
    replica, speed = state.replicas[r], state.speed[0]
    if replica.waiting > 0:
        _admit(state, r, at)
    while replica.kv + replica.decoding > speed.kv_tokens and replica.decoding > 1:
        _preempt(state, r, at)
    part, pairs = 0, 0.0
    if replica.prefilling > 0:
        room = speed.tokens_per_iteration - replica.decoding
        slot = replica.first_prefilling
        while slot != NOBODY and part < room:
            request = state.requests[slot]
            some = min(room - part, request.left)
            pairs += some * (request.prompt - request.left + 0.5 * some)
            part += some
            slot = request.after
    replica.part = part
    if replica.decoding == 0 and part == 0:
        replica.ends = np.inf
        return
    taking = state.decode[replica.decoding] + speed.seconds_per_kv_token * replica.attended
    replica.ends = at + taking + part / speed.prefill_per_second + speed.seconds_per_pair * pairs


@numba.njit(cache=True)
def _second(state: State, at: float) -> int:
    """What happens after the last second is booked in it."""
    return min(int(at), len(state.seconds) - 1)


@numba.njit(cache=True)
def _decode(state: State, r: int, at: float) -> None:
    replica = state.replicas[r]
    if replica.decoding == 0:
        return
    replica.steps += 1
    replica.kv += replica.decoding
    replica.attended += replica.decoding
    while replica.decoding > 0 and state.heaps[r, 0, 0] <= replica.steps:
        slot = state.heaps[r, 0, 1]
        _take_out(state, r, 0)
        request = state.requests[slot]
        held = request.prompt + request.tokens - 1
        replica.kv -= held
        replica.attended -= held
        _finish(state, r, slot, at)


@numba.njit(cache=True)
def _prefill(state: State, r: int, at: float) -> None:
    replica = state.replicas[r]
    part = replica.part
    while part > 0:
        slot = replica.first_prefilling
        request = state.requests[slot]
        some = min(part, request.left)
        request.left -= some
        replica.unread -= some
        part -= some
        if request.left > 0:
            return
        replica.first_prefilling = request.after
        if request.after == NOBODY:
            replica.last_prefilling = NOBODY
        replica.prefilling -= 1
        replica.written += 1
        state.seconds[_second(state, at)].done += state.speed[0].work_per_token
        if np.isnan(request.first):
            _first_token(state, slot, at)
        if request.tokens <= 1:
            replica.kv -= request.prompt
            _finish(state, r, slot, at)
        else:
            replica.attended += request.prompt
            _put_in(state, r, slot, replica.steps + request.tokens - 1)


@numba.njit(cache=True)
def _first_token(state: State, slot: int, at: float) -> None:
    request, speed = state.requests[slot], state.speed[0]
    request.first = at
    after = at - request.arrived
    wait = max(0.0, after - request.prompt / speed.prefill_per_second)
    born, now = state.seconds[int(request.arrived)], state.seconds[_second(state, at)]
    born.wait += wait
    if wait > speed.slo_wait_seconds:
        born.late += 1
    now.started += 1
    now.started_wait += wait
    state.recent[0, state.counts[FIRST_TOKENS] % state.recent.shape[1]] = after
    state.counts[FIRST_TOKENS] += 1


@numba.njit(cache=True)
def _finish(state: State, r: int, slot: int, at: float) -> None:
    request = state.requests[slot]
    gaps = request.asked - 1
    if gaps > 0 and at - request.first > state.speed[0].slo_token_seconds * gaps:
        state.seconds[int(request.arrived)].slow += 1
    after = at - request.arrived
    state.recent[1, state.counts[FINISHED] % state.recent.shape[1]] = after
    state.counts[FINISHED] += 1
    state.replicas[r].finished += 1
    if request.number < len(state.log):
        state.log[request.number, 0] = request.first - request.arrived
        state.log[request.number, 1] = after
    _vacate(state, slot)


@numba.njit(cache=True)
def lose(state: State, slot: int, at: float, work: float) -> None:
    """The request leaves without its tokens: its client gave up, or its replica is gone; `work` was left to do.

    Without a first token it is late, however short it waited.
    """
    request = state.requests[slot]
    born = state.seconds[int(request.arrived)]
    born.lost += 1
    state.seconds[_second(state, at)].dropped += work
    if np.isnan(request.first):
        born.late += 1
        born.wait += at - request.arrived
    _vacate(state, slot)


@numba.njit(cache=True)
def _vacate(state: State, slot: int) -> None:
    state.requests[state.counts[FREE]].free = slot
    state.counts[FREE] += 1


@numba.njit(cache=True)
def whole(state: State, slot: int) -> float:
    """Replica-seconds of a request that has not started, or starts again."""
    request, speed = state.requests[slot], state.speed[0]
    return float(request.prompt * speed.work_per_prompt_token + request.tokens * speed.work_per_token)


@numba.njit(cache=True)
def _admit(state: State, r: int, at: float) -> None:
    replica, speed = state.replicas[r], state.speed[0]
    while replica.waiting > 0:
        slot = replica.first_waiting
        request = state.requests[slot]
        gave_up = np.isnan(request.first) and at - request.arrived > speed.patience_seconds
        running = replica.decoding + replica.prefilling
        room = replica.unread < speed.tokens_per_iteration - replica.decoding
        fits = replica.kv + replica.decoding + request.prompt <= speed.kv_tokens
        if not gave_up and (running >= speed.most_running or not room or (running > 0 and not fits)):
            return
        replica.first_waiting = request.after
        if request.after == NOBODY:
            replica.last_waiting = NOBODY
        replica.waiting -= 1
        replica.queued -= whole(state, slot)
        if gave_up or not fits:  # alone and still too large: no such engine takes it
            lose(state, slot, at, whole(state, slot))
            continue
        request.left = request.prompt
        request.order = state.counts[STARTED]
        state.counts[STARTED] += 1
        request.after = NOBODY
        if replica.last_prefilling == NOBODY:
            replica.first_prefilling = slot
        else:
            state.requests[replica.last_prefilling].after = slot
        replica.last_prefilling = slot
        replica.prefilling += 1
        replica.unread += request.prompt
        replica.kv += request.prompt


@numba.njit(cache=True)
def _preempt(state: State, r: int, at: float) -> None:
    """The youngest that decodes gives its cache back and will be computed again, first of those that wait."""
    replica, heap = state.replicas[r], state.heaps[r]
    place = 0
    for other in range(1, replica.decoding):
        if state.requests[heap[other, 1]].order > state.requests[heap[place, 1]].order:
            place = other
    slot, left = heap[place, 1], heap[place, 0] - replica.steps
    request = state.requests[slot]
    held = request.prompt + request.tokens - 1 - left
    replica.kv -= held
    replica.attended -= held
    _take_out(state, r, place)
    request.prompt += request.tokens - left
    request.tokens = left
    request.after = replica.first_waiting
    replica.first_waiting = slot
    if replica.last_waiting == NOBODY:
        replica.last_waiting = slot
    replica.waiting += 1
    replica.queued += whole(state, slot)
    state.counts[PREEMPTED] += 1
    state.seconds[_second(state, at)].brought += request.prompt * state.speed[0].work_per_prompt_token


@numba.njit(cache=True)
def _put_in(state: State, r: int, slot: int, last_step: int) -> None:
    replica, heap = state.replicas[r], state.heaps[r]
    place = replica.decoding
    replica.decoding += 1
    while place > 0 and heap[(place - 1) // 2, 0] > last_step:
        heap[place, 0], heap[place, 1] = heap[(place - 1) // 2, 0], heap[(place - 1) // 2, 1]
        place = (place - 1) // 2
    heap[place, 0], heap[place, 1] = last_step, slot


@numba.njit(cache=True)
def _take_out(state: State, r: int, place: int) -> None:
    """The last one fills the place, then goes up or down to where it belongs."""
    replica, heap = state.replicas[r], state.heaps[r]
    replica.decoding -= 1
    size = replica.decoding
    step, slot = heap[size, 0], heap[size, 1]
    while place > 0 and heap[(place - 1) // 2, 0] > step:
        heap[place, 0], heap[place, 1] = heap[(place - 1) // 2, 0], heap[(place - 1) // 2, 1]
        place = (place - 1) // 2
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[child, 0] >= step:
            break
        heap[place, 0], heap[place, 1] = heap[child, 0], heap[child, 1]
        place = child
    heap[place, 0], heap[place, 1] = step, slot


@numba.njit(cache=True)
def lose_all(state: State, r: int, at: float) -> None:
    """The replica is gone at `at`, and with it everything that it had in hand."""
    replica, speed = state.replicas[r], state.speed[0]
    before = state.counts[FREE]
    for place in range(replica.decoding):
        left = state.heaps[r, place, 0] - replica.steps
        lose(state, state.heaps[r, place, 1], at, left * speed.work_per_token)
    slot = replica.first_prefilling
    while slot != NOBODY:
        computed = state.requests[slot].prompt - state.requests[slot].left
        lose(state, slot, at, whole(state, slot) - computed * speed.work_per_prompt_token)
        slot = state.requests[slot].after
    slot = replica.first_waiting
    while slot != NOBODY:
        lose(state, slot, at, whole(state, slot))
        slot = state.requests[slot].after
    state.counts[LOST_IN_FLIGHT] += state.counts[FREE] - before
    replica.decoding = replica.prefilling = replica.waiting = 0
    replica.kv = replica.attended = replica.part = replica.steps = replica.unread = 0
    replica.queued = 0.0
    replica.finished = replica.read = replica.written = 0
    replica.first_waiting = replica.last_waiting = NOBODY
    replica.first_prefilling = replica.last_prefilling = NOBODY
    replica.ends = np.inf
