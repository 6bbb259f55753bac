"""The queue of a batch model by the time its requests came, from which deadlines count.

Metrics tell how many wait and how much work comes, not which requests they are. First come, first served: the requests
that wait are the last that came.
"""

from itertools import accumulate

from msgspec.structs import replace

from rebalancer.domain.memory import Waiting, WaitingSince
from rebalancer.domain.readings import ModelLoad, Reading

GRAINS = 32  # to a deadline: a group's requests count as old as its oldest, 3 % of the time they have
MOST_GROUPS = 64  # of somebody who waits much longer than that, the oldest are put together
QUANTUM = 6  # decimals of requests, as of everything that leaves


def follow(before: Waiting | None, load: ModelLoad, work_of_one: float, deadline_seconds: float) -> Waiting | None:
    """The queue after a newer look, the same without one; None while nobody has ever counted waiting requests.

    What came since the look before is the last minute's work by `work_of_one`, the replica-seconds of a request; it is
    more where more wait than that explains. Of the first look nobody knows when they came: they count as new.
    """
    look = load.signals.get("queue")
    if not isinstance(look, Reading) or (before is not None and look.at <= before.at):
        return before
    since = look.at if before is None else before.at
    rate = (load.work.last_60s or 0.0) / work_of_one
    came = min(look.value, rate * (look.at - since))
    older = _last(() if before is None else before.groups, look.value - came)
    came = round(look.value - sum(each.requests for each in older), QUANTUM)
    return Waiting(look.at, _joined(older, WaitingSince(since, came), deadline_seconds / GRAINS))


def _last(groups: tuple[WaitingSince, ...], requests: float) -> tuple[WaitingSince, ...]:
    """The youngest `requests` of the groups: the oldest were served."""
    youngest: list[WaitingSince] = []
    for group in reversed(groups):
        some = round(min(group.requests, requests), QUANTUM)
        if some <= 0.0:
            break
        youngest.append(group if some == group.requests else replace(group, requests=some))
        requests -= some
    return tuple(reversed(youngest))


def _joined(older: tuple[WaitingSince, ...], new: WaitingSince, grain_seconds: float) -> tuple[WaitingSince, ...]:
    """The groups with the newest requests, put into the last group while that is shorter than `grain_seconds`."""
    if new.requests <= 0.0:
        return older
    if older and new.since - older[-1].since < grain_seconds:
        return (*older[:-1], _together(older[-1], new))
    if len(older) < MOST_GROUPS:
        return (*older, new)
    return (_together(older[0], older[1]), *older[2:], new)


def _together(one: WaitingSince, next_one: WaitingSince) -> WaitingSince:
    return replace(one, requests=round(one.requests + next_one.requests, QUANTUM))


def in_order(waiting: Waiting) -> list[tuple[WaitingSince, float]]:
    """Each group with the requests that are finished when it is, its own included."""
    return list(zip(waiting.groups, accumulate(each.requests for each in waiting.groups), strict=True))
