"""How far batch work stands back: it is deferred by a deadline, or else by turns, and never starved.

By a deadline: a request that comes counts a tenth of its priority, all of it once half of its time is gone, and ten
times that at the end. So batch work has at once the GPUs that others leave idle, and gives way at once. Replicas
without which it would not be done in three quarters of the time come before what others gain beyond their need: the
last quarter is for surges, in which others need more.

By turns, where the policy sets a share or nobody knows how many requests wait: deferred for a window less a turn, then
in its turn its requests count all of their priority, and a share of its need comes before what anybody gains, until the
window is over. Guards apply as ever: what is due is a claim, no way around them.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from rebalancer.domain.memory import ModelMemory, Waiting
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.readings import ModelLoad
from rebalancer.planning.demand.demand import Demand, Stance
from rebalancer.planning.demand.waiting import follow, in_order

BATCH = "batch"
# Of the time to the deadline, less a start: who has waited so long counts the whole priority, and ten times that at the
# end, since all that come behind those who are late would be late too. With 0.67, three times at the end, 45 % of the
# work due in 20 min was late where 12 GPUs are short, and 31 % of all; with 0.5 none of it, and 24 % of all.
WHOLE_AFTER = 0.5
DONE_WITHIN = 0.75  # of the time: with 0.5 3.4 % late instead of 3.1 % where batch work has an hour and all would fit


class Deadline(NamedTuple):
    """A deadline of waiting requests, and the replicas that it takes.

    requests: requests that are due by then, the older ones of the queue included.
    by: instant by which they are due.
    one_from: instant up to which one replica is enough for them; from then on it takes more, or is late.
    replicas: replicas that it takes to finish them; in `Deferral.deadline` the most that any deadline takes, 0 before
        `one_from`.
    """

    requests: float
    by: float
    one_from: float
    replicas: int


@dataclass(frozen=True, slots=True)
class Deferral:
    """How far a batch model stands back.

    Worked example: a request is due an hour after it came, and the outlook looks 180 s ahead, so 3,420 s count. When it
    comes its weight is 0.1: a tenth of its priority. After 855 s, a quarter of that time, it is 0.1 ** 0.5 = 0.32,
    after half of it 1, and at the end 10.

    weight: weight of its oldest requests as a share of their priority; 1 where it does not stand back.
    since: by turns: since when it has fewer replicas than it needs, None while it has not.
    turn_at: by turns: when its turn begins, None while it lacks nothing.
    until: by turns: when its turn ends, None while it lacks nothing.
    due: replicas that come before what anybody gains; 0 outside its turn and before a deadline presses.
    counts: by a deadline: pairs of requests and the weight of each, from requests still to come to the oldest.
    deadline: by a deadline: the one that presses first, None while nothing waits.
    """

    weight: float
    since: float | None = None
    turn_at: float | None = None
    until: float | None = None
    due: int = 0
    counts: tuple[tuple[float, float], ...] = ()
    deadline: Deadline | None = None

    def undone(self, requests: float) -> float:
        """Weight of `requests` requests left undone: the youngest, since the oldest are done first."""
        total, weight = 0.0, self.weight
        for some, weight in self.counts:
            total += min(some, requests) * weight
            requests -= min(some, requests)
        return total + requests * weight


NO_DEFERRAL = Deferral(1.0)  # of every other class


def defer(of: Stance, load: ModelLoad, demand: Demand, has: int) -> tuple[Deferral, ModelMemory]:
    """How far the model that has `has` replicas stands back, and its memory afterwards.

    Models of other classes do not, nor one that takes what is idle and needs nothing. Nor does one whose requests are
    due before the outlook's horizon is over (a start and 90 s): such work cannot be deferred. By a deadline where the
    outlook was made for one and the queue is known, else by turns.
    """
    memory, rule = of.memory, of.policy.deferral
    if of.entry.workload_class != BATCH or of.entry.takes_idle:
        return NO_DEFERRAL, memory
    outlook, deadline = load.outlook, rule.deadline_seconds(of.entry)
    if deadline is not None and outlook is not None:
        if deadline <= outlook.horizon_seconds:
            return NO_DEFERRAL, _remembered(memory, None, None)
        waiting = follow(memory.waiting, load, outlook.work_of_one, deadline)
        if waiting is not None and outlook.deferred:
            return _by_deadline(waiting, outlook, deadline, rule.weight, of.now), _remembered(memory, None, waiting)
    by_turns = _by_turns(of, demand, has)
    return by_turns, _remembered(memory, by_turns.since, memory.waiting)


def _remembered(memory: ModelMemory, since: float | None, waiting: Waiting | None) -> ModelMemory:
    if since == memory.deferred_since and waiting is memory.waiting:
        return memory
    return replace(memory, deferred_since=since, waiting=waiting)


def _by_deadline(waiting: Waiting, outlook: Outlook, seconds: float, weight: float, now: float) -> Deferral:
    """Deferral by a deadline `seconds` after a request came; `weight`: of a request when it comes.

    Only as many requests are urgent as the replicas that are needed by now finish to the horizon. Else all of a long
    queue would be urgent at once, take GPUs for which a start is paid twice, and give them back a minute later.
    """
    ahead, deadlines = outlook.horizon_seconds, _deadlines(waiting, outlook, seconds, now)
    takes = max([each.replicas for each in deadlines], default=0)
    urgent = takes * ahead / outlook.work_of_one
    counts: list[tuple[float, float]] = []  # the oldest first
    for group in waiting.groups:
        gone = min(1.0, max(0.0, now - group.since) / (seconds - ahead))
        some = min(group.requests, urgent)
        counts.append((some, round(weight ** (1.0 - gone / WHOLE_AFTER), 6)))
        counts.append((group.requests - some, weight))
        urgent -= some
    coming = outlook.level * ahead / outlook.work_of_one, weight
    first = min(deadlines, key=lambda each: each.one_from, default=None)
    due = 0 if first is None or first.one_from > now else takes
    if first is not None:
        first = first._replace(replicas=due)
    return Deferral(counts[0][1] if counts else weight, counts=(coming, *reversed(counts)), deadline=first, due=due)


def _deadlines(waiting: Waiting, outlook: Outlook, seconds: float, now: float) -> list[Deadline]:
    """The deadline of each group in the queue, with the replicas that it takes if they are asked for now.

    A group is to be done within three quarters of its time, less the outlook's horizon for the start; where less is
    left than that horizon, the horizon counts.
    """
    deadlines, ahead = [], outlook.horizon_seconds
    for came, requests in in_order(waiting):
        work = requests * outlook.work_of_one
        done_by = came.since + DONE_WITHIN * seconds - ahead
        replicas = math.ceil(work / max(done_by - now, ahead))
        deadlines.append(Deadline(requests, came.since + seconds, done_by - work, replicas))
    return deadlines


def _by_turns(of: Stance, demand: Demand, has: int) -> Deferral:
    """Deferral by turns of a model that has `has` replicas, and may have lacked some for a while.

    A turn lasts to its end though the model then has the replicas that it needs: else it would lose them again at once.
    """
    since, rule, now = of.memory.deferred_since, of.policy.deferral, of.now
    short = not demand.unknown and has < demand.replicas
    if since is not None and now - since >= rule.window_seconds:
        since = None
    turn = since is not None and now - since >= rule.window_seconds - rule.turn_seconds
    if not (short or turn):
        return Deferral(rule.weight)
    begun = now if since is None else since
    until = begun + rule.window_seconds
    own = of.entry.deferral.share if of.entry.deferral is not None else None
    share = rule.share if own is None else own
    due = max(1, math.ceil(share * demand.replicas)) if turn and demand.replicas > 0 else 0
    return Deferral(1.0 if turn else rule.weight, begun, until - rule.turn_seconds, until, due)
