"""What a ClusterQueue may use: its own quota, and what the others of its cohort leave.

From the algorithm of kubernetes-sigs/kueue pkg/cache/scheduler (`resource_node.go`, `fair_sharing.go`), for one cohort
without child cohorts, one resource and one flavour. Amounts are GPUs; fractions are allowed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

Preemption = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"]


@dataclass(frozen=True, slots=True)
class QueueQuota:
    """A ClusterQueue's spec.

    nominal: its nominal quota, in GPUs.
    borrowing_limit: GPUs that it may use beyond its nominal quota at most; None: it may borrow all that there is.
    lending_limit: GPUs of its nominal quota that it lends at most; None: it lends all that there is.
    within_queue: whom a workload may preempt in its own queue (`withinClusterQueue`).
    reclaim: whom a workload may preempt in queues that use more than their nominal quota (`reclaimWithinCohort`).
    while_borrowing: whether lower priorities are preempted also by who borrows (`borrowWithinCohort` is LowerPriority).
    threshold: priority up to which that holds, None where it holds for all lower priorities.
    weight: its weight in fair sharing; with 0 its share is above every other while it borrows.
    """

    nominal: float
    borrowing_limit: float | None = None
    lending_limit: float | None = None
    within_queue: Preemption = "LowerOrNewerEqualPriority"
    reclaim: Preemption = "Any"
    while_borrowing: bool = False
    threshold: int | None = None
    weight: float = 1.0

    @property
    def never_lent(self) -> float:
        """What it never lends."""
        return 0.0 if self.lending_limit is None else max(0.0, self.nominal - self.lending_limit)


@dataclass(slots=True, eq=False)
class QueuedWorkload:
    """One pod as Kueue sees it.

    queue: the place of its ClusterQueue among those of the cohort.
    size: GPUs that it requests.
    priority: its priority; a higher number is more important.
    created: second at which it was created.
    admitted: second at which it was admitted, 0 until then.
    number: its place in the order of creation, from 1 on, which tells apart workloads that are alike otherwise; 0: it
        was not counted.
    """

    queue: int
    size: float
    priority: int = 0
    created: float = 0.0
    admitted: float = 0.0
    number: int = 0


class CohortQuota:
    """ClusterQueues that lend to each other, and what is admitted in each. `shared`: the cohort's own quota."""

    def __init__(self, queues: Sequence[QueueQuota], shared: float = 0.0) -> None:
        self.queues = tuple(queues)
        self.admitted: list[list[QueuedWorkload]] = [[] for _ in queues]
        self.used = [0.0] * len(self.queues)
        self.capacity = shared + sum(queue.nominal - queue.never_lent for queue in queues)

    def admit(self, workload: QueuedWorkload) -> None:
        """Admit the workload as the last of its queue; it uses quota from now on."""
        self.admitted[workload.queue].append(workload)
        self.used[workload.queue] += workload.size

    def drop(self, workload: QueuedWorkload) -> None:
        """Take away an admitted workload; it uses quota no more."""
        self.admitted[workload.queue].remove(workload)
        self.used[workload.queue] -= workload.size

    def available(self, index: int) -> float:
        """What a queue may still take: of its own that it does not lend, and of what is left in the cohort."""
        queue, used = self.queues[index], self.used[index]
        left = self.capacity - sum(
            max(0.0, use - of.never_lent) for of, use in zip(self.queues, self.used, strict=True)
        )
        if queue.borrowing_limit is not None:
            own = queue.nominal - queue.never_lent - max(0.0, used - queue.never_lent)
            left = min(left, own + queue.borrowing_limit)
        return max(0.0, queue.never_lent - used) + left

    def most(self, index: int) -> float:
        """What a queue could use if nobody used anything."""
        queue = self.queues[index]
        most = queue.never_lent + self.capacity
        return most if queue.borrowing_limit is None else min(most, queue.nominal + queue.borrowing_limit)

    def borrows(self, index: int, more: float = 0.0) -> bool:
        """Whether a queue uses, or with `more` would use, more than its nominal quota."""
        return self.used[index] + more > self.queues[index].nominal

    def share(self, index: int) -> tuple[bool, float]:
        """The dominant resource share: what is borrowed in thousandths of the cohort's capacity, over the weight.

        To be compared only: the first is true for who borrows without any weight, which is more than any share.
        """
        borrowed = self.used[index] - self.queues[index].nominal
        if borrowed <= 0.0 or self.capacity <= 0.0:
            return False, 0.0
        ratio, weight = borrowed * 1000.0 / self.capacity, self.queues[index].weight
        return (True, ratio) if weight == 0.0 else (False, ratio / weight)

    @contextmanager
    def using(self, index: int, more: float) -> Iterator[None]:
        """For a while a queue counts as if it used `more` more (less, below 0)."""
        self.used[index] += more
        try:
            yield
        finally:
            self.used[index] -= more
