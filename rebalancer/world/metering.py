"""What a model's metrics would say: gauges of the instant, and counters since their producer started."""

from collections.abc import Collection
from typing import Literal

from rebalancer.domain.events import Counters, Gauges, MetricSample
from rebalancer.world.serving import Line, Requests
from rebalancer.world.things import Pod

Per = Literal["model", "pod"]


class Meter:
    """Reads one model's line at each interval: one sample for the model, or one per Ready pod."""

    def __init__(self, model: str, started_at: float, per: Per) -> None:
        self._model = model
        self._started_at = started_at
        self._per = per
        self._by_pod: dict[str, Requests] = {}
        self._number = 0

    def served(self, some: Requests, pods: Collection[Pod]) -> None:
        """Book what the Ready pods served, each an equal share."""
        if self._per == "pod" and pods:
            share = some.times(1 / len(pods))
            self._by_pod = {pod.uid: self._by_pod.get(pod.uid, Requests()) + share for pod in pods}

    def read(self, line: Line, pods: Collection[Pod], at: float, interval_seconds: float) -> list[MetricSample]:
        """The samples of one interval that ends at `at`."""
        self._number += 1
        if self._per == "model":
            served = Requests(line.finished, line.served.prompt_tokens, line.served.generated_tokens)
            return [self._sample(None, _gauges(line, 1), _counters(served, self._started_at), at, interval_seconds)]
        gauges = _gauges(line, max(1, len(pods)))
        return [
            self._sample(
                pod.uid,
                gauges,
                _counters(self._by_pod.get(pod.uid, Requests()), pod.ready_at or at),
                at,
                interval_seconds,
            )
            for pod in pods
        ]

    def _sample(
        self, pod: str | None, gauges: Gauges, counters: Counters, at: float, interval_seconds: float
    ) -> MetricSample:
        return MetricSample(
            source="/world/gateway" if pod is None else f"/world/pods/{pod}",
            id=f"{self._model}-{self._number}" if pod is None else f"{pod}-{self._number}",
            at=at,
            model=self._model,
            interval_seconds=interval_seconds,
            gauges=gauges,
            pod=pod,
            counters=counters,
        )


def _gauges(line: Line, shares: int) -> Gauges:
    """What each of `shares` equal parts of the line shows; what nobody measures without replicas is absent."""
    latencies = line.latencies
    first, last = (None, None) if latencies is None else latencies
    return Gauges(
        running=line.running / shares,
        waiting=line.waiting / shares,
        kv_cache_use=line.utilisation,
        gpu_utilisation=line.utilisation,
        ttft_p95_seconds=first,
        latency_p95_seconds=last,
        latency_p99_seconds=last,
    )


def _counters(served: Requests, since: float) -> Counters:
    return Counters(since, served.count, served.prompt_tokens, served.generated_tokens)
