"""Sudden surges on otherwise quiet models: generated, one after another, on one model at a time.

An hour each: half-way in, one model's demand goes to `times` its own within a
minute, stays, and falls back as quickly; the next hour it is another model's turn.
"""

from dataclasses import dataclass

import numpy as np

from rebalancer.sim.demand import F64

HOUR_SECONDS = 3600
FIRST_SECONDS = 1800


@dataclass(frozen=True, slots=True)
class Surges:
    """The surges of a run. Requests come as a Poisson process, each with exponential work.

    models: how many models there are.
    busy: replicas that each model keeps busy without a surge.
    times: demand in a surge over demand without one.
    ramp_seconds: seconds that demand takes to rise, and to fall again.
    hold_seconds: seconds from the beginning of the rise to the beginning of the fall.
    count: how many surges there are, one an hour.
    work_of_one: replica-seconds of a mean request.
    """

    models: int = 2
    busy: float = 3.2
    times: float = 4.0
    ramp_seconds: int = 60
    hold_seconds: int = 600
    count: int = 12
    work_of_one: float = 0.4

    @property
    def starts(self) -> tuple[int, ...]:
        """The seconds in which surges begin."""
        return tuple(FIRST_SECONDS + HOUR_SECONDS * index for index in range(self.count))

    def level(self) -> F64:
        """Mean replicas kept busy; shape (models, seconds)."""
        level = np.full((self.models, HOUR_SECONDS * self.count), self.busy)
        up = np.linspace(1.0, self.times, self.ramp_seconds + 1)[1:]
        shape = self.busy * np.concatenate([up, np.full(self.hold_seconds - self.ramp_seconds, self.times), up[::-1]])
        for index, start in enumerate(self.starts):
            level[index % self.models, start : start + len(shape)] = shape
        return level

    def draw(self, seed: int) -> tuple[F64, F64]:
        """Work and requests of each second; two arrays of shape (models, seconds)."""
        return arriving(self.level(), self.work_of_one, np.random.default_rng(seed))


def arriving(level: F64, work_of_one: float, chance: np.random.Generator) -> tuple[F64, F64]:
    """Work and requests of each second, of `level`'s shape: a Poisson process, each request with exponential work.

    `level`: replicas kept busy on average; `work_of_one`: replica-seconds of a mean request.
    """
    requests = chance.poisson(level / work_of_one).astype(np.float64)
    return work_of_one * chance.standard_gamma(requests), requests
