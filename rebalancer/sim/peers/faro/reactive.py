"""Faro's reactive baselines: act when latency stayed over, or not over, its SLO for long enough."""

from collections.abc import Callable, Sequence
from math import ceil, isfinite

from rebalancer.sim.peers.faro.jobs import Admission, FaroJob, FaroWish

TICK_SECONDS = 10
UP_TICKS, DOWN_TICKS = 3, 60  # 30 s over the SLO, 600 s not over it
Step = Callable[[FaroJob, int], int]


def one_by_one(job: FaroJob, direction: int) -> int:
    """AIAD: one replica more or less."""
    return job.replicas + direction


def in_one_shot(job: FaroJob, _direction: int) -> int:
    """Oneshot: the replicas in proportion to latency over SLO, rounded up; all there may be for what is not served."""
    if not isfinite(job.latency_seconds):
        return job.most
    return ceil(job.replicas * (job.latency_seconds / job.slo_seconds))


class Reactive:
    """One count per job: up while over the SLO, down while not; a change of side starts again.

    `inside_faro` it only increases and overlooks jobs whose change is under way; ticks that are not over the SLO
    leave its count as it is, and only `forget` clears it: that is how the published code counts.
    """

    def __init__(self, step: Step, *, inside_faro: bool = False) -> None:
        self._step = step
        self._inside_faro = inside_faro
        self._counts: dict[int, int] = {}

    def wishes(self, jobs: Sequence[FaroJob]) -> list[FaroWish]:
        """What jobs want at this tick, in their order."""
        wishes = []
        for index, job in enumerate(jobs):
            if self._inside_faro and job.changing:
                continue
            count = self._counts.get(index, 0)
            if job.latency_seconds > job.slo_seconds:
                count = max(0, count) + 1
            elif not self._inside_faro:
                count = min(0, count) - 1
            direction = (count >= UP_TICKS) - (count <= -DOWN_TICKS)
            if direction:
                wishes.append(FaroWish(index, self._step(job, direction)))
                count = 0
            self._counts[index] = count
        return wishes

    def forget(self) -> None:
        """Start counting again."""
        self._counts.clear()


class Aiad:
    """+-1 after 30 s over, 600 s not over the SLO."""

    step_of_one: Step = staticmethod(one_by_one)

    def __init__(self) -> None:
        self._reactive = Reactive(self.step_of_one)
        self._admission = Admission()

    def step(self, _now: int, jobs: Sequence[FaroJob], free_units: int) -> list[int]:
        """Replicas asked for by job; call it every `TICK_SECONDS`."""
        return self._admission.admit(self._reactive.wishes(jobs), jobs, free_units)


class Oneshot(Aiad):
    """ceil(replicas x latency / SLO) after 30 s over, 600 s not over the SLO."""

    step_of_one: Step = staticmethod(in_one_shot)


class FairShare:
    """The quota in equal parts, once and for all; what does not divide stays idle."""

    def step(self, _now: int, jobs: Sequence[FaroJob], free_units: int) -> list[int]:
        """Replicas asked for by job."""
        quota = free_units + sum(job.replicas * job.units for job in jobs)
        return [max(job.floor, quota // len(jobs) // job.units) for job in jobs]
