"""Every model's last hour in steps of 30 s: demand, allocation, ready. 1.5 KB a model, and no more."""

from array import array
from collections.abc import Iterable

from rebalancer.api.ports.timeline import Point
from rebalancer.domain.plan import ModelDecision

STEP_SECONDS = 30
POINTS = 120
FIGURES = 3
NONE = -1


class Charts:
    """Rings of `POINTS` steps; a step shows what its last cycle decided, and unknown where there was none."""

    def __init__(self) -> None:
        self._steps = array("q", [NONE]) * POINTS
        self._rings: dict[str, array[int]] = {}

    def note(self, at: float, models: Iterable[ModelDecision]) -> None:
        """What a cycle at `at` decided."""
        step = int(at // STEP_SECONDS)
        place = step % POINTS
        known = {decision.model: decision for decision in models}
        if self._steps[place] != step:
            self._steps[place] = step  # what stood in its place is an hour old; models that left the policy go
            self._rings = {model: self._rings[model] for model in known if model in self._rings}
        first = place * FIGURES
        for model, decision in known.items():
            ring = self._rings.get(model)
            if ring is None:
                ring = self._rings[model] = array("i", [NONE]) * (POINTS * FIGURES)
            ring[first] = NONE if decision.demand is None else decision.demand
            ring[first + 1] = decision.allocation
            ring[first + 2] = decision.ready

    def points(self, model: str, now: float) -> tuple[Point, ...]:
        """The last hour of `model`, oldest first, from the first step in which anything was decided."""
        ring = self._rings.get(model)
        if ring is None:
            return ()
        last = int(now // STEP_SECONDS)
        steps = [step for step in range(last - POINTS + 1, last + 1) if self._steps[step % POINTS] == step]
        return tuple(self._point(ring, step) for step in range(steps[0], steps[-1] + 1)) if steps else ()

    def _point(self, ring: "array[int]", step: int) -> Point:
        place = step % POINTS
        if self._steps[place] != step:
            return Point(float(step * STEP_SECONDS), None, None, None)
        figures = ring[place * FIGURES : (place + 1) * FIGURES]
        demand, allocation, ready = (None if each == NONE else each for each in figures)
        return Point(float(step * STEP_SECONDS), demand, allocation, ready)
