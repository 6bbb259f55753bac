"""Requests drawn before a run: when they come, and how long each will keep its replica and the router.

Each request carries its own draws, so two controllers on one seed are compared on the same requests.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rebalancer.sim.demand import F64

Kind = Literal["compatible", "clean"]
SEEDS = (24, 32, 40, 42, 62)  # Faro's own
MINUTE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Lognormal:
    """`floor_seconds` + `scale_seconds` x exp(`shape` x normal)."""

    shape: float
    floor_seconds: float
    scale_seconds: float

    @property
    def mean_seconds(self) -> float:
        """The mean of the distribution."""
        return self.floor_seconds + self.scale_seconds * math.exp(self.shape**2 / 2)

    def quantile_seconds(self, share: float) -> float:
        """What that share of draws stays under."""
        return self.floor_seconds + self.scale_seconds * math.exp(self.shape * NormalDist().inv_cdf(share))

    def draw(self, chance: np.random.Generator, shape: tuple[int, ...]) -> F64:
        """Seconds, in an array of that shape."""
        return self.floor_seconds + self.scale_seconds * np.exp(self.shape * chance.standard_normal(shape))


# As Faro's experiments configure its simulator: ResNet-34 on one CPU, and the router's time per message.
RESNET_34 = Lognormal(0.42247, 0.0793016, 0.0685808)  # mean 154 ms
ROUTE = Lognormal(0.48078, 0.0034853, 0.0009878)  # mean 4.6 ms, once on the way in and once on the way out


@dataclass(frozen=True, slots=True)
class Arrivals:
    """One job's requests. `at`, `service_seconds`: (requests,), `at` ascending; `route_seconds`: (requests, 2)."""

    at: F64
    service_seconds: F64
    route_seconds: F64

    def per_second(self, seconds: int) -> F64:
        """How many come in each second; shape (seconds,)."""
        inside = self.at[: np.searchsorted(self.at, seconds)]
        return np.bincount(inside.astype(np.int64), minlength=seconds).astype(np.float64)


def compatible(count: int, chance: np.random.Generator) -> F64:
    """Seconds within a minute as Faro's load generator has them: one at 0, then gaps of mean 60 / `count`.

    Nothing ends the stream with its minute: half of them run over into the next one, and overlap with its stream.
    """
    gaps = chance.exponential(MINUTE_SECONDS / count, count)
    return np.cumsum(gaps) - gaps


def clean(count: int, chance: np.random.Generator) -> F64:
    """Seconds within a minute: `count` uniform ones, in order."""
    return np.sort(chance.uniform(0.0, MINUTE_SECONDS, count))


GENERATORS: dict[Kind, Callable[[int, np.random.Generator], F64]] = {"compatible": compatible, "clean": clean}


def draw(
    counts: NDArray[np.int64], kind: Kind, seed: int, service: Lognormal = RESNET_34, route: Lognormal = ROUTE
) -> tuple[Arrivals, ...]:
    """The requests of every job. `counts`: (jobs, minutes), requests of each minute.

    Compatible instants are those of Faro's own generator under that seed: one chance, minute by minute, job by job.
    """
    generate = GENERATORS[kind]
    chance = np.random.default_rng(seed)
    streams: list[list[F64]] = [[np.zeros(0)] for _ in counts]
    for minute, of_jobs in enumerate(counts.T):
        for stream, count in zip(streams, of_jobs, strict=True):
            if count:
                stream.append(MINUTE_SECONDS * minute + generate(int(count), chance))
    return tuple(_with_times(np.sort(np.concatenate(stream)), chance, service, route) for stream in streams)


def _with_times(at: F64, chance: np.random.Generator, service: Lognormal, route: Lognormal) -> Arrivals:
    return Arrivals(at, service.draw(chance, (len(at),)), route.draw(chance, (len(at), 2)))
