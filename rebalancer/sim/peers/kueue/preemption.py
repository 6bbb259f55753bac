"""Chooses the workloads that are preempted so that another one fits.

From the algorithm of kubernetes-sigs/kueue pkg/scheduler/preemption (`preemption.go`, `classical/`, `fairsharing/`,
`common/ordering.go`) with the feature gates as they are on by default in 0.19.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rebalancer.sim.peers.kueue.quota import CohortQuota, Preemption, QueuedWorkload


class PreemptionCandidate(NamedTuple):
    """One that may go. `no_borrowing`: only if the preemptor's queue then stays within its nominal quota."""

    workload: QueuedWorkload
    no_borrowing: bool


def victims(cohort: CohortQuota, incoming: QueuedWorkload, *, fair: bool) -> list[QueuedWorkload]:
    """The workloads that go so that `incoming` fits, none when no choice would do; `fair`: fair sharing is on."""
    return _fair(cohort, incoming) if fair else _classical(cohort, incoming)


def _classical(cohort: CohortQuota, incoming: QueuedWorkload) -> list[QueuedWorkload]:
    """Candidates go in their order until it fits, then whoever is not needed after all stays.

    Who stays within its nominal quota takes it back from any that borrow; who would borrow takes from lower priorities
    only, and only if its queue says so.
    """
    index = incoming.queue
    queue = cohort.queues[index]
    own = _ordered(incoming, _allowed(cohort.admitted[index], incoming, queue.within_queue))
    others = _ordered(incoming, _borrowers(cohort, incoming))
    entitled = not cohort.borrows(index, incoming.size)
    candidates = [
        *(PreemptionCandidate(each, not entitled and not _lower_enough(cohort, incoming, each)) for each in others),
        *(PreemptionCandidate(each, no_borrowing=False) for each in own),
    ]
    if not others or (not queue.while_borrowing and cohort.used[index] >= queue.nominal):
        attempts: tuple[bool, ...] = (True,)
    elif not queue.while_borrowing and not entitled:
        attempts = (False, True)
    else:
        attempts = (True, False)
    for borrowing in attempts:
        if victims := _taken(cohort, incoming, candidates, borrowing=borrowing):
            return victims
    return []


def _taken(
    cohort: CohortQuota, incoming: QueuedWorkload, candidates: Sequence[PreemptionCandidate], *, borrowing: bool
) -> list[QueuedWorkload]:
    gone: list[QueuedWorkload] = []
    for candidate in candidates:
        other = candidate.workload
        if other.queue != incoming.queue and (
            (borrowing and candidate.no_borrowing) or not cohort.borrows(other.queue)
        ):
            continue
        cohort.used[other.queue] -= other.size
        gone.append(other)
        if _fits(cohort, incoming, borrowing=borrowing):
            return _restored(cohort, _needed(cohort, incoming, gone, borrowing=borrowing))
    _restored(cohort, gone)
    return []


def _fair(cohort: CohortQuota, incoming: QueuedWorkload) -> list[QueuedWorkload]:
    """The queue with the largest share gives first.

    Unconditionally, while the preemptor stays within its nominal quota; else if the preemptor's share, this workload
    included, is not above what is left to the giver (rule S2-a), and when that does not suffice, if it is below what
    the giver had (S2-b, once per queue).
    """
    own = _allowed(cohort.admitted[incoming.queue], incoming, cohort.queues[incoming.queue].within_queue)
    candidates = _ordered(incoming, [*own, *_borrowers(cohort, incoming)])
    gone: list[QueuedWorkload] = []
    with cohort.using(incoming.queue, incoming.size):
        fits, again = _first_rule(cohort, incoming, candidates, gone)
        fits = fits or _second_rule(cohort, incoming, again, gone)
    if not fits:
        _restored(cohort, gone)
        return []
    return _restored(cohort, _needed(cohort, incoming, gone, borrowing=True))


def _first_rule(
    cohort: CohortQuota, incoming: QueuedWorkload, candidates: Sequence[QueuedWorkload], gone: list[QueuedWorkload]
) -> tuple[bool, list[QueuedWorkload]]:
    """Whether it fits now, and whom the rule spared."""
    spared: list[QueuedWorkload] = []
    left = _by_queue(candidates)
    entitled = not cohort.borrows(incoming.queue)
    for giver in _givers(cohort, incoming, left):
        mine = giver == incoming.queue
        while left[giver]:
            other = left[giver].pop(0)
            with cohort.using(giver, -other.size):
                passes = mine or entitled or cohort.share(incoming.queue) <= cohort.share(giver)
            if passes:
                cohort.used[other.queue] -= other.size
                gone.append(other)
                if _fits_counted(cohort, incoming):
                    return True, []
                break  # another queue may have the largest share now
            spared.append(other)
    return False, spared


def _second_rule(
    cohort: CohortQuota, incoming: QueuedWorkload, candidates: Sequence[QueuedWorkload], gone: list[QueuedWorkload]
) -> bool:
    left = _by_queue(candidates)
    for giver in _givers(cohort, incoming, left):
        other, left[giver] = left[giver][0], []
        if cohort.share(incoming.queue) < cohort.share(giver):
            cohort.used[other.queue] -= other.size
            gone.append(other)
            if _fits_counted(cohort, incoming):
                return True
    return False


def _givers(cohort: CohortQuota, incoming: QueuedWorkload, left: dict[int, list[QueuedWorkload]]) -> Iterator[int]:
    """Yields the queue to preempt from next: the largest share of those that borrow, or `incoming`'s own queue."""
    key = _order(incoming)
    out: set[int] = set()
    while True:
        out |= {queue for queue in left if not left[queue] or (queue != incoming.queue and not cohort.borrows(queue))}
        able = [queue for queue in left if queue not in out]
        if not able:
            return
        most = max(cohort.share(queue) for queue in able)
        yield min((queue for queue in able if cohort.share(queue) == most), key=lambda queue: key(left[queue][0]))


def _by_queue(candidates: Sequence[QueuedWorkload]) -> dict[int, list[QueuedWorkload]]:
    left: dict[int, list[QueuedWorkload]] = {}
    for each in candidates:
        left.setdefault(each.queue, []).append(each)
    return left


def _borrowers(cohort: CohortQuota, incoming: QueuedWorkload) -> list[QueuedWorkload]:
    """Those of other queues that use more than their nominal quota, as far as the policy lets them be preempted."""
    policy = cohort.queues[incoming.queue].reclaim
    if policy == "Never":
        return []
    return [
        each
        for index, admitted in enumerate(cohort.admitted)
        if index != incoming.queue and cohort.borrows(index)
        for each in _allowed(admitted, incoming, policy)
    ]


def _allowed(admitted: Sequence[QueuedWorkload], incoming: QueuedWorkload, policy: Preemption) -> list[QueuedWorkload]:
    match policy:
        case "Never":
            return []
        case "Any":
            return list(admitted)
        case "LowerPriority":
            return [each for each in admitted if each.priority < incoming.priority]
        case "LowerOrNewerEqualPriority":
            return [
                each for each in admitted if (each.priority, -each.created) < (incoming.priority, -incoming.created)
            ]


def _lower_enough(cohort: CohortQuota, incoming: QueuedWorkload, other: QueuedWorkload) -> bool:
    """Whether it may go also for one who borrows."""
    queue = cohort.queues[incoming.queue]
    threshold = queue.threshold
    low = threshold is None or other.priority <= threshold
    return queue.while_borrowing and other.priority < incoming.priority and low


def _ordered(incoming: QueuedWorkload, candidates: Sequence[QueuedWorkload]) -> list[QueuedWorkload]:
    return sorted(candidates, key=_order(incoming))


def _order(incoming: QueuedWorkload) -> Callable[[QueuedWorkload], tuple[bool, int, float, int]]:
    """Other queues before its own, lower priorities first, then who was admitted last."""
    return lambda each: (each.queue == incoming.queue, each.priority, -each.admitted, each.number)


def _fits(cohort: CohortQuota, incoming: QueuedWorkload, *, borrowing: bool) -> bool:
    if not borrowing and cohort.borrows(incoming.queue, incoming.size):
        return False
    return incoming.size <= cohort.available(incoming.queue)


def _fits_counted(cohort: CohortQuota, incoming: QueuedWorkload) -> bool:
    """The same while its own use is counted already."""
    with cohort.using(incoming.queue, -incoming.size):
        return _fits(cohort, incoming, borrowing=True)


def _needed(
    cohort: CohortQuota, incoming: QueuedWorkload, gone: list[QueuedWorkload], *, borrowing: bool
) -> list[QueuedWorkload]:
    """Those without whom it would not fit; the others are back. The last one was needed, or there were fewer."""
    needed = gone[-1:]
    for each in reversed(gone[:-1]):
        cohort.used[each.queue] += each.size
        if not _fits(cohort, incoming, borrowing=borrowing):
            cohort.used[each.queue] -= each.size
            needed.append(each)
    return needed


def _restored(cohort: CohortQuota, gone: list[QueuedWorkload]) -> list[QueuedWorkload]:
    """Nobody has gone yet, it was only asked who would: all use again what they used."""
    for each in gone:
        cohort.used[each.queue] += each.size
    return gone
