"""What HPA, KEDA, KPA and Ray Serve look at: signals of one model, from what the world shows.

Three kinds for HPA and KEDA. **Work**: how much of what Ready replicas could do was done, or how much work arrives;
ideal, no exporter gives it. **GPU_UTIL**, what DCGM gives: the share of time in which any kernel ran. An engine that
batches continuously runs kernels whenever one request is in flight, so with Poisson arrivals the share is
1 - exp(-requests in flight), and requests in flight are `slots` x the share of work: full replicas of S2's models hold
39, 34 and 34 requests (service time over work per request, at mean lengths of 869/174, 1205/173 and 481/54 tokens).
At a tenth of the load it shows 97 %: that is how it saturates. DCGM also sees the GPU of a replica that still loads,
at nothing. **Queue and KV use**, what the engine gives: gauges, as they were at the last scrape; KV use is the share of
work slots held, the queue is what waits behind full ones.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rebalancer.sim.compiled import compiled
from rebalancer.sim.controller import Seen
from rebalancer.sim.demand import F64
from rebalancer.sim.peers.hpa import PodReading, Signal, Total

SLOTS = 35.0  # requests in flight in a full replica of S2
SCRAPE_SECONDS = 15
WINDOW_SECONDS = 60
SIZE_SECONDS = 300  # over which the work of one request is averaged


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
    slots: float = SLOTS

    def __call__(self, seen: Seen, model: int) -> PodReading | None:
        """A reading of Ready and loading pods; None without any."""
        ready, loading = seen.ready[model], seen.loading[model]
        able = seen.window(seen.served_by, model, self.window_seconds)
        total = float(np.add.reduce(able))
        if not total or not ready:
            return None
        busy = seen.window(seen.busy, model, self.window_seconds)
        idle = np.exp(-self.slots * busy / np.maximum(able, 1.0))
        share = 1.0 - float(np.add.reduce(idle * able)) / total
        pods = ready + loading
        return PodReading(share * ready, pods, pods, unready=seen.waiting[model])


@dataclass(frozen=True, slots=True)
class KvUse:
    """vllm:kv_cache_usage_perc (0-1) at the last scrape, over Ready pods."""

    scrape_seconds: int = SCRAPE_SECONDS

    def __call__(self, seen: Seen, model: int) -> PodReading | None:
        """A reading; None without a Ready pod or before the first scrape."""
        at = _scraped(seen, self.scrape_seconds)
        if at is None or not seen.served_by[model, at]:
            return None
        return _reading(seen, model, float(seen.busy[model, at] / seen.served_by[model, at]))


@dataclass(frozen=True, slots=True)
class Queue:
    """vllm:num_requests_waiting at the last scrape, over all pods: the backlog behind what is being served."""

    scrape_seconds: int = SCRAPE_SECONDS

    def __call__(self, seen: Seen, model: int) -> Total | None:
        """A total of requests; None before the first scrape."""
        at = _scraped(seen, self.scrape_seconds)
        if at is None:
            return None
        held = seen.scenario.models[model].headroom_seconds * float(seen.served_by[model, at])
        one = _request_work(seen, model)
        return Total(max(0.0, float(seen.left[model, at]) - held) / one if one else 0.0)


@dataclass(frozen=True, slots=True)
class Summed:
    """A reading of pods as a total over them: what a PromQL `sum` hands to KEDA."""

    signal: Signal

    def __call__(self, seen: Seen, model: int) -> Total | None:
        """A total; None where the reading is."""
        reading = self.signal(seen, model)
        return Total(reading.used) if isinstance(reading, PodReading) else reading


def in_flight(seen: Seen, windows: Sequence[int], slots: float = SLOTS) -> list[list[float]]:
    """Requests in service and in the queue, averaged over each of the last `windows` seconds: by window, by model.

    NaN before anything is known. Compiled: KPA asks 43,200 times a day.
    """
    out = np.full((len(windows), len(seen.asked)), math.nan)
    end = seen.now - seen.delay_seconds
    if end > 0:
        _in_flight(seen.busy, seen.left, seen.work, seen.requests, end, tuple(windows), slots, out)
    by_window: list[list[float]] = out.tolist()
    return by_window


def _reading(seen: Seen, model: int, share: float) -> PodReading | None:
    ready = seen.ready[model]
    if not ready:
        return None
    return PodReading(share * ready, ready, ready, missing=seen.loading[model], unready=seen.waiting[model])


def _scraped(seen: Seen, every: int) -> int | None:
    """The second whose end the last scrape saw."""
    at = (seen.now - seen.delay_seconds) // every * every - 1
    return at if at >= 0 else None


def _request_work(seen: Seen, model: int) -> float:
    work = float(np.add.reduce(seen.window(seen.work, model, SIZE_SECONDS)))
    requests = float(np.add.reduce(seen.window(seen.requests, model, SIZE_SECONDS)))
    return work / requests if requests else 0.0


@compiled
def _in_flight(  # noqa: PLR0913  # a compiled kernel takes flat arguments
    busy: F64, left: F64, work: F64, requests: F64, end: int, windows: tuple[int, ...], slots: float, out: F64
) -> None:
    for model in range(out.shape[1]):
        arrived, count = 0.0, 0.0
        for at in range(max(0, end - SIZE_SECONDS), end):
            arrived += work[model, at]
            count += requests[model, at]
        per_work = count / arrived if arrived > 0.0 else 0.0
        for index, seconds in enumerate(windows):
            begin = max(0, end - seconds)
            total = 0.0
            for at in range(begin, end):
                total += busy[model, at] * slots + left[model, at] * per_work
            out[index, model] = total / (end - begin)
