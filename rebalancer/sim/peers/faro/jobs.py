"""What Faro's controller sees of a job at a tick, and how its wishes become replicas under a quota."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class FaroJob:
    """`latency_seconds`: mean of what ended in the last 30 s, 0 when nothing did (the paper's `avg_latency`).

    `replicas` asked for, `ready` of them serve; `changing`: an earlier change is not carried out yet. `units`: of the
    quota, for one replica.
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
    """A job by its index wants `target` replicas or, with `target` None, `more`; dropped after `tries` ticks."""

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
