"""What HPA, KEDA, KPA and Ray Serve look at: signals of one model, from what the world shows.

Three kinds for HPA and KEDA. **Work**: how much of what Ready replicas could do was done, or how much work arrives;
ideal, no exporter gives it. **GPU_UTIL**, what DCGM gives: the share of time in which any kernel ran. An engine that
batches continuously runs kernels whenever one request is in flight, so with Poisson arrivals the share is
1 - exp(-requests in flight), and requests in flight are `FEW` x the model's `slots` x the share of work. At a tenth of
the load and 64 slots it shows 89 %: that is how it saturates. A replica that serves one request at a time shows the
share of work itself. DCGM also sees the GPU of a replica that still loads, at nothing. **Queue and KV use**, what the
engine gives (`engine`): gauges, as they were at the last scrape.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.sim.compiled import compiled
from rebalancer.sim.controller import Seen
from rebalancer.sim.demand import F64
from rebalancer.sim.peers.engine import SCRAPE_SECONDS, SIZE_SECONDS, kv_use, waiting
from rebalancer.sim.peers.hpa import PodReading, Signal, Total

WINDOW_SECONDS = 60
FEW = 0.35  # of slots x share of work, at 0.2 of it: 0.38, 0.33 and 0.18 with S2's models (small batches write faster)


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Work done over work possible. Loading pods run without a metric, waiting ones are pending."""

    window_seconds: int = WINDOW_SECONDS

    def __call__(self, seen: Seen, model: int) -> PodReading | None:
        """A reading of Ready pods; None without any."""
        used = seen.utilisation(model, self.window_seconds)
        return None if used is None else _reading(seen, model, used)


@dataclass(frozen=True, slots=True)
class WorkRate:
    """Replica-seconds of work that arrive per second: a target of 0.7 fills seven tenths of every replica."""

    window_seconds: int = WINDOW_SECONDS

    def __call__(self, seen: Seen, model: int) -> Total | None:
        """A total; None before anything is known."""
        rate = seen.rate(model, self.window_seconds)
        return None if rate is None else Total(rate)


@dataclass(frozen=True, slots=True)
class GpuUtil:
    """DCGM_FI_DEV_GPU_UTIL as a share, averaged over the window and over the pods that hold a GPU."""

    window_seconds: int = WINDOW_SECONDS

    def __call__(self, seen: Seen, model: int) -> PodReading | None:
        """A reading of Ready and loading pods; None without any."""
        ready, loading = seen.ready[model], seen.loading[model]
        able = seen.window(seen.served_by, model, self.window_seconds)
        total = float(np.add.reduce(able))
        if not total or not ready:
            return None
        busy = seen.window(seen.busy, model, self.window_seconds)
        share = float(np.add.reduce(_kernels_run(busy / np.maximum(able, 1.0), seen, model) * able)) / total
        pods = ready + loading
        return PodReading(share * ready, pods, pods, unready=seen.waiting[model])


@dataclass(frozen=True, slots=True)
class KvUse:
    """vllm:kv_cache_usage_perc (0-1) at the last scrape, over Ready pods."""

    scrape_seconds: int = SCRAPE_SECONDS

    def __call__(self, seen: Seen, model: int) -> PodReading | None:
        """A reading; None without a Ready pod or before the first scrape."""
        use = kv_use(seen, model, _scraped(seen, self.scrape_seconds))
        return None if use is None else _reading(seen, model, use)


@dataclass(frozen=True, slots=True)
class Queue:
    """vllm:num_requests_waiting at the last scrape, over all pods: the backlog behind what is being served."""

    scrape_seconds: int = SCRAPE_SECONDS

    def __call__(self, seen: Seen, model: int) -> Total | None:
        """A total of requests; None before the first scrape, and where nobody serves."""
        requests = waiting(seen, model, _scraped(seen, self.scrape_seconds))
        return None if requests is None else Total(requests)


@dataclass(frozen=True, slots=True)
class Summed:
    """A reading of pods as a total over them: what a PromQL `sum` hands to KEDA."""

    signal: Signal

    def __call__(self, seen: Seen, model: int) -> Total | None:
        """A total; None where the reading is."""
        reading = self.signal(seen, model)
        return Total(reading.used) if isinstance(reading, PodReading) else reading


def in_flight(seen: Seen, windows: Sequence[int]) -> list[list[float]]:
    """Requests in service and in the queue, averaged over each of the last `windows` seconds: by window, by model.

    Those of the engine: a recorded one may stand for several. NaN before anything is known. Compiled: KPA asks 43,200
    times a day.
    """
    out = np.full((len(windows), len(seen.desired)), math.nan)
    end = seen.now - seen.delay_seconds
    if end > 0:
        hold = np.array([(model.slots, model.scale) for model in seen.scenario.models])
        _in_flight(seen.busy, seen.left, seen.work, seen.requests, end, tuple(windows), hold, out)
    by_window: list[list[float]] = out.tolist()
    return by_window


def _reading(seen: Seen, model: int, share: float) -> PodReading | None:
    ready = seen.ready[model]
    if not ready:
        return None
    return PodReading(share * ready, ready, ready, missing=seen.loading[model], unready=seen.waiting[model])


def _kernels_run(share: F64, seen: Seen, model: int) -> F64:
    """The share of time in which some request is in flight, by the share of work; not less than that."""
    some: F64 = np.maximum(share, 1.0 - np.exp(-FEW * seen.scenario.models[model].slots * share))
    return some


def _scraped(seen: Seen, every: int) -> int:
    """The second at whose beginning the last scrape was; 0 or less before the first."""
    return (seen.now - seen.delay_seconds) // every * every


@compiled
def _in_flight(  # noqa: PLR0913  # a compiled kernel takes flat arguments
    busy: F64, left: F64, work: F64, requests: F64, end: int, windows: tuple[int, ...], hold: F64, out: F64
) -> None:
    for model in range(out.shape[1]):
        arrived, count = 0.0, 0.0
        for at in range(max(0, end - SIZE_SECONDS), end):
            arrived += work[model, at]
            count += requests[model, at]
        slots, scale = hold[model]
        per_work = scale * count / arrived if arrived > 0.0 else 0.0
        for index, seconds in enumerate(windows):
            begin = max(0, end - seconds)
            total = 0.0
            for at in range(begin, end):
                total += busy[model, at] * slots + left[model, at] * per_work
            out[index, model] = total / (end - begin)
