"""What Faro's controller sees of a job at a tick, and how its wishes become replicas under a quota."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class FaroJob:
    """One job as Faro's controller sees it at a tick.

    In the fluid world no single request ends: its `latency_seconds` is the mean backlog that the arrivals of the last
    30 s met, and one piece of work more; inf where nobody serves it.

    latency_seconds: mean latency of what ended in the last 30 s, in seconds (the paper's `avg_latency`); 0 when nothing
        did.
    slo_seconds: latency that was promised, in seconds.
    replicas: replicas that are asked for.
    ready: how many of these serve.
    changing: whether an earlier change is not carried out yet.
    floor: the least number of replicas that it may have.
    most: the largest number of replicas that it may have.
    units: units of the quota that one replica takes.
    """

    latency_seconds: float
    slo_seconds: float
    replicas: int
    ready: int
    changing: bool = False
    floor: int = 1
    most: int = 100
    units: int = 1


@dataclass(frozen=True, slots=True)
class FaroWish:
    """What one job wants: a number of replicas, or so many more.

    job: index of the job.
    target: replicas that it wants to have, None where it wants `more`.
    more: replicas that it wants beyond those asked for; only looked at where `target` is None.
    tries: ticks at which it may be tried; after the last one it is dropped.
    """

    job: int
    target: int | None
    more: int = 0
    tries: int = 1


@dataclass(slots=True)
class Admission:
    """Carries wishes out: decreases first, then increases in turn as far as the quota lets; the rest may try again."""

    _again: list[FaroWish] = field(default_factory=list)

    def admit(self, wishes: Sequence[FaroWish], jobs: Sequence[FaroJob], free_units: int) -> list[int]:
        """Replicas asked for by job. `free_units`: of the quota that no job has asked for."""
        desired = [job.replicas for job in jobs]
        queue = [*self._again, *wishes]
        self._again = []
        for wish in sorted(queue, key=lambda wish: _wanted(wish, jobs, desired) >= desired[wish.job]):
            job = jobs[wish.job]
            if job.changing:
                self._retry(wish)
                continue
            delta = _wanted(wish, jobs, desired) - desired[wish.job]
            fits = min(delta, max(0, free_units) // job.units)
            if fits < delta:
                self._retry(replace(wish, target=None, more=delta - fits))
            desired[wish.job] += fits
            free_units -= fits * job.units
        return desired

    def _retry(self, wish: FaroWish) -> None:
        if wish.tries > 1:
            self._again.append(replace(wish, tries=wish.tries - 1))


def _wanted(wish: FaroWish, jobs: Sequence[FaroJob], desired: Sequence[int]) -> int:
    job = jobs[wish.job]
    target = desired[wish.job] + wish.more if wish.target is None else wish.target
    return min(max(job.floor, target), job.most)
