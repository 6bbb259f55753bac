"""How requests pass a head and its replicas, compiled: one event after the other (see `head` for the rules)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.compiled import compiled
from rebalancer.sim.demand import F64

# What the numbers in `PassageState.cursor` count: requests that came, the ends of the router's lane, those that wait
# for a replica and where they begin, replicas that serve and that end, and whose turn it is.
COME, LANE_HEAD, LANE_TAIL, WAITING, QUEUE_HEAD, ACTIVE, ENDING, TURN, PLACES = range(9)


class Draws(NamedTuple):
    """What was drawn of each request of a job before the run, in the order in which they come.

    at: instants at which they come, in seconds since the run began; the shape is (requests,).
    service: seconds for which each keeps its replica; the shape is (requests,).
    route: seconds for which each keeps the router, on its way in and on its way out; the shape is (requests, 2).
    mean_service: mean of `service`, in seconds; 0 without requests.
    """

    at: F64
    service: F64
    route: F64
    mean_service: float


class PassageState(NamedTuple):
    """Where the requests of a job are. A request is named by its number; instants are seconds since the run began.

    Arrays by replica have those that take requests first, then those that end; each replica has a ring of what it
    holds.

    cursor: the counts that the constants above name, such as `cursor[COME]`.
    routed_at: instant at which the router is through with its message, inf while it has none; the shape is (1,).
    lane: what the router was given, in order: the number of a request on its way in, -1 - number on its way out.
    queue: requests that wait for a replica, as a ring.
    done_at: instants at which a replica is done with what it holds, by replica and place in its ring.
    held: requests that it holds, by replica and place in its ring.
    first: place in its ring of the request that it is done with first, by replica.
    ongoing: how many requests it holds, by replica.
    next_at: instant at which it is done with the first of them, by replica; inf: it holds none.
    """

    cursor: NDArray[np.int64]
    routed_at: F64  # (1,): when the router is through with its message; inf: it has none
    lane: NDArray[np.int32]
    queue: NDArray[np.int32]
    done_at: F64
    held: NDArray[np.int32]
    first: NDArray[np.int64]
    ongoing: NDArray[np.int64]
    next_at: F64


class PassageRows(NamedTuple):
    """What is measured of a job: first by request, (requests,), then by second of the run, (seconds,).

    latency: seconds from a request's arrival to its answer; NaN until known, inf when turned away.
    wait: seconds from its arrival until a replica begins with it; NaN until known, inf when turned away.
    busy: replica-seconds done in each second.
    left: work that is left at the end of each second, in replica-seconds.
    answered: requests that were answered in each second, those that were turned away included.
    latencies: sum of the seconds that these took from arrival to answer or refusal.
    mean_wait: mean of the seconds that these waited, in which one that was turned away counts as 0.
    """

    latency: F64
    wait: F64
    busy: F64
    left: F64
    answered: F64
    latencies: F64
    mean_wait: F64


@compiled
def resize(replicas: int, state: PassageState) -> None:
    """Take on or let go replicas, the youngest first. Raises IndexError when there is no place for so many."""
    cursor = state.cursor
    active, ending = cursor[ACTIVE], cursor[ENDING]
    last = active + ending
    for place in range(last - 1, active - 1, -1):  # who has finished leaves
        if state.ongoing[place] == 0:
            last -= 1
            _move(state, last, place)
    while active < replicas:
        if last >= len(state.ongoing):
            raise IndexError("more replicas than places")
        _move(state, active, last)
        state.first[active] = 0
        state.ongoing[active] = 0
        state.next_at[active] = np.inf
        active += 1
        last += 1
    cursor[ACTIVE] = replicas
    cursor[ENDING] = last - replicas
    cursor[TURN] = 0


@compiled
def _move(state: PassageState, source: int, target: int) -> None:
    state.first[target] = state.first[source]
    state.ongoing[target] = state.ongoing[source]
    state.next_at[target] = state.next_at[source]
    for slot in range(state.done_at.shape[1]):
        state.done_at[target, slot] = state.done_at[source, slot]
        state.held[target, slot] = state.held[source, slot]


@compiled
def _next_done(state: PassageState) -> tuple[float, int]:
    """The instant at which a replica is next done with a request, and the replica's place."""
    soonest, who = np.inf, -1
    for place in range(state.cursor[ACTIVE] + state.cursor[ENDING]):
        if state.next_at[place] < soonest:
            soonest, who = state.next_at[place], place
    return soonest, who


@compiled
def _whose_turn(state: PassageState) -> int:
    """The next replica in turn that can take one more; -1 when all are full."""
    active = state.cursor[ACTIVE]
    place = state.cursor[TURN]
    for _ in range(active):
        after = place + 1 if place + 1 < active else 0
        if state.ongoing[place] < state.done_at.shape[1]:
            state.cursor[TURN] = after
            return int(place)
        place = after
    return -1


@compiled
def _around(slot: int, size: int) -> int:
    """The slot of a ring; a comparison is much faster than a remainder."""
    return slot - size if slot >= size else slot


@compiled
def _dispatch(now: float, draws: Draws, state: PassageState, measured: PassageRows) -> None:
    """Hand out what waits, until nothing waits or every replica is full."""
    cursor = state.cursor
    limit = state.done_at.shape[1]
    while cursor[WAITING] > 0:
        place = _whose_turn(state)
        if place < 0:
            return
        request = state.queue[cursor[QUEUE_HEAD]]
        cursor[QUEUE_HEAD] = _around(cursor[QUEUE_HEAD] + 1, len(state.queue))
        cursor[WAITING] -= 1
        begin = now
        if state.ongoing[place] > 0:
            begin = state.done_at[place, _around(state.first[place] + state.ongoing[place] - 1, limit)]
        done_at = begin + draws.service[request]
        if state.ongoing[place] == 0:
            state.next_at[place] = done_at
        slot = _around(state.first[place] + state.ongoing[place], limit)
        state.done_at[place, slot] = done_at
        state.held[place, slot] = request
        state.ongoing[place] += 1
        measured.wait[request] = begin - draws.at[request]
        _note_busy(begin, done_at, measured.busy)


@compiled
def _hand_back(who: int, state: PassageState) -> None:
    """The replica is done with the first it holds: the router gets it."""
    first = state.first[who]
    state.lane[state.cursor[LANE_TAIL]] = -1 - state.held[who, first]
    state.cursor[LANE_TAIL] += 1
    first = _around(first + 1, state.done_at.shape[1])
    state.first[who] = first
    state.ongoing[who] -= 1
    state.next_at[who] = state.done_at[who, first] if state.ongoing[who] > 0 else np.inf


@compiled
def _note_busy(begin: float, end: float, busy: F64) -> None:
    second = int(begin)
    while begin < end and second < len(busy):
        until = min(end, second + 1.0)
        busy[second] += until - begin
        begin = until
        second += 1


@compiled
def _come_in(now: float, request: int, draws: Draws, state: PassageState, measured: PassageRows) -> None:
    """It is through the router: it waits for a replica, or is turned away."""
    cursor = state.cursor
    if cursor[WAITING] == len(state.queue):
        measured.wait[request] = np.inf
        state.lane[cursor[LANE_TAIL]] = -1 - request
        cursor[LANE_TAIL] += 1
        return
    state.queue[_around(cursor[QUEUE_HEAD] + cursor[WAITING], len(state.queue))] = request
    cursor[WAITING] += 1
    _dispatch(now, draws, state, measured)


@compiled
def _go_out(now: float, request: int, draws: Draws, measured: PassageRows) -> None:
    """Whoever asked has the answer, or the refusal."""
    turned_away = measured.wait[request] == np.inf
    measured.latency[request] = np.inf if turned_away else now - draws.at[request]
    second = int(now)
    if second < len(measured.answered):
        measured.answered[second] += 1
        measured.latencies[second] += now - draws.at[request]
        wait = 0.0 if turned_away else measured.wait[request]
        measured.mean_wait[second] += (wait - measured.mean_wait[second]) / measured.answered[second]


@compiled
def live(begin: float, end: float, draws: Draws, state: PassageState, measured: PassageRows) -> None:
    """Everything that happens in [begin, end), second by second; an infinite `end` is the last answer."""
    _dispatch(begin, draws, state, measured)
    second = begin
    while second < end:
        until = min(end, second + 1.0) if second < len(measured.left) else end
        _live_until(until, draws, state, measured)
        if second < len(measured.left):
            measured.left[int(second)] = _work_left(until, draws, state)
        second = until


@compiled
def _live_until(until: float, draws: Draws, state: PassageState, measured: PassageRows) -> None:
    cursor, routed_at, lane = state.cursor, state.routed_at, state.lane
    done_at, who = _next_done(state)
    while True:
        comes_at = draws.at[cursor[COME]] if cursor[COME] < len(draws.at) else np.inf
        now = min(comes_at, done_at, routed_at[0])
        if now >= until:
            return
        if now == comes_at:
            lane[cursor[LANE_TAIL]] = cursor[COME]
            cursor[LANE_TAIL] += 1
            cursor[COME] += 1
        elif now == done_at:
            _hand_back(who, state)
            _dispatch(now, draws, state, measured)
            done_at, who = _next_done(state)
        else:
            message = lane[cursor[LANE_HEAD]]
            cursor[LANE_HEAD] += 1
            routed_at[0] = np.inf
            if message < 0:
                _go_out(now, -1 - message, draws, measured)
            else:
                _come_in(now, message, draws, state, measured)
                done_at, who = _next_done(state)
        if routed_at[0] == np.inf and cursor[LANE_HEAD] < cursor[LANE_TAIL]:
            message = lane[cursor[LANE_HEAD]]
            route = draws.route[-1 - message, 1] if message < 0 else draws.route[message, 0]
            routed_at[0] = now + route


@compiled
def _work_left(now: float, draws: Draws, state: PassageState) -> float:
    """Replica-seconds of what waits and of what replicas hold."""
    work = float(state.cursor[WAITING] * draws.mean_service)
    limit = state.done_at.shape[1]
    for place in range(state.cursor[ACTIVE] + state.cursor[ENDING]):
        if state.ongoing[place] > 0:
            last = _around(state.first[place] + state.ongoing[place] - 1, limit)
            work += max(0.0, state.done_at[place, last] - now)
    return work
