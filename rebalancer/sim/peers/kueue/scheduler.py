"""Which of the pods that wait behind their gate are let through, and who goes for them.

From the algorithm of kubernetes-sigs/kueue pkg/scheduler/scheduler.go and fair_sharing_iterator.go, and of
pkg/cache/queue for who is tried again (BestEffortFIFO).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from rebalancer.sim.peers.kueue.preemption import victims
from rebalancer.sim.peers.kueue.quota import CohortQuota, QueuedWorkload, QueueQuota

MOST_CYCLES = 1500  # between two syncs 15 s apart: a cycle that moves nothing backs off by up to 10 ms


@dataclass(slots=True, eq=False)
class QueueEntry:
    """The head of a queue in one cycle.

    workload: the pod that waits.
    fits: whether it fits as things are.
    gone: workloads that must go so that it fits; empty where it fits as things are, or not at all.
    borrows: whether its queue would use more than its nominal quota with it, and without those of `gone` in that queue.
    """

    workload: QueuedWorkload
    fits: bool
    gone: list[QueuedWorkload]
    borrows: bool


class Scheduler:
    """One cohort's queues with the pods that wait in them.

    Workloads of one queue are alike in size and priority, so where the head does not fit the others do not either.
    """

    def __init__(self, queues: Sequence[QueueQuota], shared: float = 0.0, *, fair: bool = False) -> None:
        self.cohort = CohortQuota(queues, shared)
        self.waiting: list[deque[QueuedWorkload]] = [deque() for _ in queues]
        self.preemptions = 0
        self._fair = fair
        self._parked: set[int] = set()  # queues whose head cannot be admitted until somebody goes
        self._numbered = 0

    def create(self, queue: int, size: float, priority: int, now: float) -> None:
        """A pod is there, behind its gate, the last of its queue."""
        self._numbered += 1
        self.waiting[queue].append(QueuedWorkload(queue, size, priority, created=now, number=self._numbered))
        self._parked.discard(queue)

    def end(self, queue: int) -> None:
        """The ReplicaSet takes one pod away: one that waits before one that runs, the youngest first."""
        if self.waiting[queue]:
            self.waiting[queue].pop()
            return
        self.cohort.drop(self.cohort.admitted[queue][-1])
        self._parked.clear()

    def settle(self, now: float) -> None:
        """Cycle until one changes nothing."""
        for _ in range(MOST_CYCLES):
            if not self.cycle(now):
                return

    def cycle(self, now: float) -> bool:
        """Every queue's head is judged on what is admitted, then they are served one by one.

        Whether anybody was admitted or preempted.
        """
        entries = [
            self._entry(waiting[0])
            for queue, waiting in enumerate(self.waiting)
            if waiting and queue not in self._parked
        ]
        entries.sort(key=lambda entry: (entry.borrows, -entry.workload.priority, entry.workload.created))
        reserved: list[QueuedWorkload] = []  # what this cycle promises to those for whom others go
        going: list[QueuedWorkload] = []
        admitted = False
        while entries:
            entry = self._fairest(entries) if self._fair else entries[0]
            entries.remove(entry)
            workload = entry.workload
            if any(each in going for each in entry.gone):
                entry = self._without(going, workload)
                if entry.fits:  # it waits until the others' victims have gone, and nobody passes it
                    reserved.append(workload)
                    self.cohort.used[workload.queue] += workload.size
                    continue
            if not entry.fits and not entry.gone:
                self._parked.add(workload.queue)
                continue
            if any(each in going for each in entry.gone) or not self._room(workload, [*going, *entry.gone]):
                continue
            if entry.fits:
                self.waiting[workload.queue].popleft()
                workload.admitted = now
                self.cohort.admit(workload)
                admitted = True
                continue
            going += entry.gone
            reserved.append(workload)
            self.cohort.used[workload.queue] += workload.size
        for workload in reserved:
            self.cohort.used[workload.queue] -= workload.size
        for workload in going:
            self._preempt(workload, now)
        return admitted or bool(going)

    def _entry(self, workload: QueuedWorkload) -> QueueEntry:
        """By what is admitted now."""
        queue = workload.queue
        borrows = self.cohort.borrows(queue, workload.size)
        if workload.size > self.cohort.most(queue):
            return QueueEntry(workload, fits=False, gone=[], borrows=borrows)
        if workload.size <= self.cohort.available(queue):
            return QueueEntry(workload, fits=True, gone=[], borrows=borrows)
        gone = self._victims(workload) if self._may_preempt(workload, borrows=borrows) else []
        own = sum(each.size for each in gone if each.queue == queue)
        return QueueEntry(workload, fits=False, gone=gone, borrows=self.cohort.borrows(queue, workload.size - own))

    def _may_preempt(self, workload: QueuedWorkload, *, borrows: bool) -> bool:
        queue = self.cohort.queues[workload.queue]
        while_borrowing = queue.while_borrowing or (self._fair and queue.reclaim != "Never")
        return workload.size <= queue.nominal or not borrows or while_borrowing

    def _victims(self, workload: QueuedWorkload) -> list[QueuedWorkload]:
        return victims(self.cohort, workload, fair=self._fair)

    def _without(self, going: Sequence[QueuedWorkload], workload: QueuedWorkload) -> QueueEntry:
        """By what is admitted once these have gone."""
        for each in going:
            self.cohort.drop(each)
        entry = self._entry(workload)
        for each in going:
            self.cohort.admit(each)
        return entry

    def _room(self, workload: QueuedWorkload, gone: Sequence[QueuedWorkload]) -> bool:
        """Whether it still fits after those that were served before it, once these have gone."""
        for each in gone:
            self.cohort.used[each.queue] -= each.size
        room = workload.size <= self.cohort.available(workload.queue)
        for each in gone:
            self.cohort.used[each.queue] += each.size
        return room

    def _fairest(self, entries: Sequence[QueueEntry]) -> QueueEntry:
        """Who stays within nominal quota, then who has the smallest share once it is admitted."""

        def key(entry: QueueEntry) -> tuple[bool, tuple[bool, float], int, float]:
            workload = entry.workload
            with self.cohort.using(workload.queue, workload.size):
                borrows, share = self.cohort.borrows(workload.queue), self.cohort.share(workload.queue)
            return borrows, share, -workload.priority, workload.created

        return min(entries, key=key)

    def _preempt(self, workload: QueuedWorkload, now: float) -> None:
        """Deletes the workload's pod; the ReplicaSet makes another, which waits at the end of the queue."""
        self.cohort.drop(workload)
        self.preemptions += 1
        self.create(workload.queue, workload.size, workload.priority, now)
        self._parked.clear()
