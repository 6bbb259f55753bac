"""Small pasts and standings for the tests of the look-ahead."""

import numpy as np

from rebalancer.state.outlook.learned import Learned
from rebalancer.state.outlook.level import base, bins, level
from rebalancer.state.outlook.outlook import ModelTerms, Terms
from rebalancer.state.outlook.past import NOW, Past, per_second
from rebalancer.state.outlook.replays import Ahead
from rebalancer.state.outlook.value import Serving, Standing

EVER = np.inf


def bursty(seconds: int, mean: float = 4.0, seed: int = 1, models: int = 1) -> np.ndarray:
    """(models, seconds): gamma work whose mean wanders, so that no two windows agree."""
    chance = np.random.default_rng(seed)
    t = np.arange(seconds)
    waves = [
        mean * (1 + 0.4 * np.sin(2 * np.pi * t / (1700 + 300 * i)) + 0.3 * np.sin(t / 97 + i)) for i in range(models)
    ]
    return chance.gamma(1.5, np.stack(waves) / 1.5)


def past_of(work: np.ndarray, each: float = 0.5) -> Past:
    return per_second(work, np.full(len(work), each))


def ahead_of(
    past: Past,
    steps: int,
    step_seconds: int = 2,
    learned: list[Learned] | None = None,
) -> Ahead:
    known = learned or [Learned()] * past.models
    sums = past.running_sums(7200 + steps * step_seconds)
    beta = np.array([one.beta for one in known])
    now = level(base(sums, NOW), beta)[0]
    return Ahead(past, sums, bins(sums), known, now, past.each, steps, step_seconds)


def serving(
    models: int = 1, slo: float = 2.0, headroom: float = 0.5, patience: float = 30.0, *, by_minute: bool = False
) -> Serving:
    ones = np.ones(models)
    return Serving(
        ones * slo, ones * headroom, ones * patience, ones * EVER, ones * 0.0, np.full(models, by_minute), ones < 0.0
    )


def standing(*models: tuple[int, list[float], float]) -> Standing:
    """(ready, seconds until the starting ones serve, backlog) of each model."""
    most = max(len(due) for _, due, _ in models)
    padded = [sorted(due) + [np.inf] * (most - len(due)) for _, due, _ in models]
    return Standing(
        np.array([ready for ready, _, _ in models]),
        np.array(padded).reshape(len(models), most),
        np.array([left for _, _, left in models]),
    )


def service(models: int = 1, floor: int = 1, most: int = 1000, priority: float = 1.0) -> ModelTerms:
    ones = np.ones(models, dtype=np.int64)
    return ModelTerms(serving(models), ones * floor, ones * most, np.ones(models) * priority)


TERMS = Terms(cold_seconds=60, step_seconds=2)
