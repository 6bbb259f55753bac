"""A fluid line as a service model: traffic comes in, gauges of the instant and counters since the start go out."""

from collections.abc import Sequence
from math import ceil
from typing import Literal

from rebalancer.domain.events import Counters, Gauges
from rebalancer.world.service import Look
from rebalancer.world.serving import Requests, WaitingLine
from rebalancer.world.things import WorldPod
from rebalancer.world.traffic import Traffic

Per = Literal["model", "pod"]
METRIC_TARGET = 0.7  # of what Ready replicas hold at a time: what people set who do not tune
NOBODY = 0.01  # requests: what is left of a fluid that flows away


class Lined:
    """Feeds `traffic` to `line`; seen as one model, or as Ready pods that each do an equal share."""

    def __init__(self, line: WaitingLine, traffic: Traffic, started_at: float, per: Per) -> None:
        self.line = line
        self.traffic = traffic
        self._started_at = started_at
        self._per = per
        self._by_pod: dict[str, Requests] = {}

    @property
    def wanted(self) -> int:
        """Replicas that an HPA by requests under way asks for; 0 while nobody asks for anything."""
        inside = self.line.inside.count
        return ceil(inside / (METRIC_TARGET * self.line.engine.concurrency)) if inside >= NOBODY else 0

    def flow(self, since: float, until: float, pods: Sequence[WorldPod]) -> None:
        """One step of the line, with the pods that are Ready at its end."""
        served = self.line.flow(self.traffic.arrivals(since, until), len(pods), until - since)
        if self._per == "pod" and pods:
            share = served.times(1 / len(pods))
            self._by_pod = {pod.uid: self._by_pod.get(pod.uid, Requests()) + share for pod in pods}

    def looks(self, pods: Sequence[WorldPod]) -> list[Look]:
        """One look at the model, or one at each Ready pod."""
        line = self.line
        if self._per == "model":
            return [Look(None, _gauges(line, 1), _counters(line.served, self._started_at, line.gave_up))]
        gauges = _gauges(line, max(1, len(pods)))
        return [
            Look(pod.uid, gauges, _counters(self._by_pod.get(pod.uid, Requests()), pod.ready_at or self._started_at))
            for pod in pods
        ]


def _gauges(line: WaitingLine, shares: int) -> Gauges:
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


def _counters(served: Requests, since: float, gave_up: float | None = None) -> Counters:
    """Without tokens of prompts: who counts them batches, and writes the sooner the fewer run. Slots do not.

    Who gave up did so in the line, which no pod sees.
    """
    return Counters(since, served.count, gave_up, generated_tokens=served.generated_tokens)
