"""Wall and processor time of repeated runs, and what a profile says the time goes into."""

import cProfile
import pstats
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of each run, wall and processor, in order of size."""

    wall: tuple[float, ...]
    cpu: tuple[float, ...]

    def p50_ms(self) -> float:
        """Median wall milliseconds."""
        return statistics.median(self.wall) * 1e3

    def p99_ms(self) -> float:
        """The wall milliseconds that 99 % of the runs stay within; the slowest below 100 runs."""
        return percentile(self.wall, 0.99) * 1e3

    def cpu_p50_ms(self) -> float:
        """Median processor milliseconds: what a machine that does nothing else would take."""
        return statistics.median(self.cpu) * 1e3

    def cpu_p99_ms(self) -> float:
        """Processor milliseconds that 99 % of the runs stay within."""
        return percentile(self.cpu, 0.99) * 1e3


def percentile(values: tuple[float, ...] | list[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def measure(
    run: Callable[[int], object], runs: int, warm_up: int = 2, between: Callable[[int], object] = lambda _: None
) -> Times:
    """Times of `run(turn)`. `between`: what happens before each of them and is not timed."""
    wall, cpu = [], []
    for turn in range(warm_up + runs):
        between(turn)
        began, busy = time.perf_counter(), time.process_time()
        run(turn)
        if turn >= warm_up:
            wall.append(time.perf_counter() - began)
            cpu.append(time.process_time() - busy)
    return Times(tuple(sorted(wall)), tuple(sorted(cpu)))


def where_it_goes(run: Callable[[], object], most: int = 6) -> list[str]:
    """The functions with most time of their own, as `file:function share`."""
    profile = cProfile.Profile()
    profile.runcall(run)
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]  # typeshed leaves it out
    total = sum(entry[2] for entry in stats.values())
    ordered = sorted(stats.items(), key=lambda item: -item[1][2])[:most]
    return [f"{file.rsplit('/', 1)[-1]}:{name} {own[2] / total:.0%}" for (file, _, name), own in ordered]


def noise() -> str:
    """How much a fixed piece of work is held up on this machine right now: what the figures must be read with."""
    times = measure(lambda _: sum(range(300_000)), 60)
    wall, cpu = f"{times.p50_ms():.1f} / {times.p99_ms():.1f}", f"{times.cpu_p50_ms():.1f} / {times.cpu_p99_ms():.1f}"
    return f"a fixed piece of work takes {wall} ms (p50 / p99), {cpu} ms of the processor"
