"""Knative's pod autoscaler: concurrency over a stable and over a panic window.

From the algorithm of knative/serving pkg/autoscaler/scaling/autoscaler.go. Excess burst capacity is left out: it puts
the activator into the path of requests, and no activator is simulated.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from rebalancer.sim.controller import Seen
from rebalancer.sim.peers import signals

TICK_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Spec:
    """Settings of one revision. Factors are of the Ready pods, which count as one where there are none.

    target: what the metric shall be per pod, in the metric's unit.
    stable_seconds: seconds without a reason to panic after which a panic ends.
    panic_threshold: how many times the Ready pods the panic window must want for a panic to begin.
    up_rate: factor by which the pods may be multiplied at most.
    down_rate: factor by which the pods may be divided at most.
    down_delay_seconds: seconds of which the most that was wanted is taken, so that decreases come later; 0: no delay.
    activation_scale: the least number of pods while any are wanted.
    reachable: whether a route leads to the revision; where none does, decreases have neither rate nor delay.
    """

    target: float
    stable_seconds: float = 60.0
    panic_threshold: float = 2.0
    up_rate: float = 1000.0
    down_rate: float = 2.0
    down_delay_seconds: float = 0.0
    activation_scale: int = 1
    reachable: bool = True


@dataclass(slots=True)
class Decider:
    """One revision: whether it panics (since `panic_at`), and the `most` it wanted while it did."""

    panic_at: float | None = None
    most: int = 0
    _delayed: deque[tuple[int, int]] = field(default_factory=deque)

    @classmethod
    def begin(cls, now: float, ready: int) -> "Decider":
        """A new autoscaler has no history: above one pod it starts in panic, so as not to fall at once."""
        return cls(now if ready > 1 else None, ready)

    def scale(self, spec: Spec, now: float, ready: int, stable: float, panic: float) -> int:
        """Pods wanted, from the metric summed over pods and averaged over each window."""
        pods = max(1, ready)
        least = math.floor(pods / spec.down_rate) if spec.reachable else 0
        limit = math.ceil(spec.up_rate * pods)
        for_stable, for_panic = math.ceil(stable / spec.target), math.ceil(panic / spec.target)
        wanted = _clamped(for_stable, least, limit, spec.activation_scale)
        if self._panics(spec, now, over=for_panic / pods >= spec.panic_threshold):
            self.most = max(self.most, wanted, _clamped(for_panic, least, limit, spec.activation_scale))
            wanted = self.most
        return self._later(spec, now, wanted)

    def _panics(self, spec: Spec, now: float, *, over: bool) -> bool:
        if over:
            self.panic_at = now
        elif self.panic_at is not None and self.panic_at + spec.stable_seconds < now:
            self.panic_at, self.most = None, 0
        return self.panic_at is not None

    def _later(self, spec: Spec, now: float, wanted: int) -> int:
        """The most of the delay's buckets of one tick."""
        if not spec.down_delay_seconds or not spec.reachable:
            return wanted
        bucket = math.floor(now / TICK_SECONDS)
        self._delayed.append((bucket, wanted))
        while self._delayed[0][0] <= bucket - math.ceil(spec.down_delay_seconds / TICK_SECONDS):
            self._delayed.popleft()
        return max(pods for _, pods in self._delayed)


def _clamped(wanted: int, least: int, limit: int, activation_scale: int) -> int:
    pods = min(max(wanted, least), limit)
    return max(pods, activation_scale) if wanted > 0 else pods


class Kpa:
    """A revision per model: `target` is the share of a replica's `ScenarioModel.slots` to be used at once."""

    every_seconds = TICK_SECONDS

    def __init__(self, target: float = 0.7, stable_seconds: int = 60, panic_share: float = 0.1) -> None:
        self._target = target
        self._stable_seconds = stable_seconds
        self._windows = stable_seconds, max(1, round(stable_seconds * panic_share))
        self._deciders: list[Decider] = []
        self._specs: list[Spec] = []

    def decide(self, seen: Seen) -> Sequence[int]:
        """Each revision for itself, between its least and most."""
        stable, panic = signals.in_flight(seen, self._windows)
        if not self._deciders:
            self._deciders = [Decider.begin(seen.now, ready) for ready in seen.ready]
            models = seen.scenario.models
            self._specs = [Spec(self._target * model.slots, self._stable_seconds) for model in models]
        desired = []
        for index, model in enumerate(seen.scenario.models):
            if math.isnan(stable[index]):
                desired.append(seen.desired[index])
                continue
            pods = self._deciders[index].scale(
                self._specs[index], seen.now, seen.ready[index], stable[index], panic[index]
            )
            desired.append(min(max(pods, model.floor), model.most))
        return desired
