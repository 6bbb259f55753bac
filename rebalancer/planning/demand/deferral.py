"""Batch work yields to the others and is deferred, not starved: by a deadline, or else by turns.

By a deadline: a request that comes counts a tenth of its priority, all of it once half of its time is gone, and ten
times that at the end; so batch work has at once what others leave idle, and gives way at once. Replicas without which
it would not be done in three quarters of the time come before what others gain beyond their need: the last quarter is
for surges, in which others need more.

By turns, where the policy says a share or nobody knows what waits: deferred for a window less a turn, its requests
count all of their priority, and a share of what it needs comes before what anybody gains, until the window is over.
Guards hold as ever: what is due is a claim, no way around them.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from rebalancer.domain.memory import ModelMemory, Waiting
from rebalancer.domain.outlook import Outlook
from rebalancer.domain.policy import DeferralRule, Model
from rebalancer.domain.readings import ModelLoad
from rebalancer.planning.demand.demand import Demand
from rebalancer.planning.demand.waiting import follow, in_order

BATCH = "batch"
# Of the time to the deadline, less a start: who has waited so long counts the whole priority, and ten times that at the
# end, since all that come behind those who are late would be late too. With 0.67, three times at the end, 45 % of the
# work due in 20 min was late where 12 GPUs are short, and 31 % of all; with 0.5 none of it, and 24 % of all.
WHOLE_AFTER = 0.5
DONE_WITHIN = 0.75  # of the time: with 0.5 3.4 % late instead of 3.1 % where batch work has an hour and all would fit


class Deadline(NamedTuple):
    """`requests` are due by `by`, those before them included; one replica suffices for them from `one_from` on.

    Both are instants. `replicas`: those that it takes; of the deadline that is told those that all of them take, and 0
    before `one_from`.
    """

    requests: float
    by: float
    one_from: float
    replicas: int


@dataclass(frozen=True, slots=True)
class Deferral:
    """How a batch model stands back. `weight`: what its requests count, as a share of their priority; of the oldest.

    By turns: it has lacked replicas from `since` on; its turn begins at `turn_at` and ends at `until`; all None: it
    lacks none. By a deadline: `counts` has requests, and what each of them counts, from those that are still to come to
    the oldest; `deadline` is the one that takes most, None while nothing waits. `due`: replicas that come before what
    anybody gains, 0 outside its turn.
    """

    weight: float
    since: float | None = None
    turn_at: float | None = None
    until: float | None = None
    due: int = 0
    counts: tuple[tuple[float, float], ...] = ()
    deadline: Deadline | None = None

    def undone(self, requests: float) -> float:
        """What it counts not to do so many requests: the youngest, since the oldest are done first."""
        total, weight = 0.0, self.weight
        for some, weight in self.counts:
            total += min(some, requests) * weight
            requests -= min(some, requests)
        return total + requests * weight


NO_DEFERRAL = Deferral(1.0)  # of every other class


def defer(  # noqa: PLR0913  # each is one input
    model: Model, load: ModelLoad, demand: Demand, held: int, kept: ModelMemory, rule: DeferralRule, now: float
) -> tuple[Deferral, ModelMemory]:
    """How the model that holds `held` replicas stands back at `now`, and its memory afterwards.

    What is due before a start and 90 s are over cannot be deferred: such a model counts as others do.
    """
    if model.workload_class != BATCH:
        return NO_DEFERRAL, kept
    outlook, deadline = load.outlook, rule.deadline_seconds(model)
    if deadline is not None and outlook is not None:
        if deadline <= outlook.horizon_seconds:
            return NO_DEFERRAL, _remembered(kept, None, None)
        waiting = follow(kept.waiting, load, outlook.work_of_one, deadline)
        if waiting is not None and outlook.deferred:
            return _by_deadline(waiting, outlook, deadline, rule.weight, now), _remembered(kept, None, waiting)
    found = _by_turns(model, demand, held, kept.deferred_since, rule, now)
    return found, _remembered(kept, found.since, kept.waiting)


def _remembered(kept: ModelMemory, since: float | None, waiting: Waiting | None) -> ModelMemory:
    if since == kept.deferred_since and waiting is kept.waiting:
        return kept
    return replace(kept, deferred_since=since, waiting=waiting)


def _by_deadline(waiting: Waiting, outlook: Outlook, seconds: float, weight: float, now: float) -> Deferral:
    """`seconds` to the deadline; `weight`: what a request counts when it comes.

    Only so many count more as the replicas that are needed by now do to the horizon: else all of a long queue would be
    urgent at once, take GPUs for which a start is paid twice, and give them back a minute later.
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
    """Of each group in the queue, with the replicas that it would take if they were asked for now.

    They have a start and 90 s less for it, and no less than that where time is up.
    """
    found, ahead = [], outlook.horizon_seconds
    for came, requests in in_order(waiting):
        work = requests * outlook.work_of_one
        done_by = came.since + DONE_WITHIN * seconds - ahead
        replicas = math.ceil(work / max(done_by - now, ahead))
        found.append(Deadline(requests, came.since + seconds, done_by - work, replicas))
    return found


def _by_turns(model: Model, demand: Demand, held: int, since: float | None, rule: DeferralRule, now: float) -> Deferral:  # noqa: PLR0913  # fmt: skip  # each is one input
    """A turn lasts to its end, though the model then has what it needs: else it would lose that again at once."""
    short = not demand.unknown and held < demand.replicas
    if since is not None and now - since >= rule.window_seconds:
        since = None
    turn = since is not None and now - since >= rule.window_seconds - rule.turn_seconds
    if not (short or turn):
        return Deferral(rule.weight)
    begun = now if since is None else since
    until = begun + rule.window_seconds
    own = model.deferral.share if model.deferral is not None else None
    share = rule.share if own is None else own
    due = max(1, math.ceil(share * demand.replicas)) if turn and demand.replicas > 0 else 0
    return Deferral(1.0 if turn else rule.weight, begun, until - rule.turn_seconds, until, due)
