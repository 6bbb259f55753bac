"""A model's replicas and requests, compiled: where requests go, and each replica's iterations.

An iteration: a token for everyone who decodes, a share of the budget for prompts; then who is done leaves and who
waits may start. A request goes to the least loaded Ready replica, or to the gateway while there is none. All of it
is in one file because Numba's cache does not notice when a function in another one changes (but for the heap, which
has no reason to).
"""

import numpy as np

from rebalancer.sim.batching.heap import put_in, take_out
from rebalancer.sim.batching.state import (
    FINISHED,
    FIRST_TOKENS,
    FREE,
    GATEWAY_FIRST,
    GATEWAY_LAST,
    GATEWAY_LENGTH,
    I64,
    LOST_IN_FLIGHT,
    NOBODY,
    PREEMPTED,
    READY,
    STARTED,
    BatchingState,
)
from rebalancer.sim.compiled import compiled
from rebalancer.sim.demand import F64


@compiled
def live(state: BatchingState, r: int, until: float) -> None:
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
        _begin(state, r, at)


@compiled
def _begin(state: BatchingState, r: int, at: float) -> None:
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


@compiled
def _second(state: BatchingState, at: float) -> int:
    """What happens after the last second is booked in it."""
    return min(int(at), len(state.seconds) - 1)


@compiled
def _decode(state: BatchingState, r: int, at: float) -> None:
    replica = state.replicas[r]
    if replica.decoding == 0:
        return
    replica.steps += 1
    replica.kv += replica.decoding
    replica.attended += replica.decoding
    while replica.decoding > 0 and state.heaps[r, 0, 0] <= replica.steps:
        slot = state.heaps[r, 0, 1]
        replica.decoding -= 1
        take_out(state.heaps[r], replica.decoding, 0)
        request = state.requests[slot]
        held = request.prompt + request.tokens - 1
        replica.kv -= held
        replica.attended -= held
        _finish(state, r, slot, at)


@compiled
def _prefill(state: BatchingState, r: int, at: float) -> None:
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
            put_in(state.heaps[r], replica.decoding, replica.steps + request.tokens - 1, slot)
            replica.decoding += 1


@compiled
def _first_token(state: BatchingState, slot: int, at: float) -> None:
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


@compiled
def _finish(state: BatchingState, r: int, slot: int, at: float) -> None:
    request = state.requests[slot]
    gaps = request.total_tokens - 1
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


@compiled
def _lose(state: BatchingState, slot: int, at: float, work: float) -> None:
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


@compiled
def _vacate(state: BatchingState, slot: int) -> None:
    state.requests[state.counts[FREE]].free = slot
    state.counts[FREE] += 1


@compiled
def _whole(state: BatchingState, slot: int) -> float:
    """Replica-seconds of a request that has not started, or starts again."""
    request, speed = state.requests[slot], state.speed[0]
    return float(request.prompt * speed.work_per_prompt_token + request.tokens * speed.work_per_token)


@compiled
def _admit(state: BatchingState, r: int, at: float) -> None:
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
        replica.queued -= _whole(state, slot)
        if gave_up or not fits:  # alone and still too large: no such engine takes it
            _lose(state, slot, at, _whole(state, slot))
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


@compiled
def _preempt(state: BatchingState, r: int, at: float) -> None:
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
    replica.decoding -= 1
    take_out(heap, replica.decoding, place)
    request.prompt += request.tokens - left
    request.tokens = left
    request.after = replica.first_waiting
    replica.first_waiting = slot
    if replica.last_waiting == NOBODY:
        replica.last_waiting = slot
    replica.waiting += 1
    replica.queued += _whole(state, slot)
    state.counts[PREEMPTED] += 1
    state.seconds[_second(state, at)].brought += request.prompt * state.speed[0].work_per_prompt_token


@compiled
def lose_all(state: BatchingState, r: int, at: float) -> None:
    """The replica is gone at `at`, and with it everything that it had in hand."""
    replica, speed = state.replicas[r], state.speed[0]
    before = state.counts[FREE]
    for place in range(replica.decoding):
        left = state.heaps[r, place, 0] - replica.steps
        _lose(state, state.heaps[r, place, 1], at, left * speed.work_per_token)
    slot = replica.first_prefilling
    while slot != NOBODY:
        computed = state.requests[slot].prompt - state.requests[slot].left
        _lose(state, slot, at, _whole(state, slot) - computed * speed.work_per_prompt_token)
        slot = state.requests[slot].after
    slot = replica.first_waiting
    while slot != NOBODY:
        _lose(state, slot, at, _whole(state, slot))
        slot = state.requests[slot].after
    state.counts[LOST_IN_FLIGHT] += state.counts[FREE] - before
    replica.decoding = replica.prefilling = replica.waiting = 0
    replica.kv = replica.attended = replica.part = replica.steps = replica.unread = 0
    replica.queued = 0.0
    replica.finished = replica.read = replica.written = 0
    replica.first_waiting = replica.last_waiting = NOBODY
    replica.first_prefilling = replica.last_prefilling = NOBODY
    replica.ends = np.inf


@compiled
def serve(  # noqa: PLR0913  # a compiled kernel takes flat arguments
    state: BatchingState, first_second: int, end_second: int, arrived: F64, prompt: I64, tokens: I64, first_number: int
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
            now.brought += _whole(state, slot)
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
            now.queued += _whole(state, slot)
            slot = state.requests[slot].after


@compiled
def _enter(state: BatchingState, number: int, at: float, prompt: int, tokens: int) -> int:
    state.counts[FREE] -= 1
    slot = state.requests[state.counts[FREE]].free
    request = state.requests[slot]
    request.number = number
    request.arrived = at
    request.prompt = max(1, prompt)
    request.tokens = max(1, tokens)
    request.total_tokens = request.tokens
    request.first = np.nan
    request.after = NOBODY
    return int(slot)


@compiled
def _live_all(state: BatchingState, until: float) -> None:
    for r in range(len(state.replicas)):
        if state.replicas[r].ends <= until:
            live(state, r, until)


@compiled
def _route(state: BatchingState, slot: int, at: float) -> None:
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
    replica.queued += _whole(state, slot)
    if np.isinf(replica.ends):
        replica.ends = at  # it begins once all who come at this instant are there


@compiled
def _leave_gateway(state: BatchingState, at: float) -> None:
    patience = state.speed[0].patience_seconds
    slot = state.counts[GATEWAY_FIRST]
    while slot != NOBODY and at - state.requests[slot].arrived > patience:
        state.counts[GATEWAY_FIRST] = state.requests[slot].after
        state.counts[GATEWAY_LENGTH] -= 1
        _lose(state, slot, state.requests[slot].arrived + patience, _whole(state, slot))
        slot = state.counts[GATEWAY_FIRST]


@compiled
def open_gateway(state: BatchingState, at: float) -> None:
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
