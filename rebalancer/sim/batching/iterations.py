"""One replica's iterations, compiled: tokens for who decodes, a share of the budget for prompts, finish, admit."""

import numba
import numpy as np

from rebalancer.sim.batching.state import (
    FREE,
    LOST_IN_FLIGHT,
    NOBODY,
    PREEMPTED,
    STARTED,
    Replicas,
    Requests,
    Seconds,
    Speed,
)
from rebalancer.sim.demand import F64


@numba.njit(cache=True)
def live(
    r: int, until: float, speed: Speed, replicas: Replicas, requests: Requests, seconds: Seconds, log: F64
) -> None:  # noqa: PLR0913  # a compiled kernel takes flat arguments
    """Live through every iteration of replica `r` that ends at or before `until`."""
    while replicas.ends[r] <= until:
        at = replicas.ends[r]
        _book(r, at, speed, replicas, seconds)
        _decode(r, at, speed, replicas, requests, seconds, log)
        _prefill(r, at, speed, replicas, requests, seconds, log)
        begin(r, at, speed, replicas, requests, seconds, log)


@numba.njit(cache=True)
def begin(r: int, at: float, speed: Speed, replicas: Replicas, requests: Requests, seconds: Seconds, log: F64) -> None:  # noqa: PLR0913  # a compiled kernel takes flat arguments
    """Begin the next iteration at `at`, or rest."""
    if replicas.waiting[r] > 0:
        _admit(r, at, speed, replicas, requests, seconds, log)
    while replicas.kv[r] + replicas.decoding[r] > speed.kv_tokens and replicas.decoding[r] > 1:
        _preempt(r, replicas, requests)
    decoding = replicas.decoding[r]
    part = 0
    if replicas.prefilling[r] > 0:
        room = speed.tokens_per_iteration - decoding
        slot = replicas.first_prefilling[r]
        while slot != NOBODY and part < room:
            part += min(room - part, requests.left[slot])
            slot = requests.after[slot]
    replicas.part[r] = part
    if decoding == 0 and part == 0:
        replicas.ends[r] = np.inf
        return
    computing = (part + decoding) / speed.prefill_per_second
    if speed.overlapped:
        taking = max(speed.decode[decoding], computing)
    else:
        taking = (speed.decode[decoding] if decoding > 0 else 0.0) + part / speed.prefill_per_second
    replicas.ends[r] = at + taking + speed.seconds_per_kv_token * replicas.attended[r]


@numba.njit(cache=True)
def _book(r: int, at: float, speed: Speed, replicas: Replicas, seconds: Seconds) -> None:
    second = min(int(at), len(seconds.done) - 1)
    part, decoding = replicas.part[r], replicas.decoding[r]
    seconds.done[second] += part * speed.work_per_prompt_token + decoding * speed.work_per_token
    seconds.prompt_done[second] += part
    seconds.generated[second] += decoding


@numba.njit(cache=True)
def _decode(
    r: int, at: float, speed: Speed, replicas: Replicas, requests: Requests, seconds: Seconds, log: F64
) -> None:  # noqa: PLR0913  # a compiled kernel takes flat arguments
    decoding = replicas.decoding[r]
    if decoding == 0:
        return
    replicas.steps[r] += 1
    replicas.kv[r] += decoding
    replicas.attended[r] += decoding
    while replicas.decoding[r] > 0 and replicas.last_step[r, 0] <= replicas.steps[r]:
        slot = _pop(r, replicas)
        held = requests.prompt[slot] + requests.tokens[slot] - 1
        replicas.kv[r] -= held
        replicas.attended[r] -= held
        finish(slot, at, speed, requests, seconds, log)


@numba.njit(cache=True)
def _prefill(
    r: int, at: float, speed: Speed, replicas: Replicas, requests: Requests, seconds: Seconds, log: F64
) -> None:  # noqa: PLR0913  # a compiled kernel takes flat arguments
    part = replicas.part[r]
    while part > 0:
        slot = replicas.first_prefilling[r]
        some = min(part, requests.left[slot])
        requests.left[slot] -= some
        part -= some
        if requests.left[slot] > 0:
            return
        replicas.first_prefilling[r] = requests.after[slot]
        if requests.after[slot] == NOBODY:
            replicas.last_prefilling[r] = NOBODY
        replicas.prefilling[r] -= 1
        seconds.generated[min(int(at), len(seconds.done) - 1)] += 1
        if np.isnan(requests.first[slot]):
            _first_token(slot, at, speed, requests, seconds)
        if requests.tokens[slot] <= 1:
            replicas.kv[r] -= requests.prompt[slot]
            finish(slot, at, speed, requests, seconds, log)
        else:
            replicas.attended[r] += requests.prompt[slot]
            _push(r, replicas, slot, replicas.steps[r] + requests.tokens[slot] - 1)


@numba.njit(cache=True)
def _first_token(slot: int, at: float, speed: Speed, requests: Requests, seconds: Seconds) -> None:
    requests.first[slot] = at
    wait = max(0.0, at - requests.arrived[slot] - requests.prompt[slot] / speed.prefill_per_second)
    born = int(requests.arrived[slot])
    now = min(int(at), len(seconds.done) - 1)
    seconds.wait[born] += wait
    seconds.late[born] += wait > speed.slo_wait_seconds
    seconds.started[now] += 1
    seconds.started_wait[now] += wait


@numba.njit(cache=True)
def finish(slot: int, at: float, speed: Speed, requests: Requests, seconds: Seconds, log: F64) -> None:
    """The request has all its tokens: its slot is free."""
    born, asked = int(requests.arrived[slot]), requests.asked[slot]
    if asked > 1 and at - requests.first[slot] > speed.slo_token_seconds * (asked - 1):
        seconds.slow[born] += 1
    _leave(slot, at, requests, seconds, log)


@numba.njit(cache=True)
def lose(slot: int, at: float, requests: Requests, seconds: Seconds, log: F64) -> None:
    """The request leaves without its tokens: its client gave up, or its replica is gone. Late, if it was not yet."""
    born = int(requests.arrived[slot])
    seconds.lost[born] += 1
    if np.isnan(requests.first[slot]):
        seconds.late[born] += 1
        seconds.wait[born] += at - requests.arrived[slot]
    _leave(slot, at, requests, seconds, log)


@numba.njit(cache=True)
def _leave(slot: int, at: float, requests: Requests, seconds: Seconds, log: F64) -> None:
    seconds.ended[min(int(at), len(seconds.done) - 1)] += 1
    number = requests.number[slot]
    if number < len(log):
        log[number, 0] = requests.first[slot] - requests.arrived[slot]
        log[number, 1] = at - requests.arrived[slot]
    requests.free[requests.counts[FREE]] = slot
    requests.counts[FREE] += 1


@numba.njit(cache=True)
def _admit(r: int, at: float, speed: Speed, replicas: Replicas, requests: Requests, seconds: Seconds, log: F64) -> None:  # noqa: PLR0913  # a compiled kernel takes flat arguments
    while replicas.waiting[r] > 0:
        slot = replicas.first_waiting[r]
        fresh = np.isnan(requests.first[slot])
        gave_up = fresh and at - requests.arrived[slot] > speed.patience_seconds
        running = replicas.decoding[r] + replicas.prefilling[r]
        fits = replicas.kv[r] + replicas.decoding[r] + requests.prompt[slot] <= speed.kv_tokens
        if not gave_up and (running >= speed.most_running or (running > 0 and not fits)):
            return
        replicas.first_waiting[r] = requests.after[slot]
        if requests.after[slot] == NOBODY:
            replicas.last_waiting[r] = NOBODY
        replicas.waiting[r] -= 1
        if gave_up or not fits:  # alone and still too large: no such engine takes it
            lose(slot, at, requests, seconds, log)
            continue
        requests.left[slot] = requests.prompt[slot]
        requests.order[slot] = requests.counts[STARTED]
        requests.counts[STARTED] += 1
        requests.after[slot] = NOBODY
        if replicas.last_prefilling[r] == NOBODY:
            replicas.first_prefilling[r] = slot
        else:
            requests.after[replicas.last_prefilling[r]] = slot
        replicas.last_prefilling[r] = slot
        replicas.prefilling[r] += 1
        replicas.kv[r] += requests.prompt[slot]


@numba.njit(cache=True)
def _preempt(r: int, replicas: Replicas, requests: Requests) -> None:
    """The youngest that decodes gives its cache back and will be computed again, first of those that wait."""
    place = 0
    for other in range(1, replicas.decoding[r]):
        if requests.order[replicas.who[r, other]] > requests.order[replicas.who[r, place]]:
            place = other
    slot = replicas.who[r, place]
    left = replicas.last_step[r, place] - replicas.steps[r]
    held = requests.prompt[slot] + requests.tokens[slot] - 1 - left
    replicas.kv[r] -= held
    replicas.attended[r] -= held
    replicas.decoding[r] -= 1
    last = replicas.decoding[r]
    replicas.last_step[r, place] = replicas.last_step[r, last]
    replicas.who[r, place] = replicas.who[r, last]
    for start in range(last // 2 - 1, -1, -1):
        _sink(r, replicas, start)
    requests.prompt[slot] += requests.tokens[slot] - left
    requests.tokens[slot] = left
    requests.after[slot] = replicas.first_waiting[r]
    replicas.first_waiting[r] = slot
    if replicas.last_waiting[r] == NOBODY:
        replicas.last_waiting[r] = slot
    replicas.waiting[r] += 1
    requests.counts[PREEMPTED] += 1


@numba.njit(cache=True)
def _push(r: int, replicas: Replicas, slot: int, last_step: int) -> None:
    steps, who = replicas.last_step, replicas.who
    place = replicas.decoding[r]
    replicas.decoding[r] += 1
    while place > 0 and steps[r, (place - 1) // 2] > last_step:
        steps[r, place], who[r, place] = steps[r, (place - 1) // 2], who[r, (place - 1) // 2]
        place = (place - 1) // 2
    steps[r, place], who[r, place] = last_step, slot


@numba.njit(cache=True)
def _pop(r: int, replicas: Replicas) -> int:
    slot = replicas.who[r, 0]
    replicas.decoding[r] -= 1
    last = replicas.decoding[r]
    replicas.last_step[r, 0] = replicas.last_step[r, last]
    replicas.who[r, 0] = replicas.who[r, last]
    _sink(r, replicas, 0)
    return int(slot)


@numba.njit(cache=True)
def _sink(r: int, replicas: Replicas, place: int) -> None:
    steps, who, size = replicas.last_step, replicas.who, replicas.decoding[r]
    step, slot = steps[r, place], who[r, place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and steps[r, child + 1] < steps[r, child]:
            child += 1
        if steps[r, child] >= step:
            break
        steps[r, place], who[r, place] = steps[r, child], who[r, child]
        place = child
    steps[r, place], who[r, place] = step, slot


@numba.njit(cache=True)
def lose_all(r: int, at: float, replicas: Replicas, requests: Requests, seconds: Seconds, log: F64) -> None:
    """The replica is gone at `at`, and with it everything that it had in hand."""
    before = requests.counts[FREE]
    for place in range(replicas.decoding[r]):
        lose(replicas.who[r, place], at, requests, seconds, log)
    for head in (replicas.first_prefilling[r], replicas.first_waiting[r]):
        slot = head
        while slot != NOBODY:
            lose(slot, at, requests, seconds, log)
            slot = requests.after[slot]
    requests.counts[LOST_IN_FLIGHT] += requests.counts[FREE] - before
    replicas.decoding[r] = replicas.prefilling[r] = replicas.waiting[r] = 0
    replicas.kv[r] = replicas.attended[r] = replicas.part[r] = 0
    replicas.first_waiting[r] = replicas.last_waiting[r] = NOBODY
    replicas.first_prefilling[r] = replicas.last_prefilling[r] = NOBODY
    replicas.ends[r] = np.inf
