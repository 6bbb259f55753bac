"""The Horizontal Pod Autoscaler, autoscaling/v2.

From the algorithm of kubernetes/kubernetes pkg/controller/podautoscaler (replica_calculator.go, horizontal.go). A
metric is a reading of the pods (`PodReading`: a resource's utilisation, or an average value of pods), or a total over
all of them (`Total`: an object's or external metric of type AverageValue, which is what KEDA feeds).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rebalancer.sim.controller import Seen
from rebalancer.sim.peers.behaviour import DOWN, UP, Behaviour, Rules

TOLERANCE = 0.1
SYNC_SECONDS = 15


@dataclass(frozen=True, slots=True)
class PodReading:
    """One metric over a workload's pods.

    used: what the measured pods use together, in the metric's unit.
    able: what the measured pods offer together: their requests in that unit, or 1 each for an average value.
    measured: how many pods count and have a metric.
    missing: how many pods run without a metric.
    unready: how many pods are pending, or not to be counted yet.
    each: what each missing or unready pod offers, counted as in `able`.
    full: what a missing pod is taken to use when the others would scale down: its whole request; None: the target
        itself, as for an average value.
    """

    used: float
    able: float
    measured: int
    missing: int = 0
    unready: int = 0
    each: float = 1.0
    full: float | None = None


@dataclass(frozen=True, slots=True)
class Total:
    """A value over all pods, to be shared by them."""

    value: float


Signal = Callable[[Seen, int], PodReading | Total | None]


def by_pods(current: int, reading: PodReading, target: float, tolerance: float = TOLERANCE) -> int:
    """Replicas for a metric of pods: utilisation over requests, or an average value.

    Missing pods are taken to use everything when that would scale down and nothing when it would scale up, unready
    ones nothing when it would scale up; what then is within the tolerance or turns the direction changes nothing.
    """
    ratio = reading.used / (reading.able * target)
    unready = reading.unready if ratio > 1.0 else 0
    if not unready and not reading.missing:
        return current if abs(1.0 - ratio) <= tolerance else math.ceil(ratio * reading.measured)
    used, able, counted = reading.used, reading.able, reading.measured
    if ratio != 1.0:
        counted += reading.missing
        able += reading.missing * reading.each
    if ratio < 1.0:
        used += reading.missing * (target * reading.each if reading.full is None else reading.full)
    counted += unready
    able += unready * reading.each
    again = used / (able * target)
    if abs(1.0 - again) <= tolerance or (ratio < 1.0 < again) or (again < 1.0 < ratio):
        return current
    replicas = math.ceil(again * counted)
    turned = replicas > current if again < 1.0 else replicas < current
    return current if turned else replicas


def by_value(current: int, ready: int, value: float, target: float, tolerance: float = TOLERANCE) -> int:
    """Replicas for an object's or external metric of type Value, which does not fall as pods are added."""
    ratio = value / target
    if not current:
        return math.ceil(ratio)
    return current if abs(1.0 - ratio) <= tolerance else math.ceil(ratio * ready)


def by_average_value(current: int, total: float, target: float, tolerance: float = TOLERANCE) -> int:
    """Replicas for an object's or external metric of type AverageValue; pods of every state share it."""
    if current and abs(1.0 - total / (target * current)) <= tolerance:
        return current
    return math.ceil(total / target)


@dataclass(frozen=True, slots=True)
class HpaMetric:
    """One entry of `spec.metrics`: a signal and its target in the signal's unit."""

    signal: Signal
    target: float


def by_metrics(seen: Seen, index: int, metrics: Sequence[HpaMetric], tolerance: float = TOLERANCE) -> int | None:
    """The most that any metric wants; None when none is known, or when one is unknown and the others would shrink."""
    current = seen.desired[index]
    wanted, unknown = [], False
    for metric in metrics:
        match metric.signal(seen, index):
            case None:
                unknown = True
            case PodReading() as reading:
                wanted.append(by_pods(current, reading, metric.target, tolerance))
            case Total(value):
                wanted.append(by_average_value(current, value, metric.target, tolerance))
    most = max(wanted, default=None)
    return None if most is None or (unknown and most < current) else most


class HpaPeer:
    """An HPA per model: minReplicas its floor (at least 1), maxReplicas its `most`."""

    def __init__(
        self,
        metrics: Sequence[HpaMetric],
        up: Rules = UP,
        down: Rules = DOWN,
        tolerance: float = TOLERANCE,
        every_seconds: int = SYNC_SECONDS,
    ) -> None:
        self.every_seconds = every_seconds
        self._metrics = tuple(metrics)
        self._rules = up, down
        self._tolerance = tolerance
        self._behaviours: list[Behaviour] = []

    def decide(self, seen: Seen) -> Sequence[int]:
        """Each model for itself: no HPA knows of another."""
        return [self.replicas(seen, index) for index in range(len(seen.desired))]

    def replicas(self, seen: Seen, index: int) -> int:
        """One model's replicas from now on; none of it (0) means that the HPA is off."""
        model = seen.scenario.models[index]
        return self.within(seen, index, max(1, model.floor), model.most)

    def within(self, seen: Seen, index: int, least: int, most: int) -> int:
        """The same between other bounds, which somebody may have moved since the last time."""
        while len(self._behaviours) <= index:
            self._behaviours.append(Behaviour(*self._rules))
        behaviour, current = self._behaviours[index], seen.desired[index]
        if not current:
            return 0
        if not least <= current <= most:
            bounded = min(max(current, least), most)
            behaviour.changed(seen.now, bounded - current)
            return bounded
        desired = by_metrics(seen, index, self._metrics, self._tolerance)
        return current if desired is None else behaviour.follow(seen.now, current, desired, least, most)
